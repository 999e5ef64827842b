//! The desk's queries of the read model: all SQL of its pages. The SQL of its buttons is in `actions` and `dead_letters`.

use std::cmp::Reverse;

use serde::Deserialize;
use worker::{Env, Result};

use super::app::App;
use super::button::{Button, SHARD};
use super::health::TaskHealth;
use super::route::{OperatorAction, Target};
use super::timeline::JobRow;
use crate::tasks::names::{COUNTS, FAILING, FAILING_PLACES, TASKS};
use messages::job::{JobPayment, OF_OBJECT};
use messages::settlement::{REPORT_COLUMNS, Report};
use messages::snapshot::Snapshot;
use once::id::ObjectId;
use payments::payment::id::PaymentId;
use runtime::db::{Db, Value};
use runtime::lists::Listed;
use runtime::places::{self, ReadModel};

/// How many entries a page has.
pub(super) const PAGE: usize = 50;
/// How many of the newest audit records are looked through for a name, in all places together.
const RECORDS_LOOKED_THROUGH: usize = 10_000;

/// Of so many that are looked through for what has no index: how many in each place. Where there are many places it is no less than a fiftieth.
pub(super) async fn looked_through(model: &ReadModel, most: usize) -> Result<usize> {
    Ok((most / model.number_listed().await?.max(1)).max(most / 50))
}

/// The newest run of a task.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Run {
    pub(super) task: String,
    pub(super) at_ms: u64,
    pub(super) took_ms: u64,
    pub(super) result: String,
}

impl Run {
    /// Whether it went well, at `now_ms`.
    pub(super) fn health(&self, now_ms: u64) -> TaskHealth {
        let age_ms = now_ms.saturating_sub(self.at_ms);
        TaskHealth::of(&self.task, age_ms, !TASKS.contains(&self.task.as_str()), &self.result)
    }
}

pub(super) async fn runs(app: &App) -> Result<Vec<Run>> {
    let sql = "SELECT task, at_ms, took_ms, result FROM json_each(?1) AS name JOIN runs ON run_id =
            (SELECT run_id FROM runs WHERE task = name.value ORDER BY at_ms DESC LIMIT 1) ORDER BY task";
    let db = Db::of(&app.env)?;
    // Where it is read no more, the newest run of before has not stopped.
    let is_counting = app.config.analytics.is_some();
    let tasks: Vec<&str> = TASKS.into_iter().filter(|task| is_counting || *task != COUNTS).collect();
    let mut runs: Vec<Run> = db.rows(sql, vec![serde_json::to_string(&tasks)?.into()]).await?;
    // Of those that have runs of their own only some that have failed.
    for (index, failing) in [("runs_failing", FAILING), ("runs_failing_places", FAILING_PLACES)] {
        let sql = format!(
            "SELECT task, at_ms, took_ms, result FROM runs INDEXED BY {index} WHERE {failing} ORDER BY at_ms DESC LIMIT 10"
        );
        runs.extend(db.rows::<Run>(&sql, Vec::new()).await?);
    }
    Ok(runs)
}

/// Conditions and their values, as they are added.
#[derive(Default)]
pub(super) struct Where {
    conditions: Vec<String>,
    values: Vec<Value>,
}

impl Where {
    /// One more condition, without values.
    pub(super) fn and(&mut self, condition: &str) {
        self.conditions.push(condition.to_owned());
    }

    /// One more condition about a value, which it names `?`.
    pub(super) fn and_value(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.conditions.push(condition.replace('?', &format!("?{}", self.values.len())));
    }

