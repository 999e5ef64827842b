//! The fingerprint of what a request says: two requests under one key are the same if theirs are.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use once::id::digest;
use serde_json::{Map, Value};

use super::{Encoding, pairs, parts};
use crate::config::Kind;
use crate::pattern::is_like;
use crate::secret::{Digest, Secret};

/// What names that only guard a form have: a new value at each page, or at each click.
const GUARDS: &[&str] = &[
    "csrfmiddlewaretoken",
    "authenticity_token",
    "_token",
    "form_key",
    "form_token",
    "form_build_id",
    "security_token",
    "*[_token]",
    "__RequestVerificationToken",
    "__EVENTVALIDATION",
    "__VIEWSTATE*",
    "_wpnonce",
    "*-nonce",
    "g-recaptcha-response",
    "h-captcha-response",
    "cf-turnstile-response",
    "utf8",
];

/// Which fields are no part of what a body says: those that are configured, and of a form what only guards it. What a button says is
/// part of it: a form can have two.
#[derive(Clone, Copy, Debug)]
pub struct Ignored<'a> {
    kind: Kind,
    more: &'a [String],
}

impl<'a> Ignored<'a> {
    /// What is ignored in such a request.
    pub const fn new(kind: Kind, more: &'a [String]) -> Self {
        Self { kind, more }
    }

    fn names(self) -> impl Iterator<Item = &'a str> {
        self.kind.of(GUARDS, &[]).iter().copied().chain(self.more.iter().map(String::as_str))
    }

    fn has(self, name: &str) -> bool {
        (self.kind == Kind::Form && name.to_ascii_lowercase().contains("csrf"))
            || self.names().any(|known| is_like(known, name))
    }

    /// Whether these two fields are a button of a form that is a picture: they say where it was pressed, and no two presses are on one point. Which one it
    /// was counts, and not where.
    fn are_of_picture(self, [(x, across), (y, down)]: [(&str, &[u8]); 2]) -> bool {
        let is_number = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let is_one = x.strip_suffix(".x").is_some_and(|button| y.strip_suffix(".y") == Some(button));
        self.kind == Kind::Form && is_one && is_number(across) && is_number(down)
    }

    /// What counts of the value of each of these fields, in their order; `None` of one that is left out.
    fn counting<'b>(self, fields: &[(&str, &'b [u8])]) -> Vec<Option<&'b [u8]>> {
        let counts = |(name, value): &(&str, &'b [u8])| (!self.has(name)).then_some(*value);
        let mut counting: Vec<_> = fields.iter().map(counts).collect();
        for (number, pair) in fields.windows(2).enumerate() {
            if let [x, y] = pair
                && self.are_of_picture([*x, *y])
            {
                counting.iter_mut().skip(number).take(2).flatten().for_each(|value| *value = b"");
            }
        }
        counting
    }
}

/// How much of a body that is too large to be held is part of its fingerprint, in bytes; the rest counts by its length.
pub const LOOKED_AT: usize = 512 << 10;

/// A body, as far as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// What is read of it, without our keys.
    pub body: &'a [u8],
    /// There is more: with how many bytes in all, where that is known.
    pub longer: Option<Option<u64>>,
}

/// How a fingerprint is made, but for the lists of names: another number where the code makes another one of the same body.
const FINGERPRINT: &[u8] = b"gate 3";

/// What stands in a fingerprint for how it was made, with these names ignored. Two that were made differently cannot be compared.
fn made_with(ignored: Ignored<'_>) -> String {
    let names: BTreeSet<&str> = ignored.names().collect();
    let parts: Vec<&[u8]> = [FINGERPRINT].into_iter().chain(names.into_iter().map(str::as_bytes)).collect();
    let [a, b, c, d, ..] = digest(&parts);
    HEXLOWER.encode(&[a, b, c, d])
}

/// How two fingerprints are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alike {
    /// They are of the same request.
    Same,
    /// The same was sent to another host: another shop, perhaps, and perhaps the same one.
    ElsewhereTheSame,
    /// Of another request.
    Not,
    /// They were not made in the same way, by the same release and settings: it cannot be told.
    Unknown,
}

