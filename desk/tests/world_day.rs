//! A day of ten thousand payments a second in many shops: each payment goes where the real code of routing says, to its queue, its shard and its
//! reader of the registry, and each place of the read model and each shop has its runs when the real schedule says. Only the clock, the payments and
//! how long things take are models.
//!
//! `cargo test` plays a small world; `npm run scale` a large one, of which `WORLD` has the numbers, and compares what this prints with the limits.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a test: a panic is its verdict"
)]

use std::collections::{BTreeMap, HashMap};

use messages::placement::{Layout, Period, home};
use messages::queue::{Queue, Queues};
use paid_once_desk::tasks::schedule::{Ended, INTERVAL_MS, Wake, next_run_ms};
use runtime::row_cache::number_of;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The day begins, in ms since the epoch.
const DAY_BEGINS_MS: u64 = 1_800_000_000_000 - 1_800_000_000_000 % DAY_MS;
const DAY_MS: u64 = 86_400_000;
const MINUTE_MS: u64 = 60_000;
/// How long after its last payment a shard is looked at more rarely: `QUIET_AFTER_MS` in desk/src/tasks/sweep.rs.
const QUIET_AFTER_MS: u64 = 3_600_000;
/// Names of a payment in the registry: its token, and its account's own keys.
const NAMES: [&str; 2] = ["token", "keys"];

/// What is deployed and what goes on there.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct World {
    per_second: u64,
    shops: u64,
    queues: usize,
    shards: u32,
    by: Period,
    spread: u32,
    hot_days: u64,
    /// Isolates that payments are spread over.
    isolates: u64,
    /// Objects that read the registry; 0: each isolate does.
    readers: u32,
    /// For how long an isolate and an object go by what they have read, in ms: `ACCOUNTS_CACHE_MS`.
    registry_ms: u64,
    /// For how long an isolate goes by the layouts that it has read, in ms: `SHARDS_CACHE_MS`.
    layouts_ms: u64,
    /// Of each hour so many seconds are played payment by payment.
    seconds_an_hour: u64,
    /// Statements of D1 that a run of a place makes, and one of a shop.
    place_statements: u64,
    shop_statements: u64,
    /// Places that the cron begins in one run.
    begun_at_once: usize,
}

impl World {
    fn layout(&self) -> Layout {
        let spread = BTreeMap::from([("all".to_owned(), self.spread)]);
        let (slots, period) = (self.shards, self.by);
        let from_ms = DAY_BEGINS_MS - 400 * DAY_MS;
        Layout { layout_id: 1, from_ms, slots, period, spread, moved_since_ms: None, moved_at_ms: None }
    }
}

/// Numbers that seem random, the same each time (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    fn object(&mut self) -> String {
        (0..4).map(|_| format!("{:016x}", self.next())).collect()
    }
}

/// The most that one of many had to do in a second, and what all of them did.
#[derive(Default)]
struct Peak<K: std::hash::Hash + Eq + Clone> {
    second: HashMap<K, u64>,
    most: u64,
    each: HashMap<K, u64>,
}

impl<K: std::hash::Hash + Eq + Clone> Peak<K> {
    fn add(&mut self, of: K) {
        *self.second.entry(of).or_default() += 1;
    }

    fn end_second(&mut self) {
        for (of, number) in self.second.drain() {
            self.most = self.most.max(number);
            *self.each.entry(of).or_default() += number;
        }
    }

    fn all(&self) -> u64 {
        self.each.values().sum()
    }
}

/// What the day has shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    payments: u64,
    /// In the busiest second.
    queue_messages: u64,
    shard_writes: u64,
    registry_requests: u64,
    /// Of all payments of a period, those in its fullest shard.
    fullest: f64,
    /// Places that have rows.
    places: u64,
    /// Statements of D1 in a second of the busiest minute: of places' and shops' runs, and all.
    run_statements: f64,
    d1_statements: f64,
    /// Runs of places and shops.
    runs: u64,
    /// Until all places of a new period have had a run, in minutes.
    begun_after_min: f64,
}

/// What payments ask for. The seconds of each hour follow one another; in those in which what is known is new nothing is counted.
struct Paid {
    payments: u64,
    queues: Peak<String>,
    shards: Peak<String>,
    readers: Peak<u32>,
    /// Reads of D1 for the registry, and for layouts.
    reads: Peak<&'static str>,
}

