//! Every status that the desk shows, once: its word, its tone and what it means. Lists, pages, filters, timelines and plots read them here, so
//! that one thing has one name wherever it stands. Where the API names a status its word is the API's own.

use super::view_models::Cell;
use payments::payment::statuses::STATUSES;

/// What has a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entity {
    /// A payment, and each try of it.
    Payment,
    /// A refund.
    Refund,
    /// An idempotency key.
    Key,
    /// A call to a provider.
    Call,
    /// A job, or a webhook in the inbox.
    Job,
    /// A difference between the provider's books and ours.
    Break,
    /// A report of Adyen's.
    Report,
    /// What the gate has passed on.
    Gate,
    /// An API account.
    Account,
    /// A token of one.
    Token,
    /// A key that one has of its own at Stripe.
    Credential,
}

/// A status.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// As it is stored.
    pub name: &'static str,
    /// As it is shown.
    pub word: &'static str,
    /// `good`, `warn`, `bad` or `plain`.
    pub tone: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
}

const fn status(name: &'static str, word: &'static str, tone: &'static str, meaning: &'static str) -> Status {
    Status { name, word, tone, meaning }
}

const PAYMENT: [Status; 12] = [
    status("processing", "processing", "warn", "Not decided yet, or the provider’s answer is not known."),
    status(
        "requires_action",
        "requires action",
        "warn",
        "The person who pays must go to the bank’s page first.",
    ),
    status("requires_capture", "requires capture", "warn", "Authorized: it can be captured or voided."),
    status(
        "capturing",
        "capturing",
        "warn",
        "The provider has received a capture and has not said how it ended.",
    ),
    status("voiding", "voiding", "warn", "The provider has received a void and has not said how it ended."),
    status("succeeded", "succeeded", "good", "The money was captured."),
    status(
        "capture_failed",
        "capture failed",
        "bad",
        "The provider took the capture back, and may repeat it by itself.",
    ),
    status("disputed", "disputed", "bad", "The money was captured, and a bank wants it back or has got it."),
    status("canceled", "canceled", "plain", "It was canceled. Nothing was charged."),
    status("expired", "expired", "plain", "What was reserved was not captured in time. Nothing was charged."),
    status("declined", "declined", "bad", "The bank said no, for good. Nothing was charged."),
    status("failed", "failed", "bad", "The provider refused it, for good. Nothing was charged."),
];

const REFUND: [Status; 3] = [
    status("pending", "pending", "warn", "The provider decides later."),
    status("succeeded", "succeeded", "good", "The money was given back."),
    status("failed", "failed", "bad", "It was not given back: it can be refunded again."),
];

const KEY: [Status; 5] = [
    status("open", "processing", "warn", "Its operation is under way, or is taken up again by itself."),
    status(
        "unknown",
        "unknown",
        "warn",
        "Nobody knows yet whether the provider moved money: it is asked until it says so.",
    ),
    status("flagged", "needs review", "bad", "It does not go on by itself: a person must look."),
    status("finished", "complete", "good", "Its response is stored: a retry gets the same bytes."),
    status(
        "expired",
        "expired",
        "plain",
        "Its response is gone. A retry is refused, and never charges again.",
    ),
];

const CALL: [Status; 4] = [
    status(
        "frozen",
        "not executed so far",
        "warn",
        "It is written down and was not sent, or every send was refused.",
    ),
    status(
        "in_flight",
        "in flight",
        "warn",
        "It is being sent, or whoever sent it died before the answer came.",
    ),
    status("unknown", "unknown", "warn", "It was sent and has no answer that settles it."),
    status("settled", "settled", "good", "How it ended is known for good."),
];

const JOB: [Status; 6] = [
    status("waiting", "waiting", "warn", "It has come and is not worked on yet."),
    status("tried", "being tried", "warn", "It has failed and is tried again, or is under way."),
    status("attempted", "unknown", "warn", "It was sent, and nobody knows whether it arrived."),
    status("done", "done", "good", "It is done, once."),
    status("dead", "dead letter", "bad", "It failed for good: a person requeues or purges it."),
    status("purged", "purged", "plain", "It was dropped, with what it carried."),
];

const BREAK: [Status; 4] = [
    status("open", "open", "warn", "The provider’s records and our records differ."),
    status("repaired", "repaired", "good", "The payment was asked anew, and both sides agree since."),
    status("resolved", "resolved", "good", "Both sides agree again by themselves."),
    status("accepted", "accepted", "plain", "An operator has said that the difference is right."),
];