    /// One of many values.
    pub(super) fn place(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    fn text(&self) -> String {
        if self.conditions.is_empty() { "true".to_owned() } else { self.conditions.join(" AND ") }
    }
}

/// A page, the newest first, and one entry more if there are more.
pub(super) async fn page<T: serde::de::DeserializeOwned>(
    env: &Env,
    select: &str,
    conditions: Where,
    order: &str,
    number: usize,
) -> Result<Vec<T>> {
    let sql = limited(select, &conditions, order)(PAGE + 1, PAGE * number);
    Db::of(env)?.rows(&sql, conditions.values).await
}

/// The same of a list that is in all places of the read model.
pub(super) async fn page_of_all<T: serde::de::DeserializeOwned + Listed>(
    model: &ReadModel,
    select: &str,
    conditions: Where,
    order: &str,
    number: usize,
) -> Result<Vec<T>> {
    let sql = limited(select, &conditions, order);
    model.page(sql, conditions.values, PAGE + 1, PAGE * number).await
}

/// The statement for so many rows after so many.
pub(super) fn limited(
    select: &str,
    conditions: &Where,
    order: &str,
) -> impl Fn(usize, usize) -> String + use<> {
    let sql = format!("{select} WHERE {} ORDER BY {order}", conditions.text());
    move |limit, offset| format!("{sql} LIMIT {limit} OFFSET {offset}")
}

/// What the ids of dead letters begin with that are not jobs, but events of a provider.
pub(super) const EVENT: &str = "event:";

/// A dead letter: a job, or an event.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DeadRow {
    pub(super) job_id: String,
    pub(super) kind: String,
    pub(super) object: String,
    pub(super) state: String,
    pub(super) attempts: u32,
    pub(super) payload: Option<String>,
    pub(super) history: String,
    pub(super) staged_at_ms: u64,
    pub(super) updated_at_ms: u64,
    /// Where it was found; `None` is D1.
    #[serde(skip)]
    pub(super) shard: Option<String>,
}

impl DeadRow {
    /// The key of the event, if it is one.
    pub(super) fn event_key(&self) -> Option<&str> {
        self.job_id.strip_prefix(EVENT)
    }

    /// The last error in its history.
    pub(super) fn last_error(&self) -> String {
        let lines: Vec<serde_json::Value> = serde_json::from_str(&self.history).unwrap_or_default();
        let last = lines.last().and_then(|line| line.get("error")).and_then(serde_json::Value::as_str);
        last.unwrap_or("not known").to_owned()
    }

    /// The provider's word for what an event tells; empty if it is none.
    pub(super) fn told(&self) -> String {
        let carried: serde_json::Value = self
            .payload
            .as_deref()
            .and_then(|payload| serde_json::from_str(payload).ok())
            .unwrap_or_default();
        let told = carried.get("kind").and_then(serde_json::Value::as_str);
        told.filter(|_| self.event_key().is_some()).unwrap_or_default().to_owned()
    }

    /// Where it is shown.
    pub(super) fn path(&self) -> String {
        let subject = Target::Job(self.job_id.clone());
        let path = Button::path_of(OperatorAction::Requeue, &subject);
        let of_shard = self.shard.as_ref().map(|shard| format!("?{SHARD}={shard}")).unwrap_or_default();
        format!("{}{of_shard}", path.strip_suffix("/requeue").unwrap_or(&path))
    }

    /// Where its object is shown, if it has one.
    pub(super) fn object_path(&self) -> Option<String> {
        (!self.object.is_empty()).then(|| format!("/admin/keys/{}/1", self.object))
    }
}

const DEAD_JOBS: &str =
    "SELECT job_id, kind, object, state, attempts, payload, history, staged_at_ms, updated_at_ms FROM jobs";
const DEAD_EVENTS: &str =
    "SELECT 'event:' || event_key AS job_id, 'webhook' AS kind, coalesce(object, '') AS object, state, attempts,
        event AS payload, history, received_at_ms AS staged_at_ms, updated_at_ms FROM inbox";

fn all_dead() -> String {
    let dead = "WHERE state = 'dead'";
    format!("SELECT * FROM ({DEAD_JOBS} {dead} UNION ALL {DEAD_EVENTS} {dead})")
}

/// Those of which the conditions hold, which are about the columns of a [`DeadRow`].
pub(super) async fn dead_letters(
    model: &ReadModel,
    conditions: Where,
    number: usize,
) -> Result<Vec<DeadRow>> {
    page_of_all(model, &all_dead(), conditions, "updated_at_ms DESC, job_id", number).await
}

