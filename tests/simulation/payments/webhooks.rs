//! What the providers tell by themselves: an event for each change of their books, sent until it is acknowledged.
//!
//! On its way an event is lost, late, doubled or overtaken; its acknowledgement is lost; and an acknowledged one comes again.
//! The object takes it in as the shell does: known or not, one transaction, then what follows. The random numbers of all this are
//! their own.

use std::collections::BTreeMap;

use messages::inbox::Attempt;
use once::id::ObjectId;
use paid_once::object::events;
use paid_once::webhooks::{Event as Notice, EventKind, Ingested, adyen, stripe};
use payments::engine::{CallState, ObjectState};
use payments::payment::PaymentState;
use payments::payment::id::PaymentId;
use serde_json::{Value, json};

use super::adyen::{Adyen, CANCEL_OR_REFUND};
use super::bank::{Dispute, Intent, Later, Status};
use super::stripe::Stripe;
use super::world::{Disabled, Event, Reached, Transacted, World};
use crate::faults::{HOUR, MINUTE, SECOND};
use crate::invariants::Writer;
use crate::rng::Rng;

/// The pause before the second try to deliver an event; it doubles with each, up to the longest.
const FIRST_PAUSE_MS: u64 = 10 * SECOND;
const PAUSE_MAX_MS: u64 = 8 * HOUR;
/// How often an event is sent that nobody acknowledges: for four days.
const TRIES_MAX: u32 = 22;

/// An event, and what became of it.
struct Sent {
    object: usize,
    notice: Notice,
    /// As Adyen sends it: that goes to the inbox.
    item: Option<Value>,
    tries: u32,
    is_acknowledged: bool,
}

/// The providers' side of the webhooks.
pub(crate) struct Webhooks {
    rng: Rng,
    is_on: bool,
    /// How likely each trouble on the way is.
    permille: u64,
    /// How each payment and each refund stood when it was told of last.
    told: BTreeMap<String, &'static str>,
    sent: Vec<Sent>,
    /// The newest event that each object has taken in.
    newest: BTreeMap<usize, usize>,
}

impl Webhooks {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            is_on: false,
            permille: 0,
            told: BTreeMap::new(),
            sent: Vec::new(),
            newest: BTreeMap::new(),
        }
    }

    pub(crate) const fn turn_on(&mut self, permille: u64) {
        (self.is_on, self.permille) = (true, permille);
    }

    /// Gives whether this is news, and how it stood before.
    fn apply(&mut self, id: &str, status: &'static str) -> (bool, Option<&'static str>) {
        let before = self.told.insert(id.to_owned(), status);
        (before != Some(status), before)
    }

    /// Whether some event about the object is not acknowledged.
    pub(crate) fn waited_for(&self, object: usize) -> bool {
        self.sent.iter().any(|sent| sent.object == object && !sent.is_acknowledged)
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }
}

impl World {
    /// The books have changed: what is new in them is told of.
    pub(crate) fn tell_of_books(&mut self) {
        if !self.webhooks.is_on {
            return;
        }
        let mut bodies = Vec::new();
        for intent in &self.stripe.ledger.intents {
            if self.webhooks.apply(&intent.id, intent.status.name()).0 {
                bodies.push(of_intent(intent));
            }
        }
        for refund in &self.stripe.ledger.refunds {
            if self.webhooks.apply(&refund.id, refund.status).0 {
                bodies.extend(of_refund(&self.stripe, &refund.id, refund.status));
            }
        }
        let mut disputes = Vec::new();
        for dispute in &self.stripe.ledger.disputes {
            if self.webhooks.apply(&dispute.id, dispute.status).0 {
                disputes.push(of_dispute(&self.stripe, dispute));
            }
        }
        let mut notices: Vec<(Notice, Option<ObjectId>, Option<Value>)> = Vec::new();
        for (kind, object) in bodies {
            let id = format!("evt_{}", self.webhooks.sent.len() + notices.len());
            let body = json!({ "id": id, "object": "event", "type": kind, "data": { "object": object } });
            let read = stripe::read(body.to_string().as_bytes()).unwrap();
            notices.push((read.event, read.object, None));
        }
        for (kind, object, resource) in disputes {
            let id = format!("evt_{}", self.webhooks.sent.len() + notices.len());
            let body = json!({ "id": id, "object": "event", "type": kind, "data": { "object": object } });
            let read = stripe::read(body.to_string().as_bytes()).unwrap();
            notices.push((read.event, PaymentId::parse(&resource).map(PaymentId::object), None));
        }
        let mut items = Vec::new();
        for intent in &self.adyen.ledger.intents {
            let (is_new, before) = self.webhooks.apply(&intent.id, intent.status.name());
            if is_new {
                items.extend(of_payment(&self.adyen, intent, before));
            }
        }
        for refund in &self.adyen.ledger.refunds {
            if let (true, before) = self.webhooks.apply(&refund.id, refund.status) {
                items.extend(of_modified_refund(&self.adyen, &refund.id, before));
            }
        }
        items.append(&mut self.adyen.items);
        for item in items {
            let body = json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": item }] });
            let read = adyen::items(body.to_string().as_bytes()).unwrap();
            let read = read.into_iter().map(adyen::Item::read);
            notices.extend(read.map(|(notice, object)| (notice, object, Some(item.clone()))));
        }
        for (notice, object, item) in notices {
            self.tell_of(notice, object, item);
        }
        self.some_come_back();
        self.some_turn();
    }

