//! A day of a large shop, of 100 payments a second, and of one of 25 in 40 shards: they are compared with Stripe's lists by the real cursor, the real pace of a run, the real
//! reader of pages and the real comparison. Only the clock, the lists, D1 and the shards are models, of the documented limits.
//!
//! `cargo test` plays two hours; `npm run scale` plays a day, with `RECONCILE_HOURS=24`, and prints what it found.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test: a panic is its verdict"
)]

use std::collections::BTreeSet;

use paid_once_desk::tasks::compare::{Comparison, LocalRecord, LocalRecords, compare};
use paid_once_desk::tasks::cursor::{Cursor, SLICES_MAX, Slice, Source};
use paid_once_desk::tasks::page::{PAGE_SIZE, PageEnd};
use paid_once_desk::tasks::provider_ledger;
use paid_once_desk::tasks::run_limits::{REQUEST_MS, Used, Width, may_go_on, may_read};

/// A shop, and where its payments stand.
#[derive(Clone, Copy)]
struct Shop {
    per_second: u64,
    /// Over how many shards of a day they are spread; 0: they are in D1.
    shards: u32,
}

/// A little more than a page, so that pages end within seconds.
const IN_D1: Shop = Shop { per_second: 101, shards: 0 };
/// One of 400 in 480 shards a day.
const IN_SHARDS: Shop = Shop { per_second: 25, shards: 40 };
/// The shop opens at this time, in seconds since the epoch.
const OPENS_S: u64 = 1_800_000_000;
const RUN_EVERY_MS: u64 = 300_000;
const QUIET_MS: u64 = 120_000;
const WINDOW_MS: u64 = 10_800_000;
/// How late a payment may be compared, in ms.
const WITHIN_MS: u64 = 3_600_000;
/// How long Stripe takes for a page, and D1 for a query, in ms; and the Worker's own time for a page.
const PAGE_MS: u64 = 400;
const QUERY_MS: u64 = 25;
const WORK_MS: u64 = 6;
/// Statements of D1 for a round, or for a batch where payments are in shards.
const QUERIES: u32 = 7;
const BATCH_QUERIES: u32 = 12;
/// How long a shard takes, in ms, of which a Worker asks six at once.
const SHARD_MS: u64 = 60;
/// One in so many payments differs.
const DIFFERS_EVERY: u64 = 99_991;
/// Of one in so many payments an event shows a state that has passed, and the payment is asked for each time that it is read.
const ASKED_EVERY: u64 = 50;
/// One in so many runs is broken off in the middle of a list, after its findings and before its cursor was written.
const BREAKS_OFF_EVERY: u64 = 7;

/// How many entries of a list a payment makes: Stripe tells of each payment by two events.
const fn entries_of(source: Source) -> u64 {
    match source {
        Source::Events => 2,
        Source::Movements | Source::Payments => 1,
    }
}

/// One of Stripe's lists: entries at an even pace, numbered from the first.
struct List {
    per_second: u64,
}

impl List {
    /// The number of entries until the end of a second.
    const fn until(&self, second: u64) -> u64 {
        second.saturating_sub(OPENS_S).saturating_mul(self.per_second)
    }

    /// The numbers on the next page of a slice, the newest first, and where it ends.
    fn page(&self, slice: &Slice, now_ms: u64) -> (Vec<u64>, PageEnd) {
        let first = self.until(slice.from_s);
        let end = self.until(slice.until_s + 1).min(self.until(now_ms / 1000));
        let end = slice.after.as_ref().map_or(end, |after| after.parse::<u64>().unwrap().min(end));
        let from = end.saturating_sub(u64::from(PAGE_SIZE)).max(first);
        let numbers: Vec<u64> = (from..end).rev().collect();
        let last = numbers.last().copied();
        let page = PageEnd {
            last: last.map(|number| number.to_string()),
            created_s: last.map(|number| OPENS_S + number / self.per_second),
            has_more: from > first,
        };
        (numbers, page)
    }
}

/// What a shop of so many hours has come to.
struct Played {
    payments: u64,
    differing: usize,
    /// Of those, how many were found.
    found: usize,
    /// The longest time between a payment and its comparison, in ms, by list.
    latest_ms: Vec<(Source, u64)>,
    /// Payments that a list has not compared within the time, at the end of the play.
    missed: u64,
    pages: u64,
    runs: u64,
    broken_off: u64,
    /// The most that a run has used.
    used: Used,
}

