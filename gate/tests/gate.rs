//! What is sent once arrives at most once, whatever goes wrong around its flow.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its reply, and nobody links to it"
)]

use once::begin::{Begin, Command, begin};
use once::call::{LookUp, Outcome, ProviderCall, ProviderReply, RefusalScope};
use once::context::Context;
use once::fingerprint::Fingerprint;
use once::id::{ObjectId, Owner};
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::record::{Finished, Lifecycle, StoredResponse};
use once::run::{Action, Event, Run, RunEnd};
use once::times::Times;
use once_testing::{End, Harness, Job, Saboteur, Scenario};
use paid_once_gate::domain::{Again, PassOn, Reply, ends, without_answer};
use paid_once_gate::meaning::Ended;
use support::{at, command, me};

mod support;

/// A form that is sent three times, and sent again by whoever gets no answer.
struct Form {
    again: Again,
    answer: Ended,
    /// The alarm can do nothing without its visitor, as in the Worker.
    needs_visitor: bool,
    /// What the origin says to whoever sends it again, though it has done it: that they must log in, that a token was used.
    contradicts: Option<Ended>,
    /// That is taken for a word about the first one.
    believes: bool,
}

impl Scenario for Form {
    type Flow = PassOn;

    fn requests(&self) -> Vec<(u64, Command<PassOn>)> {
        let command = command(self.again);
        vec![(0, command.clone()), (10, command.clone()), (5_000, command)]
    }

    fn execute(&self, _: &ProviderCall<PassOn>) -> Reply {
        Reply { ended: self.answer, in_bucket: false, sealed: b"sealed".to_vec() }
    }

    fn say_again(&self, call: &ProviderCall<PassOn>, kept: ProviderReply<Reply>) -> Outcome<Reply> {
        let Some(ended) = self.contradicts else { return Outcome::Definitive(kept) };
        if ends(call, ended, false) || self.believes {
            return Outcome::Definitive(ProviderReply { result: without_answer(ended), ..kept });
        }
        let reason = "it says nothing of what was sent before".to_owned();
        Outcome::NotExecuted { retry_after_ms: None, scope: RefusalScope::Copy, reason }
    }

    fn needs_client(&self) -> bool {
        self.needs_visitor
    }

    /// The origin is sent the key of the form, and a job's id leaves no object.
    fn names_have_the_object(&self) -> bool {
        false
    }

    /// What is told of an operation is how it stands when the job leaves.
    fn stands_for(&self, newer: &Job<Self>, older: &Job<Self>) -> bool {
        newer.payload == older.payload
    }

    fn times(&self) -> Times {
        // Its visitor may never come again: then it takes as long as an answer is kept.
        let keep_ms = if self.needs_visitor { 1_200_000 } else { Times::default().retention_ms };
        Times {
            retention_ms: keep_ms,
            provider_window_ms: 3_600_000,
            quarantine_ms: 3_600_000,
            ..Times::default()
        }
    }

    fn judge(&self, end: &End<'_, PassOn>) -> Result<(), String> {
        let ended = *end.object_state.resource.ended.get(&1).ok_or("it has not ended")?;
        let kept = end.object_state.calls.iter().filter_map(|call| serde_json::to_string(call).ok());
        if kept.into_iter().any(|call| call.contains("sealed")) {
            return Err("the answer is kept twice".to_owned());
        }
        match (ended, end.executions.len()) {
            (ended, 1) if ended == self.answer => Ok(()),
            // It was sent once at most, and nobody knows whether it arrived.
            (Ended::Unknown, 0 | 1) if self.again == Again::Never => Ok(()),
            // By the origin's word, or a person's.
            (Ended::NeverSent, 0) if self.again != Again::Never => Ok(()),
            (ended, executed) => Err(format!("it is {ended:?}, and was executed {executed} times")),
        }
    }
}

