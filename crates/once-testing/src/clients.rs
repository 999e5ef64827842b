//! The clients: they ask, ask again where they get no final answer, and once more long after.

use once::begin::{Begin, begin};
use once::object_state::ObjectState;
use once::record::{KeyRecord, Lifecycle, StoredResponse};
use once::run::Run;

use crate::commit::Committed;
use crate::fault::{Fault, Site};
use crate::saboteur::Saboteur;
use crate::scenario::Scenario;
use crate::world::{Event, Running, World};

/// How often a client asks before it gives up.
const TRIES_MAX: u32 = 4;
/// How long after the retention a client asks once more, in ms.
const LONG_AFTER_MS: u64 = 2 * 3_600_000;

impl<S: Scenario> World<'_, S> {
    /// A client sends its request.
    pub(crate) fn ask(&mut self, client: usize) -> Result<(), String> {
        let is_gone = self.site(Site::Client) == Some(Fault::ClientGone);
        let request = self.requests[client].clone();
        self.learn_nothing(&request)?;
        self.clients[client].tries += 1;
        self.clients[client].is_gone |= is_gone;
        let me = self.me();
        let forgets = self.saboteur == Some(Saboteur::Tombstone);
        let patience_until_ms = self.clock_ms() + self.times.wait_ms;
        let (in_turns, before) = (self.plan.is_in_turns(), self.rows_to_lose());
        let key = self.object_state.key_of(&request.key_hash);
        let is_worked_on = key.is_some_and(|key| key.is_worked_on(&me, self.clock_ms()));
        let begun = self.request(|object_state, ctx| {
            if forgets {
                forget_expired(object_state);
            }
            let begun = begin(object_state, &request, &me, ctx)?;
            let first_turn = match &begun {
                Begin::Run(token) if in_turns => {
                    let mut run = Run::new(token.clone(), patience_until_ms, &[]);
                    let action = run.first_turn(object_state, ctx);
                    Some((run, action))
                }
                _ => None,
            };
            Ok((begun, first_turn))
        })?;
        let (begun, first_turn, stalls) = match begun {
            Committed::Done { value: (begun, first_turn), stalls } => (begun, first_turn, stalls),
            Committed::Died => {
                self.asks_again(client);
                return Ok(());
            }
            Committed::Fenced | Committed::Failed => return Err("a request is fenced".to_owned()),
        };
        if is_worked_on && matches!(begun, Begin::Run(_)) {
            return Err(format!("client {client} takes its key from a run that lives"));
        }
        if let Some((run, action)) = first_turn {
            self.runs_made += 1;
            let running = Running { run, clients: vec![client] };
            return self.act(self.runs_made, running, (action, stalls), before);
        }
        match begun {
            Begin::Run(token) => self.start(token, patience_until_ms, vec![client]),
            Begin::Replay { response, .. } => self.answer(client, &response)?,
            Begin::InProgress { key_id, .. } => {
                match self.runs.values_mut().rfind(|running| running.run.token.key_id == key_id) {
                    Some(running) => running.clients.push(client),
                    None => self.asks_again(client),
                }
            }
            Begin::Pending { in_doubt, .. } => self.is_pending(client, in_doubt)?,
            // Final, and nothing was begun.
            Begin::Refused(_) | Begin::Expired => {}
            other => return Err(format!("client {client} was told {other:?}")),
        }
        Ok(())
    }

    /// A client is told that it is not known yet; and that nothing was executed until now, unless that is `in_doubt`.
    pub(crate) fn is_pending(&mut self, client: usize, in_doubt: bool) -> Result<(), String> {
        let key_hash = &self.requests[client].key_hash;
        let key_id = self.object_state.key_of(key_hash).map(|key| key.key_id);
        let call = key_id.and_then(|key_id| self.object_state.unsettled_call(key_id));
        if !in_doubt && call.is_some_and(|call| self.provider.executed(call).is_some()) {
            return Err(format!("client {client} was told that nothing was executed, which was"));
        }
        self.asks_again(client);
        Ok(())
    }

    pub(crate) fn asks_again(&mut self, client: usize) {
        let known = &self.clients[client];
        if !known.is_gone && known.tries < TRIES_MAX {
            self.after(1_000 << known.tries, Event::Ask { client });
        } else {
            self.asks_late(client);
        }
    }

    /// Whoever comes back when the response is long gone.
    fn asks_late(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if !known.is_gone && std::mem::take(&mut known.asks_late) {
            self.after(self.times.retention_ms + LONG_AFTER_MS, Event::Ask { client });
        }
    }

    /// A client gets its response: the same as everybody before under the same key.
    pub(crate) fn answer(&mut self, client: usize, response: &StoredResponse) -> Result<(), String> {
        let key = self.requests[client].key_hash.0.clone();
        let first = self.responses.entry(key).or_insert_with(|| response.clone());
        if first != response {
            return Err(format!("client {client} got another response than the first one under its key"));
        }
        self.tell(format_args!("client {client} is answered {}", response.status));
        self.asks_late(client);
        Ok(())
    }
}

fn forget_expired<F: once::flow::Flow>(object_state: &mut ObjectState<F>) {
    let is_expired = |key: &&KeyRecord<_>| matches!(key.lifecycle, Lifecycle::Expired(_));
    let gone: Vec<u32> = object_state.keys.iter().filter(is_expired).map(|key| key.key_id).collect();
    object_state.calls.retain(|call| !gone.contains(&call.key_id));
    object_state.keys.retain(|key| !gone.contains(&key.key_id));
}
