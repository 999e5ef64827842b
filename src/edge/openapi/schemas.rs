//! What the API takes and gives, by the limits and the words of the code itself.

use serde_json::{Value, json};

use super::examples::{
    AT, ID, ORDER, capture_example, declined_failure, line_example, payment_example, payment_id,
    refund_example, try_example,
};
use super::schema::{
    Schema, boolean, constant, integer, integer_of, list, object, one_of_words, reference, text, uri,
    uri_reference, visible_text,
};
use crate::edge::checkout::cart::{LINES_MAX, NAME_MAX_CHARS, QUANTITY_MAX};
use crate::edge::checkout::request::AUTO;
use crate::edge::fields::TOKEN_MAX;
use crate::edge::payment_params::{
    DESCRIPTION_MAX, METADATA_MAX, METADATA_NAME_MAX, METADATA_RESERVED, METADATA_VALUE_MAX, ORDER_MAX,
};
use crate::edge::shop_url::URL_MAX;
use payments::payment::card::Brand;
use payments::payment::locale::Locale;
use payments::payment::money::AMOUNT_MAX_MINOR;
use payments::payment::order_link::REVISION_MAX;
use payments::payment::statuses::STATUSES;
use payments::payment::tries::Stage;
use payments::payment::{DisputeStatus, RefundReason};
use payments::providers::Provider;
use web::entries::EMAIL_MAX;
use web::image_url::IMAGE_URL_MAX;

const PROVIDERS_ID: &str = "The provider's id of it, once there is one.";
const RESULT: &str = "Where the result stands or will stand.";

/// Where a result stands.
pub(super) fn resource() -> Schema {
    uri_reference().about(RESULT).example(format!("/payments/{}", payment_id()))
}

/// The statuses of a payment.
pub(super) fn payment_status() -> Schema {
    one_of_words(STATUSES)
}

fn order_id() -> Schema {
    text().about("Your order.")
}

/// `auto`, or one that the pages speak.
fn locale() -> Schema {
    one_of_words(std::iter::once(AUTO).chain(Locale::ALL.map(Locale::tag)))
}

fn revision(min: u32) -> Schema {
    integer_of(min, REVISION_MAX)
}

fn reason() -> Schema {
    one_of_words(RefundReason::ALL.map(RefundReason::as_str)).about("Why.")
}

fn words<const N: usize>(explained: [(&str, &str); N]) -> Vec<Value> {
    explained.iter().map(|(word, why)| constant(*word).about(why).into()).collect()
}

