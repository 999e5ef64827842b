//! Reads JSON into types as [`serde_json::from_str`] does, in half of the code: what reads the text is compiled once and not into every type, and
//! a struct is an object, never an array.

mod access;
mod de;
mod reader;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny};
use serde_json::{Error, Result};

use reader::Reader;

/// The value that the text is.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T> {
    seeded(text, PhantomData)
}

/// Whether a text that was written as JSON could not be read again, by how deep it is nested: serde_json writes what no reader takes.
pub fn is_too_deep(text: &str) -> bool {
    reader::is_too_deep(text)
}

/// What is wrong, and where, for a log. An error's own words quote the value that it found, which may be a secret or personal.
pub fn unquoted(error: &Error) -> String {
    format!("{:?} error at {}:{}", error.classify(), error.line(), error.column())
}

/// The value that the bytes are, in UTF-8.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T> {
    from_str(str::from_utf8(bytes).map_err(|_| invalid(bytes))?)
}

/// What the seed makes of the bytes. It is shown what comes before an error, also before bytes that are not UTF-8.
pub fn from_slice_seed<'de, S: DeserializeSeed<'de>>(bytes: &'de [u8], seed: S) -> Result<S::Value> {
    let (text, is_whole) = match str::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(_) => (bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()), false),
    };
    let value = seeded(text, seed);
    if is_whole { value } else { Err(invalid(bytes)) }
}

fn seeded<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value> {
    let mut reader = Reader::new(text);
    let value = seed.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| located(error, &reader))
}

/// What serde_json has to say of it; or else where the reader stood.
#[inline(never)]
fn located(error: Error, reader: &Reader<'_>) -> Error {
    match serde_json::from_str::<IgnoredAny>(reader.text()) {
        Err(syntax) => syntax,
        Ok(_) if error.line() > 0 => error,
        Ok(_) => {
            let read = reader.read();
            let column = read.rsplit('\n').next().unwrap_or_default().len();
            // serde_json reads the place from there.
            Error::custom(format_args!("{error} at line {} column {column}", read.split('\n').count()))
        }
    }
}

#[inline(never)]
fn invalid(bytes: &[u8]) -> Error {
    match serde_json::from_slice::<&str>(bytes) {
        Err(error) if !error.is_data() => error,
        _ => Error::custom("invalid unicode code point"),
    }
}
