//! Compares the provider's books with ours, and writes down where they differ: each payment of which Stripe's events say that
//! something has happened to it, each movement of the balance, and each payment that was made, however many there are and however
//! old they are. What one run does not finish the next one goes on with, and nothing that was found is left off.
//!
//! A difference is never repaired with money. The object that is meant is asked to find out what is true and to tell the
//! read model, also one that the read model does not know: so an object is found whose alarm and whose projections were
//! all lost. What the object cannot mend stays on the desk for a person.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Date, Env, Error, Result};

use super::books::{self, Entry};
use super::changes;
use super::compare::{Break, Compared, Known, Ours, compare, missing, must_exist};
use super::cursor::{Cursor, Source};
use super::movements::{self, Matched, Movement, OurRefund, Refunds};
use crate::config::Config;
use crate::log::log;
use crate::machine::account::Credential;
use crate::machine::call::FrozenRequest;
use crate::machine::id::ObjectId;
use crate::object::client;
use crate::object::message::Ask;
use crate::payment::id::{PaymentId, RideId};
use crate::providers::{HttpAnswer, Provider};
use crate::readmodel::db::{self, Db};
use crate::transport::Transport;

/// How many calls (to the provider and to D1) a run has made when a list is not read any further in it: an invocation has 1000.
const fn calls_max(source: Source) -> u32 {
    match source {
        Source::Events => 300,
        Source::Movements => 500,
        Source::Payments => 650,
    }
}
/// How many payments that had only just changed are looked at again in one run, and how many that were in no list.
///
/// These, and the calls above, are shared out among the accounts of a run.
const AGAIN_MAX: u32 = 50;
const UNLISTED_MAX: u32 = 100;
/// How many open breaks are looked at again in one run, and how many objects it asks.
const OLD_MAX: u32 = 20;
const OBJECTS_MAX: usize = 50;
/// How many connected accounts are compared in one run.
const CONNECTED_MAX: usize = 4;
/// How many rows one statement makes breaks of. It is repeated while there are more, so often.
pub(super) const BREAKS_MAX: usize = 200;
pub(super) const BATCHES_MAX: u32 = 10;
/// After how long a payment with Adyen, which cannot be asked, is taken for forgotten, in ms.
const SILENT_MS: u64 = 86_400_000;
/// After how long money that we hold to be moved must be in the provider's balance, in ms: asynchronous captures take a while.
const UNMOVED_MS: u64 = 86_400_000;

/// See the module. The result says how much was compared and what came of it.
pub(super) async fn reconcile(env: &Env) -> Result<Value> {
    let config = Config::of(env).map_err(Error::RustError)?;
    let now_ms = Date::now().as_millis();
    let mut run = Reconciliation {
        db: Db::of(env)?,
        transport: Transport::new(env, &config),
        window_ms: config.reconcile_window_ms,
        quiet_since_ms: now_ms.saturating_sub(config.reconcile_quiet_ms),
        now_ms,
        account: None,
        share: 1,
        calls: 0,
        calls_before: 0,
        movements: 0,
        compared: BTreeSet::new(),
        breaks: BTreeSet::new(),
        resolved: 0,
    };
    let silent = run.silent().await;
    run.identify(config.credentials.stripe).await?;
    // What cannot be read keeps nothing else from being read.
    let mut errors: Vec<Error> =
        silent.as_ref().err().map(|error| Error::RustError(error.to_string())).into_iter().collect();
    let accounts = run.accounts(&config).await?;
    run.share = u32::try_from(accounts.len()).unwrap_or(u32::MAX).max(1);
    let mut read = Lists::default();
    let mut unmoved = 0;
    for account in &accounts {
        run.account.clone_from(account);
        run.calls_before = run.calls;
        let (found, failed) = run.compare_account(&mut read).await;
        unmoved += found;
        errors.extend(failed);
    }
    let asked = ask(env, &run.db, Provider::Stripe, now_ms).await?;
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let mut result = json!({ "accounts": accounts.len(), "complete": read.is_complete });
    for (source, through_ms) in &read.through_ms {
        if let Some(result) = result.as_object_mut() {
            result.insert(format!("{source}_lag_ms"), now_ms.saturating_sub(*through_ms).into());
        }
    }
    if let Some(result) = result.as_object_mut() {
        result.insert("compared".to_owned(), run.compared.len().into());
        result.insert("movements".to_owned(), run.movements.into());
        result.insert("breaks".to_owned(), run.breaks.len().into());
        result.insert("resolved".to_owned(), run.resolved.into());
        result.insert("unmoved".to_owned(), unmoved.into());
        result.insert("asked".to_owned(), asked.into());
        result.insert("silent".to_owned(), silent?.into());
    }
    Ok(result)
}

/// How far the lists were read, in all accounts.
#[derive(Default)]
struct Lists {
    /// Until when each was read in every account, in ms since the epoch.
    through_ms: BTreeMap<&'static str, u64>,
    /// The newest payments of each account were reached.
    is_complete: bool,
    /// One of them was not.
    is_left_off: bool,
}

