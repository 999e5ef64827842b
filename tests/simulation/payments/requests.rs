//! Clients and the objects: requests, what becomes of them, and answers.

use once::alarm::expire;
use once::begin::{KeyRoute, bind};
use once::replays::REPLAYED;
use payments::engine::{Begin, Lifecycle, Run};
use payments::payment::operation::Operation;

use super::auditor::Asked;
use super::customers::routed;
use super::scenario::{Intention, owner};
use super::world::{Disabled, Event, Reached, Transacted, World};
use crate::faults::{Boundary, Fault, MINUTE, SECOND};
use crate::history::{Active, Answer, Request, label};
use crate::invariants::Writer;

/// How long a client waits for an answer.
const CLIENT_TIMEOUT_MS: u64 = MINUTE;

impl World {
    pub(crate) fn knock(&mut self, client: usize) {
        self.is_busy();
        let it = &mut self.clients[client];
        if it.patience == 0 {
            return;
        }
        it.patience -= 1;
        it.request += 1;
        it.settled = false;
        let from = (client, it.request);
        let is_elsewhere = it.own.is_some() && self.disabled != Some(Disabled::Binding);
        self.counters.count("requests");
        let Self { clients, .. } = self;
        let (wish, key) = (clients[client].wish.clone(), clients[client].key.clone());
        self.tell(|| format!("client {client} asks for {wish:?} under {key:?}, request {}", from.1));
        self.after(CLIENT_TIMEOUT_MS, Event::ClientGivesUp(from));
        let fault = self.fault(Boundary::Request);
        if fault == Some(Fault::AskLost) {
            return;
        }
        for _ in 0..if fault == Some(Fault::AskDoubled) { 2 } else { 1 } {
            let transit_ms = self.rng.between(1, 80);
            let event = match is_elsewhere {
                true => Event::Bind { from, to: None },
                false => Event::Request { from, to: None },
            };
            self.after(transit_ms, event);
        }
    }

    /// A request reaches the object of its key: from now on the key stands for it alone.
    pub(crate) fn bind(&mut self, from: Request, to: Option<usize>) {
        let Some(own) = self.clients[from.0].own else { return };
        let object = self.object(own);
        let (instance, fault) = match self.reach(object, to, |to| Event::Bind { from, to: Some(to) }) {
            Reached::Awake(instance, fault) => (instance, fault),
            Reached::Dead => return self.reply(from, Answer::plain("reset")),
            Reached::Asleep | Reached::Paused | Reached::Dark => return,
        };
        let client = &self.clients[from.0];
        let (command, target) = (client.ask(u64::from(from.1)), client.object);
        let bound = self.transact(
            instance,
            fault,
            Writer::Taker,
            |rows, ctx, _| Ok(bind(rows, &command, target, ctx)),
            |_, _, _| {},
        );
        match bound {
            Transacted::Done(KeyRoute::To(_), _) => {
                self.counters.count("bind: bound");
                let transit_ms = self.rng.between(1, 10);
                self.after(transit_ms, Event::Request { from, to: None });
            }
            Transacted::Done(KeyRoute::Mismatch { .. }, _) => {
                self.counters.count("bind: used for something else, refused");
                self.reply(from, Answer::plain("mismatch"));
            }
            Transacted::Crashed | Transacted::Failed(_) => self.reply(from, Answer::plain("reset")),
        }
    }

    fn asked(&self, client: usize) -> Asked {
        let it = &self.clients[client];
        Asked {
            object: self.places[client],
            key: it.name.clone(),
            payload: it.payload.clone(),
            stranger: it.stranger,
        }
    }