/// Plays the hours, with so many pages in a round.
fn play(shop: Shop, hours: u64, pages_per_round: usize) -> Played {
    let per_second = shop.per_second;
    let end_ms = (OPENS_S + hours * 3600) * 1000;
    let mut played = Played {
        payments: hours * 3600 * per_second,
        differing: 0,
        found: 0,
        latest_ms: Source::ALL.into_iter().map(|source| (source, 0)).collect(),
        missed: 0,
        pages: 0,
        runs: 0,
        broken_off: 0,
        used: Used::default(),
    };
    let payments = usize::try_from(played.payments).unwrap();
    let mut compared = Source::ALL.map(|_| vec![false; payments]);
    let mut cursors = Source::ALL.map(|_| Cursor::first((OPENS_S - 60) * 1000));
    let mut breaks = BTreeSet::new();
    let mut now_ms = OPENS_S * 1000;
    while now_ms < end_ms {
        let began_ms = now_ms;
        let mut used = Used::default();
        played.runs += 1;
        let breaks_off = played.runs.is_multiple_of(BREAKS_OFF_EVERY);
        // Each such run breaks off in another list.
        let last = usize::try_from(played.runs / BREAKS_OFF_EVERY).unwrap() % Source::ALL.len();
        'run: for (index, source) in Source::ALL.into_iter().enumerate() {
            let list = List { per_second: per_second * entries_of(source) };
            let mut cursor = cursors[index].clone();
            cursor.begin(began_ms.saturating_sub(QUIET_MS), source.again_ms(WINDOW_MS));
            let mut width = Width::first(1);
            let mut read = Vec::new();
            let mut stops = !may_read(used);
            for round in 0_u64.. {
                if stops {
                    break;
                }
                let count = cursor.slices.len().min(width.slices()).min(pages_per_round);
                let pages: Vec<_> =
                    cursor.slices[..count].iter().map(|slice| list.page(slice, now_ms)).collect();
                played.pages += u64::try_from(pages.len()).unwrap();
                let mut reads = u32::try_from(pages.len()).unwrap();
                used.reads += reads;
                let ends: Vec<Option<PageEnd>> = pages.iter().map(|(_, end)| Some(end.clone())).collect();
                read.extend(pages);
                let is_over = cursor.advance(&ends);
                stops = is_over || !may_read(used) || !may_go_on(source, 1, used);
                let mut own_ms = PAGE_MS;
                let entries =
                    read.iter().map(|(numbers, _): &(Vec<u64>, PageEnd)| numbers.len()).sum::<usize>();
                let is_compared = stops || shop.shards == 0 || entries >= width.batch();
                if is_compared {
                    let mut is_new = false;
                    for number in read.iter().flat_map(|(numbers, _)| numbers) {
                        let payment = number / entries_of(source);
                        let at = usize::try_from(payment).ok();
                        let Some(seen) = at.and_then(|at| compared[index].get_mut(at)) else { continue };
                        if !std::mem::replace(seen, true) {
                            is_new = true;
                            let late_ms = now_ms - (OPENS_S + payment / per_second) * 1000;
                            played.latest_ms[index].1 = played.latest_ms[index].1.max(late_ms);
                        }
                    }
                    let asked =
                        read.iter().flat_map(|(numbers, _)| numbers).filter(|number| is_asked(**number));
                    if source == Source::Events {
                        let asked = u32::try_from(asked.count()).unwrap();
                        (reads, used.reads) = (reads + asked, used.reads + asked);
                    } else if source == Source::Payments {
                        let found = read.iter();
                        breaks.extend(
                            found.flat_map(|(numbers, end)| differences(shop, numbers, end, began_ms)),
                        );
                    }
                    // Each shard is asked once, and once more for the marks of what is new.
                    let places = shop.shards * if is_new { 2 } else { 1 };
                    let queries = if shop.shards == 0 { QUERIES } else { BATCH_QUERIES };
                    used.places += places;
                    used.queries += queries;
                    own_ms += u64::from(queries) * QUERY_MS + u64::from(places) * SHARD_MS / 6;
                    read.clear();
                }
                own_ms += WORK_MS * u64::from(reads);
                now_ms += own_ms.max(u64::from(reads) * REQUEST_MS);
                used.ran_ms = now_ms - began_ms;
                if breaks_off && index == last && round == 3 {
                    played.broken_off += 1;
                    break 'run;
                }
                if is_compared {
                    cursors[index] = cursor.clone();
                    stops |= !may_read(used) || !may_go_on(source, 1, used);
                }
                width = width.next(reads);
            }
        }
        played.used.queries = played.used.queries.max(used.queries);
        played.used.reads = played.used.reads.max(used.reads);
        played.used.places = played.used.places.max(used.places);
        played.used.ran_ms = played.used.ran_ms.max(used.ran_ms);
        now_ms = now_ms.max(began_ms + RUN_EVERY_MS);
    }
    let due = usize::try_from((end_ms - WITHIN_MS) / 1000 - OPENS_S).unwrap()
        * usize::try_from(per_second).unwrap();
    played.missed = compared
        .iter()
        .map(|seen| u64::try_from(seen[..due].iter().filter(|seen| !**seen).count()).unwrap())
        .sum();
    let differing = (0..u64::try_from(due).unwrap()).filter(|payment| differs(*payment));
    for payment in differing {
        played.differing += 1;
        played.found += usize::from(breaks.contains(&payment));
    }
    played
}

