//! API versions. <https://docs.stripe.com/api/versioning>

use serde_json::Value;

use crate::http::Request;
use crate::provider::Call;
use crate::stripe::errors::{ApiError, Outcome};
use crate::text::excerpt;

/// The API version that is spoken unless `Stripe-Version` says otherwise.
pub const DEFAULT_API_VERSION: &str = "2026-08-26.dahlia";

/// From this API version on, reserved money that is given free is no refund: there is no Refund object, and `amount_refunded`,
/// `refunded` and `charge.refunded` say nothing of it.
/// <https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow>
const RELEASES_ARE_NO_REFUNDS: &str = "2025-03-31";

/// From this API version on what lapses is canceled as `expired`; before, as `automatic`.
/// <https://docs.stripe.com/changelog/basil#2025-03-31.basil>
const LAPSES_ARE_EXPIRED: &str = "2025-03-31";

/// From this API version on nobody names the methods of a payment by `payment_method_types`.
/// <https://docs.stripe.com/changelog/endive/2026-09-30/removes-the-payment-method-types-parameter-from-payment-intents-and-setup-intents>
const METHOD_TYPES_ARE_GONE: &str = "2026-09-30";

/// Whether a request of this API version may have `payment_method_types`.
pub fn takes_method_types(api_version: &str) -> bool {
    api_version < METHOD_TYPES_ARE_GONE
}

/// Whether a request of this API version makes a refund of the reserved money that it gives free. Versions begin with their day.
pub fn refunds_releases(api_version: &str) -> bool {
    api_version < RELEASES_ARE_NO_REFUNDS
}

/// Those that there are, since there are PaymentIntents. <https://docs.stripe.com/changelog>
const VERSIONS: &str = "2019-02-11 2019-02-19 2019-03-14 2019-05-16 2019-08-14 2019-09-09 2019-10-08 2019-10-17 2019-11-05 2019-12-03 \
     2020-03-02 2020-08-27 2022-08-01 2022-11-15 2023-08-16 2023-10-16 2024-04-03 2024-04-10 2024-06-20 2024-09-30.acacia \
     2024-10-28.acacia 2024-11-20.acacia 2024-12-18.acacia 2025-01-27.acacia 2025-02-24.acacia 2025-03-31.basil 2025-04-30.basil \
     2025-05-28.basil 2025-06-30.basil 2025-07-30.basil 2025-08-27.basil 2025-09-30.clover 2025-10-29.clover 2025-11-17.clover \
     2025-12-15.clover 2026-01-28.clover 2026-02-25.clover 2026-03-25.dahlia 2026-04-22.dahlia 2026-05-27.dahlia 2026-06-24.dahlia \
     2026-07-29.dahlia 2026-08-26.dahlia 2026-09-30.endive 2026-10-28.endive";

/// Refuses a request of a version that there is not.
pub fn check(request: &Request) -> Outcome<()> {
    match request.header("stripe-version") {
        Some(asked) if !is_one(asked) => {
            Err(ApiError::invalid(format!("Invalid Stripe API version: {}", excerpt(asked))).refused())
        }
        _ => Ok(()),
    }
}

fn is_one(version: &str) -> bool {
    VERSIONS.split_ascii_whitespace().any(|known| known == version)
}

/// An answer in the words of an API version.
pub fn worded(mut answer: Value, api_version: &str) -> Value {
    if api_version < LAPSES_ARE_EXPIRED {
        say_automatic(&mut answer);
    }
    answer
}

fn say_automatic(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(say_automatic),
        Value::Object(fields) => {
            for (name, field) in fields {
                // What a merchant has written is left as it is.
                match field {
                    Value::String(reason) if name == "cancellation_reason" && reason == "expired" => {
                        "automatic".clone_into(reason);
                    }
                    _ if name == "metadata" => {}
                    other => say_automatic(other),
                }
            }
        }
        _ => {}
    }
}

/// The version that the caller asked for.
pub fn of(request: &Request) -> &str {
    request.header("stripe-version").filter(|version| is_one(version)).unwrap_or(DEFAULT_API_VERSION)
}

/// The version by which a call goes: the account's own where no request asks for it.
pub fn of_call<'a>(call: &'a Call) -> &'a str {
    if call.unasked { DEFAULT_API_VERSION } else { of(call.request) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{DEFAULT_API_VERSION, refunds_releases, takes_method_types, worded};

    #[test]
    fn method_types_are_taken_until_endive() {
        for (version, expected) in
            [(DEFAULT_API_VERSION, true), ("2026-09-30.endive", false), ("2026-10-28.endive", false)]
        {
            assert_eq!(takes_method_types(version), expected, "{version}");
        }
    }

    #[test]
    fn what_lapsed_is_expired_since_basil() {
        let canceled = json!({ "data": [{ "cancellation_reason": "expired", "metadata": { "cancellation_reason": "expired" } }] });
        assert_eq!(worded(canceled.clone(), "2025-03-31.basil"), canceled);
        let before = worded(canceled, "2025-02-24.acacia");
        assert_eq!(before.pointer("/data/0/cancellation_reason"), Some(&json!("automatic")));
        assert_eq!(before.pointer("/data/0/metadata/cancellation_reason"), Some(&json!("expired")));
    }

    #[test]
    fn releases_are_refunds_until_basil() {
        for (version, expected) in [
            ("2019-05-16", true),
            ("2025-02-24.acacia", true),
            ("2025-03-31.basil", false),
            (DEFAULT_API_VERSION, false),
        ] {
            assert_eq!(refunds_releases(version), expected, "{version}");
        }
    }
}