struct Reconciliation {
    db: Db,
    transport: Transport,
    /// For how long payments are compared again, in ms.
    window_ms: u64,
    /// What has changed later is left to the next run, in ms since the epoch.
    quiet_since_ms: u64,
    now_ms: u64,
    /// Whose books are read: those of an account that is connected, else of the key's own.
    account: Option<String>,
    /// Among how many accounts the run is shared out.
    share: u32,
    /// To the provider and to D1.
    calls: u32,
    /// Those that were made for other accounts.
    calls_before: u32,
    /// How many were looked for in our records.
    movements: usize,
    /// The provider's ids of what this run has compared.
    compared: BTreeSet<String>,
    /// The breaks that it has found.
    breaks: BTreeSet<String>,
    /// How many are gone that it has not found again.
    resolved: usize,
}

impl Reconciliation {
    /// Whether the configured key is of the account whose payments are compared. In the books of another one there is nothing of ours,
    /// and nothing is missing there.
    async fn identify(&mut self, credential: Credential) -> Result<()> {
        #[derive(Deserialize)]
        struct Known {
            account: String,
            credential: String,
        }
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        let credential_name = credential.to_string();
        let known: Vec<Known> =
            self.rows("SELECT account, credential FROM compared_account", Vec::new()).await?;
        let known = known.into_iter().next();
        if known.as_ref().is_some_and(|known| known.credential == credential_name) {
            return Ok(());
        }
        let answer = self.get(&FrozenRequest::new("/v1/account".to_owned(), String::new())).await?;
        let named = serde_json::from_str::<Named>(&answer.body).ok().filter(|_| answer.status == 200);
        let Some(Named { id }) = named else {
            return Err(Error::RustError(format!(
                "of which account the configured key is was answered {}: allow it to read the account. Nothing is compared until then",
                answer.status
            )));
        };
        let account = format!("{id} ({})", if credential.live { "live" } else { "test" });
        if let Some(known) = known.filter(|known| known.account != account) {
            return Err(Error::RustError(format!(
                "the configured key is of {account}; payments of {} are not compared",
                known.account
            )));
        }
        let sql = "INSERT INTO compared_account (id, account, credential) VALUES (1, ?1, ?2)
            ON CONFLICT (id) DO UPDATE SET credential = excluded.credential";
        self.run(sql, vec![account.into(), credential_name.into()]).await.map(drop)
    }

    /// The key's own account, and those connected to it in which payments are made, or were. There may be more of them than one
    /// run reads: then another run begins with others.
    async fn accounts(&mut self, config: &Config) -> Result<Vec<Option<String>>> {
        #[derive(Deserialize)]
        struct Used {
            stripe_account: String,
        }
        let sql = "SELECT DISTINCT stripe_account FROM payments WHERE stripe_account IS NOT NULL
             UNION SELECT DISTINCT stripe_account FROM rides WHERE stripe_account IS NOT NULL";
        let used: Vec<Used> = self.rows(sql, Vec::new()).await?;
        let configured = config.accounts.values().filter_map(|account| account.stripe_account.clone());
        let connected: BTreeSet<String> =
            used.into_iter().map(|used| used.stripe_account).chain(configured).collect();
        let count = u64::try_from(connected.len()).unwrap_or(u64::MAX).max(1);
        let first = usize::try_from(self.now_ms % count).unwrap_or(0);
        let turn = connected.iter().cycle().skip(first).take(connected.len().min(CONNECTED_MAX));
        Ok(std::iter::once(None).chain(turn.cloned().map(Some)).collect())
    }

    /// Compares the books of one account. Gives how much money of ours has not moved there, and what failed.
    async fn compare_account(&mut self, lists: &mut Lists) -> (usize, Vec<Error>) {
        let mut errors: Vec<Error> = self.again().await.err().into_iter().collect();
        for source in Source::ALL {
            match self.read(source).await {
                Ok((through_ms, is_over)) => {
                    let least = lists.through_ms.entry(source.as_str()).or_insert(through_ms);
                    *least = through_ms.min(*least);
                    if source == Source::Payments {
                        lists.is_left_off |= !is_over;
                    }
                }
                Err(error) => {
                    lists.is_left_off |= source == Source::Payments;
                    errors.push(error);
                }
            }
        }
        lists.is_complete = !lists.is_left_off;
        errors.extend(self.unlisted().await.err());
        errors.extend(self.old().await.err());
        let unmoved = self.unmoved().await;
        let found = unmoved.as_ref().copied().unwrap_or(0);
        errors.extend(unmoved.err());
        let name = |error: Error| match &self.account {
            Some(account) => Error::RustError(format!("{account}: {error}")),
            None => error,
        };
        (found, errors.into_iter().map(name).collect())
    }

