//! Compares the provider's books with ours, and writes down where they differ: each payment of which Stripe's events say that
//! something has happened to it, however old it is, and all that was made in a sliding window.
//!
//! A difference is never repaired with money. The object that is meant is asked to find out what is true and to tell the
//! read model, also one that the read model does not know: so an object is found whose alarm and whose projections were
//! all lost. What the object cannot mend stays on the desk for a person.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use worker::{D1PreparedStatement, Date, Env, Error, Result};

use super::books::{self, Entry, Page};
use super::changes::{self, Cursor};
use super::compare::{Break, Compared, Known, Ours, compare, missing, must_exist};
use crate::config::Config;
use crate::log::log;
use crate::machine::call::FrozenRequest;
use crate::machine::id::{ObjectId, PaymentId, RideId};
use crate::object::client;
use crate::object::message::Ask;
use crate::providers::transport::Transport;
use crate::providers::{HttpAnswer, Provider};
use crate::readmodel::db::Db;

/// How many pages of 100 one run reads: an invocation has 1000 calls.
const PAGES_MAX: u32 = 50;
/// How many pages of events one run reads, and after how many looks at single payments it reads no more of them. The next run
/// goes on there.
const EVENT_PAGES_MAX: u32 = 20;
const LOOKS_MAX: usize = 100;
/// The name of the cursor.
const EVENTS: &str = "stripe_events";
/// How far the provider's clock may be from ours, in ms.
const CLOCKS_DIFFER_MS: u64 = 300_000;
/// How many breaks one run writes down, and how many objects it asks.
const BREAKS_MAX: usize = 200;
const OBJECTS_MAX: usize = 50;
/// How many breaks that have left the window are looked at again in one run.
const OLD_MAX: u32 = 20;
/// After how long a payment with Adyen, which cannot be asked, is taken for forgotten, in ms.
const SILENT_MS: u64 = 86_400_000;

/// See the module. The result says how much was compared and what came of it.
pub(super) async fn reconcile(env: &Env) -> Result<Value> {
    let config = Config::of(env).map_err(Error::RustError)?;
    let now_ms = Date::now().as_millis();
    let mut run = Reconciliation {
        db: Db::of(env)?,
        transport: Transport::new(env, &config),
        quiet_since_ms: now_ms.saturating_sub(config.reconcile_quiet_ms),
        now_ms,
        compared: BTreeSet::new(),
        breaks: Vec::new(),
    };
    let from_ms = now_ms.saturating_sub(config.reconcile_window_ms);
    let read_through_ms = run.changes(from_ms).await?;
    let covered_from_ms = run.window(from_ms).await?;
    run.old().await?;
    let (written, resolved) = run.write().await?;
    let asked = run.ask(env).await?;
    let silent = run.silent().await?;
    Ok(json!({
        "compared": run.compared.len(),
        "complete": covered_from_ms == from_ms,
        "events_lag_ms": now_ms.saturating_sub(read_through_ms),
        "breaks": written,
        "resolved": resolved,
        "asked": asked,
        "silent": silent,
    }))
}

struct Reconciliation {
    db: Db,
    transport: Transport,
    /// What has changed later is left to the next run, in ms since the epoch.
    quiet_since_ms: u64,
    now_ms: u64,
    /// The provider's ids of what this run has compared.
    compared: BTreeSet<String>,
    breaks: Vec<Break>,
}

impl Reconciliation {
    /// Compares each payment to which something has happened since the last run; the first run begins at `from_ms` (since the
    /// epoch). Gives until when all events were read, in ms since the epoch.
    async fn changes(&mut self, from_ms: u64) -> Result<u64> {
        let sql = "SELECT through_ms, until_ms, after FROM cursors WHERE name = ?1";
        let stored: Option<Cursor> = self.db.first(sql, vec![EVENTS.into()]).await?;
        let mut cursor = stored.unwrap_or_else(|| Cursor::first(from_ms));
        cursor.begin(self.quiet_since_ms);
        let mut looks = 0;
        for _ in 0..EVENT_PAGES_MAX {
            let answer = self.get(&cursor.request()).await?;
            if answer.status != 200 {
                return Err(Error::RustError(format!("the list of events was answered {}", answer.status)));
            }
            let page = changes::read_page(&answer.body).map_err(Error::RustError)?;
            looks += self.look_at(&page).await?;
            // What was found is written before the place from which the next page is read.
            self.write_breaks().await?;
            let is_over = cursor.advance(&page);
            self.keep(&cursor).await?;
            if is_over || looks >= LOOKS_MAX {
                break;
            }
        }
        Ok(cursor.through_ms)
    }

