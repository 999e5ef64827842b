//! Looking for Stripe's payments in thousands of shards, on databases of the tests' own: two runs at once that are killed at every step, a mover beside
//! them, shards that are down for a while, and payments of which Stripe says nothing usable, for a while or for ever. In the end each payment has its
//! marks where it stands, the breaks are those of the payments that are in no place or were given up, and at no time there was another one.

#[cfg(test)]
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Waker};

use super::lists::sought_of;
use super::marks::Marks;
use super::places::{Finder, Sought};
use super::searches::{COMPARE, Due, Dues, MOVED, Undone, to_search};
use super::simulated_places::{NOW_MS, Protection, World};
use super::simulated_shop::{BOOKS, Kind, PAYMENTS, Payment};
use crate::tasks::breaks;
use crate::tasks::compare::{Break, Comparison, LocalRecords, compare};
use crate::tasks::place_stores::{Halt, Places};
use crate::tasks::provider_ledger::RemoteRecord;
use crate::tasks::shards::mover;
use crate::tasks::shards::settled_payments::{block, json_rows};
use crate::tasks::simulation::turn;
use payments::providers::Provider;
use runtime::db::Statement;

/// Entries that are compared together.
const BATCH: usize = 13;
/// How often a run asks the next shards for what is looked for in all of them.
const STEPS: usize = 12;
/// Of these Stripe never says anything usable, and of those not the first three times. All are where nobody expects them, or nowhere.
const NEVER_ANSWERED: [&str; 2] = ["pi_045", "pi_028"];
const ANSWERED_LATE: [&str; 2] = ["pi_035", "pi_049"];
const LATE_AFTER: u32 = 3;
const DAY_MS: u64 = 86_400_000;

impl World {
    /// One run, in the order of the real one.
    async fn runs(&self) {
        self.later_ms.set(self.later_ms.get() + DAY_MS);
        let mut finder = Finder::new(self, self);
        finder.open(Some(BOOKS), &BTreeSet::new()).unwrap();
        let ended = self.compares_all(&mut finder).await;
        self.requests.set(self.requests.get().max(finder.requests));
        match ended {
            Ok(()) => {}
            Err(Halt::Waits(why)) => drop(self.waited.borrow_mut().insert(why)),
            Err(Halt::Failed(error)) => self.errors.borrow_mut().push(error.to_string()),
        }
    }

