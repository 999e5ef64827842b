//! The read model's statements, as SQLite runs them on the tables that the migrations make.

use messages::job::{OF_OBJECT, OVER, OverRow};
use messages::snapshot::key_status_sql;
use rusqlite::types::Value as Sql;

/// What an object is told of its jobs, by the statement that runs.
#[test]
fn the_read_model_says_which_jobs_are_over() {
    let model = crate::support::read_model();
    let job = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
         VALUES (?1, 'send_receipt', 'o', ?1, 1, 0, '[]', 0, 0)";
    let states = ["tried", "attempted", "done", "dead", "purged"];
    for state in states {
        model.execute(job, [state]).unwrap();
    }
    let record = "INSERT INTO audit_records VALUES (?1, ?2, 0, '', '', '', '')";
    for (object, audit_id) in [("o", 1), ("o", 2), ("o", 4), ("p", 3)] {
        model.execute(record, (object, audit_id)).unwrap();
    }
    let key = "INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
         created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, '', '', '', '', 0, 0, 0, 0, 0, 0)";
    for (object, key_id, version) in [("o", 1, 6), ("o", 2, 5), ("p", 1, 9)] {
        model.execute(key, (object, key_id, version)).unwrap();
    }
    let payment = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
         provider, attempt, shown, created_at_ms, updated_at_ms, created_data, captured_data) VALUES (?1, ?2, ?3, '', '', 0, 0, 0, '', '', 1, '',
         0, 0, ?4, ?5)";
    for (payment_id, object, version, created, captured) in
        [("pay_q", "q", 4, Some("{}"), Some("{}")), ("pay_r", "r", 3, Some("{}"), None)]
    {
        model.execute(payment, (payment_id, object, version, created, captured)).unwrap();
    }
    model.execute(record, ("q", 3)).unwrap();
    model.execute(record, ("r", 3)).unwrap();
    let asked = |ids: &[&str], object: &str, through: u32| {
        let ids = serde_json::to_string(ids).unwrap();
        let row = model.query_row(OVER, (ids, object, through, format!("pay_{object}")), |row| {
            let (version, audit_through): (u32, u32) = (row.get(1)?, row.get(2)?);
            Ok(OverRow { jobs: row.get(0)?, version: version.into(), audit_through: audit_through.into() })
        });
        let row = row.unwrap();
        let mut jobs: Vec<String> = serde_json::from_str(&row.jobs).unwrap();
        jobs.sort();
        (jobs.join(" "), row.version, row.audit_through)
    };
    assert_eq!(asked(&states, "o", 0), ("dead done purged".into(), 6, 2), "the third record is missing");
    assert_eq!(asked(&["tried", "another"], "o", 3), (String::new(), 6, 4));
    assert_eq!(asked(&[], "o", 4), (String::new(), 6, 4));
    assert_eq!(asked(&["done"], "nobody", 0), ("done".into(), 0, 0));
    // Records that stand in the payment's row count, and that row's version.
    assert_eq!(asked(&[], "q", 0), (String::new(), 4, 3));
    assert_eq!(asked(&[], "r", 0), (String::new(), 3, 1));
    let plan = crate::support::plan(&model, OVER);
    let whole = plan
        .iter()
        .find(|step| step.starts_with("SCAN") && !step.contains("json_each") && !step.contains("told"));
    assert!(whole.is_none_or(|step| step.contains("CONSTANT")), "{plan:?}");
}

