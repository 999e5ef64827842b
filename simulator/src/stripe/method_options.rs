//! `payment_method_options`: how a card is to be charged. What is known to Stripe and not played here is refused, and never swallowed.

use serde_json::{Map, Value, json};

use crate::stripe::errors::{ApiError, Failure, Outcome};
use crate::stripe::params::{Param, Params};
use crate::text::excerpt;

/// What is played of a card's, with the values that it takes.
const PLAYED: &[(&str, &[&str])] = &[
    ("capture_method", &["manual"]),
    ("request_multicapture", &["if_available", "never"]),
    ("request_three_d_secure", &["any", "automatic", "challenge"]),
];

/// What is known to Stripe of a card's, and not played. <https://docs.stripe.com/api/payment_intents/create>
const UNPLAYED: &[&str] = &[
    "cvc_token",
    "installments",
    "mandate_options",
    "moto",
    "network",
    "request_decremental_authorization",
    "request_extended_authorization",
    "request_incremental_authorization",
    "request_overcapture",
    "request_partial_authorization",
    "require_cvc_recollection",
    "setup_future_usage",
    "statement_descriptor_suffix_kana",
    "statement_descriptor_suffix_kanji",
    "three_d_secure",
];

/// Those of a new PaymentIntent.
pub fn none() -> Value {
    json!({
        "card": { "installments": null, "mandate_options": null, "network": null, "request_three_d_secure": "automatic" },
    })
}

/// Writes what the parameters say.
pub fn apply(options: &mut Value, params: &Params) -> Outcome<()> {
    let Some(given) = params.map("payment_method_options")? else { return Ok(()) };
    for (kind, _) in given.entries() {
        if kind != "card" {
            return Err(unplayed(kind));
        }
    }
    let Some(given) = given.map("card")? else { return Ok(()) };
    let Some(card) = options.get_mut("card").and_then(Value::as_object_mut) else { return Ok(()) };
    given.entries().try_for_each(|(name, value)| set(card, given, name, value))
}

fn set(card: &mut Map<String, Value>, given: &Params, name: &str, value: &Param) -> Outcome<()> {
    let Some((_, choices)) = PLAYED.iter().find(|(played, _)| *played == name) else {
        return Err(if UNPLAYED.contains(&name) {
            unplayed(&format!("card][{name}"))
        } else {
            unknown(name)
        });
    };
    if matches!(value, Param::Text(text) if text.is_empty()) {
        card.shift_remove(name);
    } else if let Some(choice) = given.choice(name, choices)? {
        card.insert(name.to_owned(), json!(choice));
    }
    Ok(())
}

fn unplayed(name: &str) -> Failure {
    let param = format!("payment_method_options[{}]", excerpt(name));
    ApiError::invalid(format!("The simulator does not play {param}. Test it in a sandbox at Stripe."))
        .param(param)
        .refused()
}

fn unknown(name: &str) -> Failure {
    let param = format!("payment_method_options[card][{}]", excerpt(name));
    ApiError::invalid(format!("Received unknown parameter: {param}"))
        .code("parameter_unknown")
        .param(param)
        .refused()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn applied(body: &str) -> Outcome<Value> {
        let mut options = none();
        let body = body.replace('@', "payment_method_options[card]");
        apply(&mut options, &Params::parse(b"", body.as_bytes())?)?;
        Ok(options)
    }

    #[test]
    fn what_is_played_is_kept_and_all_else_is_refused() {
        let kept = applied("@[capture_method]=manual&@[request_multicapture]=if_available").unwrap();
        assert_eq!(kept.pointer("/card/capture_method"), Some(&json!("manual")));
        assert_eq!(kept.pointer("/card/request_multicapture"), Some(&json!("if_available")));
        assert_eq!(applied("@[capture_method]="), Ok(none()));
        for (body, code) in [
            ("@[capture_method]=automatic", None),
            ("@[moto]=true", None),
            ("payment_method_options[link][persistent_token]=x", None),
            ("@[nonsense]=1", Some("parameter_unknown")),
        ] {
            let Err(Failure::Refused(error)) = applied(body) else { panic!("{body}") };
            assert_eq!((error.status, error.code.as_deref()), (400, code), "{body}");
        }
    }
}