    /// The name of the cursor of a list of this account, and of the one that says from when on it was read at all.
    fn cursor_name(&self, source: Source) -> String {
        source.cursor_of(self.account.as_deref())
    }

    fn since_name(&self, source: Source) -> String {
        source.since_of(self.account.as_deref())
    }

    /// How much of a run's limit this account has.
    const fn shared(&self, most: u32) -> u32 {
        let part = most / self.share;
        if part == 0 { 1 } else { part }
    }

    /// Reads on in a list. Gives until when all of it was read, in ms since the epoch, and whether this run came to its end.
    async fn read(&mut self, source: Source) -> Result<(u64, bool)> {
        let overlap_ms = source.overlap_ms(self.window_ms);
        let mut cursor = match self.cursor(&self.cursor_name(source)).await? {
            Some(cursor) => cursor,
            None => {
                let first = Cursor::first(self.now_ms.saturating_sub(self.window_ms));
                // What is older than the first request cannot be expected in the list.
                let since = Cursor::first(first.through_ms.saturating_sub(overlap_ms));
                self.keep(&self.since_name(source), &since).await?;
                first
            }
        };
        cursor.begin(self.quiet_since_ms);
        loop {
            let answer = self.get(&source.request(&cursor, overlap_ms)).await?;
            if answer.status != 200 {
                if cursor.restart(answer.status) {
                    self.keep(&self.cursor_name(source), &cursor).await?;
                }
                let list = source.as_str();
                return Err(Error::RustError(format!("the list of {list} was answered {}", answer.status)));
            }
            let (last, has_more) = self.page(source, &answer.body).await?;
            let is_over = cursor.advance(last.as_deref(), has_more);
            // What was found is written before the place from which the next page is read.
            self.keep(&self.cursor_name(source), &cursor).await?;
            if is_over || self.calls - self.calls_before >= self.shared(calls_max(source)) {
                return Ok((cursor.through_ms, is_over));
            }
        }
    }

    /// Works on a page. Gives its last entry and whether more follow.
    async fn page(&mut self, source: Source, body: &str) -> Result<(Option<String>, bool)> {
        Ok(match source {
            Source::Events => {
                let page = changes::read_page(body).map_err(Error::RustError)?;
                self.changes(&page).await?;
                (page.last, page.has_more)
            }
            Source::Movements => {
                let page = movements::read_page(body).map_err(Error::RustError)?;
                self.moved(&page.movements).await?;
                (page.movements.last().map(|last| last.id.clone()), page.has_more)
            }
            Source::Payments => {
                let page = books::read_page(body).map_err(Error::RustError)?;
                self.compare(&page.entries).await?;
                (page.entries.last().map(|last| last.id.clone()), page.has_more)
            }
        })
    }

    async fn cursor(&mut self, name: &str) -> Result<Option<Cursor>> {
        let sql = "SELECT through_ms, until_ms, after FROM cursors WHERE name = ?1";
        Ok(self.rows::<Cursor>(sql, vec![name.into()]).await?.into_iter().next())
    }

    async fn keep(&mut self, name: &str, cursor: &Cursor) -> Result<()> {
        let sql = "INSERT INTO cursors (name, through_ms, until_ms, after) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms, until_ms = excluded.until_ms, after = excluded.after";
        let after = cursor.after.clone();
        let values = vec![name.into(), cursor.through_ms.into(), cursor.until_ms.into(), after.into()];
        self.run(sql, values).await.map(drop)
    }

    /// Looks at the payments of a page of events of which the event does not say what we have.
    async fn changes(&mut self, page: &changes::Page) -> Result<()> {
        let all: Vec<&str> = page.changes.iter().map(|change| change.payment.as_str()).collect();
        let said = || page.changes.iter().filter_map(|change| change.then.as_ref());
        let resources: Vec<&str> = said().filter_map(|then| then.resource.as_deref()).collect();
        let known = self.ours_by(&all, &resources).await?;
        let is_same = |then: &&Entry| compare(then, &known, self.quiet_since_ms) == Compared::Same;
        let same: Vec<&str> = said().filter(is_same).map(|then| then.id.as_str()).collect();
        let ids: BTreeSet<&str> = page
            .changes
            .iter()
            .filter(|change| !change.then.as_ref().is_some_and(|then| is_same(&then)))
            .map(|change| change.payment.as_str())
            .filter(|id| !self.compared.contains(*id))
            .collect();
        let found = Found { listed: same, ..Found::default() };
        self.write(&found).await?;
        self.look(ids).await?;
        // The newest word of each dispute, which the comparison does not show.
        let mut newest = BTreeMap::new();
        for change in page.changes.iter().filter(|change| change.dispute.is_some()) {
            newest.entry(change.payment.as_str()).or_insert(change);
        }
        let unknown =
            |change: &&changes::Change| change.dispute.as_ref()?.unknown(known.of_payment(&change.payment)?);
        let breaks = newest.values().filter_map(unknown).collect();
        self.write(&Found { breaks, ..Found::default() }).await
    }