/// Whose a job is, by the condition that runs.
#[test]
fn the_jobs_of_an_object_are_found_by_their_ids() {
    let model = crate::support::read_model();
    let job = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
         VALUES (?1, 'send_receipt', ?2, ?3, 1, 0, '[]', 0, 0)";
    let own = [
        "o_project_1",
        "pay_A_receipt",
        "pay_A_receipt_2",
        "pay_A_void_1_receipt",
        "re_1_receipt",
        "re_2_receipt",
    ];
    for job_id in own {
        model.execute(job, (job_id, "o", "tried")).unwrap();
    }
    model.execute(job, ("of an older release", "o", "dead")).unwrap();
    let others =
        ["oo_project_1", "p_project_1", "pay_AB_receipt", "pay_B_receipt", "re_11_receipt", "re_3_receipt"];
    for job_id in others {
        model.execute(job, (job_id, "p", "dead")).unwrap();
    }
    let sql = format!("SELECT job_id FROM jobs WHERE {OF_OBJECT} ORDER BY job_id");
    let found = |payment: Option<&str>, refunds: &str| {
        let mut statement = model.prepare(&sql).unwrap();
        let rows = statement.query_map(("o", payment, refunds), |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<String>>()
    };
    let mut all = own.to_vec();
    all.insert(1, "of an older release");
    all.sort_unstable();
    assert_eq!(found(Some("pay_A"), r#"["re_1", "re_2"]"#), all);
    assert_eq!(found(None, "[]"), ["o_project_1", "of an older release"]);
    let plan = crate::support::plan(&model, &sql);
    assert!(!plan.iter().any(|step| step.starts_with("SCAN jobs")), "{plan:?}");
}

/// Tables that are written anew keep their rows and their columns' order.
#[test]
fn what_the_read_model_held_before_a_migration_is_there_after_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let is_later = |file: &std::path::PathBuf| file.file_name().unwrap() >= "0013";
    let model = rusqlite::Connection::open_in_memory().unwrap();
    let run =
        |file: &std::path::PathBuf| model.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
    files.iter().filter(|file| !is_later(file)).for_each(run);
    let all = |table: &str| {
        let mut statement = model.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let width = names.len();
        let row = |row: &rusqlite::Row<'_>| {
            (0..width).map(|column| row.get(column)).collect::<Result<Vec<Sql>, _>>()
        };
        let rows = statement.query_map((), row).unwrap().map(Result::unwrap).collect::<Vec<_>>();
        (names, rows)
    };
    model
        .execute_batch(
            "INSERT INTO keys VALUES ('o', 1, 2, 'h', 'a', 'payment', 'open', 'r', 3, 4, 1, 1, 201, 5, 6, 7, 8, 9);
             INSERT INTO audit_records VALUES ('o', 1, 2, 'a', 'payment.captured', 's', '{}');
             INSERT INTO jobs VALUES ('j', 'project', 'o', 'dead', 2, 'p', 'f', 3, '[]', 'r', 4, 5);",
        )
        .unwrap();
    let tables = ["keys", "audit_records", "jobs"];
    let before = tables.map(all);
    files.iter().filter(|file| is_later(file)).for_each(run);
    assert_eq!(tables.map(all), before);
    assert!(before.iter().all(|(_, rows)| rows.len() == 1));
}

/// The lists of keys and of audit records are made of several tables, each read in the order of its index.
#[test]
fn a_page_of_a_list_reads_no_whole_table() {
    let model = crate::support::read_model();
    let sorts = |sql: &str| {
        let plan = crate::support::plan(&model, sql);
        plan.iter().any(|step| step == "USE TEMP B-TREE FOR ORDER BY")
    };
    let keys = "SELECT * FROM key_list ORDER BY created_at_ms DESC, object, key_id DESC LIMIT 51";
    let audit = "SELECT * FROM audit_trail ORDER BY at_ms DESC, object, audit_id DESC LIMIT 51";
    assert!(!sorts(keys) && !sorts(audit));
    model.execute_batch("DROP INDEX payments_by_time; DROP INDEX payments_captured").unwrap();
    assert!(sorts(keys) && sorts(audit), "the control");
}

/// What a reader makes of a row, by the expression that runs.
#[test]
fn a_key_has_expired_once_its_time_is_over_whoever_wrote_the_row() {
    let model = crate::support::read_model();
    let status = |status: &str, finished_at_ms: Option<u64>, expires_at_ms: Option<u64>, now_ms| {
        model.execute("DELETE FROM keys", ()).unwrap();
        let key = "INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt,
             flagged, created_at_ms, updated_at_ms, finished_at_ms, expires_at_ms)
             VALUES ('o', 1, 1, '', '', ?1, '', 0, 0, 0, 0, 0, 0, ?2, ?3)";
        model
            .execute(key, (status, finished_at_ms.map(u64::cast_signed), expires_at_ms.map(u64::cast_signed)))
            .unwrap();
        let sql = format!("SELECT {} FROM keys", key_status_sql(now_ms));
        model.query_row(&sql, (), |row| row.get::<_, String>(0)).unwrap()
    };
    assert_eq!(status("finished", Some(5), Some(9), 8), "finished");
    assert_eq!(status("finished", Some(5), Some(9), 9), "expired");
    assert_eq!(status("open", None, None, u64::from(u32::MAX)), "open");
    // As a release before has written them.
    assert_eq!(status("finished", Some(5), None, 86_400_004), "finished");
    assert_eq!(status("finished", Some(5), None, 86_400_005), "expired");
    assert_eq!(status("expired", Some(5), None, 6), "expired");
}