const GATE: [Status; 8] = [
    status(
        "unknown",
        "needs review",
        "bad",
        "Nobody knows whether it was done, and it is not sent again: an operator says how it ended.",
    ),
    status(
        "in_doubt",
        "unknown",
        "warn",
        "The site’s answer was lost. The site is asked, or sent the request again under its key, once its visitor comes back.",
    ),
    status("open", "processing", "warn", "It is being passed on, or is taken up again by itself."),
    status("done", "done", "good", "It was done, once: duplicates get its answer."),
    status(
        "shown_again",
        "shown again",
        "plain",
        "The site has shown the form again, as after invalid input: other content may be sent.",
    ),
    status("refused", "rejected", "plain", "The site has refused it: it may be sent again."),
    status("never_sent", "never sent", "plain", "The site was not reached: it may be sent again."),
    status(
        "not_done",
        "not done",
        "plain",
        "An operator has found that it was not done: it may be sent again.",
    ),
];

const ACCOUNT: [Status; 3] = [
    status("active", "active", "good", "Its tokens are good, and it may charge."),
    status(
        "closed",
        "closed",
        "plain",
        "Its tokens are refused and its links cannot be paid. What it has charged stays.",
    ),
    status("configured", "configured", "plain", "The secret API_ACCOUNTS sets it."),
];

const CREDENTIAL: [Status; 2] = [
    status("live", "live", "good", "It moves real money."),
    status("test", "test", "plain", "It moves no money."),
];

const TOKEN: [Status; 3] = [
    status("active", "active", "good", "It is good until somebody ends it."),
    status("ending", "ending", "warn", "It is good for a while yet."),
    status("ended", "ended", "plain", "It is refused."),
];

const REPORT: [Status; 3] = [
    status("waiting", "waiting", "warn", "It has come and is not read to its end yet."),
    status("done", "done", "good", "All of its lines are compared."),
    status("refused", "refused", "bad", "It is read no further: what was read before counts."),
];

/// Payments that ended alike, as the filter, the overview's tiles and its plot put them together.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// In the address of the filter.
    pub name: &'static str,
    /// As it is shown.
    pub word: &'static str,
    /// As it is shown in the filter.
    pub filter: &'static str,
    /// The statuses of its payments.
    pub statuses: &'static [&'static str],
}

/// Each payment has one of these.
pub const OUTCOMES: [Outcome; 4] = [
    Outcome {
        name: "paid",
        word: "Paid",
        filter: "paid: succeeded or disputed",
        statuses: &["succeeded", "disputed"],
    },
    Outcome {
        name: "not_paid",
        word: "Not paid",
        filter: "not paid: declined or failed",
        statuses: &["declined", "failed"],
    },
    Outcome {
        name: "undecided",
        word: "Not decided",
        filter: "not decided",
        statuses: &["processing", "requires_action", "requires_capture", "capture_failed"],
    },
    Outcome {
        name: "called_off",
        word: "Canceled or expired",
        filter: "canceled or expired",
        statuses: &["canceled", "expired"],
    },
];

impl Outcome {
    /// Its statuses, as a list of SQL.
    pub fn sql(&self) -> String {
        let quoted: Vec<String> = self.statuses.iter().map(|name| format!("'{name}'")).collect();
        quoted.join(", ")
    }
}

impl Entity {
    /// All of its statuses, in the order in which it has them.
    pub const fn statuses(self) -> &'static [Status] {
        match self {
            Self::Payment => &PAYMENT,
            Self::Refund => &REFUND,
            Self::Key => &KEY,
            Self::Call => &CALL,
            Self::Job => &JOB,
            Self::Break => &BREAK,
            Self::Report => &REPORT,
            Self::Gate => &GATE,
            Self::Account => &ACCOUNT,
            Self::Token => &TOKEN,
            Self::Credential => &CREDENTIAL,
        }
    }

    /// The status of this name, if there is one.
    pub fn find(self, name: &str) -> Option<&'static Status> {
        self.statuses().iter().find(|status| status.name == name)
    }

    /// As a chip. A name that is not known, such as one of a newer release, is shown as it is.
    pub fn chip(self, name: &str) -> Cell {
        match self.find(name) {
            Some(status) => Cell { title: status.meaning, ..Cell::chip(status.word, status.tone) },
            None => Cell::chip(name.replace('_', " "), "plain"),
        }
    }

    /// The word alone.
    pub fn word(self, name: &str) -> &str {
        self.find(name).map_or(name, |status| status.word)
    }

    /// Each as a chip, with what it means.
    pub fn legend(self) -> Vec<(Cell, &'static str)> {
        self.statuses().iter().map(|status| (Cell::chip(status.word, status.tone), status.meaning)).collect()
    }
}

