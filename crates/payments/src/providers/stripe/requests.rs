//! What is sent to Stripe that moves money, as bytes.

use crate::payment::Refund;
use crate::providers::codec::Authorization;
use once::call::FrozenRequest;

/// One call that creates and confirms a payment. With an address to come back to, a card that needs the bank's page says so. Without one nobody is
/// there, and such a card is declined. A saved card of a customer is charged without them then, by what they have agreed to before: banks ask for
/// nothing more only where they are told so (`off_session`, <https://docs.stripe.com/api/payment_intents/create>).
pub fn authorize(authorization: &Authorization<'_>) -> FrozenRequest {
    let amount = authorization.amount_minor.to_string();
    let capture_method = if authorization.capture { "automatic" } else { "manual" };
    let mut fields = vec![
        ("amount", amount.as_str()),
        ("currency", authorization.currency.as_str()),
        ("capture_method", capture_method),
        ("payment_method", authorization.payment_method),
        ("payment_method_types[0]", "card"),
        ("confirm", "true"),
    ];
    fields.push(match (authorization.return_url, authorization.customer) {
        (Some(url), _) => ("return_url", url),
        (None, Some(_)) => ("off_session", "true"),
        (None, None) => ("error_on_requires_action", "true"),
    });
    fields.extend(authorization.customer.map(|customer| ("customer", customer)));
    fields.extend(authorization.description.map(|description| ("description", description)));
    let names: Vec<String> =
        authorization.metadata.iter().map(|(name, _)| format!("metadata[{name}]")).collect();
    let values = authorization.metadata.iter().map(|(_, value)| value.as_str());
    fields.extend(names.iter().map(String::as_str).zip(values));
    fields.push(("metadata[resource]", authorization.resource));
    fields.push(("metadata[idempotency_key]", authorization.provider_key));
    // The charge says with which card, and until when it can be captured.
    fields.push(("expand[0]", "latest_charge"));
    FrozenRequest::new("/v1/payment_intents".to_owned(), encode(&fields))
        .for_account(authorization.merchant_account)
}

/// Captures a PaymentIntent, in whole or in part: the rest is given up.
pub fn capture(intent: &str, amount_minor: u64, provider_key: &str) -> FrozenRequest {
    let amount = amount_minor.to_string();
    FrozenRequest::new(
        format!("/v1/payment_intents/{intent}/capture"),
        encode(&[("amount_to_capture", &amount), ("metadata[capture_key]", provider_key)]),
    )
}

/// Cancels a PaymentIntent.
pub fn void(intent: &str) -> FrozenRequest {
    FrozenRequest::new(format!("/v1/payment_intents/{intent}/cancel"), String::new())
}

/// Refunds a PaymentIntent, in whole or in part. `resource` is our payment: by it an event about the refund finds it.
pub fn refund(intent: &str, resource: &str, refund: &Refund, provider_key: &str) -> FrozenRequest {
    let amount = refund.amount.get().to_string();
    FrozenRequest::new(
        "/v1/refunds".to_owned(),
        encode(&[
            ("payment_intent", intent),
            ("amount", &amount),
            ("reason", refund.reason.as_str()),
            ("metadata[resource]", &refund.id.0),
            ("metadata[payment]", resource),
            ("metadata[idempotency_key]", provider_key),
        ]),
    )
}

/// Pairs of plain strings always have a form encoding.
pub(super) fn encode(fields: &[(&str, &str)]) -> String {
    serde_urlencoded::to_string(fields).unwrap_or_default()
}