    /// A request reaches the object in which it runs.
    pub(crate) fn request(&mut self, from: Request, to: Option<usize>) {
        let object = self.places[from.0];
        let (instance, fault) = match self.reach(object, to, |to| Event::Request { from, to: Some(to) }) {
            Reached::Awake(instance, fault) => (instance, fault),
            Reached::Dead => return self.reply(from, Answer::plain("reset")),
            Reached::Asleep | Reached::Paused | Reached::Dark => return,
        };
        let asked = self.asked(from.0);
        let mut command = self.clients[from.0].ask(u64::from(from.1) << 32 | from.0 as u64);
        if self.disabled == Some(Disabled::Owners) {
            command.owner = owner(false);
        }
        let (me, saboteur) = (self.instances[instance].id.0.clone(), self.saboteur);
        let takes_turn = self.in_turns && !self.clients[from.0].fails;
        let patience_ms = if takes_turn { self.patience_ms() } else { 0 };
        let counts_at_once = self.disabled == Some(Disabled::Replays);
        let begun = self.transact(
            instance,
            fault,
            if takes_turn { Writer::Beginner } else { Writer::Taker },
            |rows, ctx, me| {
                let (decision, command) = match routed(rows, &command, ctx)? {
                    Ok(command) => (saboteur.begin(rows, &command, me, ctx)?, command),
                    Err(decision) => (decision, command.clone()),
                };
                if let (Begin::Replay { key_id, .. }, true) = (&decision, counts_at_once) {
                    rows.append_timeline(*key_id, ctx.now_ms, REPLAYED, "");
                }
                let known = rows.keys.iter().find(|key| key.key_hash == command.key_hash);
                let key = known.map(|key| key.key_id);
                let first_turn = match &decision {
                    Begin::Run(token) if takes_turn => {
                        let run = Run::new(token.clone(), ctx.now_ms + patience_ms, &[]);
                        let mut active = Active::new(run, instance, true, vec![from]);
                        let action = active.first_turn(saboteur, rows, ctx);
                        Some((active, action))
                    }
                    _ => None,
                };
                // Of a customer the object alone knows the key.
                let is_customer = matches!(command.operation, Operation::Customer(_));
                let name = is_customer.then(|| command.key_hash.0.clone());
                Ok((decision, key, first_turn, name))
            },
            |auditor, (decision, key, _, name), commit| {
                let named = name.as_ref().map(|name| Asked { key: name.clone(), ..asked.clone() });
                auditor.began(named.as_ref().unwrap_or(&asked), label(decision).0, *key, &me, commit.now_ms);
                if matches!(decision, Begin::Replay { .. }) {
                    auditor.replayed();
                }
                if !matches!(decision, Begin::Run(_)) {
                    auditor.refused_without_row(commit);
                }
            },
        );
        let (decision, first_turn, object_now_ms) = match begun {
            Transacted::Done((decision, _, first_turn, _), object_now_ms) => {
                (decision, first_turn, object_now_ms)
            }
            Transacted::Failed(error) => return self.auditor.bug(&error.to_string()),
            Transacted::Crashed => return self.reply(from, Answer::plain("reset")),
        };
        let (label, counter) = label(&decision);
        self.tell(|| format!("  begin: {label} {decision:?}"));
        self.counters.count(counter);
        match decision {
            Begin::Run(_) if fault == Some(Fault::RunDropped) => {}
            Begin::Run(token) => {
                if token.attempt == 1 {
                    self.calm_from_ms = self.calm_from_ms.max(self.now_ms);
                }
                if let Some((active, action)) = first_turn {
                    let run = self.begin_run(active);
                    return self.act(run, action, object_now_ms);
                }
                let fails = std::mem::take(&mut self.clients[from.0].fails);
                let patience_ms = self.patience_ms();
                self.start(token, instance, object_now_ms + patience_ms, fails, vec![from]);
            }
            Begin::Replay { mut response, .. } => {
                if self.disabled == Some(Disabled::StoredBytes) {
                    response.headers.push(("date".to_owned(), self.now_ms.to_string()));
                }
                self.reply(from, Answer::stored(&response));
            }
            Begin::InProgress { key_id, .. } => self.join(from, instance, key_id),
            _ => self.reply(from, Answer::plain(label)),
        }
    }

    /// How long a request waits for its run.
    fn patience_ms(&mut self) -> u64 {
        self.rng.pick(&[0, 2 * SECOND, 10 * SECOND])
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
        let transit_ms = self.rng.between(1, 80);
        self.after(transit_ms, Event::Answer { to, answer });
    }

    pub(crate) fn answered(&mut self, (client, request): Request, answer: Answer) {
        let asked = self.asked(client);
        let it = &mut self.clients[client];
        if it.request != request || it.settled {
            return;
        }
        it.settled = true;
        self.tell(|| {
            let bytes =
                answer.bytes.as_ref().map(|(status, _, body)| (status, String::from_utf8_lossy(body)));
            format!("client {client} is answered {} {bytes:?}", answer.label)
        });
        match self.clients[client].wish {
            Intention::Customer(name) if !asked.stranger => {
                self.auditor.answered_of_customer(&asked, name, answer.bytes.as_ref());
            }
            _ => self.auditor.answered(&asked, answer.label, answer.bytes.as_ref()),
        }
        if answer.label == "stored" {
            self.counters.count("stored answers received");
        }
        // The payment's state may change, but nobody asks for ever.
        if answer.label == "refused" {
            self.clients[client].patience = self.clients[client].patience.min(2);
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
        let pause_ms = self.clients[client].pause_ms(&mut self.rng);
        self.after(pause_ms, Event::Knock(client));
    }

    fn come_back(&mut self, client: usize) {
        let it = &mut self.clients[client];
        if let Some(delay_ms) = it.forgets_ms.take() {
            self.after(delay_ms, Event::Forget { client, to: None });
        }
        let it = &mut self.clients[client];
        if it.returns_ms.is_empty() {
            it.patience = 0;
            return;
        }
        let delay_ms = it.returns_ms.remove(0);
        it.patience = 3;
        self.after(delay_ms, Event::Knock(client));
    }

    /// `DELETE /idempotency-keys/{key}`
    pub(crate) fn forget(&mut self, client: usize, to: Option<usize>) {
        let again = |to| Event::Forget { client, to: Some(to) };
        let Reached::Awake(instance, fault) = self.reach(self.places[client], to, again) else {
            return;
        };
        let command = self.clients[client].command.clone();
        let forgotten = self.transact(
            instance,
            fault,
            Writer::Taker,
            |rows, ctx, _| {
                let key = rows.keys.iter().find(|key| key.key_hash == command.key_hash);
                let mine = key.filter(|key| key.owner == command.owner);
                let Some(key_id) = mine.map(|key| key.key_id) else { return Ok(false) };
                let is_over =
                    rows.key(key_id).is_some_and(|key| matches!(key.lifecycle, Lifecycle::Finished(_)));
                expire(rows, key_id, ctx);
                Ok(is_over)
            },
            |_, _, _| {},
        );
        if matches!(forgotten, Transacted::Done(true, _)) {
            self.counters.count("responses forgotten early");
        }
    }
}