/// How the fingerprint of a request is like one that is stored. Those of releases before this one do not say of which host they are.
pub fn compare(stored: &str, sent: &str) -> Alike {
    match (Written::of(stored), Written::of(sent)) {
        (Some(stored), Some(sent)) if stored.made_with == sent.made_with => match (stored.host, sent.host) {
            _ if stored.content != sent.content => Alike::Not,
            (Some(stored), Some(sent)) if stored != sent => Alike::ElsewhereTheSame,
            _ => Alike::Same,
        },
        _ => Alike::Unknown,
    }
}

/// What an edited form says, as part of its key's name: no release may change it, so it is the fingerprint of those that said nothing of the host.
pub fn name_of_edited(fingerprint: &str) -> String {
    match Written::of(fingerprint) {
        Some(Written { made_with, content, .. }) => format!("{WITHOUT_HOST}{made_with}:{content}"),
        None => fingerprint.to_owned(),
    }
}

/// A fingerprint as it is written: `gate2.MADE_WITH:CONTENT@HOST`, or `gate1.MADE_WITH:CONTENT` by releases before this one. To those the first one is made in
/// another way than their own.
struct Written<'a> {
    made_with: &'a str,
    content: &'a str,
    host: Option<&'a str>,
}

const WITHOUT_HOST: &str = "gate1.";
const WITH_HOST: &str = "gate2.";
/// How many digits stand for a host.
const HOST_LEN: usize = 16;

impl<'a> Written<'a> {
    fn of(fingerprint: &'a str) -> Option<Self> {
        let (rest, has_host) = match fingerprint.strip_prefix(WITH_HOST) {
            Some(rest) => (rest, true),
            None => (fingerprint.strip_prefix(WITHOUT_HOST)?, false),
        };
        let (made_with, said) = rest.split_once(':')?;
        let (content, host) = if has_host {
            said.split_once('@').map(|(content, host)| (content, Some(host)))?
        } else {
            (said, None)
        };
        Some(Self { made_with, content, host })
    }
}

/// The fingerprint: under the secret, as bodies hold passwords. Of decoded pairs and parts in their order, without fields that only guard a
/// form; of JSON without regard to white space and the order of members, where all readers take it for the same (a name that stands twice, or a
/// number that is rounded, they do not); of all else the bytes. Of a body that is too large to be held the beginning
/// and the length. What stands for the host follows it.
pub fn fingerprint(
    secret: &Secret,
    (host, address): (&str, &str),
    encoding: &Encoding,
    read: Read<'_>,
    ignored: Ignored<'_>,
) -> String {
    let mut digest = secret.digest("fingerprint");
    digest.add(address.as_bytes());
    let body = match read.longer {
        None => read.body,
        Some(length) => {
            digest.add(&length.unwrap_or(0).to_be_bytes());
            read.body.get(..LOOKED_AT).unwrap_or(read.body)
        }
    };
    match encoding {
        Encoding::Pairs => {
            let pairs: Vec<_> = pairs(body).collect();
            let names: Vec<_> = pairs.iter().map(|(_, name, _)| String::from_utf8_lossy(name)).collect();
            let fields: Vec<(&str, &[u8])> =
                names.iter().zip(&pairs).map(|(name, (_, _, value))| (&**name, value.as_slice())).collect();
            for ((_, name, _), value) in pairs.iter().zip(ignored.counting(&fields)) {
                if let Some(value) = value {
                    digest.add(name);
                    digest.add(value);
                }
            }
        }
        Encoding::Parts(boundary) => {
            let parts = parts(boundary, body);
            if !parts.is_whole && read.longer.is_none() {
                digest.add(body);
            } else {
                let fields: Vec<(&str, &[u8])> =
                    parts.found.iter().map(|part| (part.name.as_str(), part.content)).collect();
                for (part, content) in parts.found.iter().zip(ignored.counting(&fields)) {
                    let Some(content) = content else { continue };
                    digest.add(part.name.as_bytes());
                    digest.add(part.filename.as_deref().unwrap_or_default().as_bytes());
                    if std::str::from_utf8(part.headers).is_err() {
                        digest.add(part.headers);
                    }
                    digest.add(part.content_type.as_bytes());
                    digest.add(content);
                }
                if !parts.is_whole {
                    let begun = parts.rest_at.saturating_add(boundary.len()).saturating_add(2);
                    digest.add(body.get(begun..).unwrap_or_default());
                }
            }
        }
        Encoding::Json => match web::json::parse(body) {
            Ok(value) => add_json(&mut digest, &without(value, ignored)),
            Err(_) => digest.add(body),
        },
        Encoding::Bytes => digest.add(body),
    }
    let mut of_host = secret.digest("host");
    of_host.add(without_port(host).as_bytes());
    let mut host = of_host.hex();
    host.truncate(HOST_LEN);
    format!("{WITH_HOST}{}:{}@{host}", made_with(ignored), digest.hex())
}

