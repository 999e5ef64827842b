//! What goes between the objects and the providers: sends that get lost, come late or twice; look-ups page by page; and what
//! banks and the people who pay decide in their own time.

use once::call::FrozenRequest;
use payments::engine::{Event as Input, LookUp, Outcome, ProviderCall};
use payments::payment::result::CallKind;
use payments::providers::{HttpAnswer, Provider};
use payments::transitions::polling::Asker;

use super::accounts::Secret;
use super::auditor::Send;
use super::bank::{Intent, Later, Status};
use super::elsewhere::Effect;
use super::scenario::Payer;
use super::world::{Disabled, Event, World};
use crate::faults::{Boundary, Copy, Fault, HOUR, Oddity, SECOND, SKEW_MAX_MS, copies, send_counter};
use crate::history::{Asking, Exchange, broken_page, plain};
use crate::store::ADYEN_WINDOW_MS;

/// When Stripe's window has closed for certain.
const WINDOW_MS: u64 = 24 * HOUR;
/// How long a bank takes that takes its time, after the person has done their part.
const BANK_MS: u64 = 2 * HOUR;

/// A look-up asked for a list that did not show yet what was made.
pub(crate) const LAGS: &str = "look-ups: the list lags";

/// A copy of a send on its way to the provider.
#[derive(Clone)]
pub(crate) struct Delivery {
    exchange: u64,
    provider: Provider,
    provider_key: String,
    path: String,
    body: String,
    odd: Option<Oddity>,
    /// How long its execution takes.
    takes_ms: u64,
    began_ms: u64,
    /// Whether its answer finds the way back.
    heard: bool,
    /// With what it was sent.
    secret: Secret,
}

impl World {
    /// What was configured when a run began.
    fn secret_of(&self, run: u32) -> Secret {
        self.runs.get(run).map_or(self.accounts.secret, |active| self.instances[active.instance].secret)
    }

    pub(crate) fn send(&mut self, run: u32, call: &ProviderCall) {
        let exchange = self.sends;
        self.sends += 1;
        let object = self.runs.get(run).map_or(0, |active| self.instances[active.instance].object);
        self.exchanges.insert(exchange, Exchange { run, call: call.clone() });
        self.counters.count(match (call.provider, call.kind) {
            (Provider::Adyen, CallKind::Authorize) => "sends: adyen, authorise",
            (Provider::Adyen, CallKind::Refund) => "sends: adyen, refund",
            (Provider::Adyen, _) => "sends: adyen, capture or void",
            (Provider::Stripe, CallKind::Capture) => "sends: stripe, capture",
            (Provider::Stripe, CallKind::Void) => "sends: stripe, void",
            (Provider::Stripe, CallKind::Refund) => "sends: stripe, refund",
            (Provider::Stripe, CallKind::CreateCustomer) => "sends: stripe, a new customer",
            (Provider::Stripe, CallKind::UpdateCustomer) => "sends: stripe, a changed customer",
            (Provider::Stripe, _) => "sends: stripe, authorise",
        });
        if call.sends > 1 {
            self.counters.count("sends under a used key");
        }
        let transit_ms = self.rng.between(5, 150);
        let provider_key = self.saboteur.wire_key(call, exchange);
        let copy = Delivery {
            exchange,
            provider: call.provider,
            provider_key: provider_key.clone(),
            path: call.request.path.clone(),
            body: match self.disabled {
                Some(Disabled::FrozenBytes) => format!("{} ", call.request.body).repeat(call.sends as usize),
                _ => call.request.body.clone(),
            },
            odd: None,
            takes_ms: self.rng.between(50, 800),
            began_ms: 0,
            heard: true,
            secret: self.secret_of(run),
        };
        let fault = self.fault(Boundary::Send);
        if let Some(counter) = send_counter(fault) {
            self.counters.count(counter);
        }
        let copies = copies(fault, transit_ms, copy.takes_ms);
        self.tell(|| {
            format!(
                "  send {} to {:?}, {} copies: {} {}",
                call.sends,
                call.provider,
                copies.len(),
                copy.path,
                copy.body
            )
        });
        self.auditor.sent(
            self.now_ms,
            &Send {
                object,
                key: call.key_id,
                derived: provider_key,
                name: call.name.clone(),
                bytes: format!("{} {}", copy.path, copy.body),
                number: exchange,
                copies: u32::try_from(copies.len()).unwrap_or(0),
                begins: call.kind == CallKind::Authorize,
                window_ms: match call.provider {
                    Provider::Stripe => self.times.provider_window_ms + 2 * SKEW_MAX_MS,
                    Provider::Adyen => ADYEN_WINDOW_MS + 2 * SKEW_MAX_MS,
                },
            },
        );
        self.after(self.times.provider_timeout_ms, Event::TimedOut { exchange });
        for Copy { delay_ms, takes_ms, heard, odd } in copies {
            let delivery = Delivery { takes_ms, heard, odd, ..copy.clone() };
            self.after(delay_ms, Event::Arrive(Box::new(delivery)));
        }
    }

