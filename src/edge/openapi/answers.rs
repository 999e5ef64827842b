//! What operations answer: the headers, the refusals that many share, and what is answered where all goes well.

use serde_json::{Map, Value, json};

use super::problems::{self, REQUEST_ID};
use super::schema::{Schema, integer, one_of_words, reference, schema_address, text, uri_reference};
use web::problem::Kind;

/// A header, by its name in an answer and among the components.
pub(super) type Header = (&'static str, &'static str);

/// In every answer.
const ALWAYS: [Header; 2] = [("Request-Id", "Request-Id"), ("Server-Timing", "Server-Timing")];
/// When to come again.
pub(super) const RETRY_AFTER: Header = ("Retry-After", "Retry-After");
const LOCATION: Header = ("Location", "Location");
const RATE_LIMIT: Header = ("RateLimit-Policy", "RateLimit-Policy");
/// Where to go on.
pub(super) const NEXT_PAGE: Header = ("Location", "Next-Page");
/// Where what was made stands.
pub(super) const CREATED: Header = ("Location", "Created");
/// Where it stands, if that is known.
pub(super) const MAYBE_LOCATION: Header = LOCATION;
/// The revision.
pub(super) const ETAG: Header = ("ETag", "ETag");
/// Of what is stored under a key.
pub(super) const STORED: [Header; 3] =
    [("Original-Request", "Original-Request"), ("Idempotent-Replayed", "Idempotent-Replayed"), RATE_LIMIT];

/// All headers.
pub(super) fn headers() -> Value {
    let header = |about: &str, schema: Schema| json!({ "description": about, "schema": schema });
    let required =
        |about: &str, schema: Schema| json!({ "description": about, "required": true, "schema": schema });
    let with_example = |mut header: Value, example: &str| {
        if let Value::Object(members) = &mut header {
            members.insert("example".to_owned(), example.into());
        }
        header
    };
    json!({
        "Request-Id": with_example(required(
            "This request's own id, `req_` and a UUID: quote it to support.",
            text().with("pattern", "^req_[A-Za-z0-9_-]+$"),
        ), REQUEST_ID),
        "Idempotent-Replayed": header(
            "`true` on an answer that was there before, or that another request's run made.",
            one_of_words(["true"]),
        ),
        "Original-Request": with_example(header("The request that first used the key.", text()), REQUEST_ID),
        "Retry-After": header(
            "In how many seconds to come again with the same request and the same key.",
            integer().with("minimum", 1),
        ),
        "Location": header("Where the result stands or will stand.", uri_reference()),
        "Created": required("Where the result stands.", uri_reference()),
        "ETag": with_example(required("The revision, in quotes: for `If-Match`. Compression on the way puts `W/` before it.", text()), "\"3\""),
        "Next-Page": required("Where to go.", uri_reference()),
        "Server-Timing": header(
            "Where the time went, in ms ([Server Timing](https://www.w3.org/TR/server-timing/)).",
            text(),
        ),
        "RateLimit-Policy": header("How many requests may come in which time, where they are limited.", text()),
        "Allow": with_example(required("The methods that are.", text()), "GET, HEAD"),
        "Accept": header("The types of content that are taken, where one was sent that is not.", text()),
        "Accept-Post": header("The same of a POST ([LDP](https://www.w3.org/TR/ldp/#header-accept-post)).", text()),
        "Accept-Encoding": header("`identity` where the content was compressed: it is taken as it is.", text()),
        "WWW-Authenticate": with_example(required("How to authenticate.", text()), "Bearer realm=\"paid-once\""),
    })
}

/// A refusal that operations share: of some kinds of problem, all of one status.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) name: &'static str,
    about: &'static str,
    kinds: &'static [Kind],
    headers: &'static [Header],
}

macro_rules! refusals {
    ($($constant:ident = $name:literal($($kind:ident)|+ $(; $($header:expr),+)?) $about:literal;)*) => {$(
        #[doc = $about]
        pub(super) const $constant: Refusal = Refusal {
            name: $name,
            about: $about,
            kinds: &[$(Kind::$kind),+],
            headers: &[$($($header),+)?],
        };
    )*};
}