    /// Looks for movements in our records, and at the payments of which these have other sums.
    async fn moved(&mut self, movements: &[Movement]) -> Result<()> {
        self.movements += movements.len();
        let sums = || movements.iter().filter_map(Movement::sum);
        let payments: Vec<&str> = sums().filter_map(|sum| sum.payment.as_deref()).collect();
        let sources: Vec<&str> = sums().map(|sum| sum.id.as_str()).collect();
        let known = self.ours_by(&payments, &[]).await?;
        let refunds = self.refunds_by(&sources).await?;
        let mut looks = BTreeSet::new();
        let mut found = Found::default();
        for movement in movements {
            match movement.matched(&known, &refunds) {
                Matched::Known => {}
                Matched::Look(payment) => drop(looks.insert(payment)),
                Matched::Unknown => found.breaks.push(movement.unknown(&known)),
            }
        }
        let absent = self.look(looks.iter().map(String::as_str).collect()).await?;
        let is_absent = |movement: &&Movement| matches!(movement.matched(&known, &refunds), Matched::Look(payment) if absent.contains(&payment));
        found.breaks.extend(movements.iter().filter(is_absent).map(|movement| movement.unknown(&known)));
        let charges =
            movements.iter().filter(|movement| matches!(movement.source, movements::Source::Charge(_)));
        found.moved = charges.filter_map(|movement| movement.sum()?.payment.as_deref()).collect();
        found.refunded = sources;
        self.write(&found).await
    }

    /// Asks for payments and compares them. Gives those that the provider does not have.
    async fn look(&mut self, ids: BTreeSet<&str>) -> Result<BTreeSet<String>> {
        let mut entries = Vec::new();
        let mut absent = BTreeSet::new();
        for id in ids {
            let answer = self.get(&books::entry_request(id)).await?;
            match answer.status {
                200 => entries.push(books::read_entry(&answer.body).map_err(Error::RustError)?),
                404 => drop(absent.insert(id.to_owned())),
                status => return Err(Error::RustError(format!("a payment was answered {status}"))),
            }
        }
        self.compare(&entries).await?;
        Ok(absent)
    }

    /// Compares entries of theirs with ours, and writes down what came of it.
    async fn compare(&mut self, entries: &[Entry]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let resources: Vec<&str> = entries.iter().filter_map(|entry| entry.resource.as_deref()).collect();
        let known = self.ours_by(&ids, &resources).await?;
        let mut found = Found { listed: ids, ..Found::default() };
        for entry in entries {
            match compare(entry, &known, self.quiet_since_ms) {
                Compared::TooYoung => {
                    found.young.push(&entry.id);
                    continue;
                }
                Compared::Same => {}
                Compared::Differs(difference) => found.breaks.push(difference),
            }
            found.compared.push(&entry.id);
        }
        self.write(&found).await
    }

    /// Looks again at payments that had only just changed when they were compared.
    async fn again(&mut self) -> Result<()> {
        #[derive(Deserialize)]
        struct Look {
            provider_payment: String,
        }
        let sql = "SELECT provider_payment FROM looks WHERE since_ms <= ?1 AND stripe_account IS ?3
            ORDER BY since_ms, provider_payment LIMIT ?2";
        let values =
            vec![self.quiet_since_ms.into(), self.shared(AGAIN_MAX).into(), self.account.clone().into()];
        let looks: Vec<Look> = self.rows(sql, values).await?;
        if looks.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = looks.iter().map(|look| look.provider_payment.as_str()).collect();
        let sql =
            "UPDATE looks SET since_ms = ?2 WHERE provider_payment IN (SELECT value FROM json_each(?1))";
        self.run(sql, vec![serde_json::to_string(&ids)?.into(), self.now_ms.into()]).await?;
        let absent = self.look(ids.into_iter().collect()).await?;
        let absent: Vec<&str> = absent.iter().map(String::as_str).collect();
        let sql = "DELETE FROM looks WHERE provider_payment IN (SELECT value FROM json_each(?1))";
        self.run(sql, vec![serde_json::to_string(&absent)?.into()]).await.map(drop)
    }