    pub(crate) fn arrive(&mut self, mut delivery: Delivery) {
        let Delivery { provider, provider_key: key, path, body, odd, secret, .. } = &delivery;
        let is_locked_out = self.locked_out_ms.is_some_and(|(from_ms, until_ms)| {
            *provider == Provider::Adyen && (from_ms..until_ms).contains(&self.now_ms)
        });
        let odd = if is_locked_out { Some(Oddity::Unauthorized) } else { *odd };
        let now_ms = self.now_ms;
        let at_once = match provider {
            Provider::Stripe => self.stripe_with(*secret).arrive(now_ms, key, path, body, odd),
            Provider::Adyen => self.adyen.arrive(self.now_ms, key, path, body, odd),
        };
        if let Some(answer) = at_once {
            self.auditor.dealt_with(&delivery.provider_key);
            return self.answer(&delivery, answer);
        }
        delivery.began_ms = self.now_ms;
        self.after(delivery.takes_ms, Event::Executed(Box::new(delivery)));
    }

    pub(crate) fn executed(&mut self, delivery: Delivery) {
        self.is_busy();
        let Delivery { provider, provider_key: key, path, body, odd, began_ms, secret, .. } = &delivery;
        let (answer, later) = match provider {
            Provider::Stripe => self.stripe_with(*secret).execute(*began_ms, key, path, body, *odd),
            Provider::Adyen => {
                self.adyen.now_ms = self.now_ms;
                self.adyen.execute(*began_ms, key, path, body, *odd)
            }
        };
        self.counters.count("providers: executions");
        self.tell(|| format!("  {} executes {path}: {} {}", provider.as_str(), answer.status, answer.body));
        self.auditor.executed(self.now_ms, key);
        self.auditor.dealt_with(key);
        self.book();
        if let Some(later) = later {
            let is_other = *provider == Provider::Stripe && !secret.is_first;
            self.later(if is_other { "stripe-other" } else { provider.as_str() }, later);
        }
        self.answer(&delivery, answer);
    }

    /// Banks and people take their time.
    fn later(&mut self, provider: &'static str, later: Later) {
        match &later {
            Later::Intent { ms, .. }
            | Later::Refund { ms, .. }
            | Later::Modify { ms, .. }
            | Later::RollForward { ms, .. } => {
                if let Later::Modify { by, .. } | Later::RollForward { by, .. } = &later {
                    self.operators.at_work.insert(by.clone());
                }
                self.after(*ms, Event::Decided { provider, later });
            }
            // The worlds that have these send them themselves.
            Later::Back { .. }
            | Later::CaptureFails { .. }
            | Later::Recapture { .. }
            | Later::Expire { .. }
            | Later::Lapse { .. }
            | Later::Person { .. }
            | Later::Dispute { .. }
            | Later::DisputeEnds { .. }
            | Later::Revive { .. }
            | Later::Confirm { .. } => {}
            Later::Page { intent } => {
                self.counters.count("bank's pages");
                let made = self.ledger_of(provider).intents.len();
                let payer = self.payers[made % self.payers.len()];
                let ms = match payer {
                    Payer::NeverReturns => return,
                    Payer::Completes { ms, slowly, .. } => ms + if slowly { BANK_MS } else { 0 },
                    Payer::Fails { ms } => ms,
                };
                let good = payer != Payer::Fails { ms };
                let back_ms = match payer {
                    Payer::Completes { ms, comes_back: true, .. } => Some(ms + SECOND),
                    _ => None,
                };
                let decided = Later::Intent { intent: intent.clone(), ms, good };
                self.after(ms, Event::Decided { provider, later: decided });
                if matches!(payer, Payer::Completes { slowly: true, .. }) {
                    self.after(ms - BANK_MS, Event::Decided { provider, later: later.clone() });
                }
                let resource = self.ledger_of(provider).intent(intent).map(|intent| intent.resource.clone());
                let object = resource.and_then(|resource| self.object_of(&resource));
                if let (Some(object), Some(back_ms)) = (object, back_ms) {
                    self.after(back_ms, Event::Check { object, to: None, asker: Asker::Waiting });
                }
            }
        }
    }

