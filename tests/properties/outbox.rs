//! Jobs: whatever changes is told to the read model, nothing that is staged is forgotten, and it leaves until it is confirmed.

use messages::job::{Job, MESSAGE_MAX_BYTES, Message, VERSION, batches, messages};
use messages::snapshot::{AuditRow, Snapshot, snapshot};
use once::alarm::{KnownAlarm, alarm_to_set, expire, wake_at};
use once::begin::begin;
use once::id::{ObjectId, Owner};
use once::outbox::{Due, Handed, due, handed, join_earlier, late, let_wait, put_off, sent};
use once::record::{Finished, StoredResponse};
use payments::engine::{Begin, KeyRecord, Lifecycle, ObjectState, StagedJob};
use payments::payment::id::RefundId;
use payments::payment::money::AmountMinor;
use payments::payment::records::{AuditRecord, JobKind};
use payments::payment::{Refund, RefundReason, RefundState};
use payments::transitions::projection::{Heard, confirm, hear, stage_anew, stage_projection};
use proptest::prelude::*;
use serde::Deserialize as _;

use crate::payment::pay;
use crate::support::{NOW_MS, at, command, me};

fn empty() -> ObjectState {
    ObjectState::empty(ObjectId::from_bytes([7; 32]))
}

/// As the store does at a commit.
fn commit(mut state: ObjectState) -> ObjectState {
    let jobs = std::mem::take(&mut state.appended.jobs);
    state.appended = Default::default();
    state.jobs.extend(jobs);
    state
}

fn audit() -> AuditRecord {
    AuditRecord {
        audit_id: 0,
        at_ms: NOW_MS,
        actor: Owner::Account("a".into()),
        action: "payment.created",
        subject: "pay_1".into(),
        data: serde_json::json!({}),
    }
}

fn staged(job_id: &str) -> StagedJob {
    StagedJob {
        job_id: job_id.into(),
        kind: JobKind::SendReceipt,
        payload: serde_json::json!({}),
        staged_at_ms: NOW_MS,
        sends: 0,
        next_at_ms: NOW_MS + LOOK_MS,
    }
}

/// After how long it is looked whether a job is over.
const LOOK_MS: u64 = 9_000;

/// Those that leave now.
fn leaving(state: &ObjectState, known: &Handed, now_ms: u64) -> Vec<StagedJob> {
    due(state, known, &at(now_ms)).leaving
}

#[test]
fn a_change_is_told_under_a_version_of_its_own_and_only_the_newest_is_staged() {
    let before = empty();
    let mut after = before.clone();
    stage_projection(&before, &mut after, &at(NOW_MS));
    assert_eq!(after, before, "nothing has changed");
    let mut state = before;
    for version in 1..4 {
        let mut after = state.clone();
        after.appended.facts.audit.push(audit());
        stage_projection(&state, &mut after, &at(NOW_MS));
        state = commit(after);
        assert_eq!(state.resource.version, version);
        assert_eq!(state.jobs.len(), 1);
        assert!(state.jobs[0].job_id.ends_with(&format!("_project_{version}")));
    }
}

#[test]
fn one_change_is_counted_once_however_it_was_staged() {
    let before = empty();
    let mut after = before.clone();
    after.appended.facts.audit.push(audit());
    stage_anew(&mut after, &at(NOW_MS));
    stage_projection(&before, &mut after, &at(NOW_MS));
    assert_eq!((after.resource.version, after.appended.jobs.len()), (1, 1));
}

#[test]
fn an_alarm_stands_as_long_as_a_job_is_staged() {
    let before = empty();
    let mut after = before.clone();
    after.appended.jobs.push(staged("r"));
    let ctx = at(NOW_MS);
    assert_eq!(alarm_to_set(&before, &after, KnownAlarm::Unknown, &ctx), Some(NOW_MS + LOOK_MS));
    let mut state = commit(after);
    let mut known = Handed::default();
    let jobs = leaving(&state, &known, NOW_MS);
    assert_eq!(jobs.len(), 1, "it leaves at once, the alarm is for when it could not");
    assert_eq!(handed(&mut known, jobs, &ctx), [], "that is not written down");
    assert!(due(&state, &known, &ctx).is_empty() && late(&state, &ctx).is_empty());
    // A new incarnation knows nothing of it, nor whether the alarm is set.
    assert_eq!(leaving(&state, &Handed::default(), NOW_MS).len(), 1);
    assert!(alarm_to_set(&state, &state, KnownAlarm::Unknown, &ctx).is_some());
    hear(&mut state, &over("r"), &ctx);
    assert_eq!((state.jobs.len(), wake_at(&state, &ctx)), (0, None));
}