    /// Asks for those of ours that hold money and that no list had: they are there all the same, or they are missing.
    async fn unlisted(&mut self) -> Result<()> {
        let (Some(since), Some(read)) = (
            self.cursor(&self.since_name(Source::Payments)).await?,
            self.cursor(&self.cursor_name(Source::Payments)).await?,
        ) else {
            return Ok(());
        };
        let unlisted = |own: &str, statuses: &str| {
            format!(
                "{statuses} AND stripe_account IS ?3 AND {UNBOOKED} AND (provider_payment IS NULL OR listed_payment IS NOT provider_payment)
                 AND updated_at_ms BETWEEN ?1 AND ?2 AND NOT EXISTS (SELECT 1 FROM breaks
                    WHERE break_id = 'missing:stripe:' || coalesce(provider_payment, {own}) AND state != 'resolved' AND state != 'repaired')"
            )
        };
        let payments =
            unlisted("payment_id", &format!("provider = 'stripe' AND {HOLDS} AND status != 'disputed'"));
        let sql = format!(
            "SELECT * FROM ({}) ORDER BY updated_at_ms LIMIT {}",
            ours(&payments, &unlisted("ride_id", PAID)),
            self.shared(UNLISTED_MAX)
        );
        let until_ms = read.through_ms.min(self.quiet_since_ms);
        let rows: Vec<Ours> = self
            .rows(&sql, vec![since.through_ms.into(), until_ms.into(), self.account.clone().into()])
            .await?;
        let ids = rows.iter().filter_map(|row| row.provider_payment.as_deref()).collect();
        let absent = self.look(ids).await?;
        let is_absent = |row: &&Ours| row.provider_payment.as_ref().is_none_or(|id| absent.contains(id));
        let breaks = rows.iter().filter(is_absent).map(missing).collect();
        self.write(&Found { breaks, ..Found::default() }).await
    }

    async fn get(&mut self, request: &FrozenRequest) -> Result<HttpAnswer> {
        self.calls += 1;
        let request = request.clone().for_account(self.account.as_deref());
        self.transport.get(Provider::Stripe, &request).await.map_err(Error::RustError)
    }

    async fn rows<T: serde::de::DeserializeOwned>(
        &mut self,
        sql: &str,
        values: Vec<db::Value>,
    ) -> Result<Vec<T>> {
        self.calls += 1;
        self.db.rows(sql, values).await
    }

    async fn run(&mut self, sql: &str, values: Vec<db::Value>) -> Result<usize> {
        self.calls += 1;
        self.db.run(sql, values).await
    }

    /// Our rows that payments of theirs may be about.
    async fn ours_by(&mut self, ids: &[&str], resources: &[&str]) -> Result<Known> {
        if ids.is_empty() && resources.is_empty() {
            return Ok(Known::default());
        }
        let by = |own: &str, account: &str| {
            format!(
                "(provider_payment IN (SELECT value FROM json_each(?1)) OR {own} IN (SELECT value FROM json_each(?2)))
                 AND ({account})"
            )
        };
        // In another account an entry can carry our ids, and be nothing of ours.
        let sql = ours(
            &by("payment_id", "provider != 'stripe' OR stripe_account IS ?3"),
            &by("ride_id", "stripe_account IS ?3"),
        );
        let (ids, resources) = (serde_json::to_string(ids)?, serde_json::to_string(resources)?);
        let values = vec![ids.into(), resources.into(), self.account.clone().into()];
        Ok(Known::new(self.rows(&sql, values).await?))
    }

    async fn refunds_by(&mut self, ids: &[&str]) -> Result<Refunds> {
        if ids.is_empty() {
            return Ok(Refunds::default());
        }
        let sql = "SELECT provider_refund, status, amount_minor, currency FROM refunds
            WHERE provider = 'stripe' AND provider_refund IN (SELECT value FROM json_each(?1))";
        let rows: Vec<OurRefund> = self.rows(sql, vec![serde_json::to_string(ids)?.into()]).await?;
        Ok(Refunds::new(rows))
    }

    /// Looks again at breaks that are still open though no list has them any more.
    async fn old(&mut self) -> Result<()> {
        #[derive(Deserialize)]
        struct Old {
            break_id: String,
            provider_payment: String,
            resource: Option<String>,
        }
        let sql = format!(
            "SELECT break_id, provider_payment, resource FROM breaks WHERE state = 'open' AND provider = 'stripe'
             AND kind IN ({KINDS}, 'movement') AND last_seen_at_ms < ?1 AND stripe_account IS ?3 ORDER BY last_seen_at_ms LIMIT ?2"
        );
        let values = vec![self.now_ms.into(), self.shared(OLD_MAX).into(), self.account.clone().into()];
        for old in self.rows::<Old>(&sql, values).await? {
            if let Some(movement) = Break::movement_of(&old.break_id) {
                self.old_movement(movement, &old.break_id).await?;
                continue;
            }
            let absent = self.look([old.provider_payment.as_str()].into()).await?;
            if absent.is_empty() {
                continue;
            }
            let resource: Vec<&str> = old.resource.as_deref().into_iter().collect();
            let known = self.ours_by(&[&old.provider_payment], &resource).await?;
            let is_it = |found: &Break| found.provider_payment == old.provider_payment;
            let breaks = known.all().filter(|ours| must_exist(ours)).map(missing).filter(is_it).collect();
            let compared = vec![old.provider_payment.as_str()];
            self.write(&Found { breaks, compared, ..Found::default() }).await?;
        }
        Ok(())
    }

