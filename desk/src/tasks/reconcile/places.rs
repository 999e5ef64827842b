//! Finds our payments of which Stripe's lists tell, in whichever place of the read model they stand, and marks them there.
//!
//! - D1 is asked first, then it is read which shards there are, then these are asked: the mover writes a payment into its shard before it
//!   deletes it in D1, so it is seen in one of them. It is marked in the same order, and in each place in which it may be by then.
//! - What was never in D1, by when it was made, is looked for in its shards before that: nothing moves it. D1 is asked for the rest alone.
//! - A payment's place follows from whose it is, when it was made, and its object. Stripe's entry has our id, in which the object is, and a time soon
//!   after the payment was made; whose payments these books have is learnt from those that are found. So of each entry the shards are asked in which
//!   it can be, and of a batch of entries each shard once.
//! - What is not found there is asked for at its object, which knows its own place. What has no object of ours is
//!   [looked for](super::searches) in all other shards: only then is it unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::marks::Marks;
use crate::tasks::place_stores::{Asks, Halt, Places};
use crate::tasks::placed::{self, Found, Row};
use messages::job::JobPayment;
use messages::placement::{self, LEAD_MS, Layout, Period, ShardName};
use once::id::ObjectId;
use once::id::Owner;
use payments::payment::id::object_of;
use payments::payment::own_keys::account_of;
use runtime::db::{Statement, Value};

/// How much earlier than Stripe says a payment may have been made here, in ms, for the first look: what takes longer its object knows.
const BEFORE_MS: u64 = 900_000;
/// How much later, in ms: clocks differ.
const AFTER_MS: u64 = 60_000;
/// Of so many owners it is worked out where their payments are; of more a whole period is asked.
const OWNERS_MAX: usize = 16;
/// How many objects are asked before it is known whose payments these books have, and how many in all, for one batch.
const FIRST_OBJECTS: usize = 20;
const OBJECTS_MAX: usize = 500;
/// Up to so many shards all of them are asked at once for what is not found near its time.
const FEW: usize = 300;
/// How many shards are asked at most for payments near whose time they are, and how many of some periods: what is not found there is looked for in all
/// others, a part in each run. A run may make 10,000 requests.
const NEAR_MAX: usize = 800;
const PERIODS_MAX: usize = 1_000;
/// For how many payments D1 is asked at once.
const IDS_MAX: usize = 5_000;

/// In the books that are read: a payment in another account can carry our ids without being ours.
pub(super) const OF_THESE_BOOKS: &str = " AND (provider != 'stripe' OR stripe_account IS ?3 OR stripe_account IN (SELECT value FROM json_each(?4)))";

/// A payment of which Stripe tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sought {
    /// Stripe's id; empty where only ours is known.
    pub(super) payment: String,
    /// Our id, where Stripe has it.
    pub(super) resource: Option<String>,
    /// When Stripe made it, or a charge of it, in ms since the epoch.
    pub(super) made_at_ms: Option<u64>,
    /// If it is not found Stripe is asked when it was made: nobody asks for it otherwise.
    pub(super) is_asked: bool,
}

impl Sought {
    pub(super) fn is_in(&self, found: &Found) -> bool {
        found.has(&self.payment, self.resource.as_deref())
    }

    fn object(&self) -> Option<ObjectId> {
        object_of(self.resource.as_deref()?)
    }

    /// Between when it may have been made here.
    fn times(&self) -> Option<[u64; 2]> {
        self.made_at_ms.map(|at_ms| [at_ms.saturating_sub(BEFORE_MS), at_ms.saturating_add(AFTER_MS)])
    }

    /// Each payment once, with all that is known of it.
    pub(super) fn merged(all: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut each: BTreeMap<String, Self> = BTreeMap::new();
        for one in all {
            let known = each.entry(one.payment.clone()).or_insert_with(|| one.clone());
            known.resource = known.resource.take().or(one.resource);
            known.made_at_ms = [known.made_at_ms, one.made_at_ms].into_iter().flatten().min();
            known.is_asked |= one.is_asked;
        }
        each.into_values().collect()
    }
}

