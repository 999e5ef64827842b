//! JSON Schema, written in Rust: what the document says of one value.

use serde_json::{Map, Value, json};

/// A schema of JSON Schema 2020-12.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema(Map<String, Value>);

/// Anything of a type.
fn of_type(name: &str) -> Schema {
    Schema::default().with("type", name)
}

/// A text.
pub(super) fn text() -> Schema {
    of_type("string")
}

/// A provider's token or id, or an id of the shop's: at most as many visible characters.
pub(super) fn visible_text(characters: usize) -> Schema {
    text().with("pattern", "^[!-~]+$").at_most(characters)
}

/// A whole number.
pub(super) fn integer() -> Schema {
    of_type("integer")
}

/// A whole number of this range.
pub(super) fn integer_of(min: impl Into<Value>, max: impl Into<Value>) -> Schema {
    integer().with("minimum", min).with("maximum", max)
}

/// True or false.
pub(super) fn boolean() -> Schema {
    of_type("boolean")
}

/// A list.
pub(super) fn list(items: Schema) -> Schema {
    of_type("array").with("items", items)
}

/// An object. Its members are added one by one.
pub(super) fn object() -> Schema {
    of_type("object").with("properties", Map::new())
}

/// This and nothing else: a word, a whole number, true or false. Generators make no type of a value alone.
pub(super) fn constant(value: impl Into<Value>) -> Schema {
    let value = value.into();
    let name = match &value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        _ => "string",
    };
    of_type(name).with("const", value)
}

/// One of these words.
pub(super) fn one_of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Schema {
    text().with("enum", words.into_iter().collect::<Vec<_>>())
}

/// The schema of this name.
pub(super) fn reference(name: &str) -> Schema {
    Schema::default().with("$ref", schema_address(name))
}

/// Where the schema of this name stands.
pub(super) fn schema_address(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// The address of something on this site, or of a page elsewhere.
pub(super) fn uri_reference() -> Schema {
    text().with("format", "uri-reference")
}

/// An absolute address.
pub(super) fn uri() -> Schema {
    text().with("format", "uri")
}

impl Schema {
    /// With another keyword.
    #[must_use]
    pub(super) fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0.insert(keyword.to_owned(), value.into());
        self
    }

    /// What it is.
    #[must_use]
    pub(super) fn about(self, description: &str) -> Self {
        self.with("description", description)
    }

    /// With an example.
    #[must_use]
    pub(super) fn example(self, example: impl Into<Value>) -> Self {
        self.with("examples", vec![example.into()])
    }

    /// A text of at most as many characters.
    #[must_use]
    pub(super) fn at_most(self, characters: usize) -> Self {
        self.with("maxLength", characters)
    }

    /// Or null.
    #[must_use]
    pub(super) fn or_null(mut self) -> Self {
        match self.0.get("type").cloned() {
            Some(name) => self.with("type", json!([name, "null"])),
            None => {
                let description = self.0.remove("description");
                let either = Self::default().with("oneOf", json!([self, { "type": "null" }]));
                match description {
                    Some(description) => either.with("description", description),
                    None => either,
                }
            }
        }
    }

    /// With a member that may be left out.
    #[must_use]
    pub(super) fn may_have(mut self, name: &str, schema: impl Into<Value>) -> Self {
        if let Some(Value::Object(properties)) = self.0.get_mut("properties") {
            properties.insert(name.to_owned(), schema.into());
        }
        self
    }

    /// With a member that is always there.
    #[must_use]
    pub(super) fn has(self, name: &str, schema: impl Into<Value>) -> Self {
        self.may_have(name, schema).needs(&[name])
    }

    /// Members that are always there.
    #[must_use]
    pub(super) fn needs(mut self, names: &[&str]) -> Self {
        let required = self.0.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            required.extend(names.iter().map(|name| Value::from(*name)));
        }
        self
    }

    /// Without any other member: what a request may have. An answer may get more of them in a later release.
    #[must_use]
    pub(super) fn closed(self) -> Self {
        self.with("additionalProperties", false)
    }
}

impl serde::Serialize for Schema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl From<Schema> for Value {
    fn from(schema: Schema) -> Self {
        Self::Object(schema.0)
    }
}