    /// Whether we have a record by now of a movement of which we had none.
    async fn old_movement(&mut self, id: &str, break_id: &str) -> Result<()> {
        let answer = self.get(&movements::movement_request(id)).await?;
        if answer.status != 200 {
            return Ok(());
        }
        let movement = movements::read_movement(&answer.body).map_err(Error::RustError)?;
        let payment: Vec<&str> = movement.sum().and_then(|sum| sum.payment.as_deref()).into_iter().collect();
        let source: Vec<&str> = movement.sum().map(|sum| sum.id.as_str()).into_iter().collect();
        let known = self.ours_by(&payment, &[]).await?;
        let refunds = self.refunds_by(&source).await?;
        let is_unknown = match movement.matched(&known, &refunds) {
            Matched::Known => false,
            Matched::Look(payment) => !self.look([payment.as_str()].into()).await?.is_empty(),
            Matched::Unknown => true,
        };
        if is_unknown {
            return self.write(&Found { breaks: vec![movement.unknown(&known)], ..Found::default() }).await;
        }
        let sql = format!("UPDATE breaks SET {GONE} WHERE state = 'open' AND break_id = ?1");
        self.resolved += self.run(&sql, vec![break_id.into(), self.now_ms.into()]).await?;
        Ok(())
    }

    /// Writes down what was found, and that those breaks are gone which were not found again.
    async fn write(&mut self, found: &Found<'_>) -> Result<()> {
        let list = |ids: &[&str]| serde_json::to_string(ids).map(db::Value::from);
        let mut statements = Vec::new();
        let breaks: Vec<String> = found.breaks.iter().map(id).collect();
        if !found.breaks.is_empty() {
            let values = vec![
                rows_of(&found.breaks, Provider::Stripe)?.into(),
                self.now_ms.into(),
                self.account.clone().into(),
            ];
            statements.push(self.db.statement(&upsert(Provider::Stripe), values)?);
        }
        if !found.young.is_empty() {
            let sql = "INSERT INTO looks (provider_payment, since_ms, stripe_account) SELECT value, ?2, ?3 FROM json_each(?1) WHERE true
                ON CONFLICT (provider_payment) DO UPDATE SET since_ms = excluded.since_ms";
            statements.push(self.db.statement(
                sql,
                vec![list(&found.young)?, self.now_ms.into(), self.account.clone().into()],
            )?);
        }
        if !found.compared.is_empty() {
            let sql = "DELETE FROM looks WHERE provider_payment IN (SELECT value FROM json_each(?1))";
            statements.push(self.db.statement(sql, vec![list(&found.compared)?])?);
        }
        for (ids, mark) in [(&found.listed, "listed_payment"), (&found.moved, "moved_payment")] {
            if ids.is_empty() {
                continue;
            }
            for table in ["payments", "rides"] {
                let sql = format!(
                    "UPDATE {table} SET {mark} = provider_payment
                     WHERE provider_payment IN (SELECT value FROM json_each(?1)) AND {mark} IS NOT provider_payment"
                );
                statements.push(self.db.statement(&sql, vec![list(ids)?])?);
            }
        }
        if !found.refunded.is_empty() {
            let sql = "UPDATE refunds SET moved_refund = provider_refund
                WHERE provider_refund IN (SELECT value FROM json_each(?1)) AND moved_refund IS NOT provider_refund";
            statements.push(self.db.statement(sql, vec![list(&found.refunded)?])?);
        }
        if !statements.is_empty() {
            self.calls += 1;
            self.db.batch(statements).await?;
        }
        if !found.compared.is_empty() {
            let sql = format!(
                "UPDATE breaks SET {GONE} WHERE state = 'open' AND provider = 'stripe' AND kind IN ({KINDS})
                 AND provider_payment IN (SELECT value FROM json_each(?1))
                 AND break_id NOT IN (SELECT value FROM json_each(?3))"
            );
            // Also those that this run has found otherwise: a comparison does not show disputes.
            let found_now: Vec<&String> = self.breaks.iter().chain(&breaks).collect();
            let values =
                vec![list(&found.compared)?, self.now_ms.into(), serde_json::to_string(&found_now)?.into()];
            self.resolved += self.run(&sql, values).await?;
        }
        self.compared.extend(found.compared.iter().map(|id| (*id).to_owned()));
        self.breaks.extend(breaks);
        Ok(())
    }