fn pay(world: &World) -> Paid {
    let layouts = [world.layout()];
    let queues = Queues { jobs: world.queues, has_emails: true, has_deliveries: true };
    let mut numbers = Numbers(7);
    let warm_up_s = world.registry_ms / 1_000;
    let mut paid = Paid {
        payments: 0,
        queues: Peak::default(),
        shards: Peak::default(),
        readers: Peak::default(),
        reads: Peak::default(),
    };
    for hour in 0..24 {
        let begins_ms = DAY_BEGINS_MS + hour * 3_600_000;
        // Until when an isolate knows a name, an object one, and an isolate the layouts.
        let (mut known, mut read) = (HashMap::new(), HashMap::new());
        let first_ms = (0..world.isolates).map(|_| begins_ms + numbers.below(world.layouts_ms));
        let mut layouts_known: Vec<u64> = first_ms.collect();
        for second in 0..warm_up_s + world.seconds_an_hour {
            let is_counted = second >= warm_up_s;
            for number in 0..world.per_second {
                // Each shop is paid at an even pace.
                let shop = number % world.shops;
                let at_ms = begins_ms + second * 1_000 + number * 1_000 / world.per_second;
                let isolate = numbers.below(world.isolates);
                for what in NAMES {
                    let until_ms = known.entry((isolate, shop, what)).or_insert(0);
                    if *until_ms > at_ms {
                        continue;
                    }
                    if world.readers == 0 {
                        *until_ms = at_ms + world.registry_ms;
                        if is_counted {
                            paid.reads.add("registry");
                        }
                        continue;
                    }
                    let reader = number_of(&format!("{what} of shop-{shop}"), world.readers);
                    let (read_at_ms, is_read) = match read.get(&(shop, what)) {
                        Some(read_at_ms) if at_ms - read_at_ms < world.registry_ms / 2 => {
                            (*read_at_ms, false)
                        }
                        _ => (at_ms, true),
                    };
                    read.insert((shop, what), read_at_ms);
                    *until_ms = read_at_ms + world.registry_ms;
                    if is_counted {
                        paid.readers.add(reader);
                        if is_read {
                            paid.reads.add("registry");
                        }
                    }
                }
                let isolate = usize::try_from(isolate).unwrap();
                if layouts_known[isolate] <= at_ms {
                    layouts_known[isolate] = at_ms + world.layouts_ms;
                    if is_counted {
                        paid.reads.add("layouts");
                    }
                }
                if !is_counted {
                    continue;
                }
                let object = numbers.object();
                paid.payments += 1;
                paid.queues.add(queues.binding(Queue::Jobs, &object));
                let owner = format!("account:shop-{shop}");
                let shard = home(&layouts, &owner, at_ms, &object, at_ms).shard.unwrap();
                paid.shards.add(shard.to_string());
            }
            paid.queues.end_second();
            paid.shards.end_second();
            paid.readers.end_second();
            paid.reads.end_second();
        }
    }
    paid
}

/// Something that has runs of its own.
struct Runner {
    next_ms: u64,
    /// When it is looked at more rarely, in ms since the epoch.
    quiet_from_ms: u64,
    statements: u64,
}

/// How many statements of D1 runs send in each minute, and how many runs there are.
struct Runs {
    statements: Vec<u64>,
    number: u64,
    begun_after_ms: u64,
    places: u64,
}

/// How many days are played before the one that counts, so that what begins together has gone apart, or has not.
const DAYS_BEFORE: u64 = 3;

/// `apart`: pauses are of different lengths, as they really are.
fn run(world: &World, apart: bool) -> Runs {
    let mut numbers = Numbers(11);
    let begins_ms = DAY_BEGINS_MS - DAYS_BEFORE * DAY_MS;
    let ends_ms = DAY_BEGINS_MS + DAY_MS;
    let period_ms = match world.by {
        Period::Hour => 3_600_000,
        Period::Day => DAY_MS,
        Period::Month => 30 * DAY_MS,
    };
    let periods = (world.hot_days * DAY_MS).div_ceil(period_ms);
    let slots = u64::from(world.shards);
    // What the cron tells an object that has no alarm: those of one run of it begin one after the other.
    let told = |at_ms: u64, number: usize, of: usize| {
        let step_ms = INTERVAL_MS / u64::try_from(of).unwrap().max(1_000);
        let after_ms = step_ms * u64::try_from(number).unwrap();
        Wake { task: String::new(), after_ms, is_now: false }.alarm_to_set(at_ms, None).unwrap()
    };
    let mut runners = Vec::new();
    let shops = usize::try_from(world.shops).unwrap();
    for shop in 0..shops {
        let next_ms = told(begins_ms, shop, shops);
        runners.push(Runner { next_ms, quiet_from_ms: u64::MAX, statements: world.shop_statements });
    }
    let mut runs = Runs {
        statements: vec![0; usize::try_from(DAY_MS / MINUTE_MS).unwrap()],
        number: 0,
        begun_after_ms: 0,
        places: 1 + slots * periods,
    };
    let in_a_run = world.begun_at_once.min(usize::try_from(slots).unwrap()).max(1);
    let first = begins_ms.saturating_sub(periods * period_ms);
    let mut period_begins_ms = first - first % period_ms;
    while period_begins_ms < ends_ms {
        for slot in 0..usize::try_from(slots).unwrap() {
            // The cron finds them in its next run, a page of them in each.
            let (page, number) = (slot / in_a_run, slot % in_a_run);
            let at_ms = period_begins_ms + INTERVAL_MS * u64::try_from(page + 1).unwrap();
            let next_ms = told(at_ms, number, in_a_run);
            if period_begins_ms >= DAY_BEGINS_MS {
                runs.begun_after_ms = runs.begun_after_ms.max(next_ms - period_begins_ms);
            }
            let quiet_from_ms = period_begins_ms + period_ms + QUIET_AFTER_MS;
            runners.push(Runner { next_ms, quiet_from_ms, statements: world.place_statements });
        }
        period_begins_ms += period_ms;
    }
    for runner in &mut runners {
        while runner.next_ms < ends_ms {
            let at_ms = runner.next_ms;
            if let Some(since_ms) = at_ms.checked_sub(DAY_BEGINS_MS) {
                runs.statements[usize::try_from(since_ms / MINUTE_MS).unwrap()] += runner.statements;
                runs.number += 1;
            }
            let ended = if at_ms < runner.quiet_from_ms { Ended::Done } else { Ended::Quiet };
            // An alarm rings some ms late.
            let began_ms = at_ms + numbers.below(50);
            let permille = if apart { u16::try_from(numbers.below(1_001)).unwrap() } else { 500 };
            runner.next_ms = next_run_ms(began_ms, began_ms + 500, ended, 0, permille);
        }
    }
    runs
}