/// What the next one begins with: a key is refused a hundred times at most, each with a page of half a megabyte, and a row takes two.
#[test]
fn only_the_newest_answer_is_kept() {
    let (ctx, me) = (Context { times: Times::default(), ..at(1) }, me());
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let first = command(Again::Never);
    for number in 1..=3 {
        let command = Command { key_hash: KeyHash(format!("form.{number}")), ..first.clone() };
        assert!(matches!(begin(&mut state, &command, &me, &ctx), Ok(Begin::Run(_))));
        let key = state.keys.last_mut().unwrap();
        let response = StoredResponse { status: 422, headers: Vec::new(), body: b"page".to_vec() };
        key.lifecycle = Lifecycle::Finished(Finished { response, finished_at_ms: 1, expires_at_ms: 9 });
    }
    let kept = state.keys.iter().map(|key| match &key.lifecycle {
        Lifecycle::Finished(finished) => finished.response.body.len(),
        _ => 0,
    });
    assert_eq!(kept.collect::<Vec<_>>(), [0, 0, 4]);
}

const FORM: Form = Form {
    again: Again::Never,
    answer: Ended::Done,
    needs_visitor: false,
    contradicts: None,
    believes: false,
};

const FORMS: [Form; 11] = [
    FORM,
    Form { answer: Ended::Refused, ..FORM },
    Form { again: Again::Send, ..FORM },
    Form { again: Again::Send, answer: Ended::Refused, ..FORM },
    Form { again: Again::Ask, ..FORM },
    Form { again: Again::Ask, answer: Ended::ShownAgain, ..FORM },
    Form { again: Again::Send, needs_visitor: true, ..FORM },
    Form { again: Again::Ask, needs_visitor: true, ..FORM },
    Form { again: Again::Send, contradicts: Some(Ended::Refused), ..FORM },
    Form { again: Again::Send, contradicts: Some(Ended::ShownAgain), ..FORM },
    Form { again: Again::Send, contradicts: Some(Ended::Refused), needs_visitor: true, ..FORM },
];

#[test]
fn two_faults_pass_nothing_on_twice() {
    for form in &FORMS {
        let harness = Harness::new(form);
        let played = match form.answer {
            Ended::Done if !form.needs_visitor && form.contradicts.is_none() => harness.every_pair(),
            _ => harness.every_single_fault(),
        };
        let played = played.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(played.histories > 100, "{}", played.histories);
    }
}

