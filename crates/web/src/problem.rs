//! Problem details ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)): every refusal of the API, and the page that
//! explains its type.

use serde::Serialize;

use once::fingerprint::FieldError;

/// Makes [`Kind`] of its table: for each kind the HTTP status, the last part of its `type`, its title, and what its page says.
macro_rules! kinds {
    ($($(#[$note:meta])? $kind:ident($status:literal, $slug:literal, $title:literal, $explanation:literal);)*) => {
        /// The kinds of problem. Each has a page under `/problems/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = concat!($title, ".")] $(#[doc = ""] #[$note])? $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            const fn facts(self) -> (u16, &'static str, &'static str, &'static str) {
                match self {
                    $(Self::$kind => ($status, $slug, $title, $explanation),)*
                }
            }
        }
    };
}

kinds! {
    KeyMissing(
        400, "idempotency-key-missing", "The Idempotency-Key header is missing",
        "Every request that moves money carries an Idempotency-Key, so that a retry can never charge twice. Make a \
         new key, such as a UUID, for each payment, and send the same key with each retry of it."
    );
    KeyInvalid(
        400, "idempotency-key-invalid", "The Idempotency-Key is not valid",
        "A key is 1 to 255 visible ASCII characters, in double quotes or bare, and the same wherever it stands in \
         one request. Nothing was executed."
    );
    BadRequest(
        400, "bad-request", "The request cannot be read",
        "The body is not what its Content-Type says, or could be read in two ways: a name stands in it twice, a \
         number cannot be kept as it stands. Nothing was executed."
    );
    WebhookSignature(
        400, "webhook-signature", "The signature of the webhook does not match",
        "An event is believed only if the provider has signed it: over its raw body, with a secret that is set here, \
         not long ago. Nothing was taken in. After a secret was rolled, set the new one beside the old one."
    );
    Unauthorized(
        401, "unauthorized", "Authentication is needed",
        "Send `Authorization: Bearer` with your account's token. Nothing was executed."
    );
    /// Made and stored by the flow.
    PaymentFailed(
        402, "payment-failed", "The payment failed",
        "Nothing was charged. The same key will always give this answer; to try again, with another card for \
         example, use a new key."
    );
    /// Made and stored by the flow.
    OperationRefused(
        402, "operation-refused", "The provider refused the operation",
        "The payment provider refused the capture, void or refund for good, and moved nothing. The same key will \
         always give this answer; see the payment for how it stands now."
    );
    Forbidden(
        403, "forbidden", "This form belongs to another site",
        "Forms are accepted from this site's own pages only. Nothing was executed."
    );
    HttpsRequired(
        403, "https-required", "This is for https only",
        "Credentials and forms are taken over https only. Send the request to the same address with https. Nothing \
         was run."
    );
    NotFound(
        404, "not-found", "There is nothing here",
        "It doesn't exist, or you don't have access."
    );
    MethodNotAllowed(
        405, "method-not-allowed", "This method is not allowed here",
        "The Allow header lists the methods that are."
    );
    RequestTimeout(
        408, "request-timeout", "The body did not come in time",
        "The body of a request has some seconds to come whole. Nothing was executed. Send the same request with the same \
         key again, over a connection that is fast enough."
    );
    InProgress(
        409, "request-in-progress", "The first request with this key is still running",
        "Its result is not there yet. Send the same request with the same key again after the time in Retry-After: \
         you will get that result."
    );
    KeyExpired(
        409, "idempotency-key-expired", "This key was used and its response has expired",
        "The operation of this key has ended, done or refused, and will not be run again. Its stored response is no longer kept; \
         how things stand is told at the address in Location. To do it anew, send a new key."
    );
    PaymentState(
        409, "payment-state", "The payment's state does not allow this",
        "`state` is the payment's state, which does not allow this operation. \
         Nothing was executed. You can use the same key at this address again."
    );
    LimitReached(
        409, "limit-reached", "There are as many tries or operations as there may be",
        "An order can be tried only so often, and a payment takes only so many captures, voids and refunds, and \
         only as much metadata as fits into its record. Nothing was executed. You can use the same key at this address again. To be paid, \
         make a new order under another order id."
    );
    LinkRevision(
        409, "order-link-revision", "The order has a newer link",
        "`revision` names the order's newest link. A link of a lower revision, or of the same one with other \
         content, or of one that was ended, cannot be made: send a higher one, or none. Nothing was changed."
    );
    LinkExpired(
        410, "order-link-expired", "This link has expired",
        "The order was not paid in time, and with this link it cannot be paid any more. Nothing was charged. The \
         shop can make a new link to the same order."
    );
    LinkReplaced(
        410, "order-link-replaced", "This link was replaced by a newer one",
        "The shop has made a newer link to this order, perhaps with another price. Nothing was charged by this one, \
         and it cannot be paid any more. Ask the shop for the newer link."
    );
    LinkEnded(
        410, "order-link-ended", "This link was ended by the shop",
        "The shop has ended this link, and it cannot be paid any more. Nothing was charged by it. Ask the shop if \
         you still want to order."
    );
    RevisionMismatch(
        412, "revision-mismatch", "The customer is of another revision",
        "`revision` says which one it is, 0 if there is none. If-Match named another one: somebody has changed the customer \
         since it was read. Nothing was executed. Read it again, and decide on what you find."
    );
    TooLarge(
        413, "content-too-large", "The body is too large",
        "At most 64 KiB are accepted, of a webhook 256 KiB. What is longer is not read. Nothing was executed."
    );
    UnsupportedMediaType(
        415, "unsupported-media-type", "This media type is not supported",
        "Send application/json or application/x-www-form-urlencoded. Nothing was executed."
    );
    InvalidParameters(
        422, "invalid-parameters", "Some parameters are missing or wrong",
        "Each entry of `errors` names a field and says what to send. Nothing was executed. You can use the same key at this address again."
    );
    KeyReused(
        422, "idempotency-key-reused", "This key was used for another request",
        "A key stands for one request: its address and its parameters, as JSON or as a form. Where none is sent, the order stands for one, or what \
         is done to the payment. `fields`, where it is there, names the parameters that differ from the first use. Send the first request again to get \
         its result, or use a new key for a new payment. Nothing was executed."
    );
    AmountTooLarge(
        422, "amount-too-large", "The amount is more than there is",
        "`available` says how much can be captured or refunded, in minor units; what other requests are moving at \
         the moment is not counted in. Nothing was executed. You can use the same key at this address again."
    );
    TryTooSoon(
        429, "try-too-soon", "The order was tried too often in a row",
        "After several tries that failed there is a pause before the next one, longer each time. Send the same \
         request with the same key again after the time in Retry-After. Nothing was executed. You can use the same key at this address again."
    );
    RateLimited(
        429, "rate-limited", "Too many new requests",
        "Too many new operations were begun: by the account, or at the checkout for one order or from one address. \
         Send the same request with the same key again after the time in Retry-After. Nothing was executed."
    );
    Interrupted(
        500, "interrupted", "The request was interrupted",
        "What was done so far is kept. Send the same request with the same key again: it goes on from there. Without \
         a retry it is completed on its own."
    );
    OutcomeUnknown(
        503, "outcome-unknown", "The outcome is not known yet",
        "The payment provider has not answered so that it is certain whether it did what was asked. We keep asking it. Send the same request \
         with the same key again after the time in Retry-After; it is never done twice."
    );
    Unavailable(
        503, "temporarily-unavailable", "This cannot be done right now",
        "The payment provider accepts nothing at the moment. No money has moved so far; it is tried again. Send the \
         same request with the same key again after the time in Retry-After."
    );
    Unreadable(
        503, "cannot-be-shown", "This cannot be shown right now",
        "It could not be looked up. Nothing was changed by this. Load it again in a moment; do not pay again before \
         you have seen it."
    );
    Misconfigured(
        503, "misconfigured", "This service is not set up",
        "A setting of this service is missing or invalid; its log names it. Nothing was executed. Send the same request \
         with the same key again once it is repaired."
    );
}

