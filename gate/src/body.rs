//! The body of a form: where our key stands in it, and the rest byte for byte without it.

pub mod fingerprint;

use std::ops::Range;

use web::url::percent_decode_bytes;

use crate::form_key::FIELD;
use crate::members;

/// How a body is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-www-form-urlencoded`
    Pairs,
    /// `multipart/form-data`, with its boundary
    Parts(String),
    /// `application/json`
    Json,
    /// Anything else: it is passed on as it is.
    Bytes,
}

impl Encoding {
    /// By the `Content-Type`.
    pub fn of(content_type: &str) -> Self {
        let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        match kind.trim().to_ascii_lowercase().as_str() {
            "application/x-www-form-urlencoded" => Self::Pairs,
            "multipart/form-data" => parameter(parameters, "boundary").map_or(Self::Bytes, Self::Parts),
            kind if kind == "application/json" || kind.ends_with("+json") => Self::Json,
            _ => Self::Bytes,
        }
    }
}

/// A parameter of a header, such as `boundary` or `name`: a token, or a string in quotes.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut rest = parameters;
    while !rest.is_empty() {
        let (given, after) = rest.split_once('=')?;
        let is_it = given.trim().trim_start_matches(';').trim().eq_ignore_ascii_case(name);
        let (value, after) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(';').unwrap_or((after, "")),
        };
        if is_it {
            return Some(value.trim().to_owned());
        }
        rest = after.trim_start().trim_start_matches(';');
    }
    None
}

/// A body, and what was cut out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What the origin gets.
    pub rest: Vec<u8>,
    /// What stood where our key stands, in its order, at most eight. Whoever sends it can have written anything there.
    pub keys: Vec<String>,
}

/// How many keys of a body are looked at. A form has one, or a few where one stands in another.
const KEYS_MAX: usize = 8;

/// Cuts our keys out of a body, or out of the beginning of one that is longer. All else stays byte for byte.
pub fn cut(encoding: &Encoding, body: Vec<u8>, is_longer: bool) -> Cut {
    match encoding {
        Encoding::Pairs => cut_pairs(&body),
        Encoding::Parts(boundary) => cut_parts(boundary, body, is_longer),
        Encoding::Json => {
            let found = members::texts(&body, FIELD, is_longer);
            without_these(body, found.into_iter().map(|member| (member.whole, member.text)))
        }
        Encoding::Bytes => Cut { rest: body, keys: Vec::new() },
    }
}

/// A body without these parts of it, each with the key in it.
fn without_these(body: Vec<u8>, found: impl Iterator<Item = (Range<usize>, String)>) -> Cut {
    let (mut rest, mut keys, mut from) = (Vec::new(), Vec::new(), 0);
    for (whole, key) in found {
        rest.extend_from_slice(body.get(from..whole.start).unwrap_or_default());
        from = whole.end;
        if keys.len() < KEYS_MAX {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Cut { rest: body, keys };
    }
    rest.extend_from_slice(body.get(from..).unwrap_or_default());
    Cut { rest, keys }
}

fn decode(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode_bytes(&spaced)
}

fn pairs(body: &[u8]) -> impl Iterator<Item = (&[u8], Vec<u8>, Vec<u8>)> {
    body.split(|byte| *byte == b'&').map(|pair| {
        let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len()));
        (pair, decode(name), decode(value.strip_prefix(b"=").unwrap_or_default()))
    })
}

fn cut_pairs(body: &[u8]) -> Cut {
    let (mut rest, mut keys): (Vec<&[u8]>, Vec<String>) = (Vec::new(), Vec::new());
    for (pair, name, value) in pairs(body) {
        if name == FIELD.as_bytes() {
            keys.push(String::from_utf8_lossy(&value).into_owned());
        } else {
            rest.push(pair);
        }
    }
    keys.truncate(KEYS_MAX);
    Cut { rest: rest.join(&b'&'), keys }
}

/// An address without our key: a form that has one may have a button that gets (`formmethod`). All else stays as it is.
pub fn without_key(address: &str) -> String {
    let Some((path, query)) = address.split_once('?') else { return address.to_owned() };
    let Cut { rest, keys } = cut_pairs(query.as_bytes());
    match String::from_utf8(rest) {
        Ok(rest) if !keys.is_empty() && rest.is_empty() => path.to_owned(),
        Ok(rest) if !keys.is_empty() => format!("{path}?{rest}"),
        _ => address.to_owned(),
    }
}

