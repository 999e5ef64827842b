//! Reads Stripe's lists in rounds of pages, and compares what stands in them with our records.

use std::collections::{BTreeMap, BTreeSet};

use worker::{Date, Error, Result};

use super::session::{Findings, Reconciliation};
use crate::tasks::changes::{self, Change};
use crate::tasks::compare::{Comparison, LocalRecords, compare};
use crate::tasks::cursor::{Cursor, Source};
use crate::tasks::movements::{self, Matched, Movement};
use crate::tasks::pace::{AT_ONCE, Width, may_go_on, may_read};
use crate::tasks::page::PageEnd;
use crate::tasks::provider_ledger::{self, RemoteRecord};
use payments::providers::HttpAnswer;

impl Reconciliation {
    /// Continues reading a list. Returns until when all of it was read, in ms since the epoch, and whether the pass is finished.
    pub(super) async fn read_list(&mut self, source: Source) -> Result<(u64, bool)> {
        let mut cursor = match self.cursor(&self.cursor_name(source)).await? {
            Some(cursor) => cursor,
            None => {
                let left_at_ms = self.left_at(source).await?;
                let first = Cursor::first(left_at_ms.unwrap_or(self.now_ms.saturating_sub(self.window_ms)));
                // What is older than the first request need not be in the list.
                let since = Cursor::first(first.through_ms.saturating_sub(source.again_ms(self.window_ms)));
                self.save_cursor(&self.since_name(source), &since).await?;
                first
            }
        };
        cursor.begin(self.quiet_since_ms, source.again_ms(self.window_ms));
        let mut width = Width::first(self.share);
        while may_read(self.used) {
            let reads_before = self.used.reads;
            let Round { pages, failed } = self.read_round(source, &mut cursor, width).await?;
            let is_over = cursor.advance(&pages);
            // Findings are written before the cursor moves on.
            self.save_cursor(&self.cursor_name(source), &cursor).await?;
            if let Some(error) = failed {
                return Err(error);
            }
            self.used.ran_ms = Date::now().as_millis().saturating_sub(self.now_ms);
            if is_over || !may_go_on(source, self.share, self.used.since(self.used_before)) {
                break;
            }
            width = width.next(self.used.reads - reads_before);
        }
        Ok((cursor.through_ms, cursor.until_ms.is_none()))
    }

    /// Reads and processes the next page of each of the first slices. Slices whose page did not come stay as they are, or begin again.
    async fn read_round(&mut self, source: Source, cursor: &mut Cursor, width: Width) -> Result<Round> {
        let requests: Vec<_> =
            cursor.slices.iter().take(width.slices()).map(|slice| slice.request(source)).collect();
        let mut round = Round::default();
        let mut read = PagesRead::new(source);
        for requests in requests.chunks(AT_ONCE) {
            for answer in self.get_all(requests).await {
                let end = answer.and_then(|HttpAnswer { status, body, .. }| match status {
                    200 => read.push(&body).map_err(Error::RustError),
                    _ => {
                        cursor.restart(round.pages.len(), status);
                        let list = source.as_str();
                        Err(Error::RustError(format!("the list of {list} was answered {status}")))
                    }
                });
                round.pages.push(match end {
                    Ok(end) => Some(end),
                    Err(error) => {
                        round.failed.get_or_insert(error);
                        None
                    }
                });
            }
        }
        match read {
            PagesRead::Events(changes) => self.compare_changes(&changes).await?,
            PagesRead::Movements(movements) => self.compare_movements(&movements).await?,
            PagesRead::Payments(entries) => self.compare_records(&entries).await?,
        }
        Ok(round)
    }

    /// Fetches the payments of events where the newest event of each does not match our records.
    async fn compare_changes(&mut self, changes: &[Change]) -> Result<()> {
        let all: Vec<&str> = changes.iter().map(|change| change.payment.as_str()).collect();
        let resources: Vec<&str> =
            changes.iter().filter_map(|change| change.then.as_ref()?.resource.as_deref()).collect();
        let known = self.local_records(&all, &resources).await?;
        self.check_disputes(changes, &known).await?;
        let mut newest = BTreeMap::new();
        for change in changes.iter().filter(|change| change.dispute.is_none()) {
            newest.entry(change.payment.as_str()).or_insert(change);
        }
        let is_same = |change: &Change| {
            let then = change.then.as_ref();
            then.is_some_and(|then| compare(then, &known, self.quiet_since_ms) == Comparison::Match)
        };
        let same: BTreeSet<&str> =
            newest.into_iter().filter(|(_, change)| is_same(change)).map(|(payment, _)| payment).collect();
        let ids = all.into_iter().filter(|id| !same.contains(id) && !self.compared.contains(*id)).collect();
        self.write(&Findings { listed: same.into_iter().collect(), ..Findings::default() }).await?;
        self.fetch_and_compare(ids).await.map(drop)
    }

