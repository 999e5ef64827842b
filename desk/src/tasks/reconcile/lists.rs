//! Reads Stripe's lists page by page, and compares what stands in them with our records.

use std::collections::{BTreeMap, BTreeSet};

use worker::{Error, Result};

use super::session::{Findings, Reconciliation};
use crate::tasks::changes;
use crate::tasks::compare::{Comparison, compare};
use crate::tasks::cursor::{Cursor, Source};
use crate::tasks::movements::{self, Matched, Movement};
use crate::tasks::provider_ledger::{self, RemoteRecord};

/// How many calls (to the provider and to D1) a run may have made before it stops reading a list: an invocation may make 1000.
const fn calls_max(source: Source) -> u32 {
    match source {
        Source::Events => 300,
        Source::Movements => 500,
        Source::Payments => 650,
    }
}

impl Reconciliation {
    /// Continues reading a list. Returns until when all of it was read, in ms since the epoch, and whether the pass is finished.
    pub(super) async fn read_list(&mut self, source: Source) -> Result<(u64, bool)> {
        let overlap_ms = source.overlap_ms(self.window_ms);
        let mut cursor = match self.cursor(&self.cursor_name(source)).await? {
            Some(cursor) => cursor,
            None => {
                let first = Cursor::first(self.now_ms.saturating_sub(self.window_ms));
                // What is older than the first request need not be in the list.
                let since = Cursor::first(first.through_ms.saturating_sub(overlap_ms));
                self.save_cursor(&self.since_name(source), &since).await?;
                first
            }
        };
        cursor.begin(self.quiet_since_ms);
        loop {
            let answer = self.get(&cursor.request(source, overlap_ms)).await?;
            if answer.status != 200 {
                if cursor.restart(answer.status) {
                    self.save_cursor(&self.cursor_name(source), &cursor).await?;
                }
                let list = source.as_str();
                return Err(Error::RustError(format!("the list of {list} was answered {}", answer.status)));
            }
            let (last, has_more) = self.process_page(source, &answer.body).await?;
            let is_over = cursor.advance(last.as_deref(), has_more);
            // Findings are written before the cursor moves on.
            self.save_cursor(&self.cursor_name(source), &cursor).await?;
            if is_over || self.calls - self.calls_before >= self.share_of(calls_max(source)) {
                return Ok((cursor.through_ms, is_over));
            }
        }
    }

    /// Processes a page. Returns its last entry and whether more follow.
    async fn process_page(&mut self, source: Source, body: &str) -> Result<(Option<String>, bool)> {
        Ok(match source {
            Source::Events => {
                let page = changes::read_page(body).map_err(Error::RustError)?;
                self.compare_changes(&page).await?;
                (page.last, page.has_more)
            }
            Source::Movements => {
                let page = movements::read_page(body).map_err(Error::RustError)?;
                self.compare_movements(&page.movements).await?;
                (page.movements.last().map(|last| last.id.clone()), page.has_more)
            }
            Source::Payments => {
                let page = provider_ledger::read_page(body).map_err(Error::RustError)?;
                self.compare_records(&page.entries).await?;
                (page.entries.last().map(|last| last.id.clone()), page.has_more)
            }
        })
    }

