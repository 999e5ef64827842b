//! The problems as schemas and as examples: both are made of [`Kind`] and of what [`Problem`] writes.

use serde_json::{Value, json};

use super::examples::{declined_example, payment_id, refund_example};
use super::schema::{Schema, constant, integer_of, list, reference, text};
use super::schemas::resource;
use once::fingerprint::FieldError;
use payments::payment::order_link::REVISION_MAX;
use web::problem::{Kind, Problem};

/// A request's id, for examples.
pub(super) const REQUEST_ID: &str = "req_019c2f4e-7b1a-7c3d-9e5f-0a1b2c3d4e5f";

/// What a kind is called among the schemas.
pub(super) fn name(kind: Kind) -> String {
    format!("{kind:?}Problem")
}

/// What a kind is called among the examples.
pub(super) fn example_name(kind: Kind) -> String {
    format!("{kind:?}")
}

/// The schema of a kind.
pub(super) fn schema(kind: Kind) -> Schema {
    let schema = Schema::default()
        .with("title", kind.title())
        .about(kind.explanation())
        .with("type", "object")
        .with("allOf", json!([reference("Problem")]))
        .with("properties", json!({ "type": constant(kind.type_uri()), "status": constant(kind.status()) }));
    members(kind, schema)
}

/// What a kind has beside what all have.
fn members(kind: Kind, schema: Schema) -> Schema {
    let needs_one_of = |names: [&str; 3]| names.map(|name| json!({ "required": [name] })).to_vec();
    match kind {
        Kind::BadRequest => schema.may_have(
            "errors",
            list(reference("FieldError")).with("minItems", 1).with("maxItems", 1).about(
                "The field that cannot be read, by its path, such as `lines[0].name`; left out where it is the body as a whole.",
            ),
        ),
        Kind::OperationRefused => schema
            .may_have("code", reference("FailureCode"))
            .may_have("payment", reference("Payment"))
            .may_have("refund", reference("Refund"))
            .may_have("customer", reference("Customer").or_null())
            .may_have("decline_code", text().or_null().about("The issuer's own reason, why a card was not attached."))
            .may_have("resource", resource())
            .with("anyOf", needs_one_of(["payment", "refund", "customer"])),
        Kind::PaymentFailed => schema
            .may_have("code", reference("FailureCode"))
            .may_have("decline_code", text().or_null().about("The issuer's own reason."))
            .has("payment", reference("Payment"))
            .may_have("resource", resource()),
        Kind::PaymentState => schema
            .has("state", text().about("The payment's present status, or what is under way: `capturing`, `voiding`, `giving_back`, `not_given_back`.").example("succeeded"))
            .has("resource", resource()),
        Kind::LinkRevision => schema
            .has("revision", integer_of(0, REVISION_MAX).about("The order's newest link.").example(3)),
        Kind::RevisionMismatch => schema.has("revision", integer_of(0, u32::MAX).about("The customer's revision; 0 where there is none.").example(4)).may_have("resource", resource()),
        Kind::AmountTooLarge => schema
            .has("available", reference("Sum").about("How much can be captured or refunded."))
            .may_have("resource", resource()),
        Kind::KeyReused => schema
            .may_have(
                "fields",
                list(text()).about(
                    "The parameters that differ from the key's first use, never their values; while they are kept.",
                ),
            )
            .may_have("resource", resource()),
        Kind::InvalidParameters => schema
            .has("errors", list(reference("FieldError")).with("minItems", 1).about("Every field that is wrong."))
            .may_have(
                "resource",
                resource().about(
                    "The payment, where its currency or its provider does not allow the amount of a capture or a refund.",
                ),
            ),
        Kind::KeyExpired | Kind::InProgress | Kind::LimitReached | Kind::TryTooSoon | Kind::Interrupted
        | Kind::OutcomeUnknown | Kind::Unavailable => schema.may_have("resource", resource()),
        Kind::KeyMissing | Kind::KeyInvalid | Kind::WebhookSignature | Kind::Unauthorized | Kind::Forbidden
        | Kind::HttpsRequired | Kind::NotFound | Kind::MethodNotAllowed | Kind::RequestTimeout | Kind::LinkExpired
        | Kind::LinkReplaced | Kind::LinkEnded | Kind::TooLarge | Kind::UnsupportedMediaType | Kind::RateLimited
        | Kind::Unreadable | Kind::Misconfigured => schema,
    }
}

/// A problem of this kind, as it is sent.
pub(super) fn example(kind: Kind) -> Value {
    let mut problem = Problem::new(kind);
    let path = format!("/payments/{}", payment_id());
    match kind {
        Kind::PaymentState => {
            problem.state = Some("canceled".to_owned());
            problem.resource = Some(path);
        }
        Kind::KeyExpired
        | Kind::InProgress
        | Kind::Interrupted
        | Kind::OutcomeUnknown
        | Kind::Unavailable => {
            problem.resource = Some(path);
        }
        Kind::KeyReused => {
            problem.fields = vec!["amount".to_owned()];
            problem.resource = Some(path);
        }
        Kind::LinkRevision => problem.revision = Some(3),
        Kind::RevisionMismatch => problem.revision = Some(4),
        Kind::AmountTooLarge => problem.available = Some(1500),
        Kind::InvalidParameters => {
            problem.errors =
                vec![FieldError { field: "amount".to_owned(), message: "is missing".to_owned() }];
        }
        Kind::RequestTimeout => problem = Problem::timed_out(10_000),
        Kind::PaymentFailed => problem.detail = "Your card has insufficient funds.".to_owned(),
        Kind::OperationRefused => problem.detail = "The charge is disputed.".to_owned(),
        _ => {}
    }
    let mut value: Value = json_text::from_slice(&problem.to_json(REQUEST_ID)).unwrap_or_default();
    // These two are the flows' own: stored with what they are about.
    if let Value::Object(members) = &mut value {
        match kind {
            Kind::PaymentFailed => {
                let failed = [
                    ("instance", problem_path()),
                    ("code", "card_declined".into()),
                    ("decline_code", "insufficient_funds".into()),
                    ("payment", declined_example()),
                ];
                members.extend(failed.map(|(name, value)| (name.to_owned(), value)));
            }
            Kind::OperationRefused => {
                let mut refund = refund_example();
                if let Value::Object(refund) = &mut refund {
                    let failure = json!({ "code": "charge_disputed", "message": "The charge is disputed." });
                    let failed =
                        [("status", "failed".into()), ("provider_refund", Value::Null), ("failure", failure)];
                    refund.extend(failed.map(|(name, value)| (name.to_owned(), value)));
                }
                members.insert("refund".to_owned(), refund);
            }
            _ => {}
        }
    }
    json!({ "summary": kind.slug(), "value": value })
}

fn problem_path() -> Value {
    format!("/payments/{}", payment_id()).into()
}