refusals! {
    BAD_REQUEST = "BadRequest"(KeyMissing | KeyInvalid | BadRequest)
        "The key is missing or is none, or the body cannot be read. Nothing was executed.";
    BAD_BODY = "BadBody"(BadRequest) "The body cannot be read. Nothing was executed.";
    BAD_KEY = "BadKey"(KeyInvalid) "What stands in the address is no key.";
    BAD_EVENT = "BadEvent"(BadRequest | WebhookSignature)
        "The body is no event, or not signed by the provider. Nothing was taken in.";
    UNAUTHORIZED = "Unauthorized"(Unauthorized; ("WWW-Authenticate", "WWW-Authenticate"))
        "Without credentials, or with wrong ones. Nothing was executed.";
    PAYMENT_FAILED = "PaymentFailed"(PaymentFailed; STORED[0], STORED[1], STORED[2], LOCATION)
        "The payment failed: nothing was charged. Stored: the same key always gives this answer.";
    OPERATION_REFUSED = "OperationRefused"(OperationRefused; STORED[0], STORED[1], STORED[2], LOCATION)
        "The provider refused the operation for good. Stored: the same key always gives this answer.";
    FORBIDDEN = "Forbidden"(Forbidden | HttpsRequired)
        "The request came over plain http, or the form from another site. Nothing was executed.";
    HTTPS_REQUIRED = "HttpsRequired"(HttpsRequired) "The request came over plain http. Nothing was executed.";
    NOT_FOUND = "NotFound"(NotFound) "It doesn't exist, or you don't have access.";
    METHOD_NOT_ALLOWED = "MethodNotAllowed"(MethodNotAllowed; ("Allow", "Allow"))
        "Another method than this address has.";
    REQUEST_TIMEOUT = "RequestTimeout"(RequestTimeout; RETRY_AFTER)
        "The body did not come in time. Nothing was executed.";
    PAYMENT_CONFLICT = "PaymentConflict"(InProgress | KeyExpired | PaymentState | LimitReached; RETRY_AFTER, LOCATION)
        "The first request with this key still runs, or its response has expired, or the payment is not in a state for this, or takes no more. Nothing was executed anew.";
    CUSTOMER_CONFLICT = "CustomerConflict"(InProgress | LimitReached; RETRY_AFTER, LOCATION)
        "Another request about this customer still runs, or there were too many in a day. Nothing of this one was begun.";
    OTHER_REVISION = "OtherRevision"(RevisionMismatch; LOCATION) "The customer is of another revision. Nothing was executed.";
    IN_PROGRESS = "InProgress"(InProgress; RETRY_AFTER, LOCATION) "The key is not finished: nothing is forgotten.";
    ALREADY_PAID = "AlreadyPaid"(PaymentState; LOCATION) "The order is paid: there is nothing left to end.";
    REVISION_CONFLICT = "RevisionConflict"(LinkRevision | PaymentState; LOCATION)
        "The order has a newer link, or it is paid. Nothing was changed.";
    TRIED_TOO_OFTEN = "TriedTooOften"(LimitReached | PaymentState; RETRY_AFTER, LOCATION)
        "The order was tried as often as it may be, or an earlier payment of it is being given back.";
    FORM_CLOSED = "FormClosed"(LimitReached; RETRY_AFTER)
        "The form once more with the reason, or, where the order was tried as often as it may be, a page that says so. Nothing was charged by this.";
    LINK_CLOSED = "LinkClosed"(LinkExpired | LinkReplaced | LinkEnded)
        "The order was not paid in time, or the shop has replaced or ended the link.";
    CONTENT_TOO_LARGE = "ContentTooLarge"(TooLarge)
        "The body has, or says that it has, more than 64 KiB; a webhook's, more than 256 KiB; a bank's answer, more than 1 MiB. Nothing was executed.";
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"(UnsupportedMediaType; ("Accept", "Accept"), ("Accept-Post", "Accept-Post"), ("Accept-Encoding", "Accept-Encoding"))
        "The body is neither JSON nor a form, or is not what its `Content-Type` says, or it is compressed. Nothing was executed.";
    INVALID_PARAMETERS = "InvalidParameters"(InvalidParameters) "A parameter is wrong. Nothing was executed.";
    UNPROCESSABLE = "Unprocessable"(InvalidParameters | KeyReused; LOCATION)
        "A parameter is wrong, or the key was used for another request. Nothing was executed.";
    AMOUNT_UNPROCESSABLE = "AmountUnprocessable"(InvalidParameters | KeyReused | AmountTooLarge; LOCATION)
        "A parameter is wrong, or the key was used for another request, or the amount is more than there is. Nothing was executed.";
    TRY_LATER = "TryLater"(RateLimited | TryTooSoon; RETRY_AFTER, RATE_LIMIT, LOCATION)
        "Too many requests, or too many tries of the order in a row. Nothing was executed.";
    RATE_LIMITED = "RateLimited"(RateLimited; RETRY_AFTER, RATE_LIMIT) "Too many requests. Nothing was executed.";
    FORM_LATER = "FormLater"(RateLimited; RETRY_AFTER)
        "The form once more, or a page, that asks to wait. Nothing was charged by this.";
    INTERRUPTED = "Interrupted"(Interrupted; RETRY_AFTER, LOCATION)
        "The request was interrupted. What was done so far is kept: a retry with the same key goes on from there.";
    UNAVAILABLE = "Unavailable"(OutcomeUnknown | Unavailable | Misconfigured; RETRY_AFTER, LOCATION)
        "The provider has not said what became of it (`outcome-unknown`), or nothing was charged so far (`temporarily-unavailable`), or a setting is missing (`misconfigured`). Send the same request with the same key again.";
    UNREADABLE = "Unreadable"(Unreadable | Unavailable | Misconfigured; RETRY_AFTER)
        "It could not be looked up (`cannot-be-shown`; it says nothing about the payment), or a setting is missing.";
    MISCONFIGURED = "Misconfigured"(Misconfigured) "A setting is missing; `detail` names it.";
    ENDPOINT_UNKNOWN = "EndpointUnknown"(OutcomeUnknown | Unavailable | Unreadable | Misconfigured; RETRY_AFTER)
        "It is not known whether the endpoint was changed, or it could not be looked up, or a setting is missing. Send the same request again.";
    LINK_NOT_STORED = "LinkNotStored"(OutcomeUnknown | Unavailable | Misconfigured; RETRY_AFTER)
        "It is not known whether the order was told of it, or nothing was begun, or a setting is missing. Send the same request again.";
}