    async fn compares_all<'a>(&'a self, finder: &mut Finder<&'a Self, &'a Self>) -> Result<(), Halt> {
        let entries: Vec<_> = (0..PAYMENTS).map(|number| Payment::number(number).entry()).collect();
        loop {
            let from = self.compared.get();
            let batch = &entries[from..(from + BATCH).min(entries.len())];
            if batch.is_empty() {
                break;
            }
            self.compares(finder, batch, true).await?;
            turn().await;
            self.compared.set(self.compared.get().max(from + batch.len()));
        }
        let again = finder.asked_again(BOOKS, false).await?;
        let undone = self.settles(finder, &again).await?;
        finder.answered(BOOKS, &again, &undone).await?;
        for _ in 0..STEPS {
            let Some(step) = finder.search(BOOKS).await? else { break };
            if self.protection == Protection::WrittenOffFirst {
                finder.searched(BOOKS, &step, &Undone::default()).await?;
                self.settles(finder, &step.dues).await?;
            } else {
                let undone = self.settles(finder, &step.dues).await?;
                finder.searched(BOOKS, &step, &undone).await?;
            }
        }
        Ok(())
    }

    /// What came of some entries, and of the movements of their money.
    async fn compares<'a>(
        &self,
        finder: &mut Finder<&'a Self, &'a Self>,
        entries: &[RemoteRecord],
        has_moved: bool,
    ) -> Result<(), Halt> {
        let found = finder.find(&entries.iter().map(sought_of).collect::<Vec<_>>()).await?;
        let known = LocalRecords::new(found.records(Provider::Stripe.as_str()).0);
        let (mut differences, mut dues) = (Vec::new(), Vec::new());
        for entry in entries {
            let is_left = found.left.contains(&entry.id) && self.protection != Protection::LeftIsUnknown;
            match compare(entry, &known, NOW_MS) {
                Comparison::Mismatch(_) if is_left => {
                    for due in [COMPARE, MOVED] {
                        dues.push(Due::new(&entry.id, due, entry.resource.as_deref()));
                    }
                }
                Comparison::Mismatch(difference) => differences.push(difference),
                Comparison::Match | Comparison::TooRecent => {}
            }
        }
        let ids: BTreeSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let moved = if has_moved { ids.clone() } else { BTreeSet::new() };
        finder.mark(&found, &Marks { listed: ids, moved, refunded: BTreeSet::new() }).await?;
        let values =
            vec![breaks::rows_json(&differences, Provider::Stripe)?.into(), NOW_MS.into(), BOOKS.into()];
        let told = Statement::new(breaks::upsert_sql(Provider::Stripe), values);
        Places::batch(&self, vec![told, to_search(BOOKS, &dues, NOW_MS)?]).await?;
        let refunded: Vec<&RemoteRecord> = entries.iter().filter(|entry| entry.refunded_minor > 0).collect();
        if !has_moved || refunded.is_empty() {
            return Ok(());
        }
        let sought: Vec<Sought> =
            refunded.iter().map(|entry| Sought { made_at_ms: None, ..sought_of(entry) }).collect();
        let ids: Vec<String> = refunded.iter().map(|entry| entry.id.replace("pi_", "re_")).collect();
        let found = finder.find(&sought).await?;
        let refunded = ids.iter().map(String::as_str).collect();
        finder.mark(&found, &Marks { refunded, ..Marks::default() }).await?;
        let dues: Vec<Due> = sought
            .iter()
            .zip(&ids)
            .filter(|(one, _)| found.left.contains(&one.payment))
            .map(|(one, id)| Due::new(&one.payment, id, one.resource.as_deref()))
            .collect();
        Places::batch(&self, vec![to_search(BOOKS, &dues, NOW_MS)?]).await.map(drop)?;
        Ok(())
    }

    async fn settles<'a>(
        &self,
        finder: &mut Finder<&'a Self, &'a Self>,
        all: &[Due],
    ) -> Result<Undone, Halt> {
        let dues = Dues::of(all);
        if !dues.moved.is_empty() || !dues.refunds.is_empty() {
            let found = finder.find(&dues.sought).await?;
            let marks =
                Marks { moved: dues.moved.clone(), refunded: dues.refunds.clone(), ..Marks::default() };
            finder.mark(&found, &marks).await?;
        }
        let entries = (0..PAYMENTS).map(|number| Payment::number(number).entry());
        let due = entries.filter(|entry| dues.compare.contains(entry.id.as_str()));
        let (came, missed): (Vec<_>, Vec<_>) = due.partition(|entry| self.is_answered(&entry.id));
        if !missed.is_empty() && self.protection == Protection::OneEndsTheRun {
            return Err(Halt::Waits("Stripe says nothing usable".to_owned()));
        }
        if !came.is_empty() {
            self.compares(finder, &came, false).await?;
        }
        let unanswered: BTreeMap<String, String> =
            missed.into_iter().map(|entry| (entry.id, "it was answered 500".to_owned())).collect();
        let undone = Undone::of(all, &unanswered, &BTreeSet::new());
        let given_up: Vec<Break> =
            undone.given_up.iter().map(|(due, why)| Break::unanswered(due, why)).collect();
        if !given_up.is_empty() {
            let values =
                vec![breaks::rows_json(&given_up, Provider::Stripe)?.into(), NOW_MS.into(), BOOKS.into()];
            let told = Statement::new(breaks::upsert_sql(Provider::Stripe), values);
            Places::batch(&self, vec![told]).await?;
        }
        Ok(undone)
    }

    /// Whether Stripe says what a payment is, when it is asked.
    fn is_answered(&self, payment: &str) -> bool {
        let mut unanswered = self.unanswered.borrow_mut();
        let asked = unanswered.entry(payment.to_owned()).or_default();
        *asked += 1;
        let is_late = ANSWERED_LATE.contains(&payment) && *asked <= LATE_AFTER;
        !NEVER_ANSWERED.contains(&payment) && !is_late
    }

    /// The mover, once through what D1 has.
    async fn moves(&self) {
        loop {
            let cursor = self.cursor.borrow().clone();
            let step = mover::step(self, &self.layouts, &self.layouts[0], cursor, NOW_MS).await.unwrap();
            self.cursor.replace(step.next.clone());
            if step.next.is_none() {
                break;
            }
        }
    }

    /// Two runs and a mover that are killed at any step, until all is done.
    fn play(&self) {
        let mut all: [Option<Pin<Box<dyn Future<Output = ()> + '_>>>; 3] = [None, None, None];
        for _ in 0..self.rng.roll(6_000) {
            // The mover is slower.
            let one = usize::try_from(self.rng.roll(9) / 4).unwrap();
            match self.rng.roll(300) {
                0 => all[one] = None,
                1 => {
                    let shards = self.shards.borrow();
                    let one = self.rng.roll(shards.len() as u64 * 2 + 1) as usize;
                    self.down.replace(shards.keys().nth(one).cloned());
                }
                _ => {
                    let work = all[one].get_or_insert_with(|| match one {
                        2 => Box::pin(self.moves()),
                        _ => Box::pin(self.runs()),
                    });
                    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                        all[one] = None;
                    }
                }
            }
        }
        drop(all);
        self.down.replace(None);
        for _ in 0..40 {
            block(self.moves());
            block(self.runs());
            if self.compared.get() as u64 == PAYMENTS && self.dues() == 0 {
                break;
            }
        }
    }

    fn dues(&self) -> i64 {
        self.d1.query_row("SELECT count(*) FROM payment_searches", (), |row| row.get(0)).unwrap()
    }

    fn texts_of(&self, sql: &str) -> BTreeSet<String> {
        let statement = Statement::new(sql, Vec::new());
        let shards = self.shards.borrow();
        let places = std::iter::once(&self.d1).chain(shards.values());
        let rows = places.flat_map(|place| json_rows(place, &statement));
        rows.map(|row| row["it"].as_str().unwrap().to_owned()).collect()
    }

    /// What is not as it should be.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = self.errors.borrow().clone();
        if self.dues() > 0 || (self.compared.get() as u64) < PAYMENTS {
            wrong.push("it is not over".to_owned());
        }
        let payments: Vec<_> = (0..PAYMENTS).map(Payment::number).collect();
        let is_given_up = |intent: &str| NEVER_ANSWERED.contains(&intent);
        let orphans = payments.iter().filter(|payment| !payment.is_ours() && !is_given_up(&payment.intent()));
        let expected: BTreeSet<String> = orphans
            .map(|payment| format!("orphan:stripe:{}", payment.intent()))
            .chain(NEVER_ANSWERED.map(|intent| format!("unanswered:stripe:{intent}")))
            .collect();
        let breaks = self.texts_of("SELECT break_id AS it FROM breaks");
        wrong.extend(breaks.difference(&expected).map(|found| format!("there was {found}")));
        wrong.extend(expected.difference(&breaks).map(|missing| format!("there is no {missing}")));
        for (mark, table, id, prefix) in [
            ("listed_payment", "payments", "provider_payment", "pi"),
            ("moved_payment", "payments", "provider_payment", "pi"),
            ("moved_refund", "refunds", "provider_refund", "re"),
        ] {
            let marked = self.texts_of(&format!("SELECT {id} AS it FROM {table} WHERE {mark} = {id}"));
            let due = payments.iter().filter(|payment| payment.is_ours());
            for payment in due.filter(|payment| prefix == "pi" || payment.kind == Kind::Refunded) {
                let id = format!("{prefix}_{:03}", payment.number);
                let is_seen = mark != "listed_payment" || !is_given_up(&id);
                if is_seen && !marked.contains(&id) {
                    wrong.push(format!("{id} ({:?}) has no {mark}", payment.kind));
                }
            }
        }
        wrong
    }
}