    /// Some captures fail days later at Adyen, which repeats some of those by itself; and some reservations lapse.
    fn some_turn(&mut self) {
        let turns: Vec<_> = self
            .adyen
            .ledger
            .intents
            .iter()
            .filter_map(|intent| {
                let id = intent.id.clone();
                let is_likely = intent.status == Status::CaptureFailed || intent.has_erred;
                Some((
                    is_likely,
                    match intent.status {
                        Status::Captured if intent.is_revived => return None,
                        Status::Captured => Later::CaptureFails { intent: id },
                        Status::CaptureFailed => Later::Recapture { intent: id },
                        Status::Reserved => Later::Expire { intent: id },
                        Status::Refused => Later::Revive { intent: id },
                        _ => return None,
                    },
                ))
            })
            .collect();
        for (is_likely, later) in turns {
            let is_new = self.webhooks.told.insert(format!("{later:?}"), "").is_none();
            let permille = if is_likely { 500 } else { 100 };
            if is_new && self.webhooks.rng.permille(permille) {
                let ms = self.webhooks.rng.between(HOUR, 40 * HOUR);
                self.after(ms, Event::Decided { provider: "adyen", later });
            }
        }
    }

    /// Banks send some refunds back that they had taken.
    fn some_come_back(&mut self) {
        let books = [("stripe", &self.stripe.ledger), ("adyen", &self.adyen.ledger)];
        let done: Vec<_> = books
            .into_iter()
            .flat_map(|(name, ledger)| ledger.refunds.iter().map(move |refund| (name, refund)))
            .filter(|(_, refund)| refund.status == "succeeded")
            .map(|(name, refund)| (name, refund.id.clone()))
            .collect();
        for (provider, refund) in done {
            let is_new = self.webhooks.told.insert(format!("{refund} is done"), "").is_none();
            if is_new && self.webhooks.rng.permille(100) {
                let ms = self.webhooks.rng.between(SECOND, 6 * HOUR);
                self.after(ms, Event::Decided { provider, later: Later::Back { refund } });
            }
        }
    }

    fn tell_of(&mut self, notice: Notice, object: Option<ObjectId>, item: Option<Value>) {
        let known = self.objects.iter().position(|known| Some(known.id) == object);
        let Some(object) = known else {
            return self.auditor.contradicted(format!("nobody is meant by {notice:?}"));
        };
        self.counters.count("webhooks: events");
        self.tell(|| format!("  webhook {}: {notice:?}", self.webhooks.sent.len()));
        self.webhooks.sent.push(Sent { object, notice, item, tries: 0, is_acknowledged: false });
        let number = self.webhooks.sent.len() - 1;
        let delay_ms = self.webhooks.rng.between(0, 2 * SECOND);
        self.after(delay_ms, Event::Tell(number));
    }

    pub(crate) fn webhooks_fault(&mut self, what: &'static str) -> bool {
        let strikes = self.webhooks.rng.permille(self.webhooks.permille);
        if strikes {
            self.counters.count(what);
        }
        strikes
    }

    /// A provider sends an event, and sends it again later if it must.
    pub(crate) fn tell_event(&mut self, number: usize) {
        let Some(sent) = self.webhooks.sent.get_mut(number).filter(|sent| !sent.is_acknowledged) else {
            return;
        };
        if sent.tries == TRIES_MAX {
            return self.counters.count("webhooks: given up");
        }
        let pause_ms = (FIRST_PAUSE_MS << sent.tries.min(20)).min(PAUSE_MAX_MS);
        sent.tries += 1;
        self.counters.count("webhooks: sent");
        self.after(pause_ms, Event::Tell(number));
        if self.webhooks_fault("webhooks: lost") {
            return;
        }
        let copies = if self.webhooks_fault("webhooks: doubled") { 2 } else { 1 };
        for _ in 0..copies {
            let most_ms = match self.webhooks_fault("webhooks: late") {
                true => self.webhooks.rng.pick(&[10 * MINUTE, 5 * HOUR, 30 * HOUR]),
                false => 300,
            };
            let delay_ms = self.webhooks.rng.between(5, most_ms);
            self.after(delay_ms, Event::Webhook { number, to: None });
        }
    }