impl Refusal {
    pub(super) fn status(&self) -> u16 {
        self.kinds.first().map_or(500, |kind| kind.status())
    }

    /// As a component.
    pub(super) fn to_json(self) -> Value {
        let to = |kind: &Kind| reference(&problems::name(*kind));
        let schema = match self.kinds {
            [kind] => to(kind),
            kinds => {
                let schemas: Vec<Value> = kinds.iter().map(|kind| to(kind).into()).collect();
                let target = |kind: &Kind| schema_address(&problems::name(*kind)).into();
                let mapping: Map<String, Value> =
                    kinds.iter().map(|kind| (kind.type_uri(), target(kind))).collect();
                Schema::default()
                    .with("oneOf", schemas)
                    .with("discriminator", json!({ "propertyName": "type", "mapping": mapping }))
            }
        };
        let example = |kind: &Kind| {
            let target = format!("#/components/examples/{}", problems::example_name(*kind));
            (kind.slug().to_owned(), json!({ "$ref": target }))
        };
        let examples: Map<String, Value> = self.kinds.iter().map(example).collect();
        json!({
            "description": self.about,
            "headers": header_references(self.headers),
            "content": {
                "application/problem+json": { "schema": schema, "examples": examples },
                "text/html": { "schema": text().about(AS_A_PAGE) },
            },
        })
    }
}

/// What is said of HTML beside JSON.
const AS_A_PAGE: &str = "The same as a page, for whoever prefers HTML (`Accept`).";

/// The headers of an answer, with those that all have.
pub(super) fn header_references(more: &[Header]) -> Value {
    let header = |(name, component): &Header| {
        ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{component}") }))
    };
    Value::Object(ALWAYS.iter().chain(more).map(header).collect())
}