fn played(seed: u64, protection: Protection) -> World {
    let world = World::new(seed, protection);
    world.play();
    world
}

#[test]
fn what_stripe_tells_of_is_found_in_thousands_of_shards_wherever_runs_are_broken_off() {
    let mut waited = BTreeSet::new();
    for seed in 1..=8 {
        let world = played(seed, Protection::Real);
        assert_eq!(world.wrong(), Vec::<String>::new(), "seed {seed}");
        // The shards of the entries, each once a batch; and those that are looked through for the rest.
        assert!(world.requests.get() < 1_500, "{} requests in a run", world.requests.get());
        waited.extend(world.waited.take());
    }
    assert!(waited.iter().any(|why| why.contains("is down")), "{waited:?}");
}

#[test]
fn d1_is_not_asked_for_what_is_found_in_its_shard_and_was_never_in_d1() {
    let world = World::new(1, Protection::Real);
    let names = (0..5).map(|owner| format!("keys:{owner}")).collect();
    let asked = |numbers: std::ops::Range<u64>| {
        let payments = numbers.map(Payment::number).filter(|payment| payment.kind == Kind::Plain);
        let sought: Vec<Sought> = payments.map(|payment| sought_of(&payment.entry())).collect();
        let mut finder = Finder::new(&world, &world);
        finder.open(Some(BOOKS), &names).unwrap();
        let before = world.d1_asked.get();
        let found = block(finder.find(&sought)).unwrap();
        assert_eq!((found.placed.len(), found.left.len()), (sought.len(), 0));
        world.d1_asked.get() - before
    };
    assert_eq!(asked(30..PAYMENTS), 0);
    assert_eq!(asked(20..PAYMENTS), 1, "of some nobody knows whether they are moved already");
}

/// The seeds in which something is found, played first; one that shows nothing any more is only useless.
const MISSED_IN: [u64; 5] = [1, 4, 7, 9, 13];

fn is_found(protection: Protection) -> bool {
    MISSED_IN.into_iter().chain(1..=120).any(|seed| !played(seed, protection).wrong().is_empty())
}

#[test]
fn control_if_a_silent_shard_counts_as_empty_there_are_false_breaks() {
    assert!(is_found(Protection::SilentIsEmpty));
}

#[test]
fn control_by_an_old_directory_a_moved_payment_is_unknown() {
    assert!(is_found(Protection::DirectoryIsOld));
}

#[test]
fn control_what_was_moved_has_no_mark_if_it_is_marked_where_it_was_found() {
    assert!(is_found(Protection::MovedAreNotAsked));
}

#[test]
fn control_what_is_not_found_at_once_is_not_unknown() {
    assert!(is_found(Protection::LeftIsUnknown));
}

#[test]
fn control_if_one_payment_of_which_stripe_says_nothing_ends_the_run_it_is_never_over() {
    assert!([1, 2, 3].into_iter().all(|seed| {
        played(seed, Protection::OneEndsTheRun).wrong().contains(&"it is not over".to_owned())
    }));
}

#[test]
fn control_what_is_written_off_first_may_never_be_done() {
    assert!(is_found(Protection::WrittenOffFirst));
}