/// All that have a name, but the problems.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("Time", text().about("RFC 3339, in UTC, with milliseconds.").with("format", "date-time").example(AT)),
        ("Amount", integer_of(1, AMOUNT_MAX_MINOR).about(
            "In the smallest unit of the currency, as Stripe counts it, whoever the provider is: 2500 is $25.00, and \
             ¥2500. At most 99999999, or 999999999999 in currencies of small units, such as idr. What the currency or the \
             provider cannot express is refused.",
        ).example(2500)),
        ("Sum", integer_of(0, AMOUNT_MAX_MINOR).about("In the smallest unit of the currency; may be 0.").example(0)),
        ("Currency", text().about("Three letters of ISO 4217. Answers have them in lower case. `ugx` is not offered.")
            .with("pattern", "^[A-Za-z]{3}$").example("usd")),
        ("Provider", one_of_words(Provider::ALL.map(Provider::as_str)).about("Who moves the money.")),
        ("PaymentId", id("pay_", "payment")),
        ("RefundId", text().about("The public id of a refund.").with("pattern", "^re_[A-Za-z0-9_-]+$")
            .example("re_c2V0dGxlZC1vbmNl")),
        ("Cached", boolean().about(
            "Only with the setting `REPLAY_MARKER=body`: whether this answer was there before. It takes the place of \
             `Idempotent-Replayed`.",
        )),
        ("Metadata", Schema::default().with("type", "object")
            .about(&format!(
                "Your own data: at most {METADATA_MAX} entries, whose names have no brackets and no control characters. In a form: `metadata[name]`.",
            ))
            .with("maxProperties", METADATA_MAX)
            .with("propertyNames", text().with("pattern", r"^[^\[\]\u0000-\u001f\u007f-\u009f]+$")
                .at_most(METADATA_NAME_MAX).with("not", json!({ "enum": METADATA_RESERVED })))
            .with("additionalProperties", text().with("pattern", r"^[^\u0000-\u001f\u007f-\u009f]*$")
                .at_most(METADATA_VALUE_MAX))),
        ("PaymentRequest", payment_request()),
        ("CaptureRequest", object().may_have("amount", reference("Amount")
            .about("A part of what is reserved; without it all. The rest is released."))
            .may_have("attempt", moved_attempt())
            .example(capture_example())),
        ("VoidRequest", object().may_have("attempt", moved_attempt()).example(json!({ "attempt": 1 }))),
        ("RefundRequest", object()
            .may_have("amount", reference("Amount").about("A part of what was captured; without it all that is left."))
            .may_have("reason", reason().with("default", RefundReason::RequestedByCustomer.as_str()))
            .example(json!({ "amount": 500, "reason": RefundReason::RequestedByCustomer.as_str() }))),
        ("NextAction", object().about("What the person who pays must do.").has("type", constant("redirect_to_url"))
            .has("redirect_to_url", object()
                .has("url", uri().about("The bank's page.").example("https://bank.example/3d-secure")))),
        ("Try", object().about("A try to pay.")
            .has("attempt", integer().with("minimum", 1).about("Its number."))
            .has("provider", reference("Provider"))
            .has("provider_payment", text().or_null().about(PROVIDERS_ID))
            .has("status", text().about("The status that the payment had last in this try."))
            .has("outcome", text().or_null().with("enum", json!(["definitive", "inferred", null])).about(
                "`definitive`: the provider has said how it ended. `inferred`: it was never answered, and the provider \
                 does not have it.",
            ))
            .has("late_money", either_null(object()
                .has("amount", reference("Sum"))
                .has("captured", boolean().about("It was taken; else it was only held."))
                .has("status", one_of_words([Stage::Begun, Stage::GivenBack, Stage::Refused].map(Stage::as_str))
                    .about("`refused`: a person must give it back."))
                ).about("Money that was found on it after it was over. It is given back at once."))
            .has("dispute", reference("Dispute"))
            .example(try_example("succeeded"))),
        ("FailureCode", failure_code()),
        ("PaymentFailure", object().about("Why nothing was taken.")
            .has("code", reference("FailureCode"))
            .has("decline_code", text().or_null().about("The issuer's own reason.").example("insufficient_funds"))
            .has("message", text().about("For the person who pays."))
            .example(declined_failure())),
        ("Dispute", either_null(object()
            .has("id", text().about("The provider's id of it: of several, of the newest that is open, else that was lost."))
            .has("status", one_of_words(
                [DisputeStatus::Open, DisputeStatus::Won, DisputeStatus::Lost].map(DisputeStatus::as_str),
            ))
            .has("amount", reference("Sum"))
            .has("funds_withdrawn", boolean().about("Whether the money is gone from your balance."))
            ).about(
                "What a bank wants back. While it is open nothing can be refunded, unless the bank only asks; of what \
                 was lost nothing.",
            )),
        ("Payment", payment().example(payment_example())),
        ("PaymentList", object().about("A page of payments, the newest first.")
            .has("object", constant("list")).has("url", constant("/payments"))
            .has("has_more", boolean()
                .about("Whether there are more: the next page is `starting_after` the last of this one."))
            .has("data", list(reference("Payment")))
            .example(json!({
                "object": "list", "url": "/payments", "has_more": false, "data": [payment_example()],
            }))),
        ("RefundFailure", object().about("Why nothing was given back.")
            .has("code", reference("FailureCode")).has("message", text().about("For you."))
            .example(json!({ "code": "charge_disputed", "message": "The charge is disputed." }))),
        ("Refund", refund().example(refund_example())),
        ("RefundList", object().has("object", constant("list"))
            .has("url", uri_reference().about("The address of this list."))
            .has("data", list(reference("Refund")).about("The newest first."))
            .has("has_more", constant(false))
            .example(json!({
                "object": "list", "url": format!("/payments/{}/refunds", payment_id()),
                "data": [refund_example()], "has_more": false,
            }))),
        ("Key", key()),
        ("TimelineEntry", object().has("at", reference("Time"))
            .has("attempt", integer().with("minimum", 0).about("The run that did it."))
            .has("event", text().about("What happened."))
            .has("detail", text().about("More about it."))
            .example(json!({ "at": AT, "attempt": 1, "event": "key_created", "detail": "payment" }))),
        ("CheckoutLine", object()
            .has("name", text().about("What is bought: one line of text, without spaces around it.")
                .with("minLength", 1).at_most(NAME_MAX_CHARS))
            .has("unit_amount", integer_of(0, AMOUNT_MAX_MINOR)
                .about("Of one, in the smallest unit of the currency; 0 for a gift."))
            .has("quantity", integer_of(1, QUANTITY_MAX).about("How many."))
            .may_have("image_url", uri().at_most(IMAGE_URL_MAX)
                .about("A square picture, by https, for the order's page and its receipt. It is in no email."))
            .closed()
            .example(line_example())),
        ("CheckoutSessionRequest", checkout_session_request()),
        ("CheckoutSession", object().has("object", constant("checkout_session"))
            .has("url", uri().about("The order's page, for the person who pays."))
            .has("order_id", order_id()).has("amount", reference("Amount").about("The sum of the lines."))
            .has("currency", reference("Currency"))
            .has("revision", revision(1).about("Which of the order's links it is. The highest one wins."))
            .has("locale", locale().about("The language of the order's page."))
            .has("capture", boolean().about("Whether it is charged when it is placed."))
            .has("expires_at", reference("Time")).example(json!({
                "object": "checkout_session", "url": "https://pay.example.com/checkout/c2lnbmVkLW9yZGVy",
                "order_id": ORDER, "amount": 2500, "currency": "usd", "revision": 1, "locale": "auto", "capture": true,
                "expires_at": "2026-11-22T09:30:00.000Z",
            }))),
        ("ExpireRequest", object().about("Nothing is to be said.").example(json!({}))),
        ("ExpiredCheckoutSession", object().has("object", constant("checkout_session")).has("order_id", order_id())
            .has("status", constant("expired"))
            .has("revision", revision(0).about("The newest link that was ended; 0 if none is known."))
            .example(json!({
                "object": "checkout_session", "order_id": ORDER, "status": "expired", "revision": 1,
            }))),
        ("CheckoutForm", object()
            .may_have("idempotency_key", text().about("The page's hidden key: to pay, and to give a try up."))
            .may_have("payment_method", text().about("The chosen card."))
            .may_have("email", text().about("Where the receipt goes; empty for none."))
            .may_have("another_card", integer().with("minimum", 1).about(
                "Instead of the card: the number of the try that waits for the bank, to give it up.",
            )).closed()),
        ("Health", object().has("status", one_of_words(["ok", "incomplete"]).about(
            "`incomplete`: something that can be done without, such as the second provider, is not set as a whole, and counts as not set; the log says what.",
        )).example(json!({ "status": "ok" }))),
        ("Stats", Schema::default().with("type", "object").about(
            "The same counts as `/metrics`, with names of their own, and how far behind the provider's lists are read.",
        )),
        ("FieldError", object().has("field", text().about("The field's name."))
            .has("message", text().about("What to send instead."))),
        ("Problem", object().about("What all problems have in common ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)).")
            .has("type", uri_reference().about("What kind of problem: the address of a page that explains it."))
            .has("title", text().about("The kind, in a few words."))
            .has("status", integer_of(400, 599).about("The HTTP status."))
            .has("detail", text().about("What happened here, and what to do."))
            .has("instance", uri_reference()
                .about("This request's id; of a stored answer the address of what it made."))
            .may_have("cached", reference("Cached"))),
    ]
}

