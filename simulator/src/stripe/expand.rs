//! `expand[]`: an id becomes the object itself. <https://docs.stripe.com/api/expanding_objects>

use serde_json::Value;
use strum::IntoEnumIterator;

use crate::provider::Call;
use crate::stripe::errors::{ApiError, Outcome};
use crate::stripe::kinds::Kind;
use crate::stripe::objects::Objects;
use crate::stripe::params::Params;

/// Stripe's own bound.
const MAX_DEPTH: usize = 4;

/// Replaces the ids at the paths that were asked for.
pub fn apply(call: &Call, params: &Params, mut value: Value) -> Outcome<Value> {
    for path in params.list("expand")? {
        let steps: Vec<&str> = path.split('.').collect();
        if steps.len() > MAX_DEPTH {
            return Err(ApiError::invalid("You cannot expand more than 4 levels of a property.")
                .param("expand")
                .refused());
        }
        step(call, &mut value, &steps, path)?;
    }
    Ok(value)
}

fn step(call: &Call, value: &mut Value, steps: &[&str], path: &str) -> Outcome<()> {
    let Some((first, rest)) = steps.split_first() else {
        return Ok(());
    };
    if let Value::Array(items) = value {
        return items.iter_mut().try_for_each(|item| step(call, item, steps, path));
    }
    let Some(field) = value.as_object_mut().and_then(|object| object.get_mut(*first)) else {
        return Err(ApiError::invalid(format!("This property cannot be expanded ({path})."))
            .param("expand")
            .refused());
    };
    if let Value::String(id) = field {
        let kind = Kind::iter().find(|kind| id.starts_with(kind.prefix()));
        if let Some(kind) = kind
            && let Some(row) = call.find(kind, id)?
        {
            *field = serde_json::from_str(&row.body)?;
        }
    }
    // There may be nothing to expand yet: `latest_charge` before the first attempt.
    if field.is_null() { Ok(()) } else { step(call, field, rest, path) }
}