    async fn keep(&self, cursor: &Cursor) -> Result<()> {
        let sql = "INSERT INTO cursors (name, through_ms, until_ms, after) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms, until_ms = excluded.until_ms, after = excluded.after";
        let after = cursor.after.clone();
        let values = vec![EVENTS.into(), cursor.through_ms.into(), cursor.until_ms.into(), after.into()];
        self.db.run(sql, values).await.map(drop)
    }

    /// Looks at the payments of a page of which the event does not say what we have. Gives how many these were.
    async fn look_at(&mut self, page: &changes::Page) -> Result<usize> {
        let all: Vec<&str> = page.changes.iter().map(|change| change.payment.as_str()).collect();
        let resources: Vec<&str> = page
            .changes
            .iter()
            .filter_map(|change| change.then.as_ref().and_then(|then| then.resource.as_deref()))
            .collect();
        let known = self.ours_by(&all, &resources).await?;
        let fits = |change: &&changes::Change| {
            let compared = change.then.as_ref().map(|then| compare(then, &known, self.quiet_since_ms));
            !matches!(compared, Some(Compared::Same))
        };
        let ids: BTreeSet<&str> =
            page.changes.iter().filter(fits).map(|change| change.payment.as_str()).collect();
        let ids: Vec<String> =
            ids.into_iter().filter(|id| !self.compared.contains(*id)).map(str::to_owned).collect();
        for id in &ids {
            let answer = self.get(&books::entry_request(id)).await?;
            match answer.status {
                200 => {
                    let entry = books::read_entry(&answer.body).map_err(Error::RustError)?;
                    let resource: Vec<&str> = entry.resource.as_deref().into_iter().collect();
                    let known = self.ours_by(&[&entry.id], &resource).await?;
                    self.take(compare(&entry, &known, self.quiet_since_ms), &entry);
                }
                404 => {}
                status => {
                    return Err(Error::RustError(format!("a payment was answered {status}")));
                }
            }
        }
        Ok(ids.len())
    }

    /// Compares all that was made at `from_ms` or later. Gives from when on it did: later, if there is too much.
    async fn window(&mut self, from_ms: u64) -> Result<u64> {
        let mut seen = BTreeSet::new();
        let mut after: Option<String> = None;
        let mut covered_from_ms = from_ms;
        for page in 1..=PAGES_MAX {
            let list = self.page(from_ms, after.as_deref()).await?;
            let known = self.known(&list.entries).await?;
            for entry in &list.entries {
                seen.insert(entry.id.clone());
                self.take(compare(entry, &known, self.quiet_since_ms), entry);
            }
            let last = list.entries.last().filter(|_| list.has_more);
            let Some(last) = last else { break };
            after = Some(last.id.clone());
            if page == PAGES_MAX {
                covered_from_ms = last.created_at_ms.saturating_add(CLOCKS_DIFFER_MS);
            }
        }
        self.absent(covered_from_ms, &seen).await?;
        Ok(covered_from_ms)
    }

    async fn page(&self, from_ms: u64, after: Option<&str>) -> Result<Page> {
        let request = books::page_request(from_ms.saturating_sub(CLOCKS_DIFFER_MS), after);
        let answer = self.get(&request).await?;
        if answer.status != 200 {
            return Err(Error::RustError(format!("the list of payments was answered {}", answer.status)));
        }
        books::read_page(&answer.body).map_err(Error::RustError)
    }

    async fn get(&self, request: &FrozenRequest) -> Result<HttpAnswer> {
        self.transport.get(Provider::Stripe, request).await.map_err(Error::RustError)
    }

    /// Our rows that an entry may be about.
    async fn known(&self, entries: &[Entry]) -> Result<Known> {
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let resources: Vec<&str> = entries.iter().filter_map(|entry| entry.resource.as_deref()).collect();
        self.ours_by(&ids, &resources).await
    }

    async fn ours_by(&self, ids: &[&str], resources: &[&str]) -> Result<Known> {
        let by = |own: &str| {
            format!(
                "provider_payment IN (SELECT value FROM json_each(?1)) OR {own} IN (SELECT value FROM json_each(?2))"
            )
        };
        let sql = ours(&by("payment_id"), &by("ride_id"));
        let values = vec![serde_json::to_string(ids)?.into(), serde_json::to_string(resources)?.into()];
        Ok(Known::new(self.db.rows(&sql, values).await?))
    }

    fn take(&mut self, compared: Compared, entry: &Entry) {
        match compared {
            Compared::TooYoung => return,
            Compared::Same => {}
            Compared::Differs(found) => self.breaks.push(found),
        }
        self.compared.insert(entry.id.clone());
    }

