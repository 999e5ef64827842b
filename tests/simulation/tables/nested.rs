//! What nobody could read again: JSON that is nested too deep.

use once_object::store::Unreadable;

use super::*;

/// JSON of so many levels.
fn nested(depth: usize) -> serde_json::Value {
    (0..depth).fold(serde_json::Value::Null, |inner, _| vec![inner].into())
}

fn some_rows() -> ObjectState {
    let last = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&last);
    watch(1..3, move |_, rows| *keep.borrow_mut() = Some(rows.clone()));
    last.take().unwrap()
}

/// serde_json writes JSON that is nested deeper than anybody reads. What would begin with it is refused, before anything is sent.
#[test]
fn what_could_not_be_read_again_does_not_begin() {
    let (rows, ctx) = (some_rows(), context(EPOCH_MS));
    let begins = |depth| {
        let sqlite = Sqlite::new();
        let store = store_of(rows.object, sqlite.clone());
        let begun = store.begin(&ctx, |now| {
            *now = rows.clone();
            now.appended.jobs.push(once::outbox::job(
                JobKind::SendReceipt,
                "deep".into(),
                nested(depth),
                &ctx,
            ));
            Ok::<_, Bug>(())
        });
        let again = store_of(rows.object, sqlite.clone()).read().unwrap();
        (begun.unwrap(), again.is_some(), sqlite.take_alarm().is_some())
    };
    assert_eq!(begins(100), (Ok(()), true, true));
    let (refused, is_kept, has_alarm) = begins(126);
    assert!(refused.as_ref().is_err_and(|Unreadable(bug)| bug.0.contains("cannot be read")), "{refused:?}");
    assert!(!is_kept && !has_alarm);
}

/// Nor does what has begun write it: the commit fails, and the object is as it was before it.
#[test]
fn what_could_not_be_read_again_is_not_added() {
    let (rows, ctx) = (some_rows(), context(EPOCH_MS));
    let sqlite = Sqlite::new();
    let store = store_of(rows.object, sqlite.clone());
    let adds = |depth: usize| {
        store.transaction(&ctx, |now| {
            let payload = nested(depth);
            now.appended.jobs.push(once::outbox::job(
                JobKind::SendReceipt,
                format!("{depth}"),
                payload,
                &ctx,
            ));
            Ok::<_, Bug>(())
        })
    };
    let kept: Result<(), Bug> = store.transaction(&ctx, |now| {
        *now = rows.clone();
        Ok(())
    });
    kept.unwrap();
    assert_eq!(adds(100), Ok(()));
    assert!(adds(126).unwrap_err().0.contains("nested too deep"));
    assert_eq!(adds(99), Ok(()), "it lives");
    let read = store_of(rows.object, sqlite).read().unwrap().unwrap();
    let added = |depth: &str| read.jobs.iter().any(|job| job.job_id == depth);
    assert_eq!(["100", "126", "99"].map(added), [true, false, true]);
}
