//! Clients and the object: requests, what becomes of them in the object, and answers.

use once::step::StepError;
use payments::flows::engine::{Begin, Run};

use crate::auditor::Answered;
use crate::clients::Role;
use crate::faults::{Boundary, Fault, MINUTE, SECOND};
use crate::history::{Active, Answer, Request, crashes, label};
use crate::invariants::Writer;
use crate::world::{Event, World};

/// How long a client waits for an answer.
const CLIENT_TIMEOUT_MS: u64 = MINUTE;

impl World {
    pub(crate) fn knock(&mut self, client: usize) {
        let it = &mut self.clients[client];
        // A stranger can only have the key from its owner, so it comes after.
        if it.patience == 0 || (it.role == Role::Other && self.store.rows.keys.is_empty()) {
            return;
        }
        it.patience -= 1;
        it.request += 1;
        it.settled = false;
        let from = (client, it.request);
        let role = it.role;
        self.counters.count("requests");
        self.tell(|| format!("client {client} ({role:?}) asks, request {}", from.1));
        self.after(CLIENT_TIMEOUT_MS, Event::ClientGivesUp(from));
        let fault = self.fault(Boundary::Request);
        if fault == Some(Fault::AskLost) {
            return;
        }
        for _ in 0..if fault == Some(Fault::AskDoubled) { 2 } else { 1 } {
            let transit_ms = self.dice.between(1, 80);
            self.after(transit_ms, Event::Request { from, to: None });
        }
    }

    /// A request reaches the object.
    pub(crate) fn request(&mut self, from: Request, to: Option<usize>) {
        if to.is_none() && self.now_ms < self.dark_until_ms {
            return;
        }
        let instance = to.unwrap_or_else(|| self.current());
        if !self.instances[instance].alive {
            return self.reply(from, Answer::plain("reset"));
        }
        let again = || Event::Request { from, to: Some(instance) };
        let asleep_ms = self.instances[instance].asleep_until_ms.saturating_sub(self.now_ms);
        if asleep_ms > 0 {
            return self.after(asleep_ms, again());
        }
        let fault = self.fault(Boundary::Transaction);
        if !self.enter(instance, fault, again()) {
            return;
        }
        let ctx = self.context(instance);
        let me = self.instances[instance].id.clone();
        let command = self.clients[from.0].ask(u64::from(from.1) << 32 | from.0 as u64);
        let saboteur = self.saboteur;
        let takes_turn = self.in_turns && self.clients[from.0].fail_at.is_none();
        let patience_ms = if takes_turn { self.patience_ms() } else { 0 };
        let result: Result<_, StepError> = self.store.transaction(&ctx, instance, |rows| {
            let decision = saboteur.begin(rows, &command, &me, &ctx)?;
            let first_turn = match &decision {
                Begin::Run(ticket) if takes_turn => {
                    let run = Run::new(ticket.clone(), ctx.now_ms + patience_ms, &[]);
                    let mut active = Active::new(run, instance, true, vec![from]);
                    let action = active.first_turn(saboteur, rows, &ctx);
                    Some((active, action))
                }
                _ => None,
            };
            Ok((decision, first_turn))
        });
        if let Some(dark_ms) = crashes(fault, false) {
            self.reply(from, Answer::plain("reset"));
            return self.crash(instance, dark_ms);
        }
        let Ok(((decision, first_turn), staged)) = result else { return };
        let (label, counter) = label(&decision);
        self.tell(|| format!("  begin: {label}"));
        self.counters.count(counter);
        let client = &self.clients[from.0];
        let stranger = client.role == Role::Other;
        let asked = Answered { stranger, payload: client.payload, label, bytes: None };
        self.auditor.began(&asked, &me.0, ctx.now_ms);
        let writer = if first_turn.is_some() { Writer::Beginner } else { Writer::Taker };
        self.commit(staged, writer, &ctx, instance);
        if let Some(dark_ms) = crashes(fault, true) {
            self.reply(from, Answer::plain("reset"));
            return self.crash(instance, dark_ms);
        }
        match decision {
            Begin::Run(_) if fault == Some(Fault::RunDropped) => {}
            Begin::Run(ticket) => {
                if ticket.attempt == 1 {
                    self.calm_from_ms = self.calm_from_ms.max(self.now_ms);
                }
                if let Some((active, action)) = first_turn {
                    let run = self.begin_run(active);
                    return self.act(run, action, ctx.now_ms);
                }
                let fail_at = self.clients[from.0].fail_at.take();
                let patience_ms = self.patience_ms();
                self.start(ticket, instance, ctx.now_ms + patience_ms, fail_at, vec![from]);
            }
            Begin::Replay { response, .. } => self.reply(from, Answer::stored(&response)),
            Begin::InProgress { key_id, .. } => self.join(from, instance, key_id),
            _ => self.reply(from, Answer::plain(label)),
        }
    }

    /// How long a request waits for its run.
    fn patience_ms(&mut self) -> u64 {
        self.dice.pick(&[0, 2 * SECOND, 10 * SECOND])
    }

    /// A duplicate waits for the first one's result.
    fn join(&mut self, from: Request, instance: usize, key_id: u32) {
        self.runs.join(from, instance, key_id);
        self.after(self.times.wait_ms, Event::WaitOver(from));
    }

    pub(crate) fn wait_over(&mut self, request: Request) {
        self.runs.leave(request);
        self.reply(request, Answer::plain("in_progress"));
    }

    pub(crate) fn reply(&mut self, to: Request, answer: Answer) {
        if self.fault(Boundary::Answer) == Some(Fault::AnswerLost) {
            return;
        }
        let transit_ms = self.dice.between(1, 80);
        self.after(transit_ms, Event::Answer { to, answer });
    }

    pub(crate) fn answered(&mut self, (client, request): Request, answer: Answer) {
        let it = &mut self.clients[client];
        if it.request != request || it.settled {
            return;
        }
        it.settled = true;
        let (label, stranger, payload) = (answer.label, it.role == Role::Other, it.payload);
        self.tell(|| format!("client {client} is answered {label} {:?}", answer.bytes.as_ref().map(|b| b.0)));
        self.auditor.answered(&Answered { stranger, payload, label, bytes: answer.bytes.as_ref() });
        if label == "stored" {
            self.counters.count("stored answers received");
        }
        if answer.is_definitive() {
            self.come_back(client);
        } else {
            self.ask_again(client);
        }
    }

    pub(crate) fn client_gives_up(&mut self, (client, request): Request) {
        let it = &mut self.clients[client];
        if it.request == request && !it.settled {
            it.settled = true;
            self.counters.count("requests timed out");
            self.ask_again(client);
        }
    }

    fn ask_again(&mut self, client: usize) {
        let pause_ms = self.clients[client].pause_ms(&mut self.dice);
        self.after(pause_ms, Event::Knock(client));
    }

    fn come_back(&mut self, client: usize) {
        let it = &mut self.clients[client];
        if it.returns_ms.is_empty() {
            it.patience = 0;
            return;
        }
        let delay_ms = it.returns_ms.remove(0);
        it.patience = 3;
        self.after(delay_ms, Event::Knock(client));
    }
}
