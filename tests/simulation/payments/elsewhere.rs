//! What happens at Stripe without us, days later: a reservation lapses, the bank sends a refund back or takes money back, a person
//! captures, cancels or refunds at the dashboard, or in Adyen's Customer Area. Whether any of it is told of is another matter: in half of the histories all webhooks are lost.

use std::collections::BTreeSet;

use super::bank::{Dispute, Intent, Later, Ledger, Status};
use super::world::{Event, World};
use crate::faults::{HOUR, MINUTE, SECOND};
use crate::rng::Rng;

const DAY: u64 = 24 * HOUR;
/// What a person moves at the dashboard is moved by no key of ours.
pub(crate) const DASHBOARD: &str = "dashboard";

/// What a person does at the dashboard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Captures {
        permille: u64,
    },
    Cancels,
    Refunds {
        permille: u64,
    },
    /// Whichever of the two it can be by then: Adyen alone has that.
    CancelsOrRefunds,
}

/// Who else moves the money of a history.
pub(crate) struct Dashboard {
    rng: Rng,
    is_on: bool,
    /// What they have heard of, so that each thing gives cause once.
    met: BTreeSet<String>,
}

impl Dashboard {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), is_on: false, met: BTreeSet::new() }
    }

    pub(crate) const fn turn_on(&mut self) {
        self.is_on = true;
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    fn meets(&mut self, what: &str) -> bool {
        self.met.insert(what.to_owned())
    }
}

impl World {
    /// The books have changed: what others will do about it.
    pub(crate) fn give_cause(&mut self) {
        if !self.elsewhere.is_on {
            return;
        }
        let ledger = &self.stripe.ledger;
        let intents: Vec<_> =
            ledger.intents.iter().map(|intent| (intent.id.clone(), intent.status)).collect();
        let done = ledger.refunds.iter().filter(|refund| refund.status == "succeeded");
        let disputes: Vec<_> =
            ledger.disputes.iter().map(|dispute| (dispute.id.clone(), dispute.status)).collect();
        let refunds: Vec<_> = done.map(|refund| refund.id.clone()).collect();
        for (intent, status) in intents {
            let it = &mut self.elsewhere;
            if !it.meets(&format!("{intent} {}", status.name())) {
                continue;
            }
            let permille = it.rng.pick(&[200, 1000]);
            let does = match status {
                Status::Reserved => {
                    let lapses_ms = it.rng.pick(&[4 * DAY + 18 * HOUR, 7 * DAY, 7 * DAY, 30 * DAY]);
                    let does = [Effect::Captures { permille }, Effect::Cancels];
                    let does = it.rng.permille(300).then(|| it.rng.pick(&does));
                    self.later_at_stripe(lapses_ms, Later::Lapse { intent: intent.clone() });
                    does
                }
                Status::Captured => {
                    let does = it.rng.permille(300).then_some(Effect::Refunds { permille });
                    if it.rng.permille(300) {
                        let inquiry = it.rng.permille(250);
                        let ms = it.rng.pick(&[10 * SECOND, 10 * MINUTE, 30 * HOUR, 25 * DAY]);
                        let ms = it.rng.between(SECOND, ms);
                        let later = Later::Dispute { intent: intent.clone(), permille, inquiry };
                        self.later_at_stripe(ms, later);
                    }
                    does
                }
                Status::Refused if it.rng.permille(300) => {
                    let most_ms = it.rng.pick(&[10 * SECOND, 10 * MINUTE, 30 * HOUR, 6 * DAY]);
                    let ms = it.rng.between(SECOND, most_ms);
                    self.later_at_stripe(ms, Later::Confirm { intent: intent.clone() });
                    None
                }
                _ => None,
            };
            if let Some(does) = does {
                let most_ms = self.elsewhere.rng.pick(&[10 * MINUTE, 30 * HOUR, 6 * DAY, 27 * DAY]);
                let ms = self.elsewhere.rng.between(MINUTE, most_ms);
                self.later_at_stripe(ms, Later::Person { intent, does });
            }
        }
        for (dispute, status) in disputes {
            let it = &mut self.elsewhere;
            if !it.meets(&format!("{dispute} {status}")) {
                continue;
            }
            let status = match status {
                "warning_needs_response" => it.rng.pick(&["warning_closed", "needs_response"]),
                "needs_response" => it.rng.pick(&["won", "lost"]),
                _ => continue,
            };
            let ms = it.rng.between(HOUR, 40 * DAY);
            self.later_at_stripe(ms, Later::DisputeEnds { dispute, status });
        }
        for refund in refunds {
            let it = &mut self.elsewhere;
            if it.meets(&refund) && it.rng.permille(300) {
                let ms = it.rng.between(HOUR, 30 * DAY);
                self.later_at_stripe(ms, Later::Back { refund });
            }
        }
        // Where nothing can be asked only what is told can be known.
        if self.webhooks.is_on() {
            self.give_cause_in_the_customer_area();
        }
    }

