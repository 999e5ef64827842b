//! Objects as releases have written them: each later one reads all that stands in them. A file is never changed: such objects are out there.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test: a panic is its reply")]

use once::id::ObjectId;
use once::state::{from_text, to_text};
use paid_once_gate::domain::PassOn;
use serde_json::Value;

/// Of 28 November 2026: what was refused and then done, what is open and sent again or asked for, what nobody knows, and what has expired.
const OBJECTS: [&str; 1] = [include_str!("objects/state-2.json")];

/// Everything that stands in one is in the other, and is the same.
fn is_part(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_part(value, other)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_part(one, other))
        }
        _ => one == other,
    }
}

#[test]
fn what_stands_in_older_objects_is_read_and_kept() {
    for file in OBJECTS {
        let objects: Vec<Value> = serde_json::from_str(file).unwrap();
        assert_eq!(objects.len(), 5);
        for mut written in objects {
            let object = ObjectId::from_hex(written["object"].as_str().unwrap()).unwrap();
            let state = written["state"].take();
            let (read, lines) = from_text::<PassOn>(object, &state.to_string()).unwrap();
            let again: Value = serde_json::from_str(&to_text(&read, lines).unwrap()).unwrap();
            assert!(is_part(&state, &again), "{state}\n{again}");
        }
    }
}
