//! Reads Stripe's lists in rounds of pages, and compares what stands in them with our records.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use worker::{Error, Result};

use super::known::Known;
use super::places::Sought;
use super::searches::{AGAIN, COMPARE, Due, MOVED};
use super::session::{Findings, Reconciliation};
use crate::tasks::changes::{self, Change};
use crate::tasks::compare::{Break, Comparison, Kind, compare};
use crate::tasks::cursor::{Cursor, Source};
use crate::tasks::movements::{self, Matched, Movement, Sum};
use crate::tasks::page::{PageEnd, UNREAD_MAX, Unread};
use crate::tasks::provider_ledger::{self, RemoteRecord};
use crate::tasks::run_limits::{AT_ONCE, Width, may_go_on, may_read};
use payments::providers::{HttpAnswer, Provider};

/// Of how many movements in one batch it is not said when their payment was made: an object or Stripe is asked for each.
const UNTIMED_MAX: usize = 800;

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
        let mut read = PagesRead::new(source);
        let mut stops = !may_read(self.used);
        while !stops {
            let reads_before = self.used.reads;
            let Round { pages, failed } = self.read_round(source, &mut cursor, width, &mut read).await;
            let is_over = cursor.advance(&pages);
            self.used.ran_ms = runtime::now_ms().saturating_sub(self.now_ms);
            let used = self.used.since(self.used_before);
            stops =
                is_over || failed.is_some() || !may_read(self.used) || !may_go_on(source, self.share, used);
            let is_full = read.len() >= width.batch() || read.untimed() >= UNTIMED_MAX;
            let is_whole = stops || is_full || self.finder.is_d1_alone().await?;
            if is_whole {
                self.compare_read(std::mem::replace(&mut read, PagesRead::new(source))).await?;
                // Findings are written before the cursor moves on.
                self.save_cursor(&self.cursor_name(source), &cursor).await?;
            }
            if let Some(error) = failed {
                return Err(error);
            }
            // Comparing may have taken all that was left; what is read and not compared has its own look before it stops.
            if is_whole {
                let used = self.used.since(self.used_before);
                stops |= !may_read(self.used) || !may_go_on(source, self.share, used);
            }
            width = width.next(self.used.reads - reads_before);
        }
        Ok((cursor.through_ms, cursor.until_ms.is_none()))
    }

    /// Reads the next page of each of the first slices. Slices whose page did not come stay as they are, or begin again.
    async fn read_round(
        &mut self,
        source: Source,
        cursor: &mut Cursor,
        width: Width,
        read: &mut PagesRead,
    ) -> Round {
        let requests: Vec<_> =
            cursor.slices.iter().take(width.slices()).map(|slice| slice.request(source)).collect();
        let mut round = Round::default();
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
        round
    }

    async fn compare_read(&mut self, read: PagesRead) -> Result<()> {
        match read {
            PagesRead::Events(mut changes) => {
                // Several pages of one slice may come after the first ones of older slices.
                changes.sort_by_key(|change| Reverse(change.at_s));
                self.compare_changes(&changes).await
            }
            PagesRead::Movements(movements, unread) => {
                self.compare_movements(&movements).await?;
                self.ask_for_unread(unread, |id| Due::again(id, id, None)).await
            }
            PagesRead::Payments(entries, unread) => {
                self.compare_records(&entries).await?;
                self.ask_for_unread(unread, |id| Due::again(id, AGAIN, None)).await
            }
        }
    }

    /// What a page has and cannot be read is asked for by itself, in a later run.
    async fn ask_for_unread(&mut self, unread: Vec<Unread>, due: impl Fn(&str) -> Due) -> Result<()> {
        for Unread { id, why } in &unread {
            self.note_unanswered(id, why);
        }
        let searched = unread.iter().map(|entry| due(&entry.id)).collect();
        self.write(&Findings { searched, ..Findings::default() }).await
    }

    /// Fetches the payments of events where the newest event of each does not match our records.
    async fn compare_changes(&mut self, changes: &[Change]) -> Result<()> {
        let all: Vec<&str> = changes.iter().map(|change| change.payment.as_str()).collect();
        let known = self.local_records(&sought_of_changes(changes)).await?;
        self.check_disputes(changes, &known).await?;
        let mut newest = BTreeMap::new();
        for change in changes.iter().filter(|change| change.dispute.is_none()) {
            newest.entry(change.payment.as_str()).or_insert(change);
        }
        let is_same = |change: &Change| {
            let then = change.then.as_ref();
            then.is_some_and(|then| compare(then, &known.records, self.quiet_since_ms) == Comparison::Match)
        };
        let same: BTreeSet<&str> =
            newest.into_iter().filter(|(_, change)| is_same(change)).map(|(payment, _)| payment).collect();
        let ids = all.into_iter().filter(|id| !same.contains(id) && !self.compared.contains(*id)).collect();
        let listed = same.into_iter().collect();
        self.write(&Findings { listed, known: Some(&known), ..Findings::default() }).await?;
        let Fetched { unanswered, .. } = self.fetch(ids, None).await?;
        few(&unanswered)?;
        self.ask_again(&unanswered).await
    }

    /// Looks for disputes that we do not know of, or otherwise: the comparison of payments does not cover them. An event may not be the last
    /// one, so the dispute is asked for. If it stands otherwise by now, a newer event tells of that.
    async fn check_disputes(&mut self, changes: &[Change], known: &Known) -> Result<()> {
        let mut newest = BTreeMap::new();
        for change in changes {
            if let Some(dispute) = &change.dispute {
                newest.entry(change.payment.as_str()).or_insert(dispute);
            }
        }
        let searched = newest.iter().filter(|(payment, _)| known.is_left(payment));
        let searched = searched.map(|(payment, dispute)| Due::new(payment, &dispute.id, None)).collect();
        let unknown: Vec<_> = newest
            .into_iter()
            .filter_map(|(payment, dispute)| {
                let ours = known.records.by_provider_id(payment)?;
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
        self.write(&Findings { breaks, searched, ..Findings::default() }).await
    }

    /// Looks for movements in our records, and fetches the payments whose amounts differ.
    async fn compare_movements(&mut self, movements: &[Movement]) -> Result<()> {
        self.movements += movements.len();
        let sums = || movements.iter().filter_map(Movement::sum);
        let sources: Vec<&str> = sums().map(|sum| sum.id.as_str()).collect();
        let mut known = self.local_records(&Sought::merged(sums().filter_map(sought_of_sum))).await?;
        self.local_refunds(&sources, &mut known).await?;
        let mut looks = BTreeSet::new();
        let mut found = Findings::default();
        for movement in movements {
            let left =
                movement.sum().filter(|sum| sum.payment.as_deref().is_some_and(|id| known.is_left(id)));
            match movement.matched(&known.records, &known.refunds) {
                Matched::Recorded => {}
                Matched::FetchPayment(payment) => drop(looks.insert(payment)),
                Matched::Unrecorded if self.is_of_a_shown_dispute(movement, &known.records).await? => {}
                Matched::Unrecorded if left.is_some() => {}
                Matched::Unrecorded => found.breaks.push(movement.unknown(&known.records)),
            }
            found.searched.extend(left.and_then(|sum| due_of(movement, sum)));
        }
        let Fetched { absent, unanswered, .. } =
            self.fetch(looks.iter().map(String::as_str).collect(), None).await?;
        few(&unanswered)?;
        for (asked, why) in &unanswered {
            self.note_unanswered(asked, why);
        }
        for movement in movements {
            match movement.matched(&known.records, &known.refunds) {
                Matched::FetchPayment(payment) if absent.contains(&payment) => {
                    found.breaks.push(movement.unknown(&known.records));
                }
                Matched::FetchPayment(payment) if unanswered.contains_key(&payment) => {
                    let resource = movement.sum().and_then(|sum| sum.resource.as_deref());
                    found.searched.push(Due::again(&payment, &movement.id, resource));
                }
                Matched::FetchPayment(_) | Matched::Recorded | Matched::Unrecorded => {}
            }
        }
        found.moved = movements.iter().filter_map(Movement::charged).collect();
        found.refunded = sources;
        found.known = Some(&known);
        self.write(&found).await
    }

    /// Fetches payments until then, in ms since the epoch, and compares those that came, whatever became of the others.
    pub(super) async fn fetch(&mut self, ids: BTreeSet<&str>, until_ms: Option<u64>) -> Result<Fetched> {
        let mut entries = Vec::new();
        let mut fetched = Fetched::default();
        let ids: Vec<&str> = ids.into_iter().collect();
        for ids in ids.chunks(AT_ONCE) {
            if until_ms.is_some_and(|until_ms| runtime::now_ms() >= until_ms) {
                fetched.left.extend(ids.iter().map(|id| (*id).to_owned()));
                continue;
            }
            let requests: Vec<_> = ids.iter().map(|id| provider_ledger::entry_request(id)).collect();
            for (id, answer) in ids.iter().zip(self.get_all(&requests).await) {
                let entry = answer.and_then(|HttpAnswer { status, body, .. }| match status {
                    200 => provider_ledger::read_entry(&body).map(Some).map_err(Error::RustError),
                    404 => Ok(None),
                    status => Err(Error::RustError(format!("a payment was answered {status}"))),
                });
                match entry {
                    Ok(Some(entry)) => entries.push(entry),
                    Ok(None) => drop(fetched.absent.insert((*id).to_owned())),
                    Err(error) => {
                        fetched.unanswered.insert((*id).to_owned(), error.to_string());
                    }
                }
            }
        }
        self.compare_records(&entries).await?;
        Ok(fetched)
    }

    /// Compares payments in Stripe's books with ours, and records the result.
    pub(super) async fn compare_records(&mut self, entries: &[RemoteRecord]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let sought: Vec<Sought> = entries.iter().map(sought_of).collect();
        let known = self.local_records(&sought).await?;
        let told = self.told_as_unknown(entries, &known).await?;
        let ids = entries.iter().map(|entry| entry.id.as_str()).collect();
        let mut found = Findings { listed: ids, known: Some(&known), ..Findings::default() };
        for entry in entries {
            // What may be in other places is unknown once it was looked for there.
            let is_left = known.is_left(&entry.id) && !told.contains(&entry.id);
            match compare(entry, &known.records, self.quiet_since_ms) {
                Comparison::TooRecent => {
                    found.young.push(&entry.id);
                    continue;
                }
                Comparison::Match if is_left => continue,
                Comparison::Mismatch(_) if is_left => {
                    found.searched.push(Due::new(&entry.id, COMPARE, entry.resource.as_deref()));
                    continue;
                }
                Comparison::Match => {}
                Comparison::Mismatch(difference) => found.breaks.push(difference),
            }
            found.compared.push(&entry.id);
        }
        self.write(&found).await
    }

    /// Those of these that were not found, and of which a break says that they are unknown: it was looked for them in all places.
    async fn told_as_unknown(&mut self, entries: &[RemoteRecord], known: &Known) -> Result<BTreeSet<String>> {
        #[derive(Deserialize)]
        struct Orphan {
            provider_payment: String,
        }
        let left = entries.iter().filter(|entry| known.is_left(&entry.id));
        let ids: Vec<String> =
            left.map(|entry| Break::id_of(Kind::Orphan, Provider::Stripe.as_str(), &entry.id)).collect();
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let sql = "SELECT provider_payment FROM breaks WHERE break_id IN (SELECT value FROM json_each(?1)) AND state IN ('open', 'accepted')";
        let told: Vec<Orphan> = self.rows(sql, vec![serde_json::to_string(&ids)?.into()]).await?;
        Ok(told.into_iter().map(|told| told.provider_payment).collect())
    }
}

/// What became of payments that were fetched. Those that came are compared.
#[derive(Default)]
pub(super) struct Fetched {
    /// The provider does not have these.
    pub(super) absent: BTreeSet<String>,
    /// It gave no usable answer about these; each with why.
    pub(super) unanswered: BTreeMap<String, String>,
    /// There was no time for these.
    pub(super) left: BTreeSet<String>,
}

/// An entry of the list of payments.
pub(super) fn sought_of(entry: &RemoteRecord) -> Sought {
    Sought {
        payment: entry.id.clone(),
        resource: entry.resource.clone(),
        made_at_ms: Some(entry.created_at_ms),
        is_asked: false,
    }
}

/// What a movement is about. Stripe says when its payment was made, or when that was charged, which may be later; or neither.
pub(super) fn sought_of_sum(sum: &Sum) -> Option<Sought> {
    Some(Sought {
        payment: sum.payment.clone()?,
        resource: sum.resource.clone(),
        made_at_ms: sum.charged_at_ms,
        is_asked: true,
    })
}

/// The payment of an event that shows none is asked for anyway, but for one that tells of a dispute.
fn sought_of_changes(changes: &[Change]) -> Vec<Sought> {
    let sought = |change: &Change| Sought {
        is_asked: change.dispute.is_some(),
        payment: change.payment.clone(),
        ..change.then.as_ref().map(sought_of).unwrap_or_default()
    };
    let shown = changes.iter().filter(|change| change.then.is_some() || change.dispute.is_some());
    Sought::merged(shown.map(sought))
}

/// What is done with a movement whose payment is looked for in all places.
pub(super) fn due_of(movement: &Movement, sum: &Sum) -> Option<Due> {
    let due = match movement.source {
        movements::Source::Charge(_) => MOVED,
        movements::Source::Refund(_) | movements::Source::RefundFailure(_) => &sum.id,
        movements::Source::Dispute(_) => &movement.id,
        movements::Source::Unsaid | movements::Source::Other => return None,
    };
    Some(Due::new(sum.payment.as_deref()?, due, sum.resource.as_deref()))
}

/// Of a few payments a list goes on without an answer. Of more something is wrong with all: then it stays where it is, and says so.
fn few(unanswered: &BTreeMap<String, String>) -> Result<()> {
    match unanswered.iter().nth(UNREAD_MAX) {
        None => Ok(()),
        Some((id, why)) => {
            let number = unanswered.len();
            Err(Error::RustError(format!(
                "Stripe gave no usable answer about {number} payments, as of {id}: {why}"
            )))
        }
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
    Movements(Vec<Movement>, Vec<Unread>),
    Payments(Vec<RemoteRecord>, Vec<Unread>),
}

impl PagesRead {
    const fn new(source: Source) -> Self {
        match source {
            Source::Events => Self::Events(Vec::new()),
            Source::Movements => Self::Movements(Vec::new(), Vec::new()),
            Source::Payments => Self::Payments(Vec::new(), Vec::new()),
        }
    }

    const fn len(&self) -> usize {
        match self {
            Self::Events(all) => all.len(),
            Self::Movements(all, _) => all.len(),
            Self::Payments(all, _) => all.len(),
        }
    }

    /// How many are movements of which it is not said when their payment was made.
    fn untimed(&self) -> usize {
        let Self::Movements(all, _) = self else { return 0 };
        let is_untimed = |movement: &&Movement| movement.sum().is_some_and(|sum| sum.charged_at_ms.is_none());
        all.iter().filter(is_untimed).count()
    }

    /// Reads one more page. Returns where it ends.
    fn push(&mut self, body: &str) -> std::result::Result<PageEnd, String> {
        Ok(match self {
            Self::Events(all) => {
                let page = changes::read_page(body)?;
                all.extend(page.changes);
                page.end
            }
            Self::Movements(all, unread) => {
                let page = movements::read_page(body)?;
                all.extend(page.movements);
                unread.extend(page.unread);
                page.end
            }
            Self::Payments(all, unread) => {
                let page = provider_ledger::read_page(body)?;
                all.extend(page.entries);
                unread.extend(page.unread);
                page.end
            }
        })
    }
}
