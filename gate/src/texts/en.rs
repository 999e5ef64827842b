//! English.

use super::page_texts::Texts;
use crate::say::Say;

pub(super) const EN: Texts = Texts {
    page,
    closing: "Go back, load that page again, and send it from there if it is still needed.",
    reference: "Reference",
    see_answer: "See the answer",
    quiet: "The site may still be at work on it: look again {when}. If it has not arrived by then, you can send it as new.",
    in_a_second: "in a second",
    in_seconds: "in {n} seconds",
    in_minutes: "in {n} minutes",
    look_again: "Look again",
    send_as_new: "Send it as new",
    send_not_arrived: "It did not arrive: send it as new",
    send: "Send",
};

const fn page(say: Say) -> (&'static str, &'static str) {
    match say {
        Say::UnderWay => (
            "It is on its way",
            "What you sent is still being worked on. Wait a moment, then look again: it is not sent twice.",
        ),
        Say::Differs => (
            "This form was sent already",
            "It was sent and answered before, and what stands in it now is different. Nothing was sent this time.",
        ),
        Say::AlreadyDone => (
            "This was sent already",
            "It was sent and done once. Its answer cannot be shown here again: look at your orders, or log in again.",
        ),
        Say::Unknown => (
            "It is not known whether this arrived",
            "The site did not say whether it was done. It was not sent again, so that nothing happens twice. Look at your orders, or \
             your email, before you try again; the site’s staff can find it by the reference.",
        ),
        Say::NeverSent => (
            "The site could not be reached",
            "Nothing was sent. Try again in a moment: it cannot happen twice.",
        ),
        Say::NotDone => (
            "This was not done",
            "It was sent, and the site’s staff have found that it was not done. Load the page again and send it once more.",
        ),
        Say::NoAnswer => (
            "The site did not answer",
            "This was sent without what keeps it from happening twice: it is not known whether it arrived. Try again in a moment, if that does \
             no harm.",
        ),
        Say::Unreachable => (
            "The site could not be reached",
            "It does not answer at the moment. Load this page again in a little while.",
        ),
        Say::Old => (
            "This page was open for a long time",
            "What stands in it may not be true any more, and it may have been sent before. Nothing was sent now.",
        ),
        Say::TooMany => (
            "This form was sent very often",
            "Load the page that it stands on again, and send it from there.",
        ),
        Say::RateLimited => (
            "Please wait a moment",
            "More was sent from your network in a short time than this site takes. Nothing was sent this time: try again in a minute.",
        ),
        Say::KeyMissing => (
            "One more click is needed",
            "This form came without the key that keeps it from being sent twice. Nothing was sent yet.",
        ),
        Say::CrossSite => (
            "This came from another site",
            "It was not sent from a page of this site. Nothing was sent: open the page that it stands on here, and send it from there.",
        ),
        Say::TooLarge => {
            ("This is too large", "It has more bytes than this address takes. Nothing was sent.")
        }
        Say::Unreadable => (
            "The request could not be read",
            "It broke off. Nothing was sent: send it again, it cannot happen twice.",
        ),
        Say::Unavailable => (
            "This does not work at the moment",
            "It is not known whether what you sent has arrived. Send it again: it cannot happen twice.",
        ),
        Say::Misconfigured => (
            "This site is not set up",
            "A setting is missing or wrong; the site’s staff find its name in the log. Nothing was sent.",
        ),
        Say::NothingHere => {
            ("There is nothing here", "Nothing was sent with this key, or it was sent by somebody else.")
        }
        Say::KeyExpired | Say::KeySpent | Say::KeyInvalid | Say::Unidentified => say.to_client(),
    }
}