fn over(job_id: &str) -> Heard {
    Heard { over: vec![job_id.into()], ..Heard::default() }
}

#[test]
fn a_job_that_is_not_over_when_it_is_looked_at_has_more_time_and_leaves_again() {
    let mut state = empty();
    state.appended.jobs.push(staged("r"));
    let mut state = commit(state);
    let mut known = Handed::default();
    let jobs = leaving(&state, &known, NOW_MS);
    handed(&mut known, jobs, &at(NOW_MS));

    let first_look = NOW_MS + LOOK_MS;
    assert_eq!(late(&state, &at(first_look)).len(), 1);
    let Due { leaving: again, waiting } = due(&state, &known, &at(first_look));
    assert_eq!((again.len(), waiting.len()), (0, 1), "the queue has it");
    // An incarnation that does not know that gives it to the queue once more.
    assert_eq!(leaving(&state, &Handed::default(), first_look).len(), 1);
    put_off(&mut state, &mut known, &waiting, &at(first_look));
    assert!(due(&state, &known, &at(first_look)).is_empty());

    let confirm_ms = at(0).times.confirm_ms;
    let second_look = first_look + confirm_ms;
    assert_eq!(wake_at(&state, &at(first_look)), Some(second_look));
    let again = leaving(&state, &known, second_look);
    assert_eq!(again.len(), 1, "it has died with the queue, as it seems");
    let written = handed(&mut known, again, &at(second_look));
    assert_eq!(written.len(), 1, "that its time has come is written down");
    sent(&mut state, &written, true, &at(second_look));
    assert_eq!(wake_at(&state, &at(second_look)), Some(second_look + LOOK_MS));
    assert_eq!(due(&state, &known, &at(second_look + LOOK_MS)).waiting.len(), 1);
}