    /// An event has come. Adyen's goes to the inbox, unless it has left that, and its object was asleep.
    pub(crate) fn webhook(&mut self, number: usize, to: Option<usize>) {
        let Some(sent) = self.webhooks.sent.get(number) else { return };
        match sent.item.clone() {
            Some(item) if to.is_none() => {
                let event_id = sent.notice.event_id.clone();
                self.receive(number, &event_id, &item);
            }
            Some(_) => drop(self.take_in(number, to)),
            None => {
                if let Attempt::Over(_) = self.take_in(number, to) {
                    self.acknowledge(number);
                }
            }
        }
    }

    /// The number of the object that an event is about.
    pub(crate) fn object_of_event(&self, number: usize) -> Option<usize> {
        self.webhooks.sent.get(number).map(|sent| sent.object)
    }

    /// An event reaches its object.
    pub(crate) fn take_in(&mut self, number: usize, to: Option<usize>) -> Attempt {
        let Some(Sent { object, notice, .. }) = self.webhooks.sent.get(number) else {
            return Attempt::UnknownResource;
        };
        let (object, notice) = (*object, notice.clone());
        let again = |to| Event::Webhook { number, to: Some(to) };
        let Reached::Awake(instance, fault) = self.reach(object, to, again) else {
            self.counters.count("webhooks: not reached");
            return Attempt::Failed("not reached".to_owned());
        };
        let remembered = self.objects[object].store.remembers(&notice);
        if remembered.answer().is_some() && self.disabled != Some(Disabled::EventIds) {
            self.counters.count("webhooks: known");
            return Attempt::Over("known");
        }
        let (goes_back, forgets_busy) =
            (self.disabled == Some(Disabled::Forward), self.disabled == Some(Disabled::ComeAgain));
        let saboteur = self.saboteur;
        let body = |state: &mut ObjectState, ctx: &_, _: &_| {
            let unknown = unknown_calls(state);
            let taken = saboteur.take_in(state, &notice, &remembered, ctx)?;
            if goes_back {
                believe(state, &notice);
            }
            if forgets_busy
                && matches!(taken, Ingested::RetryLater | Ingested::UnknownResource | Ingested::OtherAccount)
            {
                events::remember(state, &notice, ctx);
            }
            Ok((taken, unknown_calls(state) < unknown))
        };
        let taken = match self.transact(instance, fault, Writer::Check, body, |_, _, _| {}) {
            Transacted::Done(taken, _) => taken,
            Transacted::Failed(error) => {
                self.auditor.bug(&error.to_string());
                return Attempt::Failed(error.to_string());
            }
            Transacted::Crashed => return Attempt::Failed("no answer".to_owned()),
        };
        self.tell(|| format!("  webhook {number} in object {object}: {:?}", taken.0));
        match taken {
            (Ingested::RetryLater, ..) if !forgets_busy => {
                self.counters.count("webhooks: busy");
                return Attempt::Busy;
            }
            (Ingested::UnknownResource | Ingested::OtherAccount, ..) => {
                self.auditor.contradicted(format!("nothing is meant by {notice:?}"));
                return Attempt::UnknownResource;
            }
            (Ingested::Applied | Ingested::Alert { .. }, has_settled) => {
                self.is_busy();
                self.calm_from_ms = self.calm_from_ms.max(self.now_ms);
                self.counters.count("webhooks: taken in");
                if has_settled {
                    self.counters.count("webhooks: an unknown call settled");
                }
                self.after(0, Event::Stir { instance });
            }
            (Ingested::Contradiction { .. } | Ingested::Duplicate | Ingested::RetryLater, ..) => {}
        }
        let newest = self.webhooks.newest.entry(object).or_default();
        if *newest > number {
            self.counters.count("webhooks: overtaken");
        }
        *newest = (*newest).max(number);
        Attempt::Over("taken_in")
    }

    pub(crate) fn acknowledge(&mut self, number: usize) {
        if self.webhooks_fault("webhooks: acknowledgement lost") {
            return;
        }
        let Some(sent) = self.webhooks.sent.get_mut(number) else { return };
        if !std::mem::replace(&mut sent.is_acknowledged, true)
            && self.webhooks_fault("webhooks: sent again after all")
        {
            let delay_ms = self.webhooks.rng.between(SECOND, 20 * HOUR);
            self.after(delay_ms, Event::Webhook { number, to: None });
        }
    }
}