fn either_null(schema: Schema) -> Schema {
    Schema::default().with("oneOf", json!([schema, { "type": "null" }]))
}

fn id(prefix: &str, of: &str) -> Schema {
    text()
        .about(&format!("The public id of a {of}."))
        .with("pattern", format!("^{prefix}[A-Za-z0-9_-]{{43}}$"))
        .example(format!("{prefix}{ID}"))
}

fn moved_attempt() -> Schema {
    integer_of(1, u32::MAX).about(
        "The attempt that is meant, as the payment's `attempt` has it: 409 `payment-state` if the order was tried again since.",
    )
}

fn payment_request() -> Schema {
    object()
        .has("amount", reference("Amount"))
        .has("currency", reference("Currency"))
        .may_have("payment_method", visible_text(TOKEN_MAX)
            .about("The provider's token of what pays; by default the account's own.").example("pm_card_visa"))
        .may_have("customer", visible_text(TOKEN_MAX).about("The provider's customer; by default the account's own."))
        .may_have("receipt_email", text().with("format", "email").at_most(EMAIL_MAX).about(
            "To whom receipts go: when the money is taken or refunded, or the payment is canceled. The account's own address if it is \
             left out.",
        ))
        .may_have("description", text().about("For you, and on the provider's dashboard.").at_most(DESCRIPTION_MAX))
        .may_have("order_id", visible_text(ORDER_MAX).about(
            "Your order. One order is paid once, whatever the keys: while it is being paid, and once it is, another key is \
             refused with 409 `payment-state`.",
        ).example(ORDER))
        .may_have("capture", boolean().with("default", true).about(
            "Take the money at once; else only reserve it, to be captured or voided later.",
        ))
        .may_have("metadata", reference("Metadata"))
        .may_have("return_url", uri().at_most(URL_MAX).about("Where the person goes after the bank's page.")
            .example("https://shop.example/orders/1042"))
        .may_have("provider", reference("Provider").about("By default the one of the settings."))
        .may_have("fallback", object()
            .about("Who is asked when the first provider has definitively failed for a reason of its own.")
            .has("provider", reference("Provider"))
            .may_have("payment_method", visible_text(TOKEN_MAX).about(
                "The fallback provider's token of what pays; by default the account's own there.",
            ))
            .may_have("customer", visible_text(TOKEN_MAX).about("The fallback provider's customer; by default the account's own."))
            .closed())
        .example(json!({
            "amount": 2500, "currency": "usd", "payment_method": "pm_card_visa", "description": "Two tickets",
        }))
}