fn without(value: Value, ignored: Ignored<'_>) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|(name, _)| !ignored.has(name)).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn add_json(digest: &mut Digest, value: &Value) {
    match value {
        Value::Object(members) => {
            digest.add(b"{");
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            for (name, value) in sorted {
                digest.add(name.as_bytes());
                add_json(digest, value);
            }
            digest.add(b"}");
        }
        Value::Array(values) => {
            digest.add(b"[");
            values.iter().for_each(|value| add_json(digest, value));
            digest.add(b"]");
        }
        plain => digest.add(plain.to_string().as_bytes()),
    }
}

/// A host by its name. Where it listens may change while a shop stays the same, as on one's own machine.
fn without_port(host: &str) -> &str {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{B, multipart};
    use super::super::{Cut, cut};
    use super::*;

    fn print(encoding: &Encoding, body: &[u8]) -> String {
        let read = Read { body, longer: None };
        print_of(Kind::Form, encoding, read, &["extra".to_owned()])
    }

    fn print_of(kind: Kind, encoding: &Encoding, read: Read<'_>, more: &[String]) -> String {
        let secret = Secret::new("visitor", "key");
        fingerprint(&secret, ("shop.example", "POST /checkout"), encoding, read, Ignored::new(kind, more))
    }

    fn are_comparable(one: &str, other: &str) -> bool {
        compare(one, other) != Alike::Unknown
    }

    #[test]
    fn a_host_is_known_by_its_name_alone() {
        for (host, name) in [
            ("shop.example", "shop.example"),
            ("127.0.0.1:8787", "127.0.0.1"),
            ("[::1]:8787", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn the_same_at_another_host_is_told_apart() {
        let secret = Secret::new("client", "key");
        let at = |host, body: &str| {
            let read = Read { body: body.as_bytes(), longer: None };
            fingerprint(
                &secret,
                (host, "POST /v1/orders"),
                &Encoding::Json,
                read,
                Ignored::new(Kind::Api, &[]),
            )
        };
        let stored = at("a.example", "{\"a\":1}");
        assert_eq!(compare(&stored, &at("a.example", "{\"a\": 1}")), Alike::Same);
        assert_eq!(compare(&stored, &at("b.example", "{\"a\": 1}")), Alike::ElsewhereTheSame);
        assert_eq!(compare(&stored, &at("a.example", "{\"a\": 2}")), Alike::Not);
        assert_eq!(compare(&stored, &at("b.example", "{\"a\": 2}")), Alike::Not);
    }

    /// As releases before this one have made and stored it, without a host.
    #[test]
    fn a_fingerprint_that_is_stored_is_recognised() {
        const STORED: &str =
            "gate1.215a38c7:d4478d695d3afd1b38506cf16f44f39f6d29b56f398473e69bd940a8fdc13015";
        let sent = print(&Encoding::Pairs, b"name=Ann&amount=5");
        assert_eq!(name_of_edited(&sent), STORED);
        assert_eq!(compare(STORED, &sent), Alike::Same);
        // As a release before this one sends it to an object of this one, while it is deployed.
        assert_eq!(compare(&sent, STORED), Alike::Same);
        assert_eq!(compare(STORED, &print(&Encoding::Pairs, b"name=Ann&amount=6")), Alike::Not);
    }

    #[test]
    fn only_what_was_made_alike_is_compared() {
        let made_with = |ignored: &[&str]| {
            let ignored: Vec<String> = ignored.iter().map(|name| (*name).to_owned()).collect();
            let read = Read { body: b"name=Ann", longer: None };
            print_of(Kind::Form, &Encoding::Pairs, read, &ignored)
        };
        assert!(!are_comparable(&made_with(&[]), &print(&Encoding::Pairs, b"name=Bob")));
        assert!(are_comparable(&made_with(&["a", "b"]), &made_with(&["b", "a", "utf8"])));
        assert!(!are_comparable(&made_with(&["a"]), &made_with(&["a", "b"])));
        // Of a release that did not say how.
        assert!(!are_comparable("gate1:00ff", &made_with(&[])));
    }

    #[test]
    fn what_only_guards_a_form_is_no_part_of_what_it_says() {
        // Of Django, Rails, Symfony, CakePHP, Play, Drupal, ASP.NET, CodeIgniter, Yii, Magento and PrestaShop.
        for name in [
            "csrfmiddlewaretoken",
            "authenticity_token",
            "form[_token]",
            "sylius_checkout[_token]",
            "_csrfToken",
            "csrfToken",
            "csrf-token",
            "form_build_id",
            "form_token",
            "__EVENTVALIDATION",
            "__VIEWSTATEGENERATOR",
            "csrf_test_name",
            "_csrf-frontend",
            "form_key",
            "security_token",
            "_CSRF",
            "extra",
        ] {
            let body = |value| format!("name=Ann&{name}={value}").into_bytes();
            assert_eq!(print(&Encoding::Pairs, &body("1")), print(&Encoding::Pairs, &body("2")), "{name}");
        }
        for name in ["token", "coupon", "form_token_of_gift", "key", "commit"] {
            let body = |value| format!("name=Ann&{name}={value}").into_bytes();
            assert_ne!(print(&Encoding::Pairs, &body("1")), print(&Encoding::Pairs, &body("2")), "{name}");
        }
    }

    #[test]
    fn of_a_longer_body_the_beginning_and_the_length_count() {
        let file = "x".repeat(LOOKED_AT);
        let body = |boundary: &str, key: &str, end: &str| {
            let head = "name=\"file\"; filename=\"a\"\r\nContent-Type: text/plain";
            let parts = multipart(&[("name=\"paid_once_key\"", key), ("name=\"a\"", "1"), (head, &file)]);
            let begun = String::from_utf8(parts).unwrap().replace(B, boundary);
            (begun.trim_end_matches("--\r\n").to_owned() + end).into_bytes()
        };
        let print = |boundary: &str, key: &str, end: &str, length: u64| {
            let encoding = Encoding::Parts(boundary.to_owned());
            let Cut { rest, keys } = cut(&encoding, body(boundary, key, end), true);
            assert_eq!(keys, [key]);
            let read = Read { body: &rest, longer: Some(Some(length)) };
            print_of(Kind::Form, &encoding, read, &[])
        };
        let other = B.replace('x', "y");
        assert_eq!(print(B, "K1", "", 9), print(&other, "K2", "more of it", 9));
        assert_ne!(print(B, "K1", "", 9), print(B, "K1", "", 10));
    }

    #[test]
    fn a_file_may_be_named_in_the_characters_of_its_page() {
        let named = |name: &[u8]| {
            let [before, after] =
                [&b"\r\nContent-Disposition: form-data; name=\"f\"; filename=\""[..], b"\"\r\n\r\nx\r\n"];
            let key = multipart(&[("name=\"paid_once_key\"", "K")]);
            let key = key.strip_suffix(format!("--{B}--\r\n").as_bytes()).unwrap();
            [key, format!("--{B}").as_bytes(), before, name, after, format!("--{B}--\r\n").as_bytes()]
                .concat()
        };
        let encoding = Encoding::Parts(B.to_owned());
        let [one, other] = [[0xf4, 0xee], [0xf4, 0xef]].map(|name| cut(&encoding, named(&name), false));
        assert_eq!(one.keys, ["K"]);
        assert_ne!(print(&encoding, &one.rest), print(&encoding, &other.rest));
    }

    /// Pictures of maps apart: a field is one of a button's only where it is named as browsers name it.
    #[test]
    fn a_button_that_is_a_picture_is_the_same_wherever_it_is_pressed() {
        let pressed = |body: &[u8]| print(&Encoding::Pairs, body);
        let first = pressed(b"name=Ann&pay.x=41&pay.y=12");
        assert_eq!(first, pressed(b"name=Ann&pay.x=42&pay.y=9"));
        assert_ne!(first, pressed(b"name=Ann&later.x=41&later.y=12"), "another button");
        assert_ne!(first, pressed(b"name=Ann"), "by the keyboard, or by another button");
        assert_ne!(pressed(b"x=1&y=2"), pressed(b"x=1&y=3"));
        assert_ne!(pressed(b"size.x=S&size.y=1"), pressed(b"size.x=M&size.y=1"));
        assert_ne!(pressed(b"crop.x=1&zoom=2"), pressed(b"crop.x=2&zoom=2"), "no button without both");
        assert_ne!(pressed(b"a.x=1&b.y=2"), pressed(b"a.x=2&b.y=2"), "nor of two names");
        let parts = |x| multipart(&[("name=\"pay.x\"", x), ("name=\"pay.y\"", "12")]);
        let encoding = Encoding::Parts(B.to_owned());
        assert_eq!(print(&encoding, &parts("41")), print(&encoding, &parts("42")));
    }

    #[test]
    fn what_an_api_is_sent_counts_whatever_it_is_called() {
        let sent = |name: &str, value: &str| {
            let body = format!("{{\"{name}\":\"{value}\"}}");
            print_of(
                Kind::Api,
                &Encoding::Json,
                Read { body: body.as_bytes(), longer: None },
                &["trace".to_owned()],
            )
        };
        for name in ["commit", "form_key", "utf8", "a-nonce", "csrf", "pay.x"] {
            assert_ne!(sent(name, "1"), sent(name, "2"), "{name}");
        }
        assert_eq!(sent("trace", "1"), sent("trace", "2"));
    }

    #[test]
    fn what_guards_a_form_is_no_part_of_what_it_says() {
        let a = print(
            &Encoding::Pairs,
            b"csrfmiddlewaretoken=1&name=%41nn&woocommerce-process-checkout-nonce=1&extra=1",
        );
        assert_eq!(
            a,
            print(&Encoding::Pairs, b"csrfmiddlewaretoken=2&name=Ann&woocommerce-process-checkout-nonce=2")
        );
        assert_ne!(a, print(&Encoding::Pairs, b"csrfmiddlewaretoken=1&name=Bob"));
        assert_ne!(print(&Encoding::Pairs, b"a=1&b=2"), print(&Encoding::Pairs, b"a=1b&=2"));
    }

    #[test]
    fn a_new_boundary_is_the_same_form() {
        let body = String::from_utf8(multipart(&[("name=\"a\"", "1")])).unwrap();
        let other = body.replace(B, "other");
        assert_eq!(
            print(&Encoding::Parts(B.to_owned()), body.as_bytes()),
            print(&Encoding::Parts("other".to_owned()), other.as_bytes())
        );
        let changed = body.replace("\r\n\r\n1", "\r\n\r\n2");
        assert_ne!(
            print(&Encoding::Parts(B.to_owned()), body.as_bytes()),
            print(&Encoding::Parts(B.to_owned()), changed.as_bytes())
        );
    }

    #[test]
    fn white_space_and_order_of_json_do_not_matter() {
        let a = print(&Encoding::Json, br#"{"a": [1, {"x": 1, "y": 2}], "b": "2", "_token": 1}"#);
        assert_eq!(a, print(&Encoding::Json, br#"{"b":"2","a":[1,{"y":2,"x":1}],"_token":2}"#));
        assert_ne!(a, print(&Encoding::Json, br#"{"b":2,"a":[1,{"y":2,"x":1}]}"#));
        assert_ne!(print(&Encoding::Json, b"{"), print(&Encoding::Json, b"{}"));
    }

    #[test]
    fn json_that_readers_take_for_different_things_is_compared_as_it_stands() {
        let print = |body: &str| print(&Encoding::Json, body.as_bytes());
        // Two that are one double: 2 × 10^19 + 1 and + 2, 2^53 and 2^53 + 1.
        assert_ne!(print(r#"{"wei":20000000000000000001}"#), print(r#"{"wei":20000000000000000002}"#));
        assert_ne!(print(r#"{"id":[9007199254740992.0]}"#), print(r#"{"id":[9007199254740993.0]}"#));
        // The first of two members counts for one reader, the last for another.
        assert_ne!(print(r#"{"amount":100,"amount":900}"#), print(r#"{"amount":5,"amount":900}"#));
        assert_ne!(print(r#"{"a":{"b":1,"b":2}}"#), print(r#"{"a":{"b":2}}"#));
    }
}
