//! What stands beside the state in its row: the newest lines of the timeline, and the newest facts.

use once::context::Bug;
use once::object_state::TimelineEntry;
use once::state::{lists_of, parsed, to_json};
use serde::Serialize;
use serde_json::{Map, Value};

use super::storage::SqlValue;

/// How many bytes stand beside a state at most. Each commit writes them again: few enough to cost little beside a state of 3 to 6 KB, enough
/// for a payment that is captured and refunded.
pub(crate) const BESIDE_MAX: usize = 8 * 1024;

/// The columns of a row beside its state, as JSON.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    lines: Option<String>,
    facts: Option<String>,
}

impl Beside {
    /// As it stands in a row.
    pub(crate) fn of(lines: Option<String>, facts: Option<String>) -> Self {
        Self { lines, facts }
    }

    /// With what a commit adds: its lines, and the facts if it has any.
    pub(crate) fn and(self, lines: &[TimelineEntry], facts: Option<&impl Serialize>) -> Result<Self, Bug> {
        let lines = match lines {
            [] => self.lines,
            lines => Some(joined(self.lines, to_json(lines)?)),
        };
        let facts = match facts {
            None => self.facts,
            Some(facts) => Some(merged(self.facts, lists_of(facts)?)?),
        };
        Ok(Self { lines, facts })
    }

    /// Whether it is to have a row of its own.
    pub(crate) fn is_too_long(&self) -> bool {
        let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        bytes(&self.lines).saturating_add(bytes(&self.facts)) > BESIDE_MAX
    }

    /// As values of the two columns.
    pub(crate) fn values(self) -> [SqlValue; 2] {
        [self.lines, self.facts].map(|text| text.map_or(SqlValue::Null, SqlValue::Text))
    }
}

/// Two arrays as one. The first is not read: it is longer each time.
fn joined(before: Option<String>, added: String) -> String {
    let before = before.filter(|before| before != "[]");
    match (before.as_deref().and_then(|before| before.strip_suffix(']')), added.strip_prefix('[')) {
        (Some(before), Some(added)) => format!("{before},{added}"),
        _ => added,
    }
}

/// Facts with those of one more commit: each list goes on.
fn merged(before: Option<String>, added: Map<String, Value>) -> Result<String, Bug> {
    let before = before.map_or_else(|| Ok(Value::Object(Map::new())), |before| parsed(&before))?;
    let Value::Object(mut lists) = before else { return Err(Bug("facts that are no object".into())) };
    for (name, added) in added {
        match (lists.get_mut(&name), added) {
            (Some(Value::Array(list)), Value::Array(mut added)) => list.append(&mut added),
            (None, added) => drop(lists.insert(name, added)),
            _ => return Err(Bug(format!("facts whose {name} are no list"))),
        }
    }
    Ok(Value::Object(lists).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_later_commit_could_add_to_is_refused_by_the_first() {
        let written = |facts: &[Value]| {
            let written =
                facts.iter().try_fold(Beside::default(), |beside, facts| beside.and(&[], Some(facts)));
            written.map(|beside| beside.facts)
        };
        for wrong in [json!({ "booked": 1 }), json!(["booked"]), json!("booked")] {
            assert!(written(&[wrong]).is_err());
        }
        let lists = written(&[json!({ "booked": [1] }), json!({ "told": [] }), json!({ "booked": [2] })]);
        assert_eq!(lists, Ok(Some(r#"{"booked":[1,2],"told":[]}"#.to_owned())));
    }
}