fn failure_code() -> Schema {
    let mut choices = words([
        (
            "authentication_required",
            "The bank wants to authenticate the payment, and nobody was there for it.",
        ),
        (
            "capture_failed",
            "The reserved money could not be taken: the capture failed, and the provider makes it no more.",
        ),
        ("card_declined", "The card was declined: see `decline_code`."),
        (
            "currency_not_supported",
            "The provider does not take this amount in this currency. Nothing was sent.",
        ),
        (
            "earlier_try_open",
            "An earlier attempt to pay the order is still being canceled or refunded at the provider: \
            nothing was sent. Try again in a few minutes.",
        ),
        ("not_executed", "The provider has not executed it."),
        ("partially_authorized", "The card did not cover the whole amount. What was held is released."),
        (
            "payment_canceled",
            "The reservation was canceled at the provider, has lapsed, or was canceled there after nobody \
            had heard of it.",
        ),
        ("payment_intent_unexpected_state", "It was moved otherwise at Stripe: see the payment."),
        (
            "payment_moved",
            "The payment had moved before this could be sent: its capture failed, it lapsed, or it was captured \
            or canceled elsewhere. Nothing was sent.",
        ),
        ("payment_not_completed", "The provider has not charged, and says no more."),
        ("provider_rejected", "The provider refused the request, and says no more."),
        ("refund_failed", "The bank did not take the money back, and says no more."),
        ("resource_missing", "Stripe has no such customer or payment method, or not any more."),
    ]);
    choices.push(text().about("The provider's own.").into());
    Schema::default()
        .about("Why: one of these, or the provider's own code.")
        .example("card_declined")
        .with("anyOf", choices)
}