impl Kind {
    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.facts().0
    }

    /// The last part of its `type`.
    pub const fn slug(self) -> &'static str {
        self.facts().1
    }

    /// In a few words.
    pub const fn title(self) -> &'static str {
        self.facts().2
    }

    /// What its page says, and the detail where there is nothing more exact.
    pub const fn explanation(self) -> &'static str {
        self.facts().3
    }

    /// Its `type`, relative to this site.
    pub fn type_uri(self) -> String {
        format!("/problems/{}", self.slug())
    }

    /// The kind of this slug.
    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.slug() == slug)
    }
}

/// Why an address shows no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLink {
    /// It is not whole, or was changed.
    Broken,
    /// Its shop takes no payments here any more.
    ShopGone,
}

/// What content an address takes, as 415 tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// See [`crate::http::parse_parameters`].
    JsonOrForm,
    /// JSON alone.
    Json,
    /// What is not compressed: its coding is what was refused.
    NotCompressed,
}

impl Takes {
    /// The types, or the coding.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JsonOrForm => "application/json, application/x-www-form-urlencoded",
            Self::Json => "application/json",
            Self::NotCompressed => "identity",
        }
    }
}

/// A problem, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub kind: Kind,
    /// What happened here and what to do.
    pub detail: String,
    /// The fields that are wrong.
    pub errors: Vec<FieldError>,
    /// The fields that differ from the key's first use.
    pub fields: Vec<String>,
    /// Where the result stands or will stand.
    pub resource: Option<String>,
    /// When to come again, in seconds.
    pub retry_after_s: Option<u64>,
    /// The methods that are allowed, for 405.
    pub allow: Option<String>,
    /// What is taken, for 415.
    pub takes: Takes,
    /// The state that forbids it.
    pub state: Option<String>,
    /// How much there is, in minor units.
    pub available: Option<u64>,
    /// The detail names a setting: in public the log alone has it.
    pub names_setting: bool,
    /// The revision of the order's newest link.
    pub revision: Option<u32>,
    /// Another status than the kind's own, where the settings ask for it.
    pub status: Option<u16>,
    /// Why there is no order, for the page in the customer's language.
    pub bad_link: Option<BadLink>,
    /// With what one proves who one is, where a token will not do: `WWW-Authenticate` ([RFC 9110, 11.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1)).
    pub challenge: Option<&'static str>,
}