/// The payments' filter: each outcome, then each status.
pub fn payment_filters() -> Vec<(&'static str, &'static str)> {
    let outcomes = OUTCOMES.iter().map(|outcome| (outcome.name, outcome.filter));
    let statuses = STATUSES.iter().filter_map(|name| Entity::Payment.find(name));
    outcomes.chain(statuses.map(|status| (status.name, status.word))).collect()
}

/// The statuses of which the filter asks. `None` if it asks for none that there is.
pub fn filtered(chosen: &str) -> Option<Vec<&'static str>> {
    let outcome = OUTCOMES.iter().find(|outcome| outcome.name == chosen);
    let status = STATUSES.iter().find(|status| **status == chosen);
    outcome.map(|outcome| outcome.statuses.to_vec()).or_else(|| status.map(|status| vec![*status]))
}

/// The status of a key, from how the read model has it.
pub fn of_key(status: &str, is_flagged: bool, is_in_doubt: bool) -> Cell {
    Entity::Key.chip(match (status, is_flagged, is_in_doubt) {
        ("open", true, _) => "flagged",
        ("open", false, true) => "unknown",
        (other, ..) => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const THINGS: [Entity; 10] = [
        Entity::Payment,
        Entity::Refund,
        Entity::Key,
        Entity::Call,
        Entity::Job,
        Entity::Break,
        Entity::Report,
        Entity::Gate,
        Entity::Account,
        Entity::Token,
    ];

    #[test]
    fn each_status_has_one_word_one_tone_and_a_sentence() {
        for thing in THINGS {
            let statuses = thing.statuses();
            let names: BTreeSet<_> = statuses.iter().map(|status| status.name).collect();
            let words: BTreeSet<_> = statuses.iter().map(|status| status.word).collect();
            assert_eq!((names.len(), words.len()), (statuses.len(), statuses.len()), "{thing:?}");
            for status in statuses {
                assert!(["good", "warn", "bad", "plain"].contains(&status.tone), "{status:?}");
                assert!(status.meaning.ends_with('.'), "{status:?}");
                let chip = thing.chip(status.name);
                assert_eq!(
                    (chip.text.as_str(), chip.chip, chip.title),
                    (status.word, status.tone, status.meaning)
                );
            }
        }
    }

    #[test]
    fn a_payment_s_word_is_the_api_s_and_each_status_is_in_one_outcome() {
        for name in STATUSES {
            assert_eq!(Entity::Payment.word(name), name.replace('_', " "));
            assert!(Entity::Payment.find(name).is_some(), "{name}");
            let outcomes = OUTCOMES.iter().filter(|outcome| outcome.statuses.contains(&name));
            assert_eq!(outcomes.count(), 1, "{name}");
        }
        let grouped: usize = OUTCOMES.iter().map(|outcome| outcome.statuses.len()).sum();
        assert_eq!(grouped, STATUSES.len(), "no outcome has a status that the API has not");
    }

    #[test]
    fn the_filter_offers_each_outcome_and_each_status_and_nothing_else_is_asked() {
        let offered = payment_filters();
        assert_eq!(offered.len(), OUTCOMES.len() + STATUSES.len());
        let names: BTreeSet<_> = offered.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), offered.len(), "no outcome is called as a status");
        assert!(offered.iter().all(|(name, _)| filtered(name).is_some()));
        assert_eq!(filtered("not_paid"), Some(vec!["declined", "failed"]));
        assert_eq!(filtered("declined"), Some(vec!["declined"]));
        assert_eq!((filtered("') OR ('"), filtered("")), (None, None));
    }

    #[test]
    fn what_one_word_says_of_two_things_has_one_tone() {
        for word in THINGS.iter().flat_map(|thing| thing.statuses()).map(|status| status.word) {
            let alike = THINGS.iter().flat_map(|thing| thing.statuses()).filter(|status| status.word == word);
            let tones: BTreeSet<_> = alike.map(|status| status.tone).collect();
            assert_eq!(tones.len(), 1, "{word}: {tones:?}");
        }
    }

    #[test]
    fn a_status_of_a_newer_release_is_shown_as_it_is() {
        let chip = Entity::Payment.chip("on_hold");
        assert_eq!((chip.text.as_str(), chip.chip, chip.title), ("on hold", "plain", ""));
    }

    #[test]
    fn a_key_that_needs_a_person_says_so_before_anything_else() {
        let word = |status, flagged, doubt| of_key(status, flagged, doubt).text;
        assert_eq!(word("open", true, true), "needs review");
        assert_eq!(word("open", false, true), "unknown");
        assert_eq!(
            (word("open", false, false), word("finished", true, true)),
            ("processing".into(), "complete".into())
        );
    }
}