/// The objects of payments.
pub(super) trait Objects {
    /// Whose payment each of these has and when that was made, which says where it stands. `None` if it has none, or does not answer.
    async fn payments_of(&self, objects: &[ObjectId]) -> Vec<Option<JobPayment>>;
}

/// Looks for the payments of one set of books, as long as a run lasts.
pub(super) struct Finder<P, O> {
    pub(super) places: P,
    objects: O,
    /// The values of [`OF_THESE_BOOKS`].
    books: Vec<Value>,
    /// Whose payments these books have, as far as it is known: of some, and no more once these are too many to be of use.
    owners: BTreeSet<String>,
    /// Where payments were found that are not where they would be expected.
    pub(super) found_in: BTreeMap<String, ShardName>,
    /// Those that all shards were asked for, and that are in none.
    pub(super) nowhere: BTreeSet<String>,
    /// Whether payments are known to be in shards, or when they were known not to be, in ms since the epoch.
    is_many: bool,
    alone_at_ms: Option<u64>,
    /// Requests to shards and objects.
    pub(super) requests: u32,
    /// Statements of D1.
    pub(super) queries: u32,
}

type Asked<'a> = BTreeMap<ShardName, Vec<&'a Sought>>;

impl<P: Places, O: Objects> Finder<P, O> {
    pub(super) const fn new(places: P, objects: O) -> Self {
        Self {
            places,
            objects,
            books: Vec::new(),
            owners: BTreeSet::new(),
            found_in: BTreeMap::new(),
            nowhere: BTreeSet::new(),
            is_many: false,
            alone_at_ms: None,
            requests: 0,
            queries: 0,
        }
    }

    /// Begins with the payments of this account and of these names.
    pub(super) fn open(&mut self, account: Option<&str>, names: &BTreeSet<String>) -> serde_json::Result<()> {
        self.books = vec![account.map(str::to_owned).into(), placed::json(names)?.into()];
        let of_name = |name: &str| account_of(name).map(|id| Owner::Account(id.to_owned()).to_text());
        self.owners = names.iter().map(String::as_str).chain(account).filter_map(of_name).collect();
        self.found_in.clear();
        self.nowhere.clear();
        Ok(())
    }

