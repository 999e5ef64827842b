//! Two runs at once, broken off anywhere, with a bucket and databases that fail, while payments change: each row is in exactly one place. What
//! is played here is the task's own steps and SQL.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::batch::{KINDS, Named};
use super::parquet::tests::decode;
use super::rows;
use super::simulated::{BOUNDS, Disabled, Move, PAYMENTS, World, finish, moved, names, run};
use super::unchanged_since_ms;
use crate::tasks::late::tests::read_model;

fn play(world: &World, turns: u32) -> std::result::Result<(), String> {
    let waker = &mut Context::from_waker(Waker::noop());
    // Two of each: the task, and the mover once it may begin.
    let begin = |which: usize| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        match which {
            0 | 1 => Box::pin(async { drop(run(world).await) }),
            _ => Box::pin(moved(world)),
        }
    };
    let mut runs = [0, 1, 2, 3].map(begin);
    for turn in 0..turns {
        let at_once = if world.moving.get() == Move::Begun { 4 } else { 2 };
        if !world.layouts.is_empty() && (turn == turns / 4 || turn == turns / 3) {
            world.goes_on_moving();
        }
        let which = world.random(at_once) as usize;
        match world.random(60) {
            // Killed, wherever it was.
            0 => runs[which] = begin(which),
            1 => world.tell(world.random(PAYMENTS)),
            2 => world.tell_late(world.random(PAYMENTS)),
            _ => {
                if runs[which].as_mut().poll(waker).is_ready() {
                    runs[which] = begin(which);
                }
            }
        }
    }
    // From here on nothing fails: what is left leaves.
    drop(runs);
    world.is_calm.set(true);
    for _ in 0..12 {
        finish(moved(world));
        finish(run(world));
    }
    judge(world)
}

/// Each version and each audit record is in one place, and each listed file is what the list says.
fn judge(world: &World) -> std::result::Result<(), String> {
    let mut places: BTreeMap<(String, String, u32), u32> = BTreeMap::new();
    let mut put =
        |kind: &str, id: String, number: u32| *places.entry((kind.to_owned(), id, number)).or_default() += 1;
    let hot = "SELECT 'payments', payment_id, version FROM payments UNION ALL SELECT 'refunds', refund_id, version FROM refunds
        UNION ALL SELECT 'audit', object, audit_id FROM audit_trail";
    let mut objects = world.objects.borrow().clone();
    let mut files: Vec<(String, String, String, u32)> = Vec::new();
    for (_, db) in world.places() {
        let mut statement = db.prepare(hot).unwrap();
        let cells = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        for row in statement.query_map((), cells).unwrap() {
            let (kind, id, number): (String, String, u32) = row.unwrap();
            put(&kind, id, number);
        }
        let mut statement = db.prepare("SELECT kind, name, sha256, rows FROM history_files").unwrap();
        let cells = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        files.extend(statement.query_map((), cells).unwrap().map(rusqlite::Result::unwrap));
    }
    for (kind, name, sha256, number) in files {
        let body = objects.remove(&name).ok_or(format!("{name} is listed and is not there"))?;
        if data_encoding::HEXLOWER.encode(&Sha256::digest(&body)) != sha256 {
            return Err(format!("{name} is another one than is listed"));
        }
        let (id, version) = match kind.as_str() {
            "payments" => ("payment_id", "version"),
            "refunds" => ("refund_id", "version"),
            "audit" => ("object", "audit_id"),
            _ => continue,
        };
        let columns = match kind.as_str() {
            "payments" => decode(&body, &rows::PAYMENTS),
            "refunds" => decode(&body, &rows::REFUNDS),
            _ => decode(&body, &rows::AUDIT),
        };
        if columns[id].len() != number as usize {
            return Err(format!("{name} has {} rows, {number} are listed", columns[id].len()));
        }
        for (id, version) in columns[id].iter().zip(&columns[version]) {
            put(&kind, id.clone().unwrap(), version.as_ref().unwrap().parse().unwrap());
        }
    }
    if let Some(name) = objects.keys().next() {
        return Err(format!("{name} is there and is not listed"));
    }
    if let Some(twice) = places.iter().find(|(_, number)| **number > 1) {
        return Err(format!("{twice:?} is there more than once"));
    }
    let is_there: BTreeSet<_> = places.into_keys().collect();
    for (payment, (version, audit)) in (0..).zip(&*world.told.borrow()) {
        let (id, object) = names(payment);
        let newest = [("payments", id.clone(), *version), ("refunds", format!("re_{id}"), *version)];
        let audit = (1..=*audit).map(|audit_id| ("audit", object.clone(), audit_id));
        for (kind, id, number) in newest.into_iter().chain(audit) {
            if !is_there.contains(&(kind.to_owned(), id.clone(), number)) {
                return Err(format!("{kind} {id} {number} is lost"));
            }
        }
    }
    let mut left = BTreeSet::new();
    let mut here = BTreeSet::new();
    for (place, db) in world.places() {
        let mut statement = db.prepare("SELECT hex(object) FROM history_payments").unwrap();
        left.extend(
            statement.query_map((), |row| row.get::<_, String>(0)).unwrap().map(rusqlite::Result::unwrap),
        );
        let mut statement = db.prepare("SELECT payment_id FROM payments").unwrap();
        let ids = statement.query_map((), |row| row.get::<_, String>(0)).unwrap();
        here.extend(ids.map(|id| (place.clone(), id.unwrap())));
    }
    let is_all = left.len() == PAYMENTS as usize && here.is_empty();
    if is_all { Ok(()) } else { Err(format!("{} have left, {here:?} are still here", left.len())) }
}