/// A part of a `multipart/form-data` body ([RFC 7578](https://www.rfc-editor.org/rfc/rfc7578)).
struct Part<'a> {
    /// With the line of its boundary.
    whole: Range<usize>,
    name: String,
    filename: Option<String>,
    content_type: String,
    /// As they came.
    headers: &'a [u8],
    content: &'a [u8],
}

fn find(bytes: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let at = bytes.get(from..)?.windows(wanted.len()).position(|window| window == wanted)?;
    Some(from + at)
}

/// The parts of a body.
struct Parts<'a> {
    found: Vec<Part<'a>>,
    /// Where what follows them begins.
    rest_at: usize,
    /// The last boundary is there.
    is_whole: bool,
}

fn parts<'a>(boundary: &str, body: &'a [u8]) -> Parts<'a> {
    let line = format!("--{boundary}");
    let between = format!("\r\n{line}");
    let begin = match body.starts_with(line.as_bytes()) {
        true => Some(0),
        false => find(body, between.as_bytes(), 0).map(|at| at + 2),
    };
    let mut parts = Parts { found: Vec::new(), rest_at: begin.unwrap_or(0), is_whole: false };
    while let Some(at) = begin.map(|_| parts.rest_at) {
        parts.is_whole = body.get(at + line.len()..).is_some_and(|rest| rest.starts_with(b"--"));
        match part(body, at, &line, &between).filter(|_| !parts.is_whole) {
            Some(part) => {
                parts.rest_at = part.whole.end;
                parts.found.push(part);
            }
            None => break,
        }
    }
    parts
}

/// The part whose boundary is there; `None` if it is not whole.
fn part<'a>(body: &'a [u8], at: usize, line: &str, between: &str) -> Option<Part<'a>> {
    let after_line = at + line.len();
    let headers_at =
        after_line + body.get(after_line..)?.windows(2).position(|window| window == b"\r\n")? + 2;
    let next = find(body, between.as_bytes(), headers_at.saturating_sub(2))?;
    let headers_end = find(body, b"\r\n\r\n", headers_at.saturating_sub(2)).filter(|end| *end <= next)?;
    // Names of files come in the characters of the page.
    let raw = body.get(headers_at..headers_end).unwrap_or_default();
    let headers = String::from_utf8_lossy(raw);
    let header = |name: &str| {
        headers
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .find_map(|(given, value)| given.trim().eq_ignore_ascii_case(name).then_some(value.trim()))
    };
    let disposition = header("content-disposition")?.split_once(';').map_or("", |(_, parameters)| parameters);
    Some(Part {
        whole: at..next + 2,
        name: parameter(disposition, "name").unwrap_or_default(),
        filename: parameter(disposition, "filename"),
        content_type: header("content-type").unwrap_or_default().to_owned(),
        headers: raw,
        content: body.get(headers_end + 4..next).unwrap_or_default(),
    })
}

/// Of a body that is longer only the parts that are there whole are looked at.
fn cut_parts(boundary: &str, body: Vec<u8>, is_longer: bool) -> Cut {
    let parts = parts(boundary, &body);
    let is_read = parts.is_whole || is_longer;
    let is_ours = |part: &&Part<'_>| is_read && part.name == FIELD && part.filename.is_none();
    let of_part = |part: &Part<'_>| (part.whole.clone(), String::from_utf8_lossy(part.content).into_owned());
    let found: Vec<_> = parts.found.iter().filter(is_ours).map(of_part).collect();
    without_these(body, found.into_iter())
}

