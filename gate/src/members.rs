//! Members of a JSON object by where they stand in its text: one is cut out, and all else stays byte for byte.

use std::ops::Range;

/// A member with a text in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// What goes with it: a comma beside it, too, so that an object is left.
    pub(crate) whole: Range<usize>,
    /// Empty where it is written in a way that JSON does not know.
    pub(crate) text: String,
}

/// The members of the outermost object that have this name and a text in them. Of a body that is longer those that are there whole; otherwise none
/// where it is no object, or does not end.
pub(crate) fn texts(body: &[u8], name: &str, is_longer: bool) -> Vec<Found> {
    let mut found = Vec::new();
    let is_whole = Scan { body, at: 0 }.texts(name, &mut found).is_some();
    if is_whole || is_longer { found } else { Vec::new() }
}

struct Scan<'a> {
    body: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    /// `None` where the body is no object, or does not end.
    fn texts(&mut self, name: &str, found: &mut Vec<Found>) -> Option<()> {
        self.take(b'{')?;
        // The one before a member, behind another one that stays.
        let mut comma = None;
        while self.next() == Some(b'"') {
            let begin = self.at;
            let given = self.string()?;
            self.take(b':')?;
            let is_text = self.next() == Some(b'"');
            let value = self.value()?;
            let next = self.take(b',');
            let is_wanted = is_text && self.is(given, name);
            if is_wanted {
                let whole = match comma {
                    Some(comma) => comma..value.end,
                    // What follows may be there only in what is not read.
                    None if next.is_none() && self.next() != Some(b'}') => return None,
                    None => begin..next.map_or(value.end, |comma| comma + 1),
                };
                found.push(Found { whole, text: self.text(value).unwrap_or_default() });
            }
            if next.is_none() {
                break;
            }
            if !is_wanted || comma.is_some() {
                comma = next;
            }
        }
        self.take(b'}')?;
        self.next().is_none().then_some(())
    }

    /// What follows the white space.
    fn next(&mut self) -> Option<u8> {
        while matches!(self.body.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.body.get(self.at).copied()
    }

    /// Goes behind this one, if it follows the white space: where it stands.
    fn take(&mut self, wanted: u8) -> Option<usize> {
        let at = (self.next() == Some(wanted)).then_some(self.at)?;
        self.at += 1;
        Some(at)
    }

    /// Goes behind a string: where it stands, with its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        let begin = self.take(b'"')?;
        loop {
            match self.body.get(self.at)? {
                b'\\' => self.at += 2,
                b'"' => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(begin..self.at)
    }

    /// The same with any value.
    fn value(&mut self) -> Option<Range<usize>> {
        let first = self.next()?;
        let begin = self.at;
        match first {
            b'"' => return self.string(),
            b'{' | b'[' => self.nested()?,
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                self.at += self.body.get(begin..)?.iter().position(is_end)?;
            }
        }
        (begin < self.at).then_some(begin..self.at)
    }

    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.body.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn text(&self, string: Range<usize>) -> Option<String> {
        serde_json::from_slice(self.body.get(string)?).ok()
    }

    /// Whether a string says this, however it is written.
    fn is(&self, string: Range<usize>, wanted: &str) -> bool {
        let raw = self.body.get(string.start + 1..string.end - 1).unwrap_or_default();
        raw == wanted.as_bytes() || (raw.contains(&b'\\') && self.text(string).as_deref() == Some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left, and the texts.
    fn cut(body: &str, is_longer: bool) -> (String, Vec<String>) {
        let found = texts(body.as_bytes(), "key", is_longer);
        let mut rest = body.to_owned();
        for Found { whole, .. } in found.iter().rev() {
            rest.replace_range(whole.clone(), "");
        }
        (rest, found.into_iter().map(|found| found.text).collect())
    }

    #[test]
    fn a_member_is_cut_out_and_the_rest_stays() {
        for (body, rest, keys) in [
            (r#"{"key":"K"}"#, "{}", &["K"][..]),
            (r#"{"key":"K","a":1}"#, r#"{"a":1}"#, &["K"]),
            (r#"{"a":1,"key":"K"}"#, r#"{"a":1}"#, &["K"]),
            (r#"{"a":1,"key":"K","b":[2]}"#, r#"{"a":1,"b":[2]}"#, &["K"]),
            (" {\n \"key\" : \"K\" ,\n \"a\" : 1.50e1 }\r\n", " {\n \n \"a\" : 1.50e1 }\r\n", &["K"]),
            ("{ \"a\" : {} , \"key\" : \"K\" }", "{ \"a\" : {}  }", &["K"]),
            // Twice, and more often.
            (r#"{"key":"1","key":"2"}"#, "{}", &["1", "2"]),
            (r#"{"key":"1","key":"2","a":null}"#, r#"{"a":null}"#, &["1", "2"]),
            (r#"{"key":"1","a":1,"key":"2","key":"3","b":2}"#, r#"{"a":1,"b":2}"#, &["1", "2", "3"]),
            (r#"{"key":"1","a":1,"key":"2"}"#, r#"{"a":1}"#, &["1", "2"]),
            // Written in another way.
            (r#"{"\u006bey":"a\"\\","key\\":"b","k\u0065y":"\u00fc"}"#, r#"{"key\\":"b"}"#, &["a\"\\", "ü"]),
            (r#"{"key":"\x","a":1}"#, r#"{"a":1}"#, &[""]),
            (r#"{"a":1,"key":"K",}"#, r#"{"a":1,}"#, &["K"]),
            (r#"{"key":"K",}"#, "{}", &["K"]),
        ] {
            let keys: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
            assert_eq!(cut(body, false), (rest.to_owned(), keys), "{body}");
        }
    }

    #[test]
    fn what_is_no_text_at_the_top_stays() {
        for body in [
            r#"{"a":{"key":"K"},"b":[{"key":"K"}],"c":"\"key\":\"K\"","d":"}"}"#,
            r#"{"key":1,"key":null,"key":{"key":"K"},"key":["K"]}"#,
            r#"[{"key":"K"}]"#,
            r#""key""#,
            "null",
            "",
            // No object, or one that does not end.
            r#"{"key":"K""#,
            r#"{"key":"K","#,
            r#"{"key":"K","a"#,
            r#"{"key":"K"]"#,
            r#"{"key":"K"}}"#,
            r#"{"key":"K" "a":1}"#,
            r#"{"key" "K"}"#,
            r#"{"a":,"key":"K"}"#,
            r#"{"key":"K\"}"#,
            r#"{"key":"K\"#,
            r#"{key:"K"}"#,
        ] {
            assert_eq!(cut(body, false), (body.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn of_a_longer_body_what_is_there_whole_is_cut_out_wherever_it_is_parted() {
        for (body, rest) in [
            (r#"{ "key" : "K" , "a" : "\u00fc" }"#, r#"{  "a" : "\u00fc" }"#),
            (r#"{"a":[1,{"b":"]"}],"key":"K","c":-1}"#, r#"{"a":[1,{"b":"]"}],"c":-1}"#),
            (r#"{"a":true,"key":"K"}"#, r#"{"a":true}"#),
            (r#"{"key":"K"}"#, "{}"),
        ] {
            let ends_at = body.find(r#""K""#).unwrap() + 3;
            for at in 0..=body.len() {
                let (begun, keys) = cut(&body[..at], true);
                let whole = begun + &body[at..];
                assert_eq!(whole, if keys.is_empty() { body } else { rest }, "{at}");
                assert!(at < ends_at + 2 || !keys.is_empty(), "{at}");
                assert!(at >= ends_at || keys.is_empty(), "{at}");
            }
        }
    }

    #[test]
    fn many_members_take_as_long_as_the_body_is() {
        let body = format!(
            "{{{}\"a\":{}1{}}}",
            "\"key\":\"\\u004b\",".repeat(100_000),
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        let found = texts(body.as_bytes(), "key", false);
        assert_eq!(found.len(), 100_000);
        assert!(found.iter().all(|found| found.text == "K"));
    }
}