    /// Fetches the payments of a page of events where the event does not match our records.
    async fn compare_changes(&mut self, page: &changes::Page) -> Result<()> {
        let all: Vec<&str> = page.changes.iter().map(|change| change.payment.as_str()).collect();
        let said = || page.changes.iter().filter_map(|change| change.then.as_ref());
        let resources: Vec<&str> = said().filter_map(|then| then.resource.as_deref()).collect();
        let known = self.local_records(&all, &resources).await?;
        let is_same = |then: &&RemoteRecord| compare(then, &known, self.quiet_since_ms) == Comparison::Match;
        let same: Vec<&str> = said().filter(is_same).map(|then| then.id.as_str()).collect();
        let ids: BTreeSet<&str> = page
            .changes
            .iter()
            .filter(|change| !change.then.as_ref().is_some_and(|then| is_same(&then)))
            .map(|change| change.payment.as_str())
            .filter(|id| !self.compared.contains(*id))
            .collect();
        let found = Findings { listed: same, ..Findings::default() };
        self.write(&found).await?;
        self.fetch_and_compare(ids).await?;
        // The latest event of each dispute, which the comparison of payments does not cover.
        let mut newest = BTreeMap::new();
        for change in page.changes.iter().filter(|change| change.dispute.is_some()) {
            newest.entry(change.payment.as_str()).or_insert(change);
        }
        let unknown = |change: &&changes::Change| {
            change.dispute.as_ref()?.unknown(known.by_provider_id(&change.payment)?)
        };
        let breaks = newest.values().filter_map(unknown).collect();
        self.write(&Findings { breaks, ..Findings::default() }).await
    }

    /// Looks for movements in our records, and fetches the payments whose amounts differ.
    async fn compare_movements(&mut self, movements: &[Movement]) -> Result<()> {
        self.movements += movements.len();
        let sums = || movements.iter().filter_map(Movement::sum);
        let payments: Vec<&str> = sums().filter_map(|sum| sum.payment.as_deref()).collect();
        let sources: Vec<&str> = sums().map(|sum| sum.id.as_str()).collect();
        let known = self.local_records(&payments, &[]).await?;
        let refunds = self.local_refunds(&sources).await?;
        let mut looks = BTreeSet::new();
        let mut found = Findings::default();
        for movement in movements {
            match movement.matched(&known, &refunds) {
                Matched::Recorded => {}
                Matched::FetchPayment(payment) => drop(looks.insert(payment)),
                Matched::Unrecorded => found.breaks.push(movement.unknown(&known)),
            }
        }
        let absent = self.fetch_and_compare(looks.iter().map(String::as_str).collect()).await?;
        let is_absent = |movement: &&Movement| matches!(movement.matched(&known, &refunds), Matched::FetchPayment(payment) if absent.contains(&payment));
        found.breaks.extend(movements.iter().filter(is_absent).map(|movement| movement.unknown(&known)));
        let charges =
            movements.iter().filter(|movement| matches!(movement.source, movements::Source::Charge(_)));
        found.moved = charges.filter_map(|movement| movement.sum()?.payment.as_deref()).collect();
        found.refunded = sources;
        self.write(&found).await
    }

    /// Fetches payments and compares them. Returns those that the provider does not have.
    pub(super) async fn fetch_and_compare(&mut self, ids: BTreeSet<&str>) -> Result<BTreeSet<String>> {
        let mut entries = Vec::new();
        let mut absent = BTreeSet::new();
        for id in ids {
            let answer = self.get(&provider_ledger::entry_request(id)).await?;
            match answer.status {
                200 => entries.push(provider_ledger::read_entry(&answer.body).map_err(Error::RustError)?),
                404 => drop(absent.insert(id.to_owned())),
                status => return Err(Error::RustError(format!("a payment was answered {status}"))),
            }
        }
        self.compare_records(&entries).await?;
        Ok(absent)
    }

    /// Compares payments in Stripe's books with ours, and records the result.
    async fn compare_records(&mut self, entries: &[RemoteRecord]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let resources: Vec<&str> = entries.iter().filter_map(|entry| entry.resource.as_deref()).collect();
        let known = self.local_records(&ids, &resources).await?;
        let mut found = Findings { listed: ids, ..Findings::default() };
        for entry in entries {
            match compare(entry, &known, self.quiet_since_ms) {
                Comparison::TooRecent => {
                    found.young.push(&entry.id);
                    continue;
                }
                Comparison::Match => {}
                Comparison::Mismatch(difference) => found.breaks.push(difference),
            }
            found.compared.push(&entry.id);
        }
        self.write(&found).await
    }
}