fn payment() -> Schema {
    let operation = || one_of_words(["capture", "void"]);
    object()
        .has("id", reference("PaymentId"))
        .has("object", constant("payment"))
        .has("status", payment_status().about(
            "`processing`: not decided yet. `requires_action`: the person must go to the bank's page. `requires_capture`: \
             reserved. `succeeded`: taken. `capture_failed`: the provider took the capture back; it may repeat it. \
             `disputed`: taken, and a bank wants it back or has got it. `canceled`: voided. `expired`: not captured in \
             time. `declined`, `failed`: nothing was taken, for good.",
        ))
        .has("amount", reference("Amount").about("What is to be paid."))
        .has("amount_capturable", reference("Sum").about("What is reserved and can be captured."))
        .has("capture_before", reference("Time").or_null().about(
            "Until when what is reserved can be captured, where the provider says it. Then it has `expired`.",
        ))
        .has("amount_captured", reference("Sum").about("What was taken."))
        .has("amount_refunded", reference("Sum").about(
            "What was given back, or is about to be: pending and succeeded refunds.",
        ))
        .has("currency", reference("Currency"))
        .has("capture", boolean().about("Whether the money is taken at once."))
        .has("order_id", order_id().or_null())
        .has("revision", integer().or_null().about(
            "The revision of the order's link through which it is paid at the checkout.",
        ))
        .has("description", text().or_null().about("As you sent it."))
        .has("customer", text().or_null().about("The provider's customer."))
        .has("receipt_email", text().or_null().about("To whom receipts go."))
        .has("metadata", reference("Metadata"))
        .has("provider", reference("Provider"))
        .has("provider_payment", text().or_null().about(PROVIDERS_ID).example("pi_3QK1"))
        .has("payment_method_details", either_null(object()
            .has("brand", one_of_words(Brand::words()).about("Whose card it is; `unknown` if it is another one's."))
            .has("last4", text().with("pattern", "^[0-9]{4}$").about("The last four digits of its number.")))
            .about("The card that paid, once the provider has said so: perhaps never. It is personal, and erased as such."))
        .has("next_action", reference("NextAction").or_null())
        .has("failure", reference("PaymentFailure").or_null())
        .has("pending_operation", either_null(object().has("type", operation())
            .has("amount", integer().or_null().with("minimum", 1).about("What is to be captured.")))
            .about("The capture or void that is under way: nothing else moves the payment until it is over."))
        .has("failed_operation", either_null(object().has("type", operation())
            .has("code", text().about("The provider's reason.")))
            .about("The last capture or void, if it was answered 202 and the provider refused it afterwards. It moved \
                nothing, and another one may begin."))
        .has("dispute", reference("Dispute"))
        .has("attempt", integer().with("minimum", 1).about("The number of the try to pay this order."))
        .has("tries", list(reference("Try")).about("Each try, oldest first."))
        .has("created_at", reference("Time"))
        .may_have("cached", reference("Cached"))
}