fn count(db: &Connection, table: &str) -> u32 {
    db.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0)).unwrap()
}

#[test]
fn each_row_is_in_one_place_whatever_breaks_off() {
    for seed in 1..=40 {
        assert_eq!(play(&World::new(seed, Disabled::Nothing), 400), Ok(()), "seed {seed}");
    }
}

#[test]
fn with_shards_and_movers_beside_it_each_row_is_in_one_place() {
    let mut from_shards = 0;
    for seed in 1..=40 {
        let world = World::with_shards(seed, Disabled::Nothing);
        assert_eq!(play(&world, 1_600), Ok(()), "seed {seed}");
        let places = world.places();
        let files = places.iter().skip(1).filter(|(_, db)| count(db, "history_files") > 0);
        from_shards += usize::from(files.count() > 1);
    }
    assert!(from_shards > 20, "{from_shards} of 40 worlds had files of several shards");
}

#[test]
fn control_while_they_are_moved_what_leaves_from_d1_too_or_is_not_known_there_goes_wrong() {
    for off in [Disabled::Move, Disabled::Known] {
        let found = (1..=2_000).find_map(|seed| play(&World::with_shards(seed, off), 1_600).err());
        assert!(found.is_some(), "{off:?}");
    }
}

/// The database is a new one, or an earlier one, and the bucket is not: what it has under whatever name stays, and what is due leaves under others.
#[test]
fn no_file_of_before_is_deleted_or_written_over() {
    for seed in 1..=20 {
        let world = World::new(seed, Disabled::Nothing);
        let now_s = BOUNDS.now_ms / 1_000;
        let of_before = || {
            let batches = [1, 2, 3, now_s, now_s + 1].into_iter();
            let named =
                batches.flat_map(|batch| ["2026-10", "2026-11", "2026-12"].map(|month| (batch, month)));
            named.flat_map(|(batch, month)| KINDS.map(|kind| Named { shard: None, month, batch }.file(kind)))
        };
        world.of_before.borrow_mut().extend(of_before());
        world.objects.borrow_mut().extend(of_before().map(|name| (name, b"of before".to_vec())));
        let played = play(&world, 400);
        for name in of_before() {
            let body = world.objects.borrow_mut().remove(&name);
            assert_eq!(body.as_deref(), Some(&b"of before"[..]), "seed {seed}: {name}");
        }
        assert!(played.is_err_and(|error| error.ends_with("is there and is not listed")), "seed {seed}");
        assert_eq!(judge(&world), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_number_is_that_of_the_second_unless_a_later_one_was_taken() {
    let world = World::new(1, Disabled::Nothing);
    world.is_calm.set(true);
    finish(run(&world));
    let batches = "SELECT json_group_array(batch) FROM (SELECT batch FROM history_batches ORDER BY batch)";
    let batches: String = world.d1.query_row(batches, (), |row| row.get(0)).unwrap();
    assert!(batches.starts_with("[1900000000,1900000001,"), "{batches}");
}

/// A shard that does not answer is asked once in a run, is named, and keeps its own; all others leave.
#[test]
fn a_place_that_does_not_answer_holds_up_no_other() {
    let world = World::with_shards(1, Disabled::Nothing);
    world.is_calm.set(true);
    let (silent, db) =
        world.shards.borrow().iter().next().map(|(name, db)| (name.clone(), Rc::clone(db))).unwrap();
    world.silent.borrow_mut().insert(silent.clone(), 0);
    let (done, failed) = finish(run(&world));
    assert_eq!(failed, [silent.to_string()]);
    assert_eq!(world.silent.borrow()[&silent], 1);
    let kept = count(&db, "payments");
    assert!(kept > 0 && done.left == (PAYMENTS - kept) as usize, "{kept} {done:?}");
    world.silent.borrow_mut().clear();
    finish(run(&world));
    assert_eq!(judge(&world), Ok(()));
}

/// What the reconciliation has found is in D1: a payment of a shard stays for it as one of D1 does.
#[test]
fn a_payment_of_a_shard_of_which_d1_has_an_open_break_stays() {
    for resource in ["resource", "object", "provider_payment"] {
        let world = World::with_shards(1, Disabled::Nothing);
        world.is_calm.set(true);
        let (id, object) = names(PAYMENTS - 1);
        let value = match resource {
            "resource" => id.clone(),
            "object" => object,
            _ => format!("pi_{id}"),
        };
        let sql = format!(
            "INSERT INTO breaks (break_id, kind, provider, {resource}, state, first_seen_at_ms, last_seen_at_ms)
             VALUES ('b', 'status', 'stripe', ?1, 'open', 1, 1)"
        );
        world.d1.execute(&sql, [value]).unwrap();
        let (done, _) = finish(run(&world));
        assert_eq!(done.left as u32, PAYMENTS - 1, "{resource}");
        world.d1.execute("UPDATE breaks SET state = 'resolved'", ()).unwrap();
        finish(run(&world));
        assert_eq!(judge(&world), Ok(()), "{resource}");
    }
}

#[test]
fn control_without_its_protections_rows_are_lost_or_doubled() {
    for off in [Disabled::Check, Disabled::Comparison, Disabled::Transaction, Disabled::Memory] {
        let found = (1..=2_000).find_map(|seed| play(&World::new(seed, off), 400).err());
        assert!(found.is_some(), "{off:?}");
    }
}

/// What is open stays, and what was found of the others is kept with it.
#[test]
fn what_is_not_over_stays() {
    let keeps = [
        "UPDATE payments SET status = 'requires_capture'",
        "UPDATE payments SET status = 'capture_failed'",
        "UPDATE payments SET status = 'disputed', shown = '{\"dispute\":{\"status\":\"open\"}}'",
        "UPDATE payments SET status = 'disputed', shown = '{\"dispute\":{\"status\":\"lost\"}}'",
        "UPDATE payments SET pending_operation = 'capture'",
        "UPDATE payments SET wake_at_ms = 5",
        "UPDATE payments SET key_expires_at_ms = 1900000000001",
        "UPDATE payments SET updated_at_ms = 4503599627370495",
        "UPDATE refunds SET status = 'pending'",
        "INSERT INTO breaks (break_id, kind, provider, resource, state, first_seen_at_ms, last_seen_at_ms)
            SELECT payment_id, 'status', 'stripe', payment_id, 'open', 1, 1 FROM payments",
        "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
            SELECT payment_id, 'send_receipt', object, 'dead', 1, 1, '[]', 1, 1 FROM payments",
        "INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
            created_at_ms, updated_at_ms) SELECT object, 2, 1, 'k', 'account:a', 'open', 'reserved', 1, 0, 0, 0, 1, 1 FROM payments",
    ];
    let leaves = "UPDATE payments SET status = 'canceled'";
    for (sql, left) in keeps.map(|sql| (sql, 0)).into_iter().chain([(leaves, PAYMENTS)]) {
        let world = World::new(1, Disabled::Nothing);
        world.is_calm.set(true);
        world.d1.execute_batch(sql).unwrap();
        for _ in 0..4 {
            finish(run(&world));
        }
        assert_eq!(count(&world.d1, "history_payments"), left, "{sql}");
    }
}

/// A payment that has left and is told anew, into a shard that has no line of it, must not seem to have come late: it stands in a file of D1.
#[test]
fn what_leaves_is_too_old_to_be_settled_once_more_elsewhere() {
    let day_ms = 86_400_000;
    let shard = read_model();
    let now = "SELECT unixepoch() * 1000";
    let now_ms = shard.query_row(now, (), |row| row.get::<_, i64>(0)).unwrap().cast_unsigned();
    let is_late = |captured_at_ms: u64| {
        let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms, captured_at_ms)
            VALUES ('p' || ?1, 'o' || ?1, 1, 'account:a', 'succeeded', 1, 1, 0, 'usd', 'stripe', 1, '{}', ?1, ?1, ?1)";
        shard.execute(sql, (captured_at_ms.cast_signed(),)).unwrap();
        let late = "SELECT EXISTS (SELECT 1 FROM settlement_late WHERE at_ms = ?1)";
        shard.query_row(late, (captured_at_ms.cast_signed(),), |row| row.get::<_, bool>(0)).unwrap()
    };
    let settled_until_ms = Some(now_ms - day_ms);
    assert!(!is_late(unchanged_since_ms(now_ms, settled_until_ms)));
    assert!(is_late(unchanged_since_ms(now_ms, None)), "without files of settlement it does not matter");
    // What stands in no file yet stays, however old.
    assert_eq!(unchanged_since_ms(now_ms, Some(now_ms - 90 * day_ms)), now_ms - 90 * day_ms);
}