    /// What we hold to be taken or reserved, and they do not have.
    async fn absent(&mut self, from_ms: u64, seen: &BTreeSet<String>) -> Result<()> {
        let condition = "status IN ('succeeded', 'requires_capture', 'paid')
            AND created_at_ms BETWEEN ?1 AND ?2 AND updated_at_ms <= ?2
            AND (provider_payment IS NULL OR provider_payment NOT IN (SELECT value FROM json_each(?3)))";
        let sql = format!(
            "{} LIMIT {BREAKS_MAX}",
            ours(&format!("provider = 'stripe' AND {condition}"), condition)
        );
        let values = vec![from_ms.into(), self.quiet_since_ms.into(), serde_json::to_string(seen)?.into()];
        let absent: Vec<Ours> = self.db.rows(&sql, values).await?;
        self.breaks.extend(absent.iter().map(missing));
        Ok(())
    }

    /// Looks again at breaks that are still open though the window has passed over them.
    async fn old(&mut self) -> Result<()> {
        #[derive(Deserialize)]
        struct Old {
            provider_payment: String,
            resource: Option<String>,
        }
        let touched: Vec<&String> =
            self.compared.iter().chain(self.breaks.iter().map(|found| &found.provider_payment)).collect();
        let sql = "SELECT provider_payment, resource FROM breaks WHERE state = 'open' AND provider = 'stripe'
            AND kind IN ('orphan', 'missing', 'amount', 'status')
            AND provider_payment NOT IN (SELECT value FROM json_each(?1)) ORDER BY last_seen_at_ms LIMIT ?2";
        let values = vec![serde_json::to_string(&touched)?.into(), OLD_MAX.into()];
        for old in self.db.rows::<Old>(sql, values).await? {
            let resource: Vec<&str> = old.resource.as_deref().into_iter().collect();
            let known = self.ours_by(&[&old.provider_payment], &resource).await?;
            let answer = self.get(&books::entry_request(&old.provider_payment)).await?;
            match answer.status {
                200 => {
                    let entry = books::read_entry(&answer.body).map_err(Error::RustError)?;
                    self.take(compare(&entry, &known, self.quiet_since_ms), &entry);
                }
                404 => {
                    let is_it = |found: &Break| found.provider_payment == old.provider_payment;
                    let rows = known.all().filter(|ours| must_exist(ours));
                    self.breaks.extend(rows.map(missing).filter(is_it));
                    self.compared.insert(old.provider_payment);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes down the breaks, and that those are gone which were not found again. Gives how many each.
    async fn write(&mut self) -> Result<(usize, usize)> {
        if self.breaks.len() > BREAKS_MAX {
            let fields = [("event", "breaks_left_off".into()), ("breaks", self.breaks.len().into())];
            log("error", &fields);
        }
        let found: Vec<String> = self.breaks.iter().map(id).collect();
        self.breaks.truncate(BREAKS_MAX);
        let written = self.write_breaks().await?;
        let sql =
            "UPDATE breaks SET state = CASE WHEN asked_at_ms IS NULL THEN 'resolved' ELSE 'repaired' END, last_seen_at_ms = ?3
            WHERE state = 'open' AND provider = 'stripe' AND kind IN ('orphan', 'missing', 'amount', 'status')
            AND provider_payment IN (SELECT value FROM json_each(?1))
            AND break_id NOT IN (SELECT value FROM json_each(?2))";
        let (compared, found) = (serde_json::to_string(&self.compared)?, serde_json::to_string(&found)?);
        let resolved = self.db.run(sql, vec![compared.into(), found.into(), self.now_ms.into()]).await?;
        Ok((written, resolved))
    }

    async fn write_breaks(&self) -> Result<usize> {
        let statements: Vec<_> = self.breaks.iter().map(|found| self.upsert(found)).collect::<Result<_>>()?;
        let written = statements.len();
        if written > 0 {
            self.db.batch(statements).await?;
        }
        Ok(written)
    }

    fn upsert(&self, found: &Break) -> Result<D1PreparedStatement> {
        // What a person has accepted stays accepted until it says something else.
        let sql = "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, theirs, state,
                first_seen_at_ms, last_seen_at_ms)
             VALUES (?1, ?2, 'stripe', ?3, ?4, ?5, ?6, ?7, 'open', ?8, ?8)
             ON CONFLICT (break_id) DO UPDATE SET resource = excluded.resource, object = excluded.object,
                ours = excluded.ours, theirs = excluded.theirs, last_seen_at_ms = excluded.last_seen_at_ms,
                state = CASE WHEN breaks.state = 'accepted' AND breaks.ours IS excluded.ours
                    AND breaks.theirs IS excluded.theirs THEN 'accepted' ELSE 'open' END";
        let values = vec![
            id(found).into(),
            found.kind.as_str().into(),
            found.provider_payment.as_str().into(),
            found.resource.clone().into(),
            found.object.clone().into(),
            found.ours.clone().into(),
            found.theirs.clone().into(),
            self.now_ms.into(),
        ];
        self.db.statement(sql, values)
    }

    /// Asks the objects that are meant to find out what is true. Gives how many there were.
    async fn ask(&self, env: &Env) -> Result<usize> {
        let mut objects = BTreeSet::new();
        let mut asked = Vec::new();
        for found in &self.breaks {
            if let Some(object) = object(found)
                && (objects.contains(&object.to_hex()) || objects.len() < OBJECTS_MAX)
            {
                objects.insert(object.to_hex());
                asked.push(id(found));
            }
        }
        let sql = "UPDATE breaks SET asked_at_ms = ?1 WHERE break_id IN (SELECT value FROM json_each(?2))";
        self.db.run(sql, vec![self.now_ms.into(), serde_json::to_string(&asked)?.into()]).await?;
        let objects: Vec<ObjectId> = objects.iter().filter_map(|hex| ObjectId::from_hex(hex)).collect();
        let ends = join_all(objects.iter().map(|object| find_out(env, *object))).await;
        for error in ends.iter().filter_map(|end| end.as_ref().err()) {
            log("error", &[("event", "repair_failed".into()), ("error", error.to_string().into())]);
        }
        Ok(ends.iter().filter(|end| matches!(end, Ok(true))).count())
    }

    /// Payments with Adyen, and captures and voids there, of which nothing was heard: it has no list and answers no questions.
    async fn silent(&self) -> Result<usize> {
        let silent_since_ms = self.now_ms.saturating_sub(SILENT_MS);
        let moves = "json_type(shown, '$.pending_operation') = 'object'";
        let still = format!(
            "SELECT payment_id FROM payments WHERE provider = 'adyen' AND (status = 'processing' OR {moves})"
        );
        let sql = format!(
            "UPDATE breaks SET state = 'resolved' WHERE kind = 'silent' AND state = 'open' AND resource NOT IN ({still})"
        );
        self.db.run(&sql, vec![]).await?;
        let sql = format!(
            "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
                last_seen_at_ms)
             SELECT 'silent:adyen:' || payment_id, 'silent', provider, provider_payment, payment_id, object, status, 'open', ?1, ?1
             FROM payments WHERE provider = 'adyen'
                AND (status = 'processing' AND created_at_ms < ?2 OR {moves} AND updated_at_ms < ?2) LIMIT {BREAKS_MAX}
             ON CONFLICT (break_id) DO UPDATE SET last_seen_at_ms = excluded.last_seen_at_ms,
                state = CASE breaks.state WHEN 'accepted' THEN 'accepted' ELSE 'open' END"
        );
        self.db.run(&sql, vec![self.now_ms.into(), silent_since_ms.into()]).await
    }
}

fn id(found: &Break) -> String {
    found.id(Provider::Stripe.as_str())
}

/// The object that a break is about: as the read model says, or as the id in the provider's books does.
fn object(found: &Break) -> Option<ObjectId> {
    let known = found.object.as_deref().and_then(ObjectId::from_hex);
    let claimed = || {
        let resource = found.resource.as_deref()?;
        let payment = PaymentId::parse(resource).map(PaymentId::object);
        payment.or_else(|| RideId::parse(resource).map(RideId::object))
    };
    known.or_else(claimed)
}

/// Gives whether anything was ever written there.
async fn find_out(env: &Env, object: ObjectId) -> Result<bool> {
    let is_there: bool = client::ask(env, object, &Ask::Settle).await?;
    if is_there {
        client::ask::<()>(env, object, &Ask::Project).await?;
    }
    Ok(is_there)
}

/// The rows of payments and rides for which the conditions hold.
fn ours(payments: &str, rides: &str) -> String {
    let refunds = |status: &str| {
        format!(
            "(SELECT coalesce(sum(refunds.amount_minor), 0) FROM refunds
              WHERE refunds.payment_id = payments.payment_id AND refunds.status = '{status}')"
        )
    };
    let own_captures = "(SELECT count(*) FROM keys WHERE keys.object = payments.object
        AND keys.operation = 'capture' AND keys.response_status = 200)";
    format!(
        "SELECT payment_id AS resource, object, provider, status, amount_minor, captured_minor,
            {} + refunded_elsewhere_minor AS refunded_minor,
            {} AS refunding_minor, {own_captures} AS own_captures, currency, provider_payment, created_at_ms, updated_at_ms
         FROM payments WHERE {payments}
         UNION ALL
         SELECT ride_id, object, 'stripe', status, amount_minor, CASE status WHEN 'paid' THEN amount_minor ELSE 0 END, 0, 0, 0,
            currency, provider_payment, created_at_ms, updated_at_ms
         FROM rides WHERE {rides}",
        refunds("succeeded"),
        refunds("pending")
    )
}