fn refund() -> Schema {
    object()
        .has("id", reference("RefundId"))
        .has("object", constant("refund"))
        .has("payment", reference("PaymentId"))
        .has("status", one_of_words(["pending", "succeeded", "failed"]).about(
            "`pending`: the provider decides later, or has failed, as `failure` says, and may repeat it by itself. `succeeded`: given \
             back. `failed`: not given back; the amount can be refunded again.",
        ))
        .has("amount", reference("Amount"))
        .has("currency", reference("Currency"))
        .has("reason", reason())
        .has("provider_refund", text().or_null().about(PROVIDERS_ID))
        .has("failure", reference("RefundFailure").or_null())
        .has("created_at", reference("Time"))
        .may_have("cached", reference("Cached"))
}

fn key() -> Schema {
    object()
        .has("object", constant("idempotency_key"))
        .has("status", one_of_words(["processing", "unknown", "complete", "expired"]).about(
            "`processing`: under way. `unknown`: the provider has not said; it is asked until it does. `complete`: ended, the \
             response is replayed. `expired`: ended, the response is gone.",
        ))
        .has("recovery_point", text().about("How far it came: where a retry goes on.").example("finished"))
        .has("request_hash", text().with("pattern", "^v1:[0-9a-f]{64}$").or_null().about(
            "The request's fingerprint; `null` once the personal data is erased.",
        ))
        .has("attempts", integer().with("minimum", 0).about("How many runs it took."))
        .has("created_at", reference("Time"))
        .has("expires_at", reference("Time").or_null().about(
            "When the stored response is dropped; not known before the end.",
        ))
        .has("response_code", integer_of(200, 599).or_null().about("The stored status."))
        .has("resource", uri_reference().about(RESULT))
        .has("timeline", list(reference("TimelineEntry")).about(
            "What happened when, in order. No value from a request is in it.",
        ))
        .example(json!({
            "object": "idempotency_key", "status": "complete", "recovery_point": "finished",
            "request_hash": "v1:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "attempts": 1,
            "created_at": AT, "expires_at": "2026-11-22T09:30:01.000Z", "response_code": 201,
            "resource": format!("/payments/{}", payment_id()), "timeline": [
                { "at": AT, "attempt": 1, "event": "key_created", "detail": "payment" },
                { "at": "2026-11-21T09:30:01.000Z", "attempt": 1, "event": "finished", "detail": "201" },
            ],
        }))
}

fn checkout_session_request() -> Schema {
    object()
        .has("order_id", visible_text(ORDER_MAX).about("Your order: it is paid once."))
        .has("currency", reference("Currency"))
        .has("lines", list(reference("CheckoutLine")).with("minItems", 1).with("maxItems", LINES_MAX).about(
            "What is bought. What they come to is charged. In a form: `lines[0][name]`.",
        ))
        .may_have("locale", locale().about(
            "The language of the order's page and of the receipt's email; `auto`, as without it, is the customer's own, by the browser.",
        ))
        .may_have("revision", revision(1).with("type", json!(["integer", "string"]))
            .with("pattern", "^[0-9]{1,10}$").about(
                "Higher for each newer link of the order. Without it the order numbers its links itself: the same content \
                 has the same number, other content the next one.",
            ))
        .may_have("return_url", uri().at_most(URL_MAX).about(
            "Where the person goes from the receipt, with `payment`, `order_id`, `amount`, `currency` and `revision` in its \
             query: compare them with `GET /payments/{id}`.",
        ))
        .may_have("cancel_url", uri().at_most(URL_MAX).about(
            "Where the person goes back to without paying: a link on the page of an order that is not paid. Nothing is added to it, \
             and it ends nothing.",
        ))
        .may_have("capture", boolean().with("default", true).about(
            "False: the order is authorized when it is placed, and nothing is charged before `POST /payments/{id}/capture`.",
        ))
        .closed()
        .example(json!({
            "order_id": ORDER, "currency": "usd",
            "lines": [line_example()],
        }))
}