    /// Whether no payment can be in a shard. A layout begins later than it is set.
    pub(super) async fn is_d1_alone(&mut self) -> worker::Result<bool> {
        let now_ms = self.places.now_ms();
        if self.is_many {
            return Ok(false);
        }
        if self.alone_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < LEAD_MS / 2) {
            return Ok(true);
        }
        let is_alone = self.layouts().await?.iter().all(|layout| layout.slots == 0);
        self.is_many = !is_alone;
        self.alone_at_ms = is_alone.then_some(now_ms);
        Ok(is_alone)
    }

    async fn layouts(&mut self) -> worker::Result<Rc<[Layout]>> {
        self.queries += 1;
        self.places.layouts().await
    }

    /// Looks for payments in D1 and in the shards in which they can be. Those that may be in others are [left](Found::left).
    pub(super) async fn find(&mut self, sought: &[Sought]) -> Result<Found, Halt> {
        let mut found = Found::default();
        let in_shards = self.find_in_shards(&mut found, sought).await?;
        let left = unfound(sought, &found);
        if left.is_empty() {
            return Ok(found);
        }
        for some in left.chunks(IDS_MAX) {
            self.queries += 1;
            found.add(None, self.places.rows(self.ask(some.iter().copied())?).await?)?;
        }
        let layouts = self.layouts().await?;
        // What is moved from D1 may be in its shard already.
        let moved = self.moved(&layouts, &found);
        let mut asks = Asked::new();
        for (shard, one) in &moved {
            asks.entry(shard.clone()).or_default().push(one);
        }
        let mut near = unfound(sought, &found);
        near.retain(|one| !in_shards.contains(one.payment.as_str()));
        self.add_near(&mut asks, &layouts, &near);
        self.ask_some(&mut found, asks).await?;
        self.learn(&found);
        // Those that can be nowhere else.
        let mut placed = BTreeSet::new();
        let (with_time, without): (Vec<_>, Vec<_>) =
            unfound(sought, &found).into_iter().partition(|one| one.made_at_ms.is_some());
        let first = with_time.into_iter().filter(|one| one.object().is_some()).take(FIRST_OBJECTS);
        self.ask_objects(&mut found, &mut placed, &layouts, without.into_iter().chain(first)).await?;
        let mut asks = Asked::new();
        self.add_near(&mut asks, &layouts, &unplaced(sought, &found, &placed));
        self.ask_some(&mut found, asks).await?;
        if self.owners.len() > OWNERS_MAX {
            let rest = unplaced(sought, &found, &placed);
            self.ask_periods(&mut found, &rest).await?;
        }
        let rest = unplaced(sought, &found, &placed);
        self.ask_objects(&mut found, &mut placed, &layouts, rest.into_iter()).await?;
        let mut rest = unplaced(sought, &found, &placed);
        rest.retain(|one| !self.nowhere.contains(&one.payment));
        if !rest.is_empty() && !self.ask_all(&mut found, &rest).await? {
            found.left = unfound_of(rest, &found).map(|one| one.payment.clone()).collect();
        }
        self.learn(&found);
        Ok(found)
    }

    /// Looks first in the shards in which those can be that were never in D1, by when they were made: nothing moves them, and most payments are such
    /// ones. Returns which it has looked for. What is not there may be elsewhere: an earlier try was made earlier.
    async fn find_in_shards<'a>(
        &mut self,
        found: &mut Found,
        sought: &'a [Sought],
    ) -> Result<BTreeSet<&'a str>, Halt> {
        if self.owners.is_empty() || self.owners.len() > OWNERS_MAX {
            return Ok(BTreeSet::new());
        }
        let layouts = self.layouts().await?;
        let is_sharded = |at_ms| placement::in_force(&layouts, at_ms).is_some_and(|layout| layout.slots > 0);
        let never_in_d1: Vec<&Sought> = sought
            .iter()
            .filter(|one| one.times().is_some_and(|times| times.into_iter().all(is_sharded)))
            .collect();
        let mut asks = Asked::new();
        self.add_near(&mut asks, &layouts, &never_in_d1);
        self.ask_some(found, asks).await?;
        Ok(never_in_d1.into_iter().map(|one| one.payment.as_str()).collect())
    }

    pub(super) fn ask<'a>(
        &self,
        sought: impl IntoIterator<Item = &'a Sought>,
    ) -> serde_json::Result<Statement> {
        let (mut payments, mut resources) = (Vec::new(), Vec::new());
        for one in sought {
            payments.extend(Some(one.payment.as_str()).filter(|payment| !payment.is_empty()));
            resources.extend(one.resource.as_deref());
        }
        placed::ask(&payments, &resources, OF_THESE_BOOKS, &self.books)
    }

    /// Where those of D1's are, too, or will be.
    fn moved(&self, layouts: &[Layout], found: &Found) -> Vec<(ShardName, Sought)> {
        let now_ms = self.places.now_ms();
        let home = |placed: &placed::Placed| {
            let record = &placed.record;
            let home = placement::home(layouts, &placed.owner, record.created_at_ms, &record.object, now_ms);
            let sought = Sought {
                payment: record.provider_payment.clone().unwrap_or_default(),
                resource: Some(record.resource.clone()),
                ..Sought::default()
            };
            Some((home.shard?, sought))
        };
        found.placed.iter().filter(|placed| placed.shard.is_none()).filter_map(home).collect()
    }

    /// Adds the shards in which these can be, if they are of owners who are known.
    fn add_near<'a>(&self, asks: &mut Asked<'a>, layouts: &[Layout], sought: &[&'a Sought]) {
        let mut of_owners: BTreeMap<[String; 3], Vec<ShardName>> = BTreeMap::new();
        let now_ms = self.places.now_ms();
        for one in sought {
            if let Some(shard) = self.found_in.get(&one.payment) {
                asks.entry(shard.clone()).or_default().push(one);
                continue;
            }
            let Some(times) = one.times().filter(|_| self.owners.len() <= OWNERS_MAX) else { continue };
            let object = one.object().map(ObjectId::to_hex);
            let mut near = BTreeSet::new();
            for (owner, at_ms) in self.owners.iter().flat_map(|owner| times.map(|at_ms| (owner, at_ms))) {
                if let Some(object) = &object {
                    near.extend(placement::home(layouts, owner, at_ms, object, now_ms).shard);
                    continue;
                }
                let Some(layout) = placement::in_force(layouts, at_ms).filter(|layout| layout.slots > 0)
                else {
                    continue;
                };
                let period = layout.period.of(at_ms);
                let key = [owner.clone(), period.clone(), layout.layout_id.to_string()];
                let slots = of_owners.entry(key).or_insert_with(|| {
                    let name = |slot| ShardName { period: period.clone(), layout_id: layout.layout_id, slot };
                    layout.slots_of(owner).into_iter().map(name).collect()
                });
                near.extend(slots.iter().cloned());
            }
            for shard in near {
                if asks.len() < NEAR_MAX || asks.contains_key(&shard) {
                    asks.entry(shard).or_default().push(one);
                }
            }
        }
    }

    /// Asks those of these shards that there are, each for its own.
    async fn ask_some(&mut self, found: &mut Found, asks: Asked<'_>) -> Result<(), Halt> {
        if asks.is_empty() {
            return Ok(());
        }
        self.queries += 1;
        let names = asks.keys().cloned().collect();
        let mut questions = Vec::new();
        for shard in self.places.shards_named(&names).await? {
            if let Some(sought) = asks.get(&shard) {
                let question = Rc::new(self.ask(sought.iter().copied())?);
                questions.push((shard, question));
            }
        }
        self.ask_shards(found, &questions).await
    }

    /// All of them must answer: what is in a shard that does not would seem to be unknown.
    pub(super) async fn ask_shards(&mut self, found: &mut Found, asks: &Asks<Statement>) -> Result<(), Halt> {
        self.requests = self.requests.saturating_add(u32::try_from(asks.len()).unwrap_or(u32::MAX));
        for (shard, rows) in self.places.shard_rows::<Row>(asks).await?.all()? {
            found.add(Some(&shard), rows)?;
        }
        Ok(())
    }

    /// Asks the objects of these, so many of them, and the places that they name.
    async fn ask_objects<'a>(
        &mut self,
        found: &mut Found,
        placed: &mut BTreeSet<&'a str>,
        layouts: &[Layout],
        sought: impl Iterator<Item = &'a Sought>,
    ) -> Result<(), Halt> {
        let with_objects = sought.filter_map(|one| Some((one.object()?, one)));
        let (objects, sought): (Vec<ObjectId>, Vec<&Sought>) = with_objects.take(OBJECTS_MAX).unzip();
        self.requests = self.requests.saturating_add(u32::try_from(objects.len()).unwrap_or(u32::MAX));
        let told = self.objects.payments_of(&objects).await;
        let mut asks = Asked::new();
        for ((object, one), told) in objects.iter().zip(sought).zip(told) {
            let Some(JobPayment { owner, made_at_ms }) = told else { continue };
            let now_ms = self.places.now_ms();
            let home = placement::home(layouts, &owner, made_at_ms, &object.to_hex(), now_ms);
            if let Some(shard) = home.shard {
                asks.entry(shard).or_default().push(one);
            }
            if self.owners.len() <= OWNERS_MAX {
                self.owners.insert(owner);
            }
            placed.insert(one.payment.as_str());
        }
        self.ask_some(found, asks).await
    }

    /// Asks all shards of the time of these.
    async fn ask_periods(&mut self, found: &mut Found, sought: &[&Sought]) -> Result<(), Halt> {
        let mut periods: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (number, one) in sought.iter().enumerate() {
            for at_ms in one.times().into_iter().flatten() {
                for period in [Period::Month, Period::Day, Period::Hour] {
                    periods.entry(period.of(at_ms)).or_default().insert(number);
                }
            }
        }
        if periods.is_empty() {
            return Ok(());
        }
        self.queries += 1;
        let shards = self.places.shards_of_periods(&periods.keys().cloned().collect(), PERIODS_MAX).await?;
        let mut questions = BTreeMap::new();
        for (period, of_period) in &periods {
            let of_period = of_period.iter().filter_map(|number| sought.get(*number).copied());
            questions.insert(period.as_str(), Rc::new(self.ask(of_period)?));
        }
        let question = |shard: ShardName| {
            let question = questions.get(shard.period.as_str())?;
            Some((shard.clone(), Rc::clone(question)))
        };
        let asks: Vec<_> = shards.into_iter().filter_map(question).collect();
        self.ask_shards(found, &asks).await
    }

    /// Asks all shards, if these are few. Returns whether they are.
    async fn ask_all(&mut self, found: &mut Found, sought: &[&Sought]) -> Result<bool, Halt> {
        self.queries += 1;
        let shards = self.places.shards_behind(None, FEW + 1).await?;
        if shards.len() > FEW {
            return Ok(false);
        }
        let question = Rc::new(self.ask(sought.iter().copied())?);
        let asks: Vec<_> = shards.into_iter().map(|shard| (shard, Rc::clone(&question))).collect();
        self.ask_shards(found, &asks).await.map(|()| true)
    }

    /// Whose payments these books have.
    fn learn(&mut self, found: &Found) {
        for placed in &found.placed {
            if self.owners.len() <= OWNERS_MAX && !self.owners.contains(&placed.owner) {
                self.owners.insert(placed.owner.clone());
            }
        }
    }

    /// Marks those of these that were found and have no mark yet, in each place in which they are: first in D1, since the mover takes the mark along,
    /// and then where they may have been moved since.
    pub(super) async fn mark(&mut self, found: &Found, marks: &Marks<'_>) -> Result<(), Halt> {
        let mut places: BTreeMap<Option<ShardName>, Marks<'_>> = BTreeMap::new();
        for one in &found.placed {
            places.entry(one.shard.clone()).or_default().add(one, marks);
        }
        if let Some(of_d1) = places.remove(&None).filter(|marks| !marks.is_empty()) {
            self.queries += 1;
            self.places.batch(of_d1.statements()?).await?;
            let layouts = self.layouts().await?;
            let moved = self.moved(&layouts, found);
            let known: BTreeMap<&str, &placed::Placed> = found
                .placed
                .iter()
                .filter(|one| one.shard.is_none())
                .map(|one| (one.record.resource.as_str(), one))
                .collect();
            let names: BTreeSet<ShardName> = moved.iter().map(|(shard, _)| shard.clone()).collect();
            if !names.is_empty() {
                self.queries += 1;
                let there: BTreeSet<ShardName> =
                    self.places.shards_named(&names).await?.into_iter().collect();
                for (shard, one) in &moved {
                    let one = one.resource.as_deref().and_then(|resource| known.get(resource));
                    if let Some(one) = one.filter(|_| there.contains(shard)) {
                        places.entry(Some(shard.clone())).or_default().add(one, marks);
                    }
                }
            }
        }
        let mut asks: Vec<(ShardName, Rc<[Statement]>)> = Vec::new();
        for (shard, marks) in places {
            if let Some(shard) = shard.filter(|_| !marks.is_empty()) {
                asks.push((shard, marks.statements()?.into()));
            }
        }
        self.requests = self.requests.saturating_add(u32::try_from(asks.len()).unwrap_or(u32::MAX));
        self.places.shard_batch(&asks).await?.all().map(drop)
    }
}

fn unfound<'a>(sought: &'a [Sought], found: &Found) -> Vec<&'a Sought> {
    unfound_of(sought.iter(), found).collect()
}

fn unfound_of<'a>(
    sought: impl IntoIterator<Item = &'a Sought>,
    found: &Found,
) -> impl Iterator<Item = &'a Sought> {
    sought.into_iter().filter(|one| !one.is_in(found))
}

/// Those that are not found and of which no object has said where they must be.
fn unplaced<'a>(sought: &'a [Sought], found: &Found, placed: &BTreeSet<&str>) -> Vec<&'a Sought> {
    let mut left = unfound(sought, found);
    left.retain(|one| !placed.contains(one.payment.as_str()));
    left
}