/// The same, the oldest first, and no more than so many.
pub(super) async fn oldest_dead_letters(
    model: &ReadModel,
    conditions: Where,
    most: usize,
) -> Result<Vec<DeadRow>> {
    let sql = limited(&all_dead(), &conditions, "updated_at_ms, job_id");
    let rows: Vec<OldestFirst> = model.page(sql, conditions.values, most, 0).await?;
    Ok(rows.into_iter().map(|OldestFirst(row)| row).collect())
}

/// `shard` is where it was seen; empty if that is D1, or not known.
pub(super) async fn dead_letter(model: &ReadModel, id: &str, shard: &str) -> Result<Option<DeadRow>> {
    match id.strip_prefix(EVENT) {
        Some(key) => {
            model.d1()?.first(&format!("{DEAD_EVENTS} WHERE event_key = ?1"), vec![key.into()]).await
        }
        None => found(model, &format!("{DEAD_JOBS} WHERE job_id = ?1"), id, shard).await,
    }
}

/// What has this id, in D1 or in this shard, or else in whichever place. What is missing because a shard did not answer is not said to be nothing.
pub(super) async fn found<T: serde::de::DeserializeOwned + Listed>(
    model: &ReadModel,
    sql: &str,
    id: &str,
    shard: &str,
) -> Result<Option<T>> {
    let places = match shard {
        // While it is moved it may be in D1 as it was: there are few of those.
        "" if model.is_moving().await? => model.places().await?,
        "" => Vec::new(),
        shard => model.d1_and([shard].into_iter()).await?,
    };
    model.found(places, sql, vec![id.into()]).await
}

/// A dead letter in the list that begins with what has waited longest.
#[derive(Deserialize)]
struct OldestFirst(DeadRow);

impl Listed for OldestFirst {
    type Order = (u64, String);

    fn order(&self) -> Self::Order {
        (self.0.updated_at_ms, self.0.job_id.clone())
    }

    fn id(&self) -> String {
        self.0.id()
    }

    fn version(&self) -> u64 {
        self.0.version()
    }

    fn found_in(self, shard: Option<&str>) -> Self {
        Self(self.0.found_in(shard))
    }
}

impl Listed for DeadRow {
    type Order = (Reverse<u64>, String);

    fn order(&self) -> Self::Order {
        (Reverse(self.updated_at_ms), self.job_id.clone())
    }

    fn id(&self) -> String {
        self.job_id.clone()
    }

    fn version(&self) -> u64 {
        self.updated_at_ms
    }

    fn found_in(self, shard: Option<&str>) -> Self {
        Self { shard: shard.map(str::to_owned), ..self }
    }
}

