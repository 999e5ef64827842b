//! The text and the place in it. Nothing of this is generic.

use std::borrow::Cow;
use std::str::FromStr;

use serde::de::{Error as _, IgnoredAny, Unexpected};
use serde_json::{Deserializer, Error, Number, Result};

/// As serde_json has it.
const DEPTH_MAX: u8 = 127;

/// Integers of so many digits are below 2^63.
const DIGITS_MAX: usize = 18;

/// Whether a text that was written as JSON is nested deeper than a reader goes.
pub(crate) fn is_too_deep(text: &str) -> bool {
    // Most texts have not even as many brackets, and to count them takes a fraction of the time: the two that open differ by one bit.
    if text.bytes().filter(|byte| byte | 0x20 == b'{').count() <= usize::from(DEPTH_MAX) {
        return false;
    }
    let (mut depth, mut is_text, mut bytes) = (0_u32, false, text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            // What is escaped is no end.
            b'\\' => _ = bytes.next(),
            _ if is_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > u32::from(DEPTH_MAX) {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

pub(crate) struct Reader<'de> {
    text: &'de str,
    at: usize,
    depth: u8,
}

/// A number as it is handed to a type.
pub(crate) enum Numeric {
    Positive(u64),
    Negative(i64),
    Float(f64),
}

impl<'de> Reader<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    pub(crate) fn text(&self) -> &'de str {
        self.text
    }

    /// What is behind the reader.
    pub(crate) fn read(&self) -> &'de str {
        self.text.get(..self.at).unwrap_or(self.text)
    }

    fn rest(&self) -> &'de [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The first byte of what comes next, 0 at the end.
    #[inline(never)]
    pub(crate) fn peek(&mut self) -> u8 {
        let spaces =
            self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count();
        self.at += spaces;
        self.rest().first().copied().unwrap_or_default()
    }

    /// Whether that byte comes next, and then it is behind the reader.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(malformed()) }
    }

    /// Nothing follows.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.peek();
        if self.at == self.text.len() { Ok(()) } else { Err(malformed()) }
    }

    /// Into an object or an array.
    #[inline(never)]
    pub(crate) fn open(&mut self, bracket: u8) -> Result<()> {
        self.expect(bracket)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Error::custom("recursion limit exceeded")) } else { Ok(()) }
    }

    #[inline(never)]
    pub(crate) fn close(&mut self, bracket: u8) -> Result<()> {
        self.depth -= 1;
        self.expect(bracket)
    }

    /// Whether an item or a member is next, and not `bracket`. The first has no comma before it.
    #[inline(never)]
    pub(crate) fn has_next(&mut self, is_first: &mut bool, bracket: u8) -> Result<bool> {
        if self.peek() == bracket {
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// The name of the next member, with its colon.
    #[inline(never)]
    pub(crate) fn name(&mut self, is_first: &mut bool) -> Result<Option<Cow<'de, str>>> {
        if !self.has_next(is_first, b'}')? {
            return Ok(None);
        }
        let name = self.string()?.ok_or_else(malformed)?;
        self.expect(b':')?;
        Ok(Some(name))
    }

    /// A text, if it is one.
    #[inline(never)]
    pub(crate) fn string(&mut self) -> Result<Option<Cow<'de, str>>> {
        if self.peek() != b'"' {
            return Ok(None);
        }
        let start = self.at;
        let (mut end, mut is_plain) = (start + 1, true);
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                // What is escaped is no end.
                Some(b'\\') => (end, is_plain) = (end + 2, false),
                Some(0x20..) => end += 1,
                Some(_) | None => return Err(malformed()),
            }
        }
        self.at = end + 1;
        if is_plain {
            return Ok(self.text.get(start + 1..end).map(Cow::Borrowed));
        }
        let quoted = self.text.get(start..=end).unwrap_or_default();
        serde_json::from_str(quoted)
            .map(|text: String| Some(Cow::Owned(text)))
            .map_err(|error| unplaced(&error))
    }

    /// A number, if it is one.
    #[inline(never)]
    pub(crate) fn number(&mut self) -> Result<Option<Numeric>> {
        if !matches!(self.peek(), b'-' | b'0'..=b'9') {
            return Ok(None);
        }
        let number = self.digits();
        self.at += number.len();
        let is_plain = number.len() <= DIGITS_MAX && number.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain && (number == "0" || !number.starts_with('0')) {
            let digits = number.bytes().map(|digit| u64::from(digit - b'0'));
            return Ok(Some(Numeric::Positive(digits.fold(0, |number, digit| number * 10 + digit))));
        }
        let number: Number = serde_json::from_str(number).map_err(|error| unplaced(&error))?;
        let whole = number.as_u64().map(Numeric::Positive).or_else(|| number.as_i64().map(Numeric::Negative));
        Ok(whole.or_else(|| number.as_f64().map(Numeric::Float)))
    }

    /// What a number is written with, as far as it comes next.
    pub(crate) fn digits(&self) -> &'de str {
        let is_of_it = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.rest().iter().take_while(|byte| is_of_it(byte)).count();
        self.text.get(self.at..self.at + length).unwrap_or_default()
    }

    /// A number of 128 bits, if it is one.
    pub(crate) fn whole<T: FromStr>(&mut self) -> Option<T> {
        self.peek();
        let digits = self.digits();
        let number = whole(digits);
        self.at += if number.is_some() { digits.len() } else { 0 };
        number
    }

    /// Whether that word comes next.
    #[inline(never)]
    pub(crate) fn word(&mut self, word: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        if self.word("true") { Some(true) } else { self.word("false").then_some(false) }
    }

    /// Past a value of any kind.
    #[inline(never)]
    pub(crate) fn skip(&mut self) -> Result<()> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut values = Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next().ok_or_else(malformed)??;
        self.at += values.byte_offset();
        Ok(())
    }

    /// What comes next, as a message about it says.
    #[inline(never)]
    pub(crate) fn unexpected(&mut self, expected: &dyn serde::de::Expected) -> Error {
        let found = match self.peek() {
            b'{' => Unexpected::Map,
            b'[' => Unexpected::Seq,
            b'n' => Unexpected::Unit,
            b't' | b'f' => Unexpected::Bool(self.peek() == b't'),
            b'"' => match self.string() {
                Ok(Some(text)) => return Error::invalid_type(Unexpected::Str(&text), expected),
                _ => return malformed(),
            },
            _ => match self.number() {
                Ok(Some(Numeric::Positive(number))) => Unexpected::Unsigned(number),
                Ok(Some(Numeric::Negative(number))) => Unexpected::Signed(number),
                Ok(Some(Numeric::Float(number))) => Unexpected::Float(number),
                _ => return malformed(),
            },
        };
        Error::invalid_type(found, expected)
    }
}

/// The whole number that the text is, as JSON writes it: without a sign for what is positive, and without a zero before it.
pub(crate) fn whole<T: FromStr>(text: &str) -> Option<T> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_plain)
}

/// The place that serde_json names is one in a part of the text.
fn unplaced(error: &Error) -> Error {
    let message = error.to_string();
    Error::custom(message.split(" at line ").next().unwrap_or_default())
}

/// The syntax is wrong: what exactly, serde_json says in the end.
#[inline(never)]
fn malformed() -> Error {
    Error::custom("not JSON")
}