    /// Looks for disputes that we do not know of, or otherwise: the comparison of payments does not cover them. An event may not be the last
    /// one, so the dispute is asked for. If it stands otherwise by now, a newer event tells of that.
    async fn check_disputes(&mut self, changes: &[Change], known: &LocalRecords) -> Result<()> {
        let mut newest = BTreeMap::new();
        for change in changes {
            if let Some(dispute) = &change.dispute {
                newest.entry(change.payment.as_str()).or_insert(dispute);
            }
        }
        let unknown: Vec<_> = newest
            .into_iter()
            .filter_map(|(payment, dispute)| {
                let ours = known.by_provider_id(payment)?;
                Some((dispute, ours, dispute.unknown(ours)?))
            })
            .collect();
        let requests: Vec<_> =
            unknown.iter().map(|(dispute, ..)| changes::dispute_request(&dispute.id)).collect();
        let answers = self.get_all(&requests).await;
        let mut breaks = Vec::new();
        for (answer, (dispute, ours, found)) in answers.into_iter().zip(unknown) {
            // Without an answer the event is believed.
            let now = answer.ok().filter(|answer| answer.status == 200);
            let now = now.and_then(|answer| changes::read_dispute(&answer.body).ok());
            let is_so = now.is_none_or(|now| now == *dispute);
            if is_so && !self.is_shown_with_others(&dispute.id, ours).await.unwrap_or(false) {
                breaks.push(found);
            }
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
                Matched::Unrecorded if self.is_of_a_shown_dispute(movement, &known).await? => {}
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

    /// Fetches payments and compares them. Returns those that the provider does not have. Those that came are compared also where others did
    /// not.
    pub(super) async fn fetch_and_compare(&mut self, ids: BTreeSet<&str>) -> Result<BTreeSet<String>> {
        let mut entries = Vec::new();
        let mut absent = BTreeSet::new();
        let mut failed = None;
        let requests: Vec<_> = ids.iter().map(|id| provider_ledger::entry_request(id)).collect();
        for (id, answer) in ids.iter().zip(self.get_all(&requests).await) {
            let entry = answer.and_then(|HttpAnswer { status, body, .. }| match status {
                200 => provider_ledger::read_entry(&body).map(Some).map_err(Error::RustError),
                404 => Ok(None),
                status => Err(Error::RustError(format!("a payment was answered {status}"))),
            });
            match entry {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => drop(absent.insert((*id).to_owned())),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        self.compare_records(&entries).await?;
        failed.map_or(Ok(absent), Err)
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

/// What came of a round.
#[derive(Default)]
struct Round {
    /// Where the page of each slice ends, if it came.
    pages: Vec<Option<PageEnd>>,
    /// Why the first one that is missing did not.
    failed: Option<Error>,
}

/// What the pages of a round carry, in their order.
enum PagesRead {
    Events(Vec<Change>),
    Movements(Vec<Movement>),
    Payments(Vec<RemoteRecord>),
}

impl PagesRead {
    const fn new(source: Source) -> Self {
        match source {
            Source::Events => Self::Events(Vec::new()),
            Source::Movements => Self::Movements(Vec::new()),
            Source::Payments => Self::Payments(Vec::new()),
        }
    }

    /// Reads one more page. Returns where it ends.
    fn push(&mut self, body: &str) -> std::result::Result<PageEnd, String> {
        Ok(match self {
            Self::Events(all) => {
                let page = changes::read_page(body)?;
                all.extend(page.changes);
                page.end
            }
            Self::Movements(all) => {
                let page = movements::read_page(body)?;
                all.extend(page.movements);
                page.end
            }
            Self::Payments(all) => {
                let page = provider_ledger::read_page(body)?;
                all.extend(page.entries);
                page.end
            }
        })
    }
}