    pub(crate) fn decided(&mut self, provider: &'static str, later: Later) {
        self.tell(|| format!("  {provider} decides {later:?}"));
        self.adyen.now_ms = self.now_ms;
        if let Later::Modify { by, .. } | Later::RollForward { by, .. } = &later {
            self.operators.at_work.remove(by);
        }
        let ledger = match provider {
            "stripe" => &mut self.stripe.ledger,
            "stripe-other" => &mut self.accounts.other.ledger,
            _ => &mut self.adyen.ledger,
        };
        match later {
            Later::Page { intent } => ledger.begin_processing(&intent),
            Later::Intent { intent, good, .. } => ledger.decide(&intent, good),
            Later::Refund { refund, good, .. } => ledger.decide_refund(&refund, good),
            Later::Back { refund } => {
                ledger.send_back(&refund);
                self.counters.count("elsewhere: refunds sent back");
            }
            Later::Lapse { intent } => {
                if !ledger.lapse(&intent) {
                    return;
                }
                self.counters.count("elsewhere: reservations lapsed");
            }
            Later::Dispute { intent, permille, inquiry } => {
                if !ledger.disputed(&intent, permille, inquiry) {
                    return;
                }
                self.counters.count("elsewhere: disputed");
            }
            Later::DisputeEnds { dispute, status } => {
                ledger.dispute_ends(&dispute, status);
                self.counters.count("elsewhere: disputes come to another status");
            }
            Later::Person { intent, does } => {
                let is_done = match provider {
                    "adyen" => self.in_the_customer_area(&intent, does),
                    _ => ledger.at_the_dashboard(&intent, does),
                };
                if !is_done {
                    return;
                }
                self.counters.count(match (provider, does) {
                    ("adyen", Effect::Captures { .. }) => "customer area: captured",
                    ("adyen", Effect::Cancels) => "customer area: canceled",
                    ("adyen", Effect::Refunds { .. }) => "customer area: refunded",
                    (_, Effect::Captures { .. }) => "elsewhere: captured",
                    (_, Effect::CancelsOrRefunds) => "customer area: canceled or refunded",
                    (_, Effect::Cancels) => "elsewhere: canceled",
                    (_, Effect::Refunds { .. }) => "elsewhere: refunded",
                });
            }
            Later::Confirm { intent } => {
                if !self.confirm_again(&intent) {
                    return;
                }
                self.counters.count("elsewhere: confirmed after a decline");
            }
            // It is created only now, whenever it was asked for.
            Later::RollForward { by, asked, .. } => {
                let (_, later) = ledger.perform(self.now_ms, &by, asked, None);
                if let Some(later) = later {
                    self.later(provider, later);
                }
            }
            Later::Modify { by, asked, good, .. } => self.adyen.modify(&by, &asked, good),
            Later::Revive { intent } => self.revive(&intent),
            later => self.adyen.turn(&later),
        }
        self.is_busy();
        self.counters.count("providers: decided later");
        self.book();
    }

    /// The issuer holds the money after all. That is no charge of ours, unless we have gone on to the other provider by ourselves
    /// although the answer was only an error on the way.
    fn revive(&mut self, id: &str) {
        self.adyen.turn(&Later::Revive { intent: id.to_owned() });
        let Some(revived) = self.adyen.ledger.intent(id).filter(|intent| intent.has_erred).cloned() else {
            return;
        };
        let is_over =
            |other: &Intent| matches!(other.status, Status::Refused | Status::Canceled | Status::Expired);
        let is_other = |other: &&Intent| self.auditor.is_of_the_same_key(&other.by, &revived.by);
        let is_alone = self.stripe.ledger.intents.iter().filter(is_other).all(is_over);
        if let Some(intent) = self.adyen.ledger.intent_mut(id) {
            intent.is_revived &= is_alone;
        }
    }

    fn answer(&mut self, delivery: &Delivery, answer: HttpAnswer) {
        if delivery.heard {
            let transit_ms = self.rng.between(5, 150);
            let (exchange, answer) = (delivery.exchange, Box::new(answer));
            self.after(transit_ms, Event::Response { exchange, answer });
        }
    }

    pub(crate) fn response(&mut self, exchange: u64, answer: &HttpAnswer) {
        let Some(Exchange { run, call }) = self.exchanges.get(&exchange) else {
            return;
        };
        let outcome = call.provider.classify(call, answer);
        if matches!(outcome, Outcome::NotExecuted { .. }) {
            self.auditor.refused(exchange);
        }
        // Before the key was looked at, or after it.
        let arrives_within_ms = match (call.provider, answer.status, answer.should_retry) {
            (Provider::Adyen, 401, _) => Some(None),
            (Provider::Adyen, 503, Some(true)) => Some(Some(self.times.quiet_ms + 2 * SKEW_MAX_MS)),
            _ => None,
        };
        if let Some(arrives_within_ms) = arrives_within_ms {
            self.refusals.insert(*run, (exchange, arrives_within_ms));
        }
        self.tell(|| format!("  response {}: {outcome:?}", answer.status));
        self.outcome(exchange, outcome);
    }

