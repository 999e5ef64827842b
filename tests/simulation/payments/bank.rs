//! What both providers have in common: a ledger of payments and refunds, and keys that remember their answers.
//!
//! Independent of the core: it knows what a provider does with money, from the providers' documentation.

mod customers;
mod keys;
mod objects;

use super::elsewhere::{DASHBOARD, Effect};
use crate::faults::Oddity;
pub(super) use customers::Customer;
pub(super) use keys::{Keys, Memory};
pub(super) use objects::{Card, Dispute, Intent, Refund, Status};
use payments::providers::HttpAnswer;

/// What a request asks for.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Create {
        resource: String,
        amount: u64,
        currency: String,
        manual: bool,
        card: Card,
        page: bool,
    },
    Capture {
        intent: String,
        amount: u64,
    },
    Cancel {
        intent: String,
    },
    Refund {
        intent: String,
        amount: u64,
    },
    /// A customer is to be so; without an id it is made.
    Customer {
        id: Option<String>,
        email: String,
        name: String,
    },
}

/// What came of it.
pub(crate) enum Done {
    Intent(Intent),
    Refund(Refund),
    Customer(Customer),
    Declined(Option<Intent>),
    /// Not in this state: what the payment is now.
    State(Intent),
    TooMuch,
    /// A bank is about to take it back, or has.
    Disputed,
    Missing,
    Failed,
}

/// What is decided later.
#[derive(Clone, Debug)]
pub(crate) enum Later {
    /// The person who pays is at the bank's page.
    Page {
        intent: String,
    },
    Intent {
        intent: String,
        ms: u64,
        good: bool,
    },
    Refund {
        refund: String,
        ms: u64,
        good: bool,
    },
    /// The bank sends a refund back that was done.
    Back {
        refund: String,
    },
    /// A capture or a void that was received is worked on.
    Modify {
        by: String,
        asked: Asked,
        ms: u64,
        good: bool,
    },
    /// A capture fails days later.
    CaptureFails {
        intent: String,
    },
    /// The provider repeats by itself a capture that has failed.
    Recapture {
        intent: String,
    },
    /// What was reserved lapses.
    Expire {
        intent: String,
    },
    /// A reservation's time is over.
    Lapse {
        intent: String,
    },
    /// A bank wants money back, or only asks.
    Dispute {
        intent: String,
        permille: u64,
        inquiry: bool,
    },
    /// It has decided.
    DisputeEnds {
        dispute: String,
        status: &'static str,
    },
    /// A person does something at the provider's dashboard.
    Person {
        intent: String,
        does: Effect,
    },
    /// The provider has failed, and completes the work by itself.
    RollForward {
        by: String,
        asked: Asked,
        ms: u64,
    },
    /// What was refused was authorised after all.
    Revive {
        intent: String,
    },
    /// Somebody confirms again what was declined.
    Confirm {
        intent: String,
    },
}

/// The books.
pub(crate) struct Ledger {
    prefix: &'static str,
    /// How long after it was made a payment is not listed yet.
    lists_lag_ms: u64,
    pub(crate) intents: Vec<Intent>,
    pub(crate) refunds: Vec<Refund>,
    pub(crate) disputes: Vec<Dispute>,
    pub(crate) customers: Vec<Customer>,
}

const HOURS_MS: u64 = 3 * 3_600_000;

const fn nameless_until_ms(now_ms: u64, odd: Option<Oddity>) -> u64 {
    match odd {
        Some(Oddity::OtherAmount { ms }) => now_ms + ms,
        _ => 0,
    }
}

