//! What the gate has to say.

/// Makes [`Say`] of its table: status, the last part of the problem's `type`, and the title and text for a client of an API.
macro_rules! says {
    ($($name:ident($status:literal, $slug:literal, $title:literal, $text:literal);)*) => {
        /// What it says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Say {
            $(#[doc = concat!($title, ".")] $name,)*
        }

        impl Say {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn facts(self) -> (u16, &'static str, &'static str, &'static str) {
                match self {
                    $(Self::$name => ($status, $slug, $title, $text),)*
                }
            }
        }
    };
}

says! {
    UnderWay(
        409, "request-in-progress", "The first request with this key is still running",
        "Its answer is not there yet. Send the same request with the same key again after the time in Retry-After: it is not passed \
         on twice."
    );
    Differs(
        422, "idempotency-key-reused", "This key was used for another request",
        "A key stands for one request, and this one is different. Send the first request again to get its answer, or use a new key. \
         Nothing was passed on."
    );
    AlreadyDone(
        409, "already-done", "This request was done already",
        "It was passed on and done once, and its answer cannot be given here again: it belongs to another session, or was too large to be \
         kept. Nothing was passed on now."
    );
    Unknown(
        502, "outcome-unknown", "It is not known whether this was done",
        "It was passed on to the site, and no answer says whether it was done. It is not passed on again, so that nothing happens twice. Look there before you send it with \
         a new key; the site's staff can find it by the reference."
    );
    NeverSent(
        503, "not-sent", "The site could not be reached",
        "Nothing was passed on. Send the same request with the same key again after the time in Retry-After."
    );
    NotDone(
        409, "not-done", "This was not done",
        "It was passed on, and the site's staff have found that it was not done. Send the same request with the same key again: it is \
         passed on once more."
    );
    NoAnswer(
        503, "no-answer", "The site did not answer",
        "This was passed on without a key: it is not known whether it arrived. Send it again only if that does no harm."
    );
    Unreachable(
        503, "site-unreachable", "The site could not be reached",
        "It does not answer at the moment. Ask again in a little while."
    );
    Old(
        409, "form-too-old", "This page was open for a long time",
        "What stands in it may not be true any more, and it may have been sent before. Nothing was passed on now."
    );
    TooMany(
        429, "too-many-tries", "This form was sent very often",
        "What was sent with it was refused each time. Nothing was passed on now: load the page that it stands on again."
    );
    RateLimited(
        429, "rate-limited", "Too many new requests",
        "More was sent from this network in a short time than this site takes. Nothing was passed on: send the same request again after the \
         time in Retry-After. What was done before is answered all the same."
    );
    KeyExpired(
        409, "idempotency-key-expired", "This key was used, and its answer has expired",
        "What was answered is not kept any more. Nothing was passed on now: a new request takes a new key."
    );
    KeySpent(
        409, "limit-reached", "This key was used too often",
        "What was sent with it was refused each time. Nothing was passed on now: another try takes a new key."
    );
    KeyMissing(
        400, "idempotency-key-missing", "The Idempotency-Key header is missing",
        "What is sent here carries a key, so that a retry is never done twice. Make a new one, such as a UUID, for each operation, and send the \
         same key with each retry of it. A number that the browser has made by itself is none. Nothing was passed on."
    );
    KeyInvalid(
        400, "idempotency-key-invalid", "The Idempotency-Key is not valid",
        "A key is 1 to 255 visible ASCII characters, in double quotes or bare. Nothing was passed on."
    );
    Unidentified(
        400, "client-unknown", "It is not known who sends this",
        "A key is its client's own, and this request says nowhere whose it is: neither by a header nor by a session that \
         stays the same. Nothing was passed on. The site's staff can name the header that says it, in the gate's setting identity, \
         or the cookie that stays the same, in session."
    );
    CrossSite(
        403, "cross-site", "This came from another site",
        "It was not sent from a page of this site. Nothing was passed on."
    );
    TooLarge(
        413, "too-large", "This is too large",
        "It has more bytes than this address takes. Nothing was passed on."
    );
    Unreadable(
        400, "bad-request", "The request could not be read",
        "It broke off. Nothing was passed on: send it again, it cannot happen twice."
    );
    Unavailable(
        503, "temporarily-unavailable", "This does not work at the moment",
        "It is not known whether what you sent has arrived. Send the same request with the same key again: it cannot happen twice."
    );
    Misconfigured(
        500, "misconfigured", "The gate is not set up",
        "A setting is missing or wrong; the log names it. Nothing was passed on."
    );
    NothingHere(
        404, "not-found", "There is nothing here",
        "Nothing was sent with this key, or it was sent by somebody else."
    );
}

impl Say {
    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.facts().0
    }

    /// One word for the log.
    pub const fn slug(self) -> &'static str {
        self.facts().1
    }

    /// Title and text for a client of an API. Programs read English.
    pub const fn to_client(self) -> (&'static str, &'static str) {
        let (_, _, title, text) = self.facts();
        (title, text)
    }
}