/// What became of an object's jobs.
pub(super) async fn jobs_of(env: &Env, object: &Snapshot) -> Result<Vec<JobRow>> {
    let sql = format!(
        "SELECT job_id, kind, state, attempts, result, staged_at_ms, updated_at_ms FROM jobs WHERE {OF_OBJECT}
         UNION ALL SELECT done.key, done.value ->> '$[0]', 'done', 1, done.value ->> '$[1]', done.value ->> '$[2]', done.value ->> '$[3]'
         FROM payments, json_each(payments.done_jobs) AS done
         WHERE payment_id = ?2 AND NOT EXISTS (SELECT 1 FROM jobs WHERE job_id = done.key)
         ORDER BY staged_at_ms LIMIT 200"
    );
    let payment = object.payment.as_ref().map(|payment| payment.payment_id.as_str());
    let refunds: Vec<&str> = object.refunds.iter().map(|refund| refund.refund_id.as_str()).collect();
    let refunds = serde_json::to_string(&refunds)?;
    let about = JobPayment::of_snapshot(object);
    let home = places::home(env, about.as_ref(), &object.object).await?;
    let mut rows: Vec<JobRow> = Vec::new();
    for db in home.each() {
        let values = vec![object.object.as_str().into(), payment.into(), refunds.as_str().into()];
        for row in db.rows::<JobRow>(&sql, values).await? {
            if rows.iter().all(|known| known.job_id != row.job_id) {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// What an operator did.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ActionRow {
    pub(super) at_ms: u64,
    pub(super) operator: String,
    pub(super) action: String,
    pub(super) subject: String,
    pub(super) outcome: String,
    /// What it came to, where its row says so.
    pub(super) status: Option<String>,
}

const ACTIONS: &str = "SELECT at_ms, operator, action, subject, outcome, status FROM operator_actions";

/// What was done by, or to, or is called what was searched for.
pub(super) async fn actions_named(env: &Env, search: &str, number: usize) -> Result<Vec<ActionRow>> {
    let most = PAGE * (number + 1) + 1;
    let newest = |column: &str| {
        format!(
            "SELECT * FROM (SELECT action_id FROM operator_actions WHERE {column} = ?1 ORDER BY at_ms DESC LIMIT {most})"
        )
    };
    let found = ["subject", "operator", "action"].map(newest).join(" UNION ");
    let mut conditions = Where::default();
    conditions.place(search);
    // From what was found to the actions: left to itself SQLite reads all actions by time until it has enough.
    let select = format!(
        "SELECT at_ms, operator, action, subject, outcome, status FROM ({found}) AS found CROSS JOIN operator_actions USING (action_id)"
    );
    page(env, &select, conditions, "at_ms DESC, action_id DESC", number).await
}

pub(super) async fn actions(env: &Env, conditions: Where, number: usize) -> Result<Vec<ActionRow>> {
    page(env, ACTIONS, conditions, "at_ms DESC, action_id DESC", number).await
}

pub(super) async fn find_action(env: &Env, action_id: u64) -> Result<Option<ActionRow>> {
    Db::of(env)?.first(&format!("{ACTIONS} WHERE action_id = ?1"), vec![action_id.into()]).await
}

/// An audit record of an object.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct EffectRow {
    pub(super) object: String,
    audit_id: u64,
    pub(super) at_ms: u64,
    pub(super) actor: String,
    pub(super) action: String,
    pub(super) subject: String,
    pub(super) data: String,
}

pub(super) async fn effects(model: &ReadModel, search: &str, number: usize) -> Result<Vec<EffectRow>> {
    let mut conditions = Where::default();
    let source = match subject_object(search) {
        _ if search.is_empty() => "audit_trail".to_owned(),
        Some(object) => {
            conditions.and_value("object = ?", object.to_hex());
            conditions.and_value("subject = ?", search);
            "audit_trail".to_owned()
        }
        None => {
            let name = conditions.place(search);
            conditions.and(&format!("{name} IN (subject, action, actor, data ->> '$.operator')"));
            let most = looked_through(model, RECORDS_LOOKED_THROUGH).await?;
            format!("(SELECT * FROM audit_trail ORDER BY at_ms DESC LIMIT {most})")
        }
    };
    // With all that it is ordered by: so SQLite merges the halves of the view in the order of their indexes.
    let select = format!("SELECT object, audit_id, at_ms, actor, action, subject, data FROM {source}");
    page_of_all(model, &select, conditions, "at_ms DESC, object, audit_id DESC", number).await
}

impl Listed for EffectRow {
    type Order = (Reverse<u64>, String, Reverse<u64>);

    fn order(&self) -> Self::Order {
        (Reverse(self.at_ms), self.object.clone(), Reverse(self.audit_id))
    }

    fn id(&self) -> String {
        format!("{}/{}", self.object, self.audit_id)
    }

    /// It never changes.
    fn version(&self) -> u64 {
        0
    }
}

/// The object that the subject of an audit record names, if it does: a payment's id, or a key's place.
fn subject_object(subject: &str) -> Option<ObjectId> {
    let of_key = || ObjectId::from_hex(subject.split_once('/')?.0);
    PaymentId::parse(subject).map(PaymentId::object).or_else(of_key)
}

/// The newest reports.
pub(super) async fn reports(env: &Env, number: u32) -> Result<Vec<Report>> {
    let sql =
        format!("SELECT {REPORT_COLUMNS} FROM reports ORDER BY received_at_ms DESC, report_id LIMIT ?1");
    Db::of(env)?.rows(&sql, vec![number.into()]).await
}