fn unknown_calls(state: &ObjectState) -> usize {
    state.calls.iter().filter(|call| call.state == CallState::Unknown).count()
}

/// The last word wins, whatever was decided: without the core's check.
fn believe(state: &mut ObjectState, notice: &Notice) {
    let (Some(payment), EventKind::Authorisation(told)) = (&mut state.resource.payment, &notice.news) else {
        return;
    };
    if told.success && payment.provider_payment.as_ref() == Some(&told.payment) && !payment.capture {
        payment.state = PaymentState::Authorized;
    }
}

/// Stripe's event about a PaymentIntent: its type, and the object that it carries.
fn of_intent(intent: &Intent) -> (&'static str, serde_json::Value) {
    let kind = match intent.status {
        Status::Action => "payment_intent.requires_action",
        Status::Processing => "payment_intent.processing",
        Status::Reserved => "payment_intent.amount_capturable_updated",
        Status::Captured => "payment_intent.succeeded",
        Status::Canceled | Status::Expired => "payment_intent.canceled",
        Status::CaptureFailed => "charge.failed",
        Status::Refused => "payment_intent.payment_failed",
    };
    let metadata = json!({ "resource": intent.resource, "idempotency_key": intent.by });
    (kind, json!({ "id": intent.id, "object": "payment_intent", "metadata": metadata }))
}

/// Stripe's event about a dispute. It names the payment, and has nothing of our metadata.
fn of_dispute(stripe: &Stripe, dispute: &Dispute) -> (&'static str, serde_json::Value, String) {
    let object = json!({ "id": dispute.id, "object": "dispute", "payment_intent": dispute.intent });
    let resource = stripe.ledger.intent(&dispute.intent).map(|intent| intent.resource.clone());
    let kind = match dispute.status {
        "warning_needs_response" => "charge.dispute.created",
        "needs_response" => "charge.dispute.funds_withdrawn",
        _ => "charge.dispute.closed",
    };
    (kind, object, resource.unwrap_or_default())
}

/// Stripe's events about a refund: the charge's once money goes back, and the refund's own.
fn of_refund(stripe: &Stripe, id: &str, status: &str) -> Vec<(&'static str, serde_json::Value)> {
    let ledger = &stripe.ledger;
    let Some(refund) = ledger.refunds.iter().find(|refund| refund.id == id) else { return Vec::new() };
    let Some(intent) = ledger.intent(&refund.intent) else { return Vec::new() };
    let its =
        |metadata| json!({ "id": id, "object": "refund", "payment_intent": intent.id, "metadata": metadata });
    let own = its(json!({ "payment": intent.resource, "idempotency_key": refund.by }));
    let metadata = json!({ "resource": intent.resource });
    let charge =
        json!({ "id": "ch_1", "object": "charge", "payment_intent": intent.id, "metadata": metadata });
    match status {
        "pending" => vec![("refund.created", own)],
        "failed" => vec![("refund.failed", own)],
        _ => vec![("charge.refunded", charge), ("refund.updated", own)],
    }
}

/// Adyen's notification about a payment that has come from one state to another.
fn of_payment(adyen: &Adyen, intent: &Intent, before: Option<&'static str>) -> Option<serde_json::Value> {
    let amount = |minor: u64| json!({ "value": minor, "currency": intent.currency });
    let authorisation = |success| {
        adyen.notification("AUTHORISATION", &intent.id, "", &intent.by, amount(intent.amount), success)
    };
    Some(match (intent.status, before) {
        (Status::Refused, _) => authorisation(false),
        (Status::Reserved | Status::Captured, None | Some("processing" | "refused")) => authorisation(true),
        // Its modifications are told of by themselves.
        _ => return None,
    })
}

/// Adyen's notification about a refund: done, refused, or sent back by the bank after it was done.
fn of_modified_refund(adyen: &Adyen, id: &str, before: Option<&'static str>) -> Option<serde_json::Value> {
    let refund = adyen.ledger.refunds.iter().find(|refund| refund.id == id)?;
    let intent = adyen.ledger.intent(&refund.intent)?;
    let amount = json!({ "value": refund.amount, "currency": intent.currency });
    let (code, success) = match (refund.status, before) {
        ("succeeded", _) if adyen.reversals.contains(id) => (CANCEL_OR_REFUND, true),
        ("succeeded", _) => ("REFUND", true),
        ("failed", Some("succeeded")) => ("REFUNDED_REVERSED", true),
        ("failed", _) => ("REFUND", false),
        _ => return None,
    };
    let mut item = adyen.notification(code, id, &intent.id, &refund.by, amount, success);
    if code == CANCEL_OR_REFUND {
        item["additionalData"] = json!({ "modification.action": "refund" });
    }
    Some(item)
}
