//! API versions. <https://docs.stripe.com/api/versioning>

use crate::http::Request;
use crate::provider::Call;

/// The API version that is spoken unless `Stripe-Version` says otherwise.
pub const DEFAULT_API_VERSION: &str = "2026-08-26.dahlia";

/// From this API version on, reserved money that is given free is no refund: there is no Refund object, and `amount_refunded`,
/// `refunded` and `charge.refunded` say nothing of it.
/// <https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow>
const RELEASES_ARE_NO_REFUNDS: &str = "2025-03-31";

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

/// The version that the caller asked for.
pub fn of(request: &Request) -> &str {
    request.header("stripe-version").filter(|version| version.len() <= 60).unwrap_or(DEFAULT_API_VERSION)
}

/// The version by which a call goes: the account's own where no request asks for it.
pub fn of_call<'a>(call: &'a Call) -> &'a str {
    if call.unasked { DEFAULT_API_VERSION } else { of(call.request) }
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_API_VERSION, refunds_releases, takes_method_types};

    #[test]
    fn method_types_are_taken_until_endive() {
        for (version, expected) in
            [(DEFAULT_API_VERSION, true), ("2026-09-30.endive", false), ("2026-10-28.endive", false)]
        {
            assert_eq!(takes_method_types(version), expected, "{version}");
        }
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
