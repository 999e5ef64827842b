//! Statements with text and whole numbers, wherever they will be run.

use serde::{Serialize, Serializer};
use worker::wasm_bindgen::JsValue;

/// A value in a statement.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number below 2⁵³.
    Number(u64),
    /// Text.
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// As a shard takes it.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl From<Value> for JsValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            // D1 takes no BigInt.
            #[allow(clippy::cast_precision_loss)]
            Value::Number(number) => Self::from_f64(number as f64),
            Value::Text(text) => Self::from_str(&text),
        }
    }
}

/// A statement with its values, wherever it will be run.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The SQL.
    pub sql: String,
    /// Its values, in order: the first is `?1`.
    pub values: Vec<Value>,
}

impl Statement {
    /// A statement and its values.
    pub fn new(sql: impl Into<String>, values: Vec<Value>) -> Self {
        Self { sql: sql.into(), values }
    }
}
