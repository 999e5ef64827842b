//! Which methods a PaymentIntent takes: named, allowed, or chosen by the provider.

use serde_json::{Value, json};

use crate::provider::Call;
use crate::stripe::errors::{ApiError, Failure, Outcome};
use crate::stripe::params::Params;
use crate::stripe::version;
use crate::text::excerpt;

/// With what a payment may be paid.
pub(super) struct Methods {
    /// `null` where they are named.
    pub(super) automatic: Option<Value>,
    /// Which of them may be taken; those that do not fit are left out.
    pub(super) allowed: Option<Vec<String>>,
    /// Which are.
    pub(super) types: Vec<String>,
}

const KNOWN_TYPES: [&str; 2] = ["card", "link"];

impl Methods {
    /// Where they are not named, the methods are automatic.
    pub(super) fn of(call: &Call, params: &Params) -> Outcome<Methods> {
        let types = named_types(call, params)?;
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        if params.has("allowed_payment_method_types") {
            for other in ["payment_method_types", "automatic_payment_methods"] {
                if params.has(other) {
                    return Err(only_one_of("allowed_payment_method_types", other));
                }
            }
            // What it cannot be paid with is left out, and no error.
            let allowed = params.list("allowed_payment_method_types")?;
            let types: Vec<&str> = KNOWN_TYPES.into_iter().filter(|name| allowed.contains(name)).collect();
            return Ok(Methods { automatic: None, allowed: Some(owned(&allowed)), types: owned(&types) });
        }
        let Some(automatic) = params.map("automatic_payment_methods")? else {
            if types.is_empty() {
                let automatic = json!({ "allow_redirects": "always", "enabled": true });
                return Ok(Methods { automatic: Some(automatic), allowed: None, types: owned(&KNOWN_TYPES) });
            }
            return Ok(Methods { automatic: None, allowed: None, types: owned(&types) });
        };
        automatic.allow(&["allow_redirects", "enabled"])?;
        let enabled = automatic
            .boolean("enabled")?
            .ok_or_else(|| crate::stripe::errors::missing("automatic_payment_methods[enabled]"))?;
        if enabled && !types.is_empty() {
            return Err(only_one_of("automatic_payment_methods", "payment_method_types"));
        }
        let redirects = automatic.choice("allow_redirects", &["always", "never"])?.unwrap_or("always");
        let types = if types.is_empty() { owned(&KNOWN_TYPES) } else { owned(&types) };
        let automatic = enabled.then(|| json!({ "allow_redirects": redirects, "enabled": true }));
        Ok(Methods { automatic, allowed: None, types })
    }
}

/// `payment_method_types`, which newer API versions refuse.
pub(super) fn named_types<'a>(call: &Call, params: &'a Params) -> Outcome<Vec<&'a str>> {
    let types = params.list("payment_method_types")?;
    if params.has("payment_method_types") && !version::takes_method_types(version::of_call(call)) {
        return Err(ApiError::invalid(
            "The payment_method_types parameter is no longer supported. Remove it to manage payment methods from the Dashboard, or use \
             allowed_payment_method_types.",
        )
        .code("payment_method_types_no_longer_supported")
        .param("payment_method_types")
        .refused());
    }
    match types.iter().find(|name| !KNOWN_TYPES.contains(name)) {
        None => Ok(types),
        Some(unknown) => Err(ApiError::invalid(format!(
            "The payment method type provided: {} is invalid here; use card.",
            excerpt(unknown)
        ))
        .code("payment_intent_invalid_parameter")
        .param("payment_method_types")
        .refused()),
    }
}

fn only_one_of(one: &str, other: &str) -> Failure {
    ApiError::invalid(format!("You may only specify one of these parameters: {one}, {other}.")).refused()
}