/// How many wrong parameters are told of: an answer must not be many times as long as what it answers.
const ERRORS_MAX: usize = 50;
/// The longest name of a parameter that the text repeats, in bytes: ours are shorter.
const NAME_MAX: usize = 64;

/// Parameters that are wrong. The first ones are told of, and the very first one in the text.
pub fn invalid_parameters(mut errors: Vec<FieldError>) -> Problem {
    errors.truncate(ERRORS_MAX);
    let explanation = Kind::InvalidParameters.explanation();
    let detail = match errors.first() {
        // A client may send a name of any length.
        Some(first) if first.field.len() <= NAME_MAX => {
            format!("`{}`: {}. {explanation}", first.field, first.message)
        }
        _ => explanation.to_owned(),
    };
    Problem { errors, ..Problem::because(Kind::InvalidParameters, detail) }
}

impl Problem {
    /// With the kind's own explanation.
    pub fn new(kind: Kind) -> Self {
        Self::because(kind, kind.explanation())
    }

    /// With a more exact one.
    pub fn because(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            errors: Vec::new(),
            fields: Vec::new(),
            resource: None,
            // Whoever waits for an operator need not ask each second.
            retry_after_s: (kind == Kind::Misconfigured).then_some(60),
            allow: None,
            takes: Takes::JsonOrForm,
            state: None,
            available: None,
            names_setting: false,
            revision: None,
            status: None,
            bad_link: None,
            challenge: None,
        }
    }

    /// Asks the client to come again after that many seconds.
    #[must_use]
    pub fn retry_after_s(self, seconds: impl Into<Option<u64>>) -> Self {
        Self { retry_after_s: seconds.into(), ..self }
    }

    /// The same after that many milliseconds, at least a second.
    #[must_use]
    pub fn retry_after_ms(self, ms: u64) -> Self {
        self.retry_after_s(ms.div_ceil(1000).max(1))
    }

    /// An object gave no answer: nobody knows whether the request reached it. The same key finds out.
    pub fn unreachable(resource: &str) -> Self {
        Self {
            retry_after_s: Some(1),
            resource: Some(resource.to_owned()),
            ..Self::because(
                Kind::OutcomeUnknown,
                "The request could not be handed on, or its answer was lost. Send the same request with the same key again \
                 after the time in Retry-After; it is never done twice.",
            )
        }
    }

    /// A setting is missing or wrong, and the detail says which.
    pub fn of_setting(kind: Kind, detail: impl Into<String>) -> Self {
        Self { names_setting: true, ..Self::because(kind, detail) }
    }

    /// A body that is longer than this address takes.
    pub fn too_large(max_bytes: usize) -> Self {
        Self::because(
            Kind::TooLarge,
            format!("This address takes at most {} KiB. Nothing was executed.", max_bytes / 1024),
        )
    }

    /// A body that did not come whole within this time.
    pub fn timed_out(limit_ms: u64) -> Self {
        let detail = format!(
            "The body did not come whole within {} s. Nothing was executed. Send the same request with the same key again, over a \
             connection that is fast enough.",
            limit_ms.div_ceil(1000)
        );
        Self { retry_after_s: Some(1), ..Self::because(Kind::RequestTimeout, detail) }
    }

    /// A form where JSON alone is taken.
    pub fn json_alone(detail: &str) -> Self {
        Self { takes: Takes::Json, ..Self::because(Kind::UnsupportedMediaType, detail) }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status.unwrap_or(self.kind.status())
    }

    /// The JSON body; `instance` is this request's id.
    pub fn to_json(&self, instance: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: String,
            title: &'a str,
            status: u16,
            detail: &'a str,
            instance: &'a str,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            errors: &'a [FieldError],
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            fields: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            resource: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            state: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            available: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            revision: Option<u32>,
        }
        let body = Body {
            r#type: self.kind.type_uri(),
            title: self.kind.title(),
            status: self.status(),
            detail: &self.detail,
            instance,
            errors: &self.errors,
            fields: &self.fields,
            resource: self.resource.as_deref(),
            state: self.state.as_deref(),
            available: self.available,
            revision: self.revision,
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }
}