#[test]
fn faults_at_random_pass_nothing_on_twice() {
    for form in &FORMS {
        Harness::new(form).random(2_000, 1).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// An origin that looks at no key executes whatever arrives: what is never sent again arrives once all the same.
#[test]
fn an_origin_that_looks_at_no_key_gets_it_once() {
    let [never, _, send, ..] = &FORMS;
    let harness = Harness::new(never).without(Saboteur::ProviderKey);
    let played = harness.every_single_fault().and_then(|_| harness.random(5_000, 1));
    played.unwrap_or_else(|violation| panic!("{violation}"));
    // The control: what is sent again would be executed again.
    let harness = Harness::new(send).without(Saboteur::ProviderKey);
    harness.every_single_fault().expect_err("nothing was executed twice");
}

#[test]
fn without_a_protection_something_breaks() {
    let [never, ..] = &FORMS;
    for protection in [Saboteur::WriteAhead, Saboteur::Fencing, Saboteur::Alarm, Saboteur::Tombstone] {
        let harness = Harness::new(never).without(protection);
        let found = harness.every_single_fault().and_then(|_| harness.random(20_000, 1));
        found.expect_err(&format!("nothing breaks without {protection:?}"));
    }
}

/// The control: what is said to a second send would free the key of what was done.
#[test]
fn what_a_second_send_is_told_is_no_word_about_the_first() {
    for ended in [Ended::Refused, Ended::NeverSent, Ended::ShownAgain] {
        let form = Form { again: Again::Send, contradicts: Some(ended), believes: true, ..FORM };
        Harness::new(&form).every_single_fault().expect_err("nothing breaks where it is believed");
    }
}

/// Plays a run at this time until it has nothing more to do, with a client there or without, and counts its sends and look-ups. None settles it.
fn tries(state: &mut ObjectState<PassOn>, mut run: Run<PassOn>, now_ms: u64, client: bool) -> usize {
    let ctx = at(now_ms);
    let reason = || "nobody is there".to_owned();
    let mut tried = 0;
    let mut event = Event::Go;
    loop {
        event = match run.turn(state, event, &ctx).unwrap() {
            Action::Again => Event::Go,
            Action::Send(call) => {
                tried += 1;
                let outcome = match client {
                    true => Outcome::Unknown { answer_is_stored: false, reason: "no answer".to_owned() },
                    false => {
                        let scope = RefusalScope::NoClient;
                        Outcome::NotExecuted { retry_after_ms: None, scope, reason: reason() }
                    }
                };
                Event::Outcome(call.call_id, outcome)
            }
            Action::LookUp(call) => {
                tried += 1;
                let look_up = match client {
                    true => LookUp::Inconclusive { from_the_start: true, reason: "it is busy".to_owned() },
                    false => LookUp::NoClient { reason: reason() },
                };
                Event::LookedUp(call.call_id, look_up)
            }
            Action::SleepUntil(_) => {
                run.abandon(state, "nobody waits", &ctx).unwrap();
                return tried;
            }
            Action::End(RunEnd::Pending { .. }) => return tried,
            Action::End(end) => panic!("{end:?}"),
        };
    }
}

/// An alarm that finds nobody there must not make the next client wait, who may come by Retry-After just after each of them.
#[test]
fn whoever_comes_is_not_kept_waiting_by_tries_without_them() {
    let me = me();
    for again in [Again::Ask, Again::Send] {
        let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        let come = |state: &mut ObjectState<PassOn>, now_ms| begin(state, &command(again), &me, &at(now_ms));
        let Ok(Begin::Run(token)) = come(&mut state, 1) else { panic!("begins") };
        assert_eq!(tries(&mut state, Run::new(token, 0, &[]), 1, true), 1);
        let (mut now_ms, mut without) = (1, 0);
        for _ in 0..12 {
            now_ms = once::alarm::wake_at(&state, &at(now_ms)).unwrap().max(now_ms + 1);
            for token in once::alarm::wake(&mut state, &me, &at(now_ms)) {
                without += tries(&mut state, Run::new(token, 0, &[]), now_ms, false);
            }
        }
        assert!(without >= 10, "{again:?}: {without}");
        // Somebody else, or whoever has changed the form, is no reason to go on.
        let waiting = state.clone();
        let first = command(again);
        let other = Command { owner: Owner::Session("somebody else".into()), ..first.clone() };
        let changed = Command { fingerprint: Fingerprint("gate1:2".into()), ..first };
        assert!(matches!(begin(&mut state, &other, &me, &at(now_ms + 1)), Ok(Begin::NotOwner)));
        assert!(matches!(begin(&mut state, &changed, &me, &at(now_ms + 1)), Ok(Begin::Mismatch { .. })));
        assert_eq!(state, waiting);
        let Ok(Begin::Run(token)) = come(&mut state, now_ms + 1) else {
            panic!("{again:?}: it is kept waiting")
        };
        assert_eq!(tries(&mut state, Run::new(token, 0, &[]), now_ms + 1, true), 1, "{again:?}");
        // The pause after a try with a client is for clients, too, and no longer for all those without one.
        let call = &state.calls[0];
        assert_eq!((call.evidence.needs_client, call.failures), (false, 2), "{again:?}");
        let next_ms = call.next_try_at_ms;
        assert!(next_ms > now_ms + 2, "{again:?}");
        if let Ok(Begin::Run(token)) = come(&mut state, now_ms + 2) {
            assert_eq!(tries(&mut state, Run::new(token, 0, &[]), now_ms + 2, true), 0, "{again:?}");
        }
        assert_eq!(state.calls[0].next_try_at_ms, next_ms, "{again:?}");
    }
}
