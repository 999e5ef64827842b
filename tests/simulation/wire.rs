//! What goes between the object and the provider: sends that get lost, come late or twice, and look-ups page by page.

use once::context::Times;
use payments::flows::engine::{Event as Input, LookUp, Outcome, ProviderCall};
use payments::providers::HttpAnswer;

use crate::faults::{Boundary, Copy, Fault, HOUR, Oddity, copies, send_counter};
use crate::history::{Asking, Exchange, broken_page};
use crate::provider::Reaction;
use crate::world::{Event, World};

/// When the provider's window has closed for certain.
const WINDOW_MS: u64 = 24 * HOUR;

/// A copy of a send on its way to the provider.
#[derive(Clone)]
pub(crate) struct Delivery {
    exchange: u64,
    derived_key: String,
    parameters: String,
    odd: Option<Oddity>,
    /// How long its execution takes.
    takes_ms: u64,
    began_ms: u64,
    /// Whether its answer finds the way back.
    heard: bool,
}

impl World {
    pub(crate) fn send(&mut self, run: u32, call: &ProviderCall) {
        let exchange = self.exchanges.len() as u64;
        self.exchanges.insert(exchange, Exchange { run, call: call.clone() });
        self.counters.count("sends");
        if call.sends > 1 {
            self.counters.count("sends under a used key");
        }
        let transit_ms = self.dice.between(5, 150);
        let derived_key = self.saboteur.wire_key(call, exchange);
        let copy = Delivery {
            exchange,
            derived_key: derived_key.clone(),
            parameters: format!("{} {}", call.request.path, call.request.body),
            odd: None,
            takes_ms: self.dice.between(50, 800),
            began_ms: 0,
            heard: true,
        };
        let fault = self.fault(Boundary::Send);
        if let Some(counter) = send_counter(fault) {
            self.counters.count(counter);
        }
        let copies = copies(fault, transit_ms, copy.takes_ms);
        let number = u32::try_from(copies.len()).unwrap_or(0);
        self.tell(|| format!("  send {} under {derived_key}, {number} copies", call.sends));
        self.auditor.sent(self.now_ms, &derived_key, &copy.parameters, exchange, number);
        self.after(Times::default().provider_timeout_ms, Event::TimedOut { exchange });
        for Copy { delay_ms, takes_ms, heard, odd } in copies {
            let delivery = Delivery { takes_ms, heard, odd, ..copy.clone() };
            self.after(delay_ms, Event::Arrive(Box::new(delivery)));
        }
    }

    pub(crate) fn arrive(&mut self, mut delivery: Delivery) {
        self.auditor.arrived(&delivery.derived_key);
        let Delivery { derived_key, parameters, odd, takes_ms, .. } = &delivery;
        match self.provider.arrive(self.now_ms, derived_key, parameters, *odd) {
            Reaction::Answer(answer) => self.answer(&delivery, answer),
            Reaction::Executing => {
                let takes_ms = *takes_ms;
                delivery.began_ms = self.now_ms;
                self.after(takes_ms, Event::Executed(Box::new(delivery)));
            }
        }
    }

    pub(crate) fn executed(&mut self, delivery: Delivery) {
        let executed = self.provider.execute(delivery.began_ms, &delivery.derived_key, delivery.odd);
        self.counters.count("provider: executions");
        self.tell(|| format!("  provider executes {}: charged {}", delivery.derived_key, executed.charged));
        self.auditor.executed(self.now_ms, &delivery.derived_key);
        if executed.charged {
            self.counters.count("provider: charges");
            self.auditor.charged();
        }
        let decided = match delivery.odd {
            Some(Oddity::Processing { ms, charged }) => Some((ms, charged)),
            Some(Oddity::RolledForward { ms } | Oddity::LeftOpen { ms }) => Some((ms, true)),
            _ => None,
        };
        if let (Some(payment), Some((ms, charged))) = (executed.processing, decided) {
            self.after(ms, Event::Decided { payment, charged });
        }
        self.answer(&delivery, executed.answer);
    }

    pub(crate) fn decided(&mut self, payment: u64, charged: bool) {
        self.tell(|| format!("  provider decides: charged {charged}"));
        let is_decided = self.provider.decide(payment, charged);
        if is_decided && charged {
            self.counters.count("provider: charges");
            self.auditor.charged();
        }
    }

    fn answer(&mut self, delivery: &Delivery, answer: HttpAnswer) {
        if delivery.heard {
            let transit_ms = self.dice.between(5, 150);
            let (exchange, answer) = (delivery.exchange, Box::new(answer));
            self.after(transit_ms, Event::Response { exchange, answer });
        }
    }

    pub(crate) fn response(&mut self, exchange: u64, answer: &HttpAnswer) {
        let Some(Exchange { call, .. }) = self.exchanges.get(&exchange) else {
            return;
        };
        let outcome = call.provider.classify(call, answer);
        if matches!(outcome, Outcome::NotExecuted { .. }) {
            self.auditor.refused(exchange);
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
        self.counters.count(match outcome {
            Outcome::Definitive(_) => "outcomes: definitive",
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
            if self.pages_asked_by.is_some_and(|before| before != run) {
                self.counters.count("look-ups taken over between two pages");
            }
        }
        self.pages_asked_by = Some(run);
        self.tell(|| {
            format!(
                "  look-up {}",
                call.provider.look_up_request(&call).map(|ask| ask.path).unwrap_or_default()
            )
        });
        let fault = self.fault(Boundary::Page);
        let transit_ms = self.dice.between(5, 150);
        self.after(transit_ms, Event::Page(Box::new(Asking { run, call, fault })));
    }

    pub(crate) fn page(&mut self, asking: Asking) {
        let answer = match asking.fault {
            Some(Fault::PageLost) => {
                let reason = "no answer".to_owned();
                let look_up = LookUp::Inconclusive { from_the_start: false, reason };
                return self.looked_up(asking.run, asking.call.call_id, look_up);
            }
            fault => {
                broken_page(fault).unwrap_or_else(|| match asking.call.provider.close_request(&asking.call) {
                    Some(close) => {
                        self.counters.count("payments left open, to be canceled");
                        self.provider.cancel(&close.path)
                    }
                    None => self
                        .provider
                        .get(self.now_ms, &asking.call.provider.look_up_request(&asking.call).unwrap().path),
                })
            }
        };
        let transit_ms = self.dice.between(5, 150);
        self.after(transit_ms, Event::PageAnswer(Box::new(asking), Box::new(answer)));
    }

    pub(crate) fn page_answer(&mut self, asking: Asking, answer: &HttpAnswer) {
        let look_up = asking.call.provider.read_look_up(&asking.call, answer);
        self.looked_up(asking.run, asking.call.call_id, look_up);
    }
}
