//! As much of Structured Fields ([RFC 8941](https://www.rfc-editor.org/rfc/rfc8941)) as an idempotency key needs: an Item whose
//! value is a String.

use base64ct::{Base64, Encoding as _};

/// Reads an Item whose value is a String, with its parameters (section 4.2.3). Gives the String, unescaped and of whatever
/// characters, and what follows; `None` if there is no such Item. What the parameters say is checked, and dropped.
pub fn string_item(text: &str) -> Option<(String, &str)> {
    let (value, mut rest) = string(text)?;
    while let Some(parameter) = rest.strip_prefix(';') {
        rest = key(parameter.trim_start_matches(' '))?;
        if let Some(value) = rest.strip_prefix('=') {
            rest = bare_item(value)?;
        }
    }
    Some((value, rest))
}

/// Section 4.2.5.
fn string(text: &str) -> Option<(String, &str)> {
    let mut chars = text.strip_prefix('"')?.chars();
    let mut value = String::new();
    loop {
        match chars.next()? {
            '\\' => value.push(chars.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            '"' => return Some((value, chars.as_str())),
            other => value.push(other),
        }
    }
}

/// Section 4.2.3.3. Gives what follows, as all below.
fn key(text: &str) -> Option<&str> {
    let is_in = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.' | '*');
    text.starts_with(|c: char| c.is_ascii_lowercase() || c == '*').then(|| text.trim_start_matches(is_in))
}

/// Section 4.2.3.1.
fn bare_item(text: &str) -> Option<&str> {
    match text.chars().next()? {
        '"' => string(text)
            .filter(|(value, _)| value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)))
            .map(|(_, rest)| rest),
        '-' | '0'..='9' => number(text.strip_prefix('-').unwrap_or(text)),
        ':' => byte_sequence(text),
        '?' => text.strip_prefix("?0").or_else(|| text.strip_prefix("?1")),
        'A'..='Z' | 'a'..='z' | '*' => Some(text.trim_start_matches(is_in_token)),
        _ => None,
    }
}

/// An Integer of at most 15 digits, or a Decimal of at most 12 before its point and 1 to 3 after it (section 4.2.4).
fn number(text: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let rest = text.get(whole..)?;
    match rest.strip_prefix('.') {
        None => (1..=15).contains(&whole).then_some(rest),
        Some(fraction) => {
            let places = digits(fraction);
            ((1..=12).contains(&whole) && (1..=3).contains(&places)).then(|| fraction.get(places..))?
        }
    }
}

/// Section 4.2.7.
fn byte_sequence(text: &str) -> Option<&str> {
    let (base64, rest) = text.strip_prefix(':')?.split_once(':')?;
    Base64::decode_vec(base64).ok().map(|_| rest)
}

/// Section 4.2.6: what HTTP calls a token, and `:` and `/`.
fn is_in_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(c)
}