    /// Money that we hold to be taken or given back for long, and that is not in the provider's balance.
    async fn unmoved(&mut self) -> Result<usize> {
        let (Some(since), Some(read)) = (
            self.cursor(&self.since_name(Source::Movements)).await?,
            self.cursor(&self.cursor_name(Source::Movements)).await?,
        ) else {
            return Ok(0);
        };
        let until_ms = read.through_ms.min(self.now_ms).saturating_sub(UNMOVED_MS);
        let gone = format!(
            "UPDATE breaks SET {GONE} WHERE kind = 'unmoved' AND state = 'open' AND NOT EXISTS (
                SELECT 1 FROM payments WHERE payment_id = breaks.resource AND {HOLDS} AND status != 'requires_capture'
                    AND provider_payment = breaks.provider_payment AND moved_payment IS NOT provider_payment
                UNION ALL SELECT 1 FROM rides WHERE ride_id = breaks.resource AND {PAID}
                    AND provider_payment = breaks.provider_payment AND moved_payment IS NOT provider_payment
                UNION ALL SELECT 1 FROM refunds WHERE provider_refund = breaks.provider_payment AND status = 'succeeded'
                    AND moved_refund IS NOT provider_refund) AND ?1 IS NULL"
        );
        self.resolved += self.run(&gone, vec![db::Value::Null, self.now_ms.into()]).await?;
        let range = "updated_at_ms BETWEEN ?1 AND ?2";
        let sql = format!(
            "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
                last_seen_at_ms)
             SELECT 'unmoved:stripe:' || unmoved, 'unmoved', 'stripe', unmoved, resource, object, ours, 'open', ?3, ?3 FROM (
                SELECT provider_payment AS unmoved, payment_id AS resource, object,
                    status || ': ' || captured_minor || ' ' || currency || ' taken' AS ours
                FROM payments WHERE provider = 'stripe' AND {HOLDS} AND {UNBOOKED} AND status != 'requires_capture'
                    AND provider_payment IS NOT NULL AND moved_payment IS NOT provider_payment AND stripe_account IS ?4 AND {range}
                UNION ALL
                SELECT provider_payment, ride_id, object, status || ': ' || amount_minor || ' ' || currency || ' taken'
                FROM rides WHERE {PAID} AND {UNBOOKED} AND provider_payment IS NOT NULL
                    AND moved_payment IS NOT provider_payment AND stripe_account IS ?4 AND {range}
                UNION ALL
                SELECT refunds.provider_refund, refunds.payment_id, payments.object,
                    refunds.status || ': ' || refunds.amount_minor || ' ' || refunds.currency || ' refunded'
                FROM refunds JOIN payments ON payments.payment_id = refunds.payment_id
                WHERE refunds.provider = 'stripe' AND refunds.status = 'succeeded'
                    AND refunds.moved_refund IS NOT refunds.provider_refund
                    AND payments.stripe_account IS ?4 AND refunds.updated_at_ms BETWEEN ?1 AND ?2)
             WHERE NOT EXISTS (SELECT 1 FROM breaks WHERE break_id = 'unmoved:stripe:' || unmoved AND state IN ('open', 'accepted'))
             LIMIT {BREAKS_MAX}
             ON CONFLICT (break_id) DO UPDATE SET state = 'open', ours = excluded.ours, last_seen_at_ms = excluded.last_seen_at_ms"
        );
        let mut all = 0;
        for _ in 0..BATCHES_MAX {
            let values = vec![
                since.through_ms.into(),
                until_ms.into(),
                self.now_ms.into(),
                self.account.clone().into(),
            ];
            let made = self.run(&sql, values).await?;
            all += made;
            if made < BREAKS_MAX {
                break;
            }
        }
        Ok(all)
    }

    /// Payments with Adyen, and captures and voids there, of which nothing was heard: it has no list and answers no questions.
    async fn silent(&mut self) -> Result<usize> {
        let silent_since_ms = self.now_ms.saturating_sub(SILENT_MS);
        let moves = "json_type(shown, '$.pending_operation') = 'object'";
        let still = format!(
            "SELECT payment_id FROM payments WHERE provider = 'adyen' AND (status = 'processing' OR {moves})"
        );
        let sql = format!(
            "UPDATE breaks SET state = 'resolved' WHERE kind = 'silent' AND state = 'open' AND resource NOT IN ({still})"
        );
        self.run(&sql, vec![]).await?;
        let sql = format!(
            "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
                last_seen_at_ms)
             SELECT 'silent:adyen:' || payment_id, 'silent', provider, provider_payment, payment_id, object, status, 'open', ?1, ?1
             FROM payments WHERE provider = 'adyen'
                AND (status = 'processing' AND created_at_ms < ?2 OR {moves} AND updated_at_ms < ?2)
             ON CONFLICT (break_id) DO UPDATE SET last_seen_at_ms = excluded.last_seen_at_ms,
                state = CASE breaks.state WHEN 'accepted' THEN 'accepted' ELSE 'open' END"
        );
        self.run(&sql, vec![self.now_ms.into(), silent_since_ms.into()]).await
    }
}

/// What is written down at once.
#[derive(Default)]
struct Found<'a> {
    breaks: Vec<Break>,
    /// What was compared: another break of it is gone.
    compared: Vec<&'a str>,
    /// What had only just changed: it is compared again.
    young: Vec<&'a str>,
    /// Payments that the provider has.
    listed: Vec<&'a str>,
    /// Payments whose money is in the balance.
    moved: Vec<&'a str>,
    /// Refunds whose money has left it.
    refunded: Vec<&'a str>,
}

