//! Reads Stripe's lists in rounds of pages, and compares what stands in them with our records.

use std::collections::{BTreeMap, BTreeSet};

use worker::{Date, Error, Result};

use super::session::{Findings, Reconciliation};
use crate::tasks::changes::{self, Change};
use crate::tasks::compare::{Comparison, compare};
use crate::tasks::cursor::{Cursor, SLICES_MAX, Source};
use crate::tasks::movements::{self, Matched, Movement};
use crate::tasks::pace::may_go_on;
use crate::tasks::page::PageEnd;
use crate::tasks::provider_ledger::{self, RemoteRecord};
use payments::providers::HttpAnswer;

impl Reconciliation {
    /// Continues reading a list. Returns until when all of it was read, in ms since the epoch, and whether the pass is finished.
    pub(super) async fn read_list(&mut self, source: Source) -> Result<(u64, bool)> {
        let mut cursor = match self.cursor(&self.cursor_name(source)).await? {
            Some(cursor) => cursor,
            None => {
                let first = Cursor::first(self.now_ms.saturating_sub(self.window_ms));
                // What is older than the first request need not be in the list.
                let since = Cursor::first(first.through_ms.saturating_sub(source.again_ms(self.window_ms)));
                self.save_cursor(&self.since_name(source), &since).await?;
                first
            }
        };
        cursor.begin(self.quiet_since_ms, source.again_ms(self.window_ms));
        loop {
            let bodies = self.read_round(source, &mut cursor).await?;
            let pages = self.process_pages(source, &bodies).await?;
            let is_over = cursor.advance(&pages);
            // Findings are written before the cursor moves on.
            self.save_cursor(&self.cursor_name(source), &cursor).await?;
            self.used.ran_ms = Date::now().as_millis().saturating_sub(self.account_since_ms);
            if is_over || !may_go_on(source, self.share, self.used) {
                return Ok((cursor.through_ms, is_over));
            }
        }
    }

    /// The next page of each slice.
    async fn read_round(&mut self, source: Source, cursor: &mut Cursor) -> Result<Vec<String>> {
        let requests: Vec<_> =
            cursor.slices.iter().take(SLICES_MAX).map(|slice| slice.request(source)).collect();
        let answers = self.get_all(&requests).await;
        let mut bodies = Vec::new();
        for (index, answer) in answers.into_iter().enumerate() {
            let HttpAnswer { status, body, .. } = answer?;
            if status != 200 {
                if cursor.restart(index, status) {
                    self.save_cursor(&self.cursor_name(source), cursor).await?;
                }
                let list = source.as_str();
                return Err(Error::RustError(format!("the list of {list} was answered {status}")));
            }
            bodies.push(body);
        }
        Ok(bodies)
    }

    /// Processes pages of a list. Returns where each ends.
    async fn process_pages(&mut self, source: Source, bodies: &[String]) -> Result<Vec<PageEnd>> {
        let bodies = bodies.iter().map(String::as_str);
        Ok(match source {
            Source::Events => {
                let (changes, ends) = together(
                    bodies.map(|body| changes::read_page(body).map(|page| (page.changes, page.end))),
                )?;
                self.compare_changes(&changes).await?;
                ends
            }
            Source::Movements => {
                let (movements, ends) = together(
                    bodies.map(|body| movements::read_page(body).map(|page| (page.movements, page.end))),
                )?;
                self.compare_movements(&movements).await?;
                ends
            }
            Source::Payments => {
                let (entries, ends) = together(
                    bodies.map(|body| provider_ledger::read_page(body).map(|page| (page.entries, page.end))),
                )?;
                self.compare_records(&entries).await?;
                ends
            }
        })
    }

    /// Fetches the payments of events where the event does not match our records.
    async fn compare_changes(&mut self, changes: &[Change]) -> Result<()> {
        let all: Vec<&str> = changes.iter().map(|change| change.payment.as_str()).collect();
        let said = || changes.iter().filter_map(|change| change.then.as_ref());
        let resources: Vec<&str> = said().filter_map(|then| then.resource.as_deref()).collect();
        let known = self.local_records(&all, &resources).await?;
        let is_same = |then: &&RemoteRecord| compare(then, &known, self.quiet_since_ms) == Comparison::Match;
        let same: Vec<&str> = said().filter(is_same).map(|then| then.id.as_str()).collect();
        let ids: BTreeSet<&str> = changes
            .iter()
            .filter(|change| !change.then.as_ref().is_some_and(|then| is_same(&then)))
            .map(|change| change.payment.as_str())
            .filter(|id| !self.compared.contains(*id))
            .collect();
        let found = Findings { listed: same, ..Findings::default() };
        self.write(&found).await?;
        self.fetch_and_compare(ids).await?;
        // The comparison of payments does not cover disputes. An event may not be the last one: where it does not match the dispute is
        // asked for.
        let mut differing = BTreeMap::new();
        for change in changes {
            if let (Some(then), Some(ours)) = (&change.dispute, known.by_provider_id(&change.payment))
                && then.unknown(ours).is_some()
            {
                differing.insert(then.id.as_str(), (then, ours));
            }
        }
        let requests: Vec<_> = differing.keys().map(|id| changes::dispute_request(id)).collect();
        let mut breaks = Vec::new();
        for (answer, (then, ours)) in self.get_all(&requests).await.into_iter().zip(differing.values()) {
            let HttpAnswer { status, body, .. } = answer?;
            let now = match status {
                200 => changes::read_dispute(&body).map_err(Error::RustError)?,
                404 => (*then).clone(),
                status => return Err(Error::RustError(format!("a dispute was answered {status}"))),
            };
            breaks.extend(now.unknown(ours));
        }
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
        let requests: Vec<_> = ids.iter().map(|id| provider_ledger::entry_request(id)).collect();
        for (id, answer) in ids.iter().zip(self.get_all(&requests).await) {
            let HttpAnswer { status, body, .. } = answer?;
            match status {
                200 => entries.push(provider_ledger::read_entry(&body).map_err(Error::RustError)?),
                404 => drop(absent.insert((*id).to_owned())),
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

/// What several pages carry, in one, and where each of them ends.
fn together<T>(
    pages: impl Iterator<Item = std::result::Result<(Vec<T>, PageEnd), String>>,
) -> Result<(Vec<T>, Vec<PageEnd>)> {
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for page in pages {
        let (entries, end) = page.map_err(Error::RustError)?;
        all.extend(entries);
        ends.push(end);
    }
    Ok((all, ends))
}