    fn give_cause_in_the_customer_area(&mut self) {
        let intents = self.adyen.ledger.intents.iter();
        let intents: Vec<_> = intents.map(|intent| (intent.id.clone(), intent.status)).collect();
        for (intent, status) in intents {
            let it = &mut self.elsewhere;
            if !it.meets(&format!("{intent} {}", status.name())) || !it.rng.permille(300) {
                continue;
            }
            let permille = it.rng.pick(&[200, 1000]);
            let does = match status {
                Status::Reserved => {
                    it.rng.pick(&[Effect::Captures { permille }, Effect::Cancels, Effect::CancelsOrRefunds])
                }
                Status::Captured => it.rng.pick(&[Effect::Refunds { permille }, Effect::CancelsOrRefunds]),
                // Adyen tries it all the same, and the issuer may agree.
                Status::Expired => Effect::Captures { permille },
                _ => continue,
            };
            let most_ms = it.rng.pick(&[10 * SECOND, 10 * MINUTE, 30 * HOUR, 6 * DAY]);
            let ms = it.rng.between(SECOND, most_ms);
            self.after(ms, Event::Decided { provider: "adyen", later: Later::Person { intent, does } });
        }
    }

    /// Somebody confirms again what Stripe had declined. That is no charge of ours while it is the only one: the product never asked
    /// for it, and takes it for the order's payment or gives it back. Beside a newer one it is a second charge.
    pub(crate) fn confirm_again(&mut self, id: &str) -> bool {
        let Some(intent) = self.stripe.ledger.intent(id).filter(|intent| intent.status == Status::Refused)
        else {
            return false;
        };
        let is_alone = self.is_alone(id, &intent.resource);
        self.stripe.ledger.revive(id);
        if let Some(intent) = self.stripe.ledger.intent_mut(id) {
            intent.is_revived = is_alone;
        }
        true
    }

    /// What has lapsed Adyen captures all the same, and the issuer agrees: no charge of ours while it is the only one, too.
    pub(crate) fn in_the_customer_area(&mut self, id: &str, does: Effect) -> bool {
        let lapsed = self.adyen.ledger.intent(id).filter(|intent| intent.status == Status::Expired);
        if let (Some(intent), Effect::Captures { .. }) = (lapsed, does) {
            let is_alone = self.is_alone(id, &intent.resource);
            if let Some(intent) = self.adyen.ledger.intent_mut(id) {
                (intent.status, intent.is_revived) = (Status::Reserved, is_alone);
            }
            self.counters.count("customer area: captured after it had lapsed");
        }
        self.adyen.in_the_customer_area(id, does)
    }

    /// Whether no other try of the same payment is, or can become, a charge.
    fn is_alone(&self, id: &str, resource: &str) -> bool {
        let is_other = |other: &&Intent| other.resource == resource && other.id != id;
        let is_over =
            |other: &Intent| matches!(other.status, Status::Refused | Status::Canceled | Status::Expired);
        let all = self.stripe.ledger.intents.iter().chain(&self.adyen.ledger.intents);
        all.filter(is_other).all(is_over) && !self.stripe.unfinished.values().any(|it| is_other(&it))
    }

    fn later_at_stripe(&mut self, ms: u64, later: Later) {
        self.after(ms, Event::Decided { provider: "stripe", later });
    }
}

impl Ledger {
    /// A bank disputes a payment, once: nothing that was given back already.
    pub(crate) fn disputed(&mut self, id: &str, permille: u64, inquiry: bool) -> bool {
        let Some(intent) = self.intent(id).filter(|intent| intent.status == Status::Captured) else {
            return false;
        };
        let amount = intent.captured * permille / 1000;
        if amount == 0 || self.refunded(id) > 0 || self.dispute_of(id).is_some() {
            return false;
        }
        let status = if inquiry { "warning_needs_response" } else { "needs_response" };
        let number = 1 + self.disputes.len();
        self.disputes.push(Dispute { id: format!("du_{number}"), intent: id.to_owned(), amount, status });
        true
    }

    pub(crate) fn dispute_ends(&mut self, id: &str, status: &'static str) {
        if let Some(dispute) = self.disputes.iter_mut().find(|dispute| dispute.id == id) {
            dispute.status = status;
        }
    }

    /// Nothing happens where the payment does not permit it any more.
    pub(crate) fn at_the_dashboard(&mut self, id: &str, does: Effect) -> bool {
        let left = self.intent(id).map_or(0, |intent| intent.captured).saturating_sub(self.refunded(id));
        let permits_refunds = self.dispute_of(id).is_none_or(Dispute::permits_refunds);
        let Some(intent) = self.intent_mut(id) else { return false };
        match (does, intent.status) {
            (Effect::Captures { permille }, Status::Reserved) => {
                intent.status = Status::Captured;
                intent.captured = intent.amount * permille / 1000;
                intent.taken = intent.captured;
                intent.moved_by = Some(DASHBOARD.to_owned());
            }
            (Effect::Cancels | Effect::CancelsOrRefunds, Status::Reserved) => {
                (intent.status, intent.moved_by) = (Status::Canceled, Some(DASHBOARD.to_owned()));
            }
            (Effect::Refunds { permille }, Status::Captured) if left > 1 && permits_refunds => {
                self.refund_elsewhere(id, left * permille / 1000);
            }
            (Effect::CancelsOrRefunds, Status::Captured) if left > 0 && permits_refunds => {
                self.refund_elsewhere(id, left);
            }
            _ => return false,
        }
        true
    }
}
