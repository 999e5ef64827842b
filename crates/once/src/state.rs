//! The rows of an object as the text that is stored.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::context::Bug;
use super::domain::Domain;
use super::id::ObjectId;
use super::object_state::ObjectState;

/// The version of the text. One that is newer than this is an error, never an object in which nothing has happened.
/// A release that knows version 1 alone would drop what stands beside the state.
pub const VERSION: u32 = 2;

/// The most that a row of an object's database takes, in bytes: the text, and what the newest commits have added beside it
/// ([limits](https://developers.cloudflare.com/durable-objects/platform/limits/)).
pub const ROW_MAX_BYTES: usize = 2_000_000;

#[derive(Serialize)]
struct Written<'a, T> {
    version: u32,
    lines: u32,
    state: &'a T,
}

#[derive(Deserialize)]
struct Read<T> {
    lines: u32,
    state: T,
}

#[derive(Deserialize)]
struct Header {
    version: u32,
}

/// The rows as text, with the number of the timeline's lines that are kept beside them. What a transaction has appended is not part of it.
pub fn to_text<F: Domain>(object_state: &ObjectState<F>, lines: u32) -> Result<String, Bug> {
    let written = Written { version: VERSION, lines, state: object_state };
    serde_json::to_string(&written).map_err(|error| Bug(format!("a state that cannot be written: {error}")))
}

/// The rows of an object and the number of its timeline's lines, from that text.
pub fn from_text<F: Domain>(object: ObjectId, text: &str) -> Result<(ObjectState<F>, u32), Bug> {
    let Header { version } = parsed(text)?;
    if version > VERSION {
        return Err(Bug(format!("a state of version {version}, written by a newer release")));
    }
    let Read { lines, state } = parsed::<Read<ObjectState<F>>>(text)?;
    let object_state = ObjectState { object, ..state };
    object_state.verify()?;
    Ok((object_state, lines))
}

/// What the flow has written down in a commit, by its lists. An error where it is no object of lists: the next commit could add nothing to it.
pub fn lists_of(facts: &impl Serialize) -> Result<Map<String, Value>, Bug> {
    let text = serde_json::to_string(facts).map_err(|error| Bug(error.to_string()))?;
    match parsed(&text)? {
        Value::Object(lists) if lists.values().all(Value::is_array) => Ok(lists),
        _ => Err(Bug("facts that are no object of lists".into())),
    }
}

/// As JSON.
pub fn to_json(value: &(impl Serialize + ?Sized)) -> Result<String, Bug> {
    serde_json::to_string(value).map_err(|error| Bug(error.to_string()))
}

/// From JSON. The error quotes no value.
pub fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Bug> {
    json_text::from_str(text)
        .map_err(|error| Bug(format!("a row that cannot be read: {}", json_text::unquoted(&error))))
}