/// While a slow queue holds a hand-on the alarm changes something: else it would ring again at once, and again. What has not left yet still
/// leaves as soon as the queue is free.
#[test]
fn an_alarm_that_meets_a_hand_on_rings_no_more_until_the_queue_has_had_its_time() {
    let now_ms = NOW_MS + LOOK_MS;
    let mut state = empty();
    state.jobs = vec![staged("a"), StagedJob { sends: 1, ..staged("b") }];
    assert!(wake_at(&state, &at(now_ms)).unwrap() <= now_ms, "control: it is due now");
    let_wait(&mut state, &at(now_ms));
    assert_eq!(wake_at(&state, &at(now_ms)), Some(now_ms + 10_000));
    let left = leaving(&state, &Handed::default(), now_ms);
    assert_eq!(left.iter().map(|job| job.job_id.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn what_is_staged_in_one_run_is_looked_at_together() {
    let mut before = empty();
    before.appended.jobs.push(staged("a"));
    let before = commit(before);
    for (later_ms, is_joined) in
        [(300, true), (LOOK_MS / 2, true), (LOOK_MS / 2 + 1, false), (LOOK_MS, false)]
    {
        let ctx = at(NOW_MS + later_ms);
        let mut after = before.clone();
        after.appended.jobs.push(StagedJob { next_at_ms: ctx.now_ms + LOOK_MS, ..staged("b") });
        join_earlier(&before, &mut after, &ctx);
        let next_at_ms = after.appended.jobs[0].next_at_ms;
        assert_eq!(next_at_ms == NOW_MS + LOOK_MS, is_joined, "{later_ms}");
        let known = KnownAlarm::At(NOW_MS + LOOK_MS);
        assert_eq!(alarm_to_set(&before, &commit(after), known, &ctx), None, "the alarm stays");
    }
}

#[test]
fn a_projection_is_over_once_its_version_is_shown_and_what_did_not_fit_goes_on() {
    let ctx = at(NOW_MS);
    let mut state = empty();
    stage_anew(&mut state, &ctx);
    let mut state = commit(state);
    stage_anew(&mut state, &ctx);
    let mut state = commit(state);
    state.resource.audit_newest = 9;
    let shown = |version| Heard { version, audit_through: 7, ..Heard::default() };
    hear(&mut state, &shown(1), &ctx);
    assert_eq!((state.jobs.len(), state.resource.audit_through), (1, 0), "that was another one");
    hear(&mut state, &shown(2), &ctx);
    let mut state = commit(state);
    assert_eq!((state.jobs.len(), state.resource.audit_through, state.resource.version), (1, 7, 3));
    // Dead, it stages no other.
    let job_id = state.jobs[0].job_id.clone();
    hear(&mut state, &Heard { version: 2, audit_through: 7, ..over(&job_id) }, &ctx);
    assert_eq!(commit(state).jobs, []);
}

#[test]
fn a_word_about_an_old_snapshot_does_not_forget_a_new_one() {
    let mut state = empty();
    stage_anew(&mut state, &at(NOW_MS));
    let mut state = commit(state);
    let old = state.jobs[0].job_id.clone();
    stage_anew(&mut state, &at(NOW_MS));
    let mut state = commit(state);
    state.resource.audit_newest = 9;
    confirm(&mut state, &old, Some(7), &at(NOW_MS));
    assert_eq!((state.jobs.len(), state.resource.audit_through), (1, 7));
    confirm(&mut state, "x", Some(3), &at(NOW_MS));
    assert_eq!(state.resource.audit_through, 7, "never backward");
    assert_eq!(state.appended.jobs, [], "the one that is staged carries the rest");
}

#[test]
fn audit_that_did_not_fit_into_a_snapshot_goes_with_others_until_all_is_told() {
    let mut state = empty();
    stage_anew(&mut state, &at(NOW_MS));
    let mut state = commit(state);
    state.resource.audit_newest = 230;
    for through in [100, 200, 230] {
        let job_id = state.jobs[0].job_id.clone();
        confirm(&mut state, &job_id, Some(through), &at(NOW_MS));
        state = commit(state);
        assert_eq!(state.jobs.len(), usize::from(through < 230), "after {through}");
    }
    assert_eq!((state.resource.version, state.resource.audit_through), (3, 230));
}

#[test]
fn a_dead_snapshot_stages_no_other() {
    let mut state = empty();
    stage_anew(&mut state, &at(NOW_MS));
    let mut state = commit(state);
    let job_id = state.jobs[0].job_id.clone();
    state.resource.audit_newest = 230;
    confirm(&mut state, &job_id, None, &at(NOW_MS));
    assert_eq!((commit(state.clone()).jobs.len(), state.resource.audit_through), (0, 0));
}

/// A payment whose key has finished, and expires in an hour.
fn finished_rows() -> ObjectState {
    let mut state = commit(paid_rows());
    state.jobs.clear();
    state.keys[0].lifecycle = Lifecycle::Finished(Finished {
        response: StoredResponse { status: 201, headers: Vec::new(), body: Vec::new() },
        finished_at_ms: NOW_MS,
        expires_at_ms: NOW_MS + HOUR_MS,
    });
    state
}

const HOUR_MS: u64 = 3_600_000;

#[test]
fn a_response_that_expires_in_its_time_is_told_before_and_one_that_goes_earlier_is_told_then() {
    let finished = finished_rows();
    let shown = snapshot(&finished, Vec::new(), NOW_MS).keys.remove(0);
    for (after_ms, is_told) in [(HOUR_MS, false), (10 * HOUR_MS, false), (HOUR_MS - 1, true)] {
        let mut state = finished.clone();
        expire(&mut state, 0, &at(NOW_MS + after_ms));
        assert_eq!(state.keys[0].lifecycle.name(), "expired");
        let state = told(&finished, state);
        assert_eq!(state.jobs.len(), usize::from(is_told), "{after_ms}");
        let key = snapshot(&state, Vec::new(), NOW_MS).keys.remove(0);
        assert_eq!(key.expires_at_ms == shown.expires_at_ms, !is_told, "{after_ms}");
    }
}

/// A payment with this many small refunds; each is asked for under a key of its own and still pending.
fn refunded(count: u32) -> ObjectState {
    let mut state = commit(paid_rows());
    for number in 1..=count {
        let mut after = state.clone();
        after.resource.refunds.push(Refund {
            id: RefundId(format!("re_{number}")),
            key_id: number,
            amount: AmountMinor::new(1).unwrap(),
            reason: RefundReason::Duplicate,
            state: RefundState::Pending,
            provider_refund: None,
            told_at_ms: None,
            undone: None,
            created_at_ms: NOW_MS,
            version: 0,
        });
        after.keys.push(KeyRecord { key_id: number, ..after.keys[0].clone() });
        state = told(&state, after);
    }
    state
}

/// A payment that was just asked for, under an open key 0.
fn paid_rows() -> ObjectState {
    let mut state = empty();
    assert!(matches!(
        begin(&mut state, &command("k", pay(true)), &me(), &at(NOW_MS)).unwrap(),
        Begin::Run(_)
    ));
    state.keys[0].key_id = 0;
    state
}

fn told(before: &ObjectState, mut after: ObjectState) -> ObjectState {
    stage_projection(before, &mut after, &at(NOW_MS));
    commit(after)
}

fn audit_row(audit_id: u64, data: &str) -> AuditRow {
    let text = || "x".to_owned();
    AuditRow { audit_id, at_ms: NOW_MS, actor: text(), action: text(), subject: text(), data: data.into() }
}

#[test]
fn whatever_changed_last_is_told_however_many_there_are() {
    const MANY: u32 = 250;
    let state = refunded(MANY);
    // Most of them end; the oldest ones at last.
    for oldest in 1..=3u32 {
        let mut settled = state.clone();
        for number in (1..=MANY).rev().filter(|number| *number >= oldest) {
            let mut after = settled.clone();
            after.resource.refunds[number as usize - 1].state = RefundState::Succeeded;
            let key = after.keys.iter_mut().find(|key| key.key_id == number).unwrap();
            key.lifecycle = Lifecycle::Finished(Finished {
                response: StoredResponse { status: 201, headers: Vec::new(), body: Vec::new() },
                finished_at_ms: NOW_MS + 1000 - u64::from(number),
                expires_at_ms: u64::MAX,
            });
            settled = told(&settled, after);
            let shown = snapshot(&settled, Vec::new(), NOW_MS);
            let name = format!("re_{number}");
            let refund = shown.refunds.iter().find(|refund| refund.refund_id == name);
            assert_eq!(refund.map(|refund| refund.status.as_str()), Some("succeeded"), "{name}");
            let key = shown.keys.iter().find(|key| key.key_id == number);
            assert_eq!(key.map(|key| key.status.as_str()), Some("finished"), "{number}");
            assert_eq!(
                shown.refunds.iter().filter(|refund| refund.status == "pending").count(),
                number as usize - 1
            );
        }
    }
}

#[test]
fn a_snapshot_fits_into_a_message_and_its_audit_begins_where_the_last_one_ended() {
    let state = refunded(90);
    let job = Job {
        version: VERSION,
        job_id: "j".into(),
        kind: JobKind::Project,
        object: state.object.to_hex(),
        payload: serde_json::Value::Null,
        staged_at_ms: NOW_MS,
        trace: None,
        apart: None,
        payment: None,
    };
    for (length, all) in [(10, true), (2_000, false), (60_000, false)] {
        let audit: Vec<_> = (8..108).map(|id| audit_row(id, &"\"".repeat(length))).collect();
        let text = job.clone().projecting(snapshot(&state, audit.clone(), NOW_MS)).unwrap();
        let [read] = &Job::read(&text).unwrap()[..] else { panic!("one job") };
        let told = Snapshot::deserialize(&read.payload).unwrap();
        assert!(!told.audit.is_empty() && audit.starts_with(&told.audit));
        assert_eq!(told.audit.len() == audit.len(), all, "{length}");
        assert!(text.len() <= MESSAGE_MAX_BYTES || told.audit.len() == 1, "{}", text.len());
        assert_eq!(told.refunds[0].refund_id, "re_90", "what changed last is told");
    }
}

proptest! {
    #[test]
    fn batches_are_what_the_queue_takes_and_hold_all(lengths in prop::collection::vec(0..130_000usize, 0..220)) {
        let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length / 40 * (1 + length % 40))).collect();
        let cut = batches(texts.clone(), String::as_str);
        for batch in &cut {
            prop_assert!(batch.len() <= 100 && batch.iter().map(String::len).sum::<usize>() <= 240_000);
            prop_assert!(batch.len() == 1 || batch.iter().all(|text| text.len() <= MESSAGE_MAX_BYTES));
            prop_assert!(!batch.is_empty());
        }
        prop_assert_eq!(cut.concat(), texts);
    }

    #[test]
    fn messages_are_few_and_hold_all(lengths in prop::collection::vec(0..130_000usize, 0..30)) {
        let jobs: Vec<(usize, String)> = lengths.iter().enumerate().map(|(number, length)| {
            let payload = serde_json::json!("x".repeat(*length / 40 * (1 + length % 40)));
            let kind = JobKind::SendReceipt;
            let job_id = number.to_string();
            let job = Job { version: VERSION, job_id, kind, object: String::new(), payload, staged_at_ms: NOW_MS, trace: None, apart: None, payment: None };
            (number, serde_json::to_string(&job).unwrap())
        }).collect();
        let packed = messages(jobs.clone());
        for Message { jobs, text } in &packed {
            prop_assert!(text.len() <= MESSAGE_MAX_BYTES || jobs.len() == 1);
            let read: Vec<usize> = Job::read(text).unwrap().iter().map(|job| job.job_id.parse().unwrap()).collect();
            prop_assert_eq!(jobs, &read);
        }
        for two in packed.windows(2) {
            let bytes: usize = two.iter().map(|message| message.text.len()).sum();
            prop_assert!(bytes + 1_000 * (two[0].jobs.len() + 1) > MESSAGE_MAX_BYTES || jobs.len() < 2);
        }
        prop_assert_eq!(packed.into_iter().flat_map(|message| message.jobs).collect::<Vec<_>>(), (0..jobs.len()).collect::<Vec<_>>());
    }

    /// Sends that fail, words that are lost, crashes in between: in any order, a job is staged until it is confirmed and
    /// leaves again and again until then.
    #[test]
    fn no_job_is_lost(steps in prop::collection::vec(0..5u8, 1..40)) {
        let mut now_ms = NOW_MS;
        let mut state = empty();
        state.appended.jobs.push(staged("r"));
        let mut state = commit(state);
        let mut known = Handed::default();
        for step in steps {
            let ctx = at(now_ms);
            let Due { leaving, waiting } = due(&state, &known, &ctx);
            match step {
                0 => {
                    let written = handed(&mut known, leaving, &ctx);
                    sent(&mut state, &written, true, &ctx);
                    put_off(&mut state, &mut known, &waiting, &ctx);
                }
                1 => {
                    sent(&mut state, &leaving, false, &ctx);
                    put_off(&mut state, &mut known, &waiting, &ctx);
                }
                2 => hear(&mut state, &over("another"), &ctx),
                3 => known = Handed::default(),
                _ => now_ms = wake_at(&state, &ctx).unwrap().max(now_ms),
            }
            prop_assert_eq!(state.jobs.len(), 1);
        }
        // Whatever was remembered: at most once it is given more time, and then it leaves.
        for _ in 0..2 {
            now_ms = wake_at(&state, &at(now_ms)).unwrap().max(now_ms);
            let ctx = at(now_ms);
            let Due { leaving, waiting } = due(&state, &known, &ctx);
            if !leaving.is_empty() {
                return Ok(());
            }
            put_off(&mut state, &mut known, &waiting, &ctx);
        }
        prop_assert!(false, "it does not leave any more: {:?}", state.jobs);
    }
}