/// The kinds of breaks that a comparison finds.
pub(super) const KINDS: &str = "'orphan', 'missing', 'amount', 'status'";
/// What becomes of a break that is not found again at `?2`.
pub(super) const GONE: &str =
    "state = CASE WHEN asked_at_ms IS NULL THEN 'resolved' ELSE 'repaired' END, last_seen_at_ms = ?2";
/// As the indexes of those have it that hold money which was not found in the provider's books.
pub(super) const HOLDS: &str = "status IN ('succeeded', 'requires_capture', 'disputed')";
const PAID: &str = "status = 'paid'";
pub(super) const UNBOOKED: &str = "(provider_payment IS NULL OR listed_payment IS NOT provider_payment OR moved_payment IS NOT provider_payment)";

/// Writes breaks down, as rows in JSON (`?1`), at `?2`, of a connected account (`?3`). What a person has accepted stays accepted until
/// it says something else.
pub(super) fn upsert(provider: Provider) -> String {
    format!(
        "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, theirs, state,
            first_seen_at_ms, last_seen_at_ms, stripe_account)
         SELECT value->>'break_id', value->>'kind', '{}', value->>'provider_payment', value->>'resource', value->>'object',
            value->>'ours', value->>'theirs', 'open', ?2, ?2, ?3 FROM json_each(?1) WHERE true
         ON CONFLICT (break_id) DO UPDATE SET resource = excluded.resource, object = excluded.object,
            ours = excluded.ours, theirs = excluded.theirs, last_seen_at_ms = excluded.last_seen_at_ms,
            state = CASE WHEN breaks.state = 'accepted' AND breaks.ours IS excluded.ours
                AND breaks.theirs IS excluded.theirs THEN 'accepted' ELSE 'open' END",
        provider.as_str()
    )
}

pub(super) fn rows_of(breaks: &[Break], provider: Provider) -> Result<String> {
    let rows = breaks.iter().map(|found| {
        json!({
            "break_id": found.id(provider.as_str()), "kind": found.kind.as_str(), "provider_payment": found.provider_payment,
            "resource": found.resource, "object": object(found).map(ObjectId::to_hex), "ours": found.ours,
            "theirs": found.theirs,
        })
    });
    Ok(serde_json::to_string(&rows.collect::<Vec<Value>>())?)
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

/// Asks the objects that are meant to find out what is true: those of breaks that were seen since they were last asked, the
/// longest waiting first. Gives how many there were.
pub(super) async fn ask(env: &Env, db: &Db, provider: Provider, now_ms: u64) -> Result<usize> {
    #[derive(Deserialize)]
    struct Asked {
        break_id: String,
        object: String,
    }
    let sql = format!(
        "SELECT break_id, object FROM breaks WHERE state = 'open' AND provider = ?1 AND kind IN ({KINDS}, 'movement')
         AND object IS NOT NULL AND (asked_at_ms IS NULL OR last_seen_at_ms > asked_at_ms)
         ORDER BY coalesce(asked_at_ms, 0), first_seen_at_ms LIMIT {BREAKS_MAX}"
    );
    let mut objects = BTreeSet::new();
    let mut asked = Vec::new();
    for found in db.rows::<Asked>(&sql, vec![provider.as_str().into()]).await? {
        if objects.contains(&found.object) || objects.len() < OBJECTS_MAX {
            objects.insert(found.object);
            asked.push(found.break_id);
        }
    }
    if asked.is_empty() {
        return Ok(0);
    }
    let sql = "UPDATE breaks SET asked_at_ms = ?1 WHERE break_id IN (SELECT value FROM json_each(?2))";
    db.run(sql, vec![now_ms.into(), serde_json::to_string(&asked)?.into()]).await?;
    let objects: Vec<ObjectId> = objects.iter().filter_map(|hex| ObjectId::from_hex(hex)).collect();
    let ends = join_all(objects.iter().map(|object| find_out(env, *object))).await;
    for error in ends.iter().filter_map(|end| end.as_ref().err()) {
        log("error", &[("event", "repair_failed".into()), ("error", error.to_string().into())]);
    }
    Ok(ends.iter().filter(|end| matches!(end, Ok(true))).count())
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
pub(super) fn ours(payments: &str, rides: &str) -> String {
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
            {} AS refunding_minor, {own_captures} AS own_captures, currency, provider_payment,
            shown ->> '$.dispute.id' AS dispute, shown ->> '$.dispute.status' AS dispute_status, created_at_ms, updated_at_ms
         FROM payments WHERE {payments}
         UNION ALL
         SELECT ride_id, object, 'stripe', status, amount_minor, CASE status WHEN 'paid' THEN amount_minor ELSE 0 END, 0, 0, 0,
            currency, provider_payment, NULL, NULL, created_at_ms, updated_at_ms
         FROM rides WHERE {rides}",
        refunds("succeeded"),
        refunds("pending")
    )
}
