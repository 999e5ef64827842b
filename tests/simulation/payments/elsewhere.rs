//! What happens at Stripe without us, days later: a reservation lapses, the bank sends a refund back, a person captures, cancels
//! or refunds at the dashboard. Whether any of it is told of is another matter: in half of the histories all webhooks are lost.

use std::collections::BTreeSet;

use super::bank::{Later, Ledger, Status};
use super::world::{Event, World};
use crate::dice::Dice;
use crate::faults::{HOUR, MINUTE};

const DAY: u64 = 24 * HOUR;
/// What a person moves at the dashboard is moved by no key of ours.
pub(crate) const DASHBOARD: &str = "dashboard";

/// What a person does at the dashboard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Captures { permille: u64 },
    Cancels,
    Refunds { permille: u64 },
}

/// Who else moves the money of a history.
pub(crate) struct Elsewhere {
    dice: Dice,
    is_on: bool,
    /// What they have heard of, so that each thing gives cause once.
    met: BTreeSet<String>,
}

impl Elsewhere {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), is_on: false, met: BTreeSet::new() }
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
        let refunds: Vec<_> = done.map(|refund| refund.id.clone()).collect();
        for (intent, status) in intents {
            let it = &mut self.elsewhere;
            if !it.meets(&format!("{intent} {}", status.name())) {
                continue;
            }
            let permille = it.dice.pick(&[200, 1000]);
            let does = match status {
                Status::Reserved => {
                    let lapses_ms = it.dice.pick(&[4 * DAY + 18 * HOUR, 7 * DAY, 7 * DAY, 30 * DAY]);
                    let does = [Does::Captures { permille }, Does::Cancels];
                    let does = it.dice.permille(300).then(|| it.dice.pick(&does));
                    self.later_at_stripe(lapses_ms, Later::Lapse { intent: intent.clone() });
                    does
                }
                Status::Captured => it.dice.permille(300).then_some(Does::Refunds { permille }),
                _ => None,
            };
            if let Some(does) = does {
                let most_ms = self.elsewhere.dice.pick(&[10 * MINUTE, 30 * HOUR, 6 * DAY, 27 * DAY]);
                let ms = self.elsewhere.dice.between(MINUTE, most_ms);
                self.later_at_stripe(ms, Later::Person { intent, does });
            }
        }
        for refund in refunds {
            let it = &mut self.elsewhere;
            if it.meets(&refund) && it.dice.permille(300) {
                let ms = it.dice.between(HOUR, 30 * DAY);
                self.later_at_stripe(ms, Later::Back { refund });
            }
        }
    }

    /// A person moves at the dashboard what the merchant has seen as a payment.
    pub(crate) fn is_known_here(&self, intent: &str) -> bool {
        let is_it = |id: &Option<String>| id.as_deref() == Some(intent);
        let payments = self.objects.iter().filter_map(|object| object.store.rows.payment.as_ref());
        payments.into_iter().any(|payment| is_it(&payment.provider_payment))
    }

    fn later_at_stripe(&mut self, ms: u64, later: Later) {
        self.after(ms, Event::Decided { provider: "stripe", later });
    }
}

impl Ledger {
    /// Nothing happens where the payment does not permit it any more.
    pub(crate) fn at_the_dashboard(&mut self, id: &str, does: Does) -> bool {
        let left = self.intent(id).map_or(0, |intent| intent.captured).saturating_sub(self.refunded(id));
        let Some(intent) = self.intent_mut(id) else { return false };
        match (does, intent.status) {
            (Does::Captures { permille }, Status::Reserved) => {
                intent.status = Status::Captured;
                intent.captured = intent.amount * permille / 1000;
                intent.taken = intent.captured;
                intent.moved_by = Some(DASHBOARD.to_owned());
            }
            (Does::Cancels, Status::Reserved) => {
                (intent.status, intent.moved_by) = (Status::Canceled, Some(DASHBOARD.to_owned()));
            }
            (Does::Refunds { permille }, Status::Captured) if left > 1 => {
                self.refund_elsewhere(id, left * permille / 1000);
            }
            _ => return false,
        }
        true
    }
}