fn play(world: &World) -> Shown {
    let paid = pay(world);
    let runs = run(world, true);
    let of_runs = runs.statements.iter().max().map_or(0.0, |most| *most as f64 / 60.0);
    let seconds = 24 * world.seconds_an_hour;
    let reads = paid.reads.all() as f64 / seconds as f64;
    let mut fullest: HashMap<&str, (u64, u64)> = HashMap::new();
    for (shard, number) in &paid.shards.each {
        let period = shard.rsplit_once('-').unwrap().0;
        let (all, most) = fullest.entry(period).or_default();
        *all += number;
        *most = (*most).max(*number);
    }
    Shown {
        payments: paid.payments,
        queue_messages: paid.queues.most,
        shard_writes: paid.shards.most,
        registry_requests: paid.readers.most,
        fullest: fullest.values().map(|(all, most)| *most as f64 / *all as f64).fold(0.0, f64::max),
        places: runs.places,
        run_statements: of_runs,
        d1_statements: of_runs + reads,
        runs: runs.number,
        begun_after_min: runs.begun_after_ms as f64 / 60_000.0,
    }
}

/// Forty shops with a hundred payments a second, in a tenth of the shards of the large one.
fn small() -> World {
    let value = json!({
        "perSecond": 100, "shops": 40, "queues": 4, "shards": 48, "by": "day", "spread": 8, "hotDays": 90,
        "isolates": 10, "readers": 4, "registryMs": 10_000, "layoutsMs": 10_000, "secondsAnHour": 3,
        "placeStatements": 5, "shopStatements": 60, "begunAtOnce": 1_000
    });
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_world_is_played_whole_and_what_its_parts_have_used_is_told() {
    let world = std::env::var("WORLD").map_or_else(|_| small(), |text| serde_json::from_str(&text).unwrap());
    let shown = play(&world);
    println!("{}", serde_json::to_string(&shown).unwrap());
    assert_eq!(shown.payments, 24 * world.seconds_an_hour * world.per_second);
}

/// Statements of D1 that runs send in the busiest minute, and in a mean one.
fn busiest(world: &World, apart: bool) -> (u64, u64) {
    let Runs { statements, .. } = run(world, apart);
    let minutes = u64::try_from(statements.len()).unwrap();
    (statements.iter().copied().max().unwrap(), statements.iter().sum::<u64>() / minutes)
}

#[test]
fn what_begins_at_the_same_moment_goes_apart() {
    let (most, mean) = busiest(&small(), true);
    assert!(most < 2 * mean, "{most} of {mean}");
}

#[test]
fn control_with_pauses_of_one_length_all_old_shards_would_ask_in_the_same_minutes() {
    let (most, mean) = busiest(&small(), false);
    assert!(most > 3 * mean, "{most} of {mean}");
}

#[test]
fn a_shop_in_one_shard_fills_it_and_one_in_many_does_not() {
    let fullest = |spread| play(&World { spread, ..small() }).fullest;
    let (one, many) = (fullest(1), fullest(8));
    assert!(one > 1.5 * many, "{one} and {many}");
}

#[test]
fn more_queues_and_more_readers_each_have_less_to_do() {
    let (few, many) = (World { queues: 1, readers: 1, ..small() }, small());
    let (few, many) = (play(&few), play(&many));
    assert_eq!(few.queue_messages, small().per_second);
    assert!(many.queue_messages < few.queue_messages / 2);
    assert!(many.registry_requests < few.registry_requests);
}
