//! What each route of the API is for.

use serde_json::json;

use super::answers::*;
pub(in crate::edge) use super::customers::{erase_customer, put_customer, show_customer};
use super::examples::{captured_example, capturing_example, payment_id, voided_example, voiding_example};
use super::operation::Operation;
pub(in crate::edge) use super::registry::*;
use super::schema::{Schema, constant, integer, integer_of, list, object, reference, text, visible_text};
use super::schemas::payment_status;
pub(in crate::edge) use super::webhook_endpoint::*;
use crate::edge::payment_params::ORDER_MAX;
use crate::edge::return_key;
use crate::readmodel::list::{CREATED_MAX_S, LIMIT_DEFAULT, LIMIT_MAX};
use crate::webhooks::adyen;

/// What whoever sends a body may be refused for.
const BODY: [Refusal; 2] = [REQUEST_TIMEOUT, CONTENT_TOO_LARGE];
/// What a look may be refused for.
const LOOK: [Refusal; 5] = [UNAUTHORIZED, HTTPS_REQUIRED, NOT_FOUND, RATE_LIMITED, UNREADABLE];
/// What any operation under a key may be refused for.
const KEYED: [Refusal; 4] = [BAD_REQUEST, UNAUTHORIZED, UNSUPPORTED_MEDIA_TYPE, UNAVAILABLE];
/// What a capture, a void and a refund may be refused for, beside that.
const MOVE: [Refusal; 4] = [OPERATION_REFUSED, NOT_FOUND, PAYMENT_CONFLICT, RATE_LIMITED];
const LATER: &str = "The provider has received it, and tells later how it ended: until then it is the payment's `pending_operation`.";

pub(in crate::edge) fn list_payments() -> Operation {
    let time = || {
        let seconds = integer_of(0, CREATED_MAX_S);
        Schema::default().with("anyOf", json!([seconds, text().with("format", "date-time")]))
    };
    Operation::new(
        "Payments", "listPayments", "List payments",
        "The account's payments, the newest first. The list follows within moments: a payment that was just made is sure to \
         be found under its own address, and so is one that is over and so old that it has left the list for the operator's history.",
    )
    .query("limit", "How many at most.", integer_of(1, LIMIT_MAX).with("default", LIMIT_DEFAULT))
    .query("starting_after", "The last payment of the page before.", reference("PaymentId"))
    .query("status", "Only those of this status.", payment_status())
    .query("created[gte]", "Only those that were made then or later: seconds since 1970, or a time by RFC 3339.", time())
    .query("created[gt]", "Only those that were made later.", time())
    .query("created[lte]", "Only those that were made then or before.", time())
    .query("created[lt]", "Only those that were made before.", time())
    .query("created", "Only those that were made in this second.", time())
    .query("order_id", "The payment of this order, at once, by itself: it goes with no other parameter.", visible_text(ORDER_MAX))
    .shows("The payments.", reference("PaymentList"))
    .refuses(&[UNAUTHORIZED, HTTPS_REQUIRED, INVALID_PARAMETERS, RATE_LIMITED, UNREADABLE])
}

pub(in crate::edge) fn create_payment() -> Operation {
    Operation::new(
        "Payments", "createPayment", "Pay",
        "Charges the payment method once, or reserves the money with `capture: false`. With `order_id` the order is the \
         natural key: the header may be left out. A payment whose person must go to the bank's page is answered 201 too, \
         with `requires_action` and `next_action`.",
    )
    .keyed()
    .parameters_in_body(true, reference("PaymentRequest")).grouped_in_form(&["fallback", "metadata"])
    .stores(
        201, "The payment: taken, reserved, waiting for the person, or decided later. `status` says which.", &[CREATED],
        reference("Payment"),
    )
    .links(201, &["ShowPayment", "CapturePayment", "VoidPayment", "RefundPayment", "ListRefunds"])
    .changes().refuses(&BODY).refuses(&KEYED)
    .refuses(&[PAYMENT_FAILED, PAYMENT_CONFLICT, UNPROCESSABLE, TRY_LATER])
}

pub(in crate::edge) fn show_payment() -> Operation {
    Operation::new("Payments", "showPayment", "Show a payment", "As it stands now.")
        .shows("The payment.", reference("Payment"))
        .refuses(&LOOK)
}

/// Of a payment that is there.
fn move_of(operation: Operation, request: &str, unprocessable: Refusal) -> Operation {
    operation
        .keyed()
        .parameters_in_body(false, reference(request))
        .changes()
        .refuses(&BODY)
        .refuses(&KEYED)
        .refuses(&MOVE)
        .refuses(&[unprocessable])
}