impl Ledger {
    pub(crate) const fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            lists_lag_ms: 0,
            intents: Vec::new(),
            refunds: Vec::new(),
            disputes: Vec::new(),
            customers: Vec::new(),
        }
    }

    pub(crate) fn with_lists_that_lag(self, lists_lag_ms: u64) -> Self {
        Self { lists_lag_ms, ..self }
    }

    pub(crate) fn intent(&self, id: &str) -> Option<&Intent> {
        self.intents.iter().find(|intent| intent.id == id)
    }

    pub(super) fn intent_mut(&mut self, id: &str) -> Option<&mut Intent> {
        self.intents.iter_mut().find(|intent| intent.id == id)
    }

    /// What was given back of a payment, or will be.
    pub(crate) fn refunded(&self, intent: &str) -> u64 {
        let counts = |refund: &&Refund| refund.intent == intent && refund.status != "failed";
        self.refunds.iter().filter(counts).map(|refund| refund.amount).sum()
    }

    /// What of that was given back at the dashboard.
    pub(crate) fn refunded_elsewhere(&self, intent: &str) -> u64 {
        let counts = |refund: &&Refund| {
            refund.intent == intent && refund.status != "failed" && refund.by.starts_with(DASHBOARD)
        };
        self.refunds.iter().filter(counts).map(|refund| refund.amount).sum()
    }

    pub(super) fn refund_elsewhere(&mut self, intent: &str, amount: u64) {
        let number = 1 + self.refunds.len() as u64;
        self.refunds.push(Refund {
            id: format!("{}r{number}", self.prefix),
            number,
            intent: intent.to_owned(),
            amount,
            by: format!("{DASHBOARD}-{number}"),
            status: "succeeded",
            nameless_until_ms: 0,
            came_back: false,
        });
    }

    /// A reservation's time is over.
    pub(crate) fn lapse(&mut self, id: &str) -> bool {
        let Some(intent) = self.intent_mut(id).filter(|intent| intent.status == Status::Reserved) else {
            return false;
        };
        (intent.status, intent.moved_by) = (Status::Expired, Some(DASHBOARD.to_owned()));
        true
    }

    /// The dispute of a payment.
    pub(crate) fn dispute_of(&self, intent: &str) -> Option<&Dispute> {
        self.disputes.iter().find(|dispute| dispute.intent == intent)
    }

    /// How often money was taken.
    pub(crate) fn charges(&self) -> u64 {
        self.intents.iter().filter(|intent| intent.captured > 0).count() as u64
    }

    pub(crate) fn perform(
        &mut self,
        now_ms: u64,
        by: &str,
        asked: Asked,
        odd: Option<Oddity>,
    ) -> (Done, Option<Later>) {
        if matches!(odd, Some(Oddity::Uncharged500 | Oddity::Uncharged500Final)) {
            return (Done::Failed, None);
        }
        if let Some(Oddity::RolledForward { ms }) = odd {
            return (Done::Failed, Some(Later::RollForward { by: by.to_owned(), asked, ms }));
        }
        match asked {
            Asked::Create { resource, amount, currency, manual, card, page } => {
                let status = match (odd, card) {
                    (Some(Oddity::Declined), _) | (_, Card::Declined) => Status::Refused,
                    (Some(Oddity::Processing { .. }), _) | (_, Card::Slow) => Status::Processing,
                    (Some(Oddity::LeftOpen { .. }), _) => Status::Action,
                    (_, Card::Page) if page => Status::Action,
                    (_, Card::Page) => Status::Refused,
                    _ if manual => Status::Reserved,
                    _ => Status::Captured,
                };
                let number = 1 + self.intents.len() as u64;
                let intent = Intent {
                    id: format!("{}{number}", self.prefix),
                    number,
                    created_s: now_ms / 1000,
                    by: by.to_owned(),
                    resource,
                    amount,
                    currency,
                    manual,
                    card,
                    status,
                    captured: if status == Status::Captured { amount } else { 0 },
                    taken: if status == Status::Captured { amount } else { 0 },
                    is_revived: false,
                    was_held: matches!(status, Status::Reserved | Status::Captured),
                    moved_by: None,
                    has_erred: false,
                    has_no_page: matches!(odd, Some(Oddity::LeftOpen { .. })),
                    nameless_until_ms: nameless_until_ms(now_ms, odd),
                    listed_from_ms: now_ms + self.lists_lag_ms,
                };
                self.intents.push(intent.clone());
                let id = intent.id.clone();
                let later = match (status, odd) {
                    (Status::Action, Some(Oddity::LeftOpen { ms })) => {
                        Some(Later::Intent { intent: id, ms, good: true })
                    }
                    (Status::Action, _) => Some(Later::Page { intent: id }),
                    (Status::Processing, Some(Oddity::Processing { ms, charged })) => {
                        Some(Later::Intent { intent: id, ms, good: charged })
                    }
                    (Status::Processing, _) => Some(Later::Intent { intent: id, ms: HOURS_MS, good: true }),
                    _ => None,
                };
                (
                    if status == Status::Refused {
                        Done::Declined(Some(intent))
                    } else {
                        Done::Intent(intent)
                    },
                    later,
                )
            }
            Asked::Capture { intent, amount } => (self.capture(by, &intent, amount, odd), None),
            Asked::Cancel { intent } => {
                let Some(intent) = self.intent_mut(&intent) else { return (Done::Missing, None) };
                if odd == Some(Oddity::Declined)
                    || matches!(
                        intent.status,
                        Status::Captured | Status::CaptureFailed | Status::Canceled | Status::Expired
                    )
                {
                    return (Done::State(intent.clone()), None);
                }
                intent.status = Status::Canceled;
                intent.moved_by = Some(by.to_owned());
                (Done::Intent(intent.clone()), None)
            }
            Asked::Refund { intent, amount } => self.refund(now_ms, by, &intent, amount, odd),
            Asked::Customer { id, email, name } => {
                (self.write_customer(now_ms, by, (id, email, name), odd), None)
            }
        }
    }

    fn capture(&mut self, by: &str, intent: &str, amount: u64, odd: Option<Oddity>) -> Done {
        let Some(intent) = self.intent_mut(intent) else { return Done::Missing };
        if intent.status != Status::Reserved {
            return Done::State(intent.clone());
        }
        if odd == Some(Oddity::Declined) {
            return Done::Declined(None);
        }
        if amount > intent.amount {
            return Done::TooMuch;
        }
        intent.status = Status::Captured;
        intent.captured = amount;
        intent.taken = amount;
        intent.moved_by = Some(by.to_owned());
        Done::Intent(intent.clone())
    }

    /// A capture fails days later, if nothing of it was given back. Gives what is left of the payment.
    pub(crate) fn fail_capture(&mut self, id: &str) -> Option<Intent> {
        let is_whole = self.refunded(id) == 0;
        let intent = self.intent_mut(id).filter(|intent| intent.status == Status::Captured && is_whole)?;
        (intent.status, intent.captured) = (Status::CaptureFailed, 0);
        Some(intent.clone())
    }

    /// The provider repeats it.
    pub(crate) fn recapture(&mut self, id: &str) -> Option<Intent> {
        let intent = self.intent_mut(id).filter(|intent| intent.status == Status::CaptureFailed)?;
        (intent.status, intent.captured) = (Status::Captured, intent.taken);
        Some(intent.clone())
    }

    /// What was refused was authorised after all.
    pub(crate) fn revive(&mut self, id: &str) {
        let Some(intent) = self.intent_mut(id).filter(|intent| intent.status == Status::Refused) else {
            return;
        };
        (intent.is_revived, intent.was_held) = (true, true);
        intent.status = if intent.manual { Status::Reserved } else { Status::Captured };
        if !intent.manual {
            (intent.captured, intent.taken) = (intent.amount, intent.amount);
        }
    }

    /// What was reserved lapses.
    pub(crate) fn expire(&mut self, id: &str) -> Option<Intent> {
        let intent = self.intent_mut(id).filter(|intent| intent.status == Status::Reserved)?;
        intent.status = Status::Expired;
        Some(intent.clone())
    }

    fn refund(
        &mut self,
        now_ms: u64,
        by: &str,
        id: &str,
        amount: u64,
        odd: Option<Oddity>,
    ) -> (Done, Option<Later>) {
        let refunded = self.refunded(id);
        let Some(intent) = self.intent(id) else { return (Done::Missing, None) };
        if intent.status != Status::Captured || refunded + amount > intent.captured {
            return (Done::TooMuch, None);
        }
        if self.dispute_of(id).is_some_and(|dispute| !dispute.permits_refunds()) {
            return (Done::Disputed, None);
        }
        if odd == Some(Oddity::Declined) {
            return (Done::Declined(None), None);
        }
        let number = 1 + self.refunds.len() as u64;
        let refund = format!("{}r{number}", self.prefix);
        let decided = |ms, good| Some(Later::Refund { refund: refund.clone(), ms, good });
        let later = match (odd, intent.card) {
            (Some(Oddity::Processing { ms, charged }), _) => decided(ms, charged),
            (_, Card::PendingRefund) => decided(HOURS_MS, true),
            (_, Card::FailingRefund) => decided(HOURS_MS, false),
            _ => None,
        };
        let status = if later.is_some() { "pending" } else { "succeeded" };
        let by = by.to_owned();
        let refund = Refund {
            id: refund.clone(),
            number,
            intent: id.to_owned(),
            amount,
            by,
            status,
            came_back: false,
            nameless_until_ms: nameless_until_ms(now_ms, odd),
        };
        self.refunds.push(refund.clone());
        (Done::Refund(refund), later)
    }

    /// The bank has decided about a payment.
    pub(crate) fn decide(&mut self, id: &str, good: bool) {
        let Some(intent) = self.intent_mut(id) else { return };
        if !matches!(intent.status, Status::Action | Status::Processing) {
            return;
        }
        intent.status = match (good, intent.manual) {
            (false, _) => Status::Refused,
            (true, true) => Status::Reserved,
            (true, false) => Status::Captured,
        };
        intent.was_held |= good;
        if intent.status == Status::Captured {
            intent.captured = intent.amount;
            intent.taken = intent.amount;
        }
    }

    /// The person has done their part at the bank's page; the bank takes its time.
    pub(crate) fn begin_processing(&mut self, id: &str) {
        if let Some(intent) = self.intent_mut(id).filter(|intent| intent.status == Status::Action) {
            intent.status = Status::Processing;
        }
    }

    /// It is received, and decided later.
    pub(crate) fn take_in_refund(&mut self, id: &str) {
        if let Some(refund) = self.refunds.iter_mut().find(|refund| refund.id == id) {
            refund.status = "pending";
        }
    }

    /// The bank sends a refund back.
    pub(crate) fn send_back(&mut self, id: &str) {
        if let Some(refund) = self.refunds.iter_mut().find(|refund| refund.id == id) {
            (refund.status, refund.came_back) = ("failed", true);
        }
    }

    pub(crate) fn decide_refund(&mut self, id: &str, good: bool) {
        if let Some(refund) = self.refunds.iter_mut().find(|refund| refund.id == id) {
            refund.status = if good { "succeeded" } else { "failed" };
        }
    }
}

struct Entry {
    parameters: String,
    pruned_at_ms: u64,
    /// `None` while it is executing.
    stored: Option<HttpAnswer>,
}