/// The fields of a form that can be shown again as hidden inputs: `None` where it has files, or is no form.
pub fn fields(encoding: &Encoding, body: &[u8]) -> Option<Vec<(String, String)>> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    match encoding {
        Encoding::Pairs if body.is_empty() => Some(Vec::new()),
        Encoding::Pairs => pairs(body).map(|(_, name, value)| text(&name).zip(text(&value))).collect(),
        Encoding::Parts(boundary) => Some(parts(boundary, body))
            .filter(|parts| parts.is_whole)?
            .found
            .iter()
            .map(|part| part.filename.is_none().then(|| Some((part.name.clone(), text(part.content)?)))?)
            .collect(),
        Encoding::Json | Encoding::Bytes => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const B: &str = "----WebKitFormBoundaryx";

    pub(super) fn multipart(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut body = String::new();
        for (head, content) in parts {
            body += &format!("--{B}\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n");
        }
        (body + &format!("--{B}--\r\n")).into_bytes()
    }

    #[test]
    fn the_key_is_cut_out_of_pairs_and_the_rest_stays() {
        let body = b"a=1&paid_once_key=K1&b=x+y%2&paid%5Fonce_key=K2&&c".to_vec();
        let Cut { rest, keys } = cut(&Encoding::Pairs, body, false);
        assert_eq!(rest, b"a=1&b=x+y%2&&c");
        assert_eq!(keys, ["K1", "K2"]);
        assert_eq!(cut(&Encoding::Pairs, b"paid_once_key=K".to_vec(), false).rest, b"");
    }

    #[test]
    fn the_key_is_cut_out_of_parts_and_the_rest_stays() {
        let encoding = Encoding::of(&format!("multipart/form-data; charset=x; boundary=\"{B}\""));
        assert_eq!(encoding, Encoding::Parts(B.to_owned()));
        let file =
            ("name=\"file\"; filename=\"a;b.txt\"\r\nContent-Type: text/plain", "x\r\n--not a boundary\r\n");
        let without = multipart(&[("name=\"a\"", "1"), file]);
        for at in 0..3 {
            let mut all = vec![("name=\"a\"", "1"), file];
            all.insert(at, ("name=\"paid_once_key\"", "K"));
            let Cut { rest, keys } = cut(&encoding, multipart(&all), false);
            assert_eq!(String::from_utf8(rest), String::from_utf8(without.clone()), "{at}");
            assert_eq!(keys, ["K"]);
        }
    }

    #[test]
    fn the_key_is_cut_out_of_an_address_and_the_rest_stays() {
        for (address, without) in [
            ("https://a/search?q=a+b&paid_once_key=K&x=%20", "https://a/search?q=a+b&x=%20"),
            ("https://a/search?paid_once_key=K", "https://a/search"),
            ("https://a/search?q=paid_once_key&&x", "https://a/search?q=paid_once_key&&x"),
            ("https://a/search?", "https://a/search?"),
            ("https://a/search", "https://a/search"),
        ] {
            assert_eq!(without_key(address), without);
        }
    }

    #[test]
    fn of_many_keys_all_are_cut_out_and_the_first_few_are_looked_at() {
        let many: Vec<String> = (0..20_000).map(|number| format!("K{number}")).collect();
        let of_keys = many.iter().map(|key| ("name=\"paid_once_key\"", key.as_str()));
        let parts = multipart(&of_keys.chain([("name=\"a\"", "1")]).collect::<Vec<_>>());
        let pairs = many.iter().map(|key| format!("paid_once_key={key}&")).collect::<String>() + "a=1";
        let members = many.iter().map(|key| format!("\"paid_once_key\":\"{key}\",")).collect::<String>();
        let object = format!("{{{members}\"a\":1}}").into_bytes();
        for (encoding, body, rest) in [
            (Encoding::Json, object, br#"{"a":1}"#.to_vec()),
            (Encoding::Parts(B.to_owned()), parts, multipart(&[("name=\"a\"", "1")])),
            (Encoding::Pairs, pairs.into_bytes(), b"a=1".to_vec()),
        ] {
            assert_eq!(cut(&encoding, body, false), Cut { rest, keys: many[..KEYS_MAX].to_vec() });
        }
    }

    #[test]
    fn what_is_no_whole_multipart_stays_as_it_is() {
        let whole = multipart(&[("name=\"paid_once_key\"", "K")]);
        let encoding = Encoding::Parts(B.to_owned());
        for length in 0..whole.len() - 4 {
            let body = whole[..length].to_vec();
            assert_eq!(cut(&encoding, body.clone(), false), Cut { rest: body, keys: Vec::new() }, "{length}");
        }
        assert_eq!(Encoding::of("multipart/form-data"), Encoding::Bytes);
        assert_eq!(Encoding::of("text/plain"), Encoding::Bytes);
        assert_eq!(Encoding::of("application/vnd.api+json"), Encoding::Json);
    }

    #[test]
    fn a_form_without_files_can_be_shown_again() {
        let all = Some(vec![("a".to_owned(), "1 <".to_owned()), ("b".to_owned(), String::new())]);
        assert_eq!(fields(&Encoding::Pairs, b"a=1+%3C&b="), all);
        let parts = multipart(&[("name=\"a\"", "1 <"), ("name=\"b\"", "")]);
        assert_eq!(fields(&Encoding::Parts(B.to_owned()), &parts), all);
        let file = multipart(&[("name=\"a\"; filename=\"\"", "")]);
        assert_eq!(fields(&Encoding::Parts(B.to_owned()), &file), None);
        assert_eq!(fields(&Encoding::Pairs, b"a=%ff"), None);
    }
}