pub(in crate::edge) fn capture_payment() -> Operation {
    let operation = Operation::new(
        "Payments",
        "capturePayment",
        "Capture a payment",
        "Takes what was reserved, or a part of it; the rest is released. Its natural key is the capture of this attempt: \
         the header may be left out, from an order's second attempt on only where `attempt` is sent.",
    );
    move_of(operation, "CaptureRequest", AMOUNT_UNPROCESSABLE)
        .stores(200, "The payment, captured.", &[], reference("Payment"))
        .example(200, captured_example())
        .stores(202, LATER, &[], reference("Payment"))
        .example(202, capturing_example())
}

pub(in crate::edge) fn void_payment() -> Operation {
    let operation = Operation::new(
        "Payments",
        "voidPayment",
        "Void a payment",
        "Gives up what was reserved: nothing is taken. Its natural key is the void of this attempt: the header may be \
         left out, from an order's second attempt on only where `attempt` is sent.",
    );
    move_of(operation, "VoidRequest", UNPROCESSABLE)
        .stores(200, "The payment, canceled.", &[], reference("Payment"))
        .example(200, voided_example())
        .stores(202, LATER, &[], reference("Payment"))
        .example(202, voiding_example())
}

pub(in crate::edge) fn refund_payment() -> Operation {
    refund(Operation::new(
        "Refunds",
        "refundPayment",
        "Refund a payment",
        "Gives back what was captured, or a part of it. Its natural key is made from reason and amount: the header may be \
         left out. For two equal refunds send two keys.",
    ))
}

pub(in crate::edge) fn refund_payment_alias() -> Operation {
    refund(Operation::new(
        "Refunds",
        "refundPaymentAlias",
        "Refund a payment: an alias",
        "An alias of `POST /payments/{id}/refunds`. Sent with the same key, or without one, a request is the same at both \
         addresses: it runs once, and both give the same answer.",
    ))
}

fn refund(operation: Operation) -> Operation {
    move_of(operation, "RefundRequest", AMOUNT_UNPROCESSABLE)
        .stores(201, "The refund: given back, or decided later.", &[MAYBE_LOCATION], reference("Refund"))
        .links(201, &["ListRefundsOfPayment"])
}

pub(in crate::edge) fn list_refunds() -> Operation {
    Operation::new("Refunds", "listRefunds", "List a payment's refunds", "All of them, the newest first.")
        .shows("The refunds.", reference("RefundList"))
        .refuses(&LOOK)
}

pub(in crate::edge) fn show_refund() -> Operation {
    Operation::new(
        "Refunds",
        "showRefund",
        "Show a refund",
        "As it is now: `pending` until the provider has told.",
    )
    .shows("The refund.", reference("Refund"))
    .refuses(&LOOK)
}

pub(in crate::edge) fn return_from_bank() -> Operation {
    Operation::new(
        "Payments", "returnFromBank", "Come back from the bank's page",
        "Where the bank's page sends the browser. It asks the provider how the payment stands and goes on to the payment's \
         `return_url` with `payment`, `amount` and `currency` in its query. What the bank adds to the address is never \
         trusted. Without credentials: the address carries a signature of its own, `k`; without it, or with a wrong one, \
         the answer is the same 404 for every payment, whether it exists or not.",
    )
    .parameter(json!({
        "name": return_key::PARAMETER, "in": "query", "required": true,
        "description": "The signature of this address, as it was given to the provider.",
        "schema": text().with("pattern", "^[A-Za-z0-9_-]{64}$"),
    }))
    .leads_on().refuses(&[NOT_FOUND, UNREADABLE])
}

pub(in crate::edge) fn show_key() -> Operation {
    Operation::new(
        "Idempotency keys", "showKey", "Show a key",
        "Where the key stands, and what happened under it. The account whose key it is sees it, by its token. A key that was sent to \
         `/checkout/sessions` or its `/expire` is not found here (404): it belongs to the order.",
    )
    .shows("The key.", reference("Key")).refuses(&LOOK).refuses(&[BAD_KEY])
}

pub(in crate::edge) fn forget_key() -> Operation {
    Operation::new(
        "Idempotency keys", "forgetKey", "Forget a key's response",
        "Drops the stored response of a finished key early. The key stays used: a retry is 409 `idempotency-key-expired` and \
         never runs anew.",
    )
    .answers(204, "Forgotten, now or before.", &[], [])
    .changes().refuses(&LOOK).refuses(&[BAD_KEY, IN_PROGRESS])
}