/// Whether the payment of an event must be asked for: of each payment the first event is read after the second.
const fn is_asked(number: u64) -> bool {
    number % (2 * ASKED_EVERY) == 6
}

const fn differs(payment: u64) -> bool {
    payment % DIFFERS_EVERY == 7
}

/// The payments of a page that differ, by the real reader and the real comparison.
fn differences(shop: Shop, numbers: &[u64], end: &PageEnd, now_ms: u64) -> Vec<u64> {
    let rows: Vec<String> = numbers
        .iter()
        .map(|number| {
            format!(
                r#"{{"id":"{number}","object":"payment_intent","status":"succeeded","amount":2500,"amount_received":2500,"currency":"usd","created":{},"metadata":{{"resource":"pay_{number}"}},"latest_charge":{{"id":"ch_{number}","amount_refunded":0}}}}"#,
                OPENS_S + number / shop.per_second
            )
        })
        .collect();
    let body = format!(r#"{{"object":"list","data":[{}],"has_more":{}}}"#, rows.join(","), end.has_more);
    let page = provider_ledger::read_page(&body).unwrap();
    assert_eq!(page.end, *end);
    let local = |number: &u64| LocalRecord {
        resource: format!("pay_{number}"),
        object: String::new(),
        provider: "stripe".to_owned(),
        status: "succeeded".to_owned(),
        amount_minor: 2500,
        captured_minor: if differs(*number) { 2400 } else { 2500 },
        refunded_minor: 0,
        refunding_minor: 0,
        own_captures: 1,
        currency: "usd".to_owned(),
        provider_payment: Some(number.to_string()),
        merchant_account: None,
        dispute: None,
        disputes: None,
        dispute_status: None,
        dispute_minor: None,
        dispute_withdrawn: None,
        created_at_ms: (OPENS_S + number / shop.per_second) * 1000,
        updated_at_ms: (OPENS_S + number / shop.per_second) * 1000,
    };
    let known = LocalRecords::new(numbers.iter().map(local).collect());
    page.entries
        .iter()
        .filter(|entry| matches!(compare(entry, &known, now_ms - QUIET_MS), Comparison::Mismatch(_)))
        .map(|entry| entry.id.parse().unwrap())
        .collect()
}

fn hours() -> u64 {
    std::env::var("RECONCILE_HOURS").map_or(2, |hours| hours.parse().unwrap())
}

/// Prints what came of it. All of it must have been compared in time, within the limits of an invocation.
fn judge(hours: u64, played: &Played) {
    let Played { payments, pages, runs, broken_off, used, .. } = *played;
    println!(
        "{payments} payments in {hours} hours; {pages} pages in {runs} runs, of which {broken_off} were broken off"
    );
    for (source, latest_ms) in &played.latest_ms {
        println!("{}: compared at the latest after {} s", source.as_str(), latest_ms / 1000);
    }
    println!(
        "a run has used at most {} of 1,000 queries, {} requests to the provider and {} to shards of 10,000, {} of 300 s",
        used.queries,
        used.reads,
        used.places,
        used.ran_ms / 1000
    );
    println!("differences: {} of {} found", played.found, played.differing);
    assert_eq!(played.missed, 0);
    assert!(played.latest_ms.iter().all(|(_, latest_ms)| *latest_ms <= WITHIN_MS));
    assert!(played.differing > 0 && broken_off > 0);
    assert_eq!(played.found, played.differing);
    assert!(used.queries < 1_000 && used.ran_ms < RUN_EVERY_MS);
    assert!(used.queries + used.reads + used.places < 10_000);
}

#[test]
fn a_hundred_payments_a_second_are_compared_within_an_hour() {
    judge(hours(), &play(IN_D1, hours(), SLICES_MAX));
}

#[test]
fn a_shop_in_forty_shards_of_a_day_asks_each_of_them_once_a_batch() {
    let played = play(IN_SHARDS, hours(), SLICES_MAX);
    judge(hours(), &played);
    assert!(played.used.places <= 3_000 + 2 * IN_SHARDS.shards, "{} requests", played.used.places);
}

#[test]
fn control_page_by_page_it_falls_behind() {
    assert!(play(IN_D1, 3, 1).missed > 0);
}