    pub(crate) fn timed_out(&mut self, exchange: u64) {
        let outcome = Outcome::Unknown { answer_is_stored: false, reason: "no answer".to_owned() };
        self.outcome(exchange, outcome);
    }

    fn outcome(&mut self, exchange: u64, outcome: Outcome) {
        let Some(Exchange { run, call }) = self.exchanges.remove(&exchange) else {
            return;
        };
        self.counters.count(match &outcome {
            Outcome::Definitive(reply) if reply.result.is_done() => "outcomes: done",
            Outcome::Definitive(_) => "outcomes: refused for good",
            Outcome::Stored(_) => "outcomes: refused before",
            Outcome::NotExecuted { .. } => "outcomes: not executed",
            Outcome::Unknown { answer_is_stored: true, .. } => "outcomes: unknown, retries are useless",
            Outcome::Unknown { .. } => "outcomes: unknown",
            Outcome::Indeterminate { .. } => "outcomes: the provider failed",
            Outcome::Unconfirmed(_) => "outcomes: executed, unconfirmed",
            Outcome::LeftOpen(_) => "outcomes: left open",
        });
        self.after(0, Event::Step { run, input: Input::Outcome(call.call_id, outcome) });
    }

    /// Asks for the next page of a look-up.
    pub(crate) fn look_up(&mut self, run: u32, call: ProviderCall) {
        if call.last_sent_at_ms.is_some_and(|at_ms| at_ms + WINDOW_MS < self.now_ms) {
            self.counters.count("look-ups past the window");
        }
        if call.look_up.is_some() {
            self.counters.count("look-ups of several pages");
            if self.pages_asked_by.get(&call.provider_key).is_some_and(|before| *before != run) {
                self.counters.count("look-ups taken over between two pages");
            }
        }
        self.pages_asked_by.insert(call.provider_key.clone(), run);
        let fault = self.fault(Boundary::Page);
        let transit_ms = self.rng.between(5, 150);
        self.after(transit_ms, Event::Page(Box::new(Asking { run, call, fault })));
    }

    pub(crate) fn page(&mut self, asking: Asking) {
        let path = asking.call.provider.look_up_request(&asking.call).map(|ask| ask.path);
        self.tell(|| format!("  look-up {path:?}"));
        let secret = self.secret_of(asking.run);
        let answer = match (asking.fault, path) {
            (Some(Fault::PageLost), _) => {
                let reason = "no answer".to_owned();
                let look_up = LookUp::Inconclusive { from_the_start: false, reason };
                return self.looked_up(asking.run, asking.call.call_id, look_up);
            }
            (fault, Some(path)) => broken_page(fault).unwrap_or_else(|| {
                let Some(close) = asking.call.provider.close_request(&asking.call) else {
                    return self.get_with(secret, &path);
                };
                self.counters.count("payments left open, to be canceled");
                let answer = self.stripe_with(secret).cancel(&close.path);
                self.book();
                answer
            }),
            (fault, None) if asking.call.provider == Provider::Adyen => {
                let close = asking.call.provider.close_request(&asking.call);
                broken_page(fault)
                    .unwrap_or_else(|| close.map_or_else(|| plain(404, ""), |close| self.call_off(&close)))
            }
            (fault, None) => broken_page(fault).unwrap_or_else(|| plain(404, "")),
        };
        let transit_ms = self.rng.between(5, 150);
        self.after(transit_ms, Event::PageAnswer(Box::new(asking), Box::new(answer)));
    }

    /// Adyen is asked to call a payment off.
    fn call_off(&mut self, close: &FrozenRequest) -> HttpAnswer {
        self.counters.count(match close.path.as_str() {
            "/cancels" => "adyen: technical cancels",
            _ => "adyen: parts called off",
        });
        let (answer, later) = self.adyen.call_off(&close.body);
        if let Some(later) = later {
            self.later("adyen", later);
        }
        answer
    }

    pub(crate) fn page_answer(&mut self, asking: Asking, answer: &HttpAnswer) {
        let look_up = asking.call.provider.read_look_up(&asking.call, answer);
        self.looked_up(asking.run, asking.call.call_id, look_up);
    }
}
