//! The JSON of a request, read strictly: what two readers could take for different requests is refused, and the member that
//! is wrong is named by its path, such as `lines[0].name`.
//!
//! [RFC 8785](https://www.rfc-editor.org/rfc/rfc8785), by which bodies are fingerprinted, asks for
//! [I-JSON](https://www.rfc-editor.org/rfc/rfc7493): names are unique, and numbers are doubles.

use std::fmt::{self, Write};

use once::fingerprint::{EXACT_MAX, NoCanonicalForm};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The path of the member that is wrong; empty where it is the text as a whole.
    pub path: String,
    /// What is wrong, as it follows the path in a sentence.
    pub message: String,
}

/// Reads an object. How deep it may be nested is bounded by serde_json, at 128.
pub fn parse_object(text: &[u8]) -> Result<Map<String, Value>, JsonError> {
    match parse(text)? {
        Value::Object(members) => Ok(members),
        _ => Err(JsonError { path: String::new(), message: "must be a JSON object".to_owned() }),
    }
}

/// Reads a value.
///
/// # Errors
/// Of what is no JSON, or what two readers could take for different values.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let mut place = Place::default();
    json_text::from_slice_seed(text, Node(&mut place)).map_err(|error| JsonError {
        path: place.path(),
        message: place.refusal.map_or_else(|| format!("is not valid JSON: {error}"), str::to_owned),
    })
}

/// Where the reader stands. After an error: where it met it.
#[derive(Default)]
struct Place {
    steps: Vec<Step>,
    /// Why it stopped, if the JSON itself is valid.
    refusal: Option<&'static str>,
}

enum Step {
    Member(String),
    Item(usize),
}

impl Place {
    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.steps {
            // Writing to a String cannot fail.
            let _ = match step {
                Step::Member(name) if path.is_empty() => write!(path, "{name}"),
                Step::Member(name) => write!(path, ".{name}"),
                Step::Item(index) => write!(path, "[{index}]"),
            };
        }
        path
    }

    fn refuse<E: Error>(&mut self, why: &'static str) -> E {
        self.refusal = Some(why);
        E::custom(why)
    }

    fn inexact<E: Error>(&mut self) -> E {
        self.refuse(NoCanonicalForm::MESSAGE)
    }
}

/// One value, at a place.
struct Node<'a>(&'a mut Place);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        if number > EXACT_MAX { Err(self.0.inexact()) } else { Ok(Value::Number(number.into())) }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        if number.unsigned_abs() > EXACT_MAX {
            Err(self.0.inexact())
        } else {
            Ok(Value::Number(number.into()))
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        match Number::from_f64(number) {
            // An integer of more than 19 digits comes as a double that is rounded already.
            Some(exact) if number.abs() <= EXACT_MAX as f64 => Ok(Value::Number(exact)),
            _ => Err(self.0.inexact()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Self(place) = self;
        let mut values = Vec::new();
        loop {
            place.steps.push(Step::Item(values.len()));
            let Some(value) = items.next_element_seed(Node(place))? else { break };
            place.steps.pop();
            values.push(value);
        }
        place.steps.pop();
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let Self(place) = self;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            place.steps.push(Step::Member(name.clone()));
            if map.contains_key(&name) {
                return Err(place.refuse("is given twice: send it once"));
            }
            let value = members.next_value_seed(Node(place))?;
            place.steps.pop();
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}
