//! Looks in all shards for payments that stand in Adyen's reports and were not found where they most probably are, some shards in each run.
//!
//! Some payments have a turn together. How far it has come is written down after each few shards: a run that is killed, or a shard that does not
//! answer, is followed by another run that goes on there. A payment that is in no shard is unknown: a break.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::adyen_breaks::settled;
use super::adyen_compare::Booked;
use super::adyen_places::{Sought, ask_shards, mark};
use super::adyen_run::Import;
use super::adyen_stores::Stores;
use super::place_stores::Halt;
use super::placed::Found;
use messages::placement::ShardName;
use runtime::db::Statement;

/// How many payments have a turn together.
const TURN_MAX: u32 = 2_000;

/// Payments that have a turn.
struct Turn {
    /// Adyen's ids, within their merchant accounts, each with since when it is looked for.
    payments: BTreeMap<String, u64>,
    /// The shard that was asked last.
    after: String,
}

impl<S: Stores> Import<S> {
    /// Goes on, as long as this run may ask shards. Returns how many payments are left of this turn.
    pub(super) async fn search(&self) -> Result<usize, Halt> {
        let Some(mut turn) = self.turn().await? else { return Ok(0) };
        let lines = self.lines(&turn.ids()?).await?;
        let sought = Sought::of(&lines);
        loop {
            let after = ShardName::parse(&turn.after);
            let shards = self.stores.shards_behind(after.as_ref(), self.limits.far_shards).await?;
            if shards.is_empty() {
                break;
            }
            if turn.payments.is_empty() || !self.may_go_on() {
                return Ok(turn.payments.len());
            }
            let asked = sought.iter().filter(|one| turn.payments.contains_key(one.payment()));
            let mut found = Found::default();
            ask_shards(&self.stores, &mut found, &shards, asked).await?;
            mark(&self.stores, &mut found, &settled(&lines)).await?;
            self.requests.set(self.requests.get().saturating_add(found.requests));
            let known: BTreeSet<&str> =
                sought.iter().filter(|one| one.is_in(&found)).map(Sought::payment).collect();
            let of_known =
                of(&lines, |payment| known.contains(payment) && turn.payments.contains_key(payment));
            let mut statements =
                if of_known.is_empty() { Vec::new() } else { self.judged(&of_known, &found)? };
            statements.push(turn.over(|payment| known.contains(payment))?);
            turn.payments.retain(|payment, _| !known.contains(payment.as_str()));
            let after = shards.last().map(ShardName::to_string).unwrap_or_default();
            statements.push(turn.moved(&after)?);
            self.stores.batch(statements).await?;
            turn.after = after;
        }
        // All that are left are in no place.
        let unknown = of(&lines, |payment| turn.payments.contains_key(payment));
        let mut statements = self.judged(&unknown, &Found::default())?;
        statements.push(turn.over(|_| true)?);
        self.stores.batch(statements).await?;
        Ok(0)
    }

    /// Those that have a turn now.
    async fn turn(&self) -> Result<Option<Turn>, Halt> {
        if let Some(turn) = self.begun().await? {
            return Ok(Some(turn));
        }
        let sql = "UPDATE report_searches SET after = '' WHERE payment IN (
                SELECT payment FROM report_searches WHERE after IS NULL ORDER BY is_again, since_ms LIMIT ?1)";
        let begun: usize =
            self.stores.batch(vec![Statement::new(sql, vec![TURN_MAX.into()])]).await?.iter().sum();
        if begun == 0 { Ok(None) } else { self.begun().await }
    }

    async fn begun(&self) -> Result<Option<Turn>, Halt> {
        #[derive(Deserialize)]
        struct Row {
            payment: String,
            after: String,
            since_ms: u64,
        }
        let sql = "SELECT payment, after, since_ms FROM report_searches WHERE after IS NOT NULL ORDER BY after LIMIT ?1";
        let rows: Vec<Row> = self.stores.rows(Statement::new(sql, vec![TURN_MAX.into()])).await?;
        let Some(after) = rows.first().map(|row| row.after.clone()) else { return Ok(None) };
        let of_it = rows.into_iter().filter(|row| row.after == after);
        Ok(Some(Turn { payments: of_it.map(|row| (row.payment, row.since_ms)).collect(), after }))
    }
}

impl Turn {
    fn ids(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.payments.keys().collect::<Vec<_>>())
    }

    /// It has come as far as this shard, if no other run has come further.
    fn moved(&self, after: &str) -> serde_json::Result<Statement> {
        let sql = "UPDATE report_searches SET after = ?2
             WHERE payment IN (SELECT value FROM json_each(?1)) AND after = ?3";
        Ok(Statement::new(sql, vec![self.ids()?.into(), after.into(), self.after.as_str().into()]))
    }

    /// These are looked for no more, but for those of which a report has told something new since.
    fn over(&self, is_meant: impl Fn(&str) -> bool) -> serde_json::Result<Statement> {
        let sql = "DELETE FROM report_searches WHERE payment IN (SELECT value ->> 0 FROM json_each(?1))
            AND json_array(payment, since_ms) IN (SELECT value FROM json_each(?1))";
        let over: Vec<_> = self.payments.iter().filter(|(payment, _)| is_meant(payment)).collect();
        Ok(Statement::new(sql, vec![serde_json::to_string(&over)?.into()]))
    }
}

fn of(lines: &[Booked], is_meant: impl Fn(&str) -> bool) -> Vec<Booked> {
    lines.iter().filter(|line| is_meant(&line.payment)).cloned().collect()
}