pub(in crate::edge) fn create_checkout_session() -> Operation {
    Operation::new(
        "Checkout", "createCheckoutSession", "Make a checkout link",
        "A signed link to a page on which a person pays this order, for 24 hours. The order keeps which of its links is the \
         newest: with that alone it can be paid. To ask for the newest link again changes nothing, and the order is paid once, however \
         many links it has. A client that repeats requests by itself sends a key, so that a late repetition does not bring back what \
         a newer link has replaced; of each order the newest 20 keys are known.",
    )
    .parameter(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
    .parameters_in_body(true, reference("CheckoutSessionRequest"))
    .answers(201, "The link.", &[MAYBE_LOCATION], [("application/json", reference("CheckoutSession"))])
    .changes().refuses(&BODY)
    .refuses(&[BAD_REQUEST, UNAUTHORIZED, REVISION_CONFLICT, UNSUPPORTED_MEDIA_TYPE, UNPROCESSABLE])
    .refuses(&[RATE_LIMITED, LINK_NOT_STORED])
}

pub(in crate::edge) fn expire_checkout_sessions() -> Operation {
    Operation::new(
        "Checkout", "expireCheckoutSessions", "End an order's links",
        "No link to this order that was made so far can be paid any more. A payment that is under way keeps running; a link \
         that is made afterwards can be paid. To do it again changes nothing. An order that nobody knows is answered in the \
         same way. A client that repeats requests by itself sends a key, so that a late repetition does not end a link \
         that was made since.",
    )
    .parameter(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
    .parameters_in_body(false, reference("ExpireRequest"))
    .shows("None of them can be paid.", reference("ExpiredCheckoutSession"))
    .changes().refuses(&BODY).refuses(&[BAD_REQUEST, UNAUTHORIZED, NOT_FOUND, ALREADY_PAID])
    .refuses(&[UNSUPPORTED_MEDIA_TYPE, UNPROCESSABLE, RATE_LIMITED, LINK_NOT_STORED])
}

pub(in crate::edge) fn new_checkout() -> Operation {
    Operation::new(
        "Checkout",
        "newCheckout",
        "A checkout of the demo",
        "Demo only. Makes an order with a small cart and leads to its page.",
    )
    .leads_on()
    .refuses(&[NOT_FOUND, MISCONFIGURED])
}

pub(in crate::edge) fn checkout_page() -> Operation {
    Operation::new(
        "Checkout", "checkoutPage", "An order's page",
        "The form; while it is being paid, how it stands; the way to the bank's page; the receipt. Whoever has the link sees \
         it.",
    )
    .shows_page().leads_on().refuses(&[NOT_FOUND, TRIED_TOO_OFTEN, LINK_CLOSED, UNREADABLE])
}

pub(in crate::edge) fn pay_order() -> Operation {
    Operation::new(
        "Checkout", "payOrder", "Pay an order",
        "The form's target. It leads to the order's page, whatever became of it, and from there to the bank's; or shows the \
         form again.",
    )
    .body(true, [("application/x-www-form-urlencoded", reference("CheckoutForm"))])
    .leads_on()
    .answers(
        422, "The form once more, or a page, with the reason. Nothing was charged by this.", &[RETRY_AFTER],
        [("text/html", text())],
    )
    .refuses(&BODY)
    .refuses(&[
        BAD_REQUEST, FORBIDDEN, NOT_FOUND, FORM_CLOSED, LINK_CLOSED, UNSUPPORTED_MEDIA_TYPE, FORM_LATER, UNREADABLE,
    ])
}

fn webhook(operation: Operation, about: &str) -> Operation {
    let event = Schema::default().with("type", "object").about(about);
    operation.body(true, [("application/json", event)]).changes().refuses(&BODY).refuses(&[
        BAD_EVENT,
        UNAUTHORIZED,
        UNREADABLE,
    ])
}

fn stripe_signature() -> serde_json::Value {
    json!({
        "name": "Stripe-Signature", "in": "header", "required": true,
        "description": "`t=…,v1=…`: HMAC-SHA256 over `{t}.{body}`. <https://docs.stripe.com/webhooks#verify-manually>",
        "schema": text(),
    })
}

pub(in crate::edge) fn stripe_webhook() -> Operation {
    let operation = Operation::new(
        "Service",
        "stripeWebhook",
        "What Stripe tells",
        "An event of Stripe, signed by it. It is taken in once, in any order, and never moves anything backward; what means \
         nothing here is acknowledged.",
    );
    webhook(operation, "<https://docs.stripe.com/api/events/object>")
        .parameter(stripe_signature())
        .shows("It is written down.", object().has("received", constant(true)))
}

pub(in crate::edge) fn stripe_account_webhook() -> Operation {
    let operation = Operation::new(
        "Service",
        "stripeAccountWebhook",
        "What Stripe tells of an account with keys of its own",
        "As `/webhooks/stripe`, signed with a secret of that account of the registry. It can tell of the payments of this account \
         alone. An account that does not exist is answered as a wrong signature is. While the account has no secret key it is 503, and has to \
         come again.",
    );
    webhook(operation, "<https://docs.stripe.com/api/events/object>")
        .parameter(stripe_signature())
        .shows("It is written down.", object().has("received", constant(true)))
}

pub(in crate::edge) fn adyen_webhook() -> Operation {
    let operation = Operation::new(
        "Service",
        "adyenWebhook",
        "What Adyen tells",
        "Events of Adyen, signed by it. They are stored and acknowledged, and worked on afterwards: once, in any order, and \
         never backward; what means nothing here is acknowledged.",
    );
    webhook(
        operation,
        "<https://docs.adyen.com/development-resources/webhooks>, each item with its `hmacSignature`",
    )
    .answers(200, "They are stored.", &[], [("text/plain", constant(adyen::ACCEPTED))])
}

pub(in crate::edge) fn adyen_account_webhook() -> Operation {
    let operation = Operation::new(
        "Service",
        "adyenAccountWebhook",
        "What Adyen tells of an account with keys of its own",
        "As `/webhooks/adyen`, with the user and the password of that account of the registry, and signed with an HMAC key of it. It can tell of the payments of this account alone, in the \
         merchant account in which each was made; what it tells of any other is acknowledged, and nothing of it is taken in. An account that \
         does not exist is answered as a wrong password is. A report that it announces is downloaded with a key of that account.",
    );
    webhook(
        operation,
        "<https://docs.adyen.com/development-resources/webhooks>, each item with its `hmacSignature`",
    )
    .answers(200, "They are stored.", &[], [("text/plain", constant(adyen::ACCEPTED))])
}

fn is_set_up(id: &'static str, about: &'static str) -> Operation {
    Operation::new("Service", id, "Is it set up", about)
        .shows("It is.", reference("Health"))
        .refuses(&[MISCONFIGURED])
}

pub(in crate::edge) fn health() -> Operation {
    is_set_up("health", "The same as `/health`.")
}

pub(in crate::edge) fn health_alias() -> Operation {
    is_set_up("healthAlias", "The same as `/healthz`.")
}

pub(in crate::edge) fn security_txt() -> Operation {
    Operation::new(
        "Service",
        "securityTxt",
        "To whom a weakness is reported",
        "By RFC 9116, where `SECURITY_CONTACT` and `SECURITY_EXPIRES` are set.",
    )
    .answers(200, "The contact.", &[], [("text/plain", text())])
    .refuses(&[NOT_FOUND, MISCONFIGURED])
}

pub(in crate::edge) fn metrics() -> Operation {
    Operation::new("Service", "metrics", "Metrics", "In Prometheus' text format. Open in the lab.")
        .answers(200, "The metrics.", &[], [("text/plain", text())])
        .refuses(&LOOK)
}

pub(in crate::edge) fn stats() -> Operation {
    Operation::new("Service", "stats", "Statistics", "The same as JSON. Open in the lab.")
        .shows("The statistics.", reference("Stats"))
        .refuses(&LOOK)
}

pub(in crate::edge) fn erase_personal_data() -> Operation {
    Operation::new(
        "Service", "erasePersonalData", "Erase personal data",
        "Drops the personal data of a payment, with the stored responses of its keys. Amounts, states, ids and \
         times stay. Asking again changes nothing.",
    )
    .shows("It is gone.", object().has("id", text()).has("personal_data", constant("erased")))
    .example(200, json!({ "id": payment_id(), "personal_data": "erased" }))
    .refuses(&LOOK).refuses(&[IN_PROGRESS])
}

pub(in crate::edge) fn project_anew() -> Operation {
    let next = text().or_null().about("There is more: ask again with this as `after`.");
    let failed =
        list(text()).about("With `all`: payments whose objects did not answer. Ask for each by its id.");
    Operation::new(
        "Service",
        "projectAnew",
        "Write the read model anew",
        "Writes a payment, or a page of all, into the read model anew, from its object. Asking again changes \
         nothing.",
    )
    .query("after", "With `all`: `next` of the page before.", text())
    .shows("It is on its way.", object().has("projected", integer()).has("failed", failed).has("next", next))
    .example(200, json!({ "projected": 1, "failed": [], "next": null }))
    .refuses(&LOOK)
    .refuses(&[RATE_LIMITED])
}

/// A file of the operator's.
fn import(operation: Operation, about: &str) -> Operation {
    operation
        .body(true, [("text/csv", text().about(about))])
        .refuses(&BODY)
        .refuses(&LOOK)
        .refuses(&[INVALID_PARAMETERS, RATE_LIMITED])
}

pub(in crate::edge) fn import_answer() -> Operation {
    let lines = Schema::default()
        .with("type", "object")
        .with("propertyNames", json!({ "enum": ["booked", "duplicate", "unknown", "differs"] }))
        .with("additionalProperties", integer());
    let operation = Operation::new(
        "Service",
        "importAnswer",
        "Import the bank's answer",
        "Books each line of the bank's answer to settlement files once. A file with an error is refused whole. The same file \
         again books nothing more.",
    );
    import(operation, "At most 1 MiB: a head, a line for each of our lines, a trailer with their count.")
        .shows("What became of its lines.", object().has("lines", lines))
        .example(200, json!({ "lines": { "booked": 12, "duplicate": 0, "unknown": 0, "differs": 0 } }))
}

pub(in crate::edge) fn import_report() -> Operation {
    let counts =
        |about| Schema::default().with("type", "object").about(about).with("additionalProperties", integer());
    let operation = Operation::new(
        "Service",
        "importReport",
        "Import a report of Adyen's",
        "Keeps a settlement details report, reads it, and compares each line with the payments here: what differs is a break \
         at the desk. What of a long one is not read at once goes on by itself; the same report again says how far it is, \
         and changes nothing.",
    );
    import(operation, "At most 24 MiB, as Adyen made it.")
        .query("name", "What the file is called, as the desk shows it.", text())
        .shows(
            "How far it is read, and its lines by their types.",
            object()
                .has("report", text().about("SHA-256 of the file, in hexadecimal."))
                .has("state", Schema::default().with("enum", json!(["waiting", "done", "refused"])))
                .has("error", text().or_null().about("Why it is read no further."))
                .has("bytes", integer())
                .has("bytes_read", integer())
                .has("lines", counts("How many there are of each type."))
                .has("unknown", counts("The same of types that are not known."))
                .has(
                    "own",
                    counts("How many of all these are of accounts’ own merchant accounts, by their names."),
                )
                .has(
                    "of_others",
                    integer().about("Lines of other merchant accounts, which are not known here."),
                )
                .has("unreadable", integer().about("Lines that move money and could not be read.")),
        )
        .example(200, json!({
            "report": "252fcd6faba028c8475826ccd03a8e09bce2a05394bc048f5bcf633d2efe00c3", "state": "done", "error": null,
            "bytes": 18_204, "bytes_read": 18_204, "lines": { "Settled": 96, "Refunded": 4, "MerchantPayout": 1 },
            "unknown": {}, "own": {}, "of_others": 0, "unreadable": 0,
        }))
}

pub(in crate::edge) fn openapi() -> Operation {
    let document = object()
        .has("openapi", text().with("pattern", "^3\\.1\\."))
        .has("info", Schema::default().with("type", "object"))
        .has("paths", Schema::default().with("type", "object"))
        // Only a part of it is told of.
        .with("additionalProperties", true);
    Operation::new("Documentation", "openapi", "This document", "OpenAPI 3.1.")
        .shows("This document.", document)
        .refuses(&[MISCONFIGURED])
}

fn page(id: &'static str, summary: &'static str, about: &'static str) -> Operation {
    Operation::new("Documentation", id, summary, about).shows_page().refuses(&[MISCONFIGURED])
}

pub(in crate::edge) fn docs() -> Operation {
    page("docs", "This document as a page", "For people, with examples to paste.")
}

pub(in crate::edge) fn problem_page() -> Operation {
    page("problemPage", "What a problem type means", "The page that the `type` of a problem leads to.")
        .refuses(&[NOT_FOUND])
}

pub(in crate::edge) fn home() -> Operation {
    page("home", "What this is", "The first page.")
}
