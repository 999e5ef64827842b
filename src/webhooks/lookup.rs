//! Finds the objects of payments of which a provider tells by its own ids alone, in whichever place of the read model they stand: some shards in each
//! try, all payments of a try together. See [`messages::lookup`].

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use worker::{Env, Result};

use messages::lookup::{IN_SHARD, KNOWN, Known, NOTE, Noted, STEP, Sought, Walk, share, tells, walks};
use messages::placement::ShardName;
use once::id::{ObjectId, Owner};
use once::sorted;
use payments::payment::own_keys::account_of;
use payments::providers::Provider;
use runtime::db::Db;
use runtime::places::{ReadModel, shard};

/// A payment that is looked for.
pub(crate) struct Asked<'a> {
    /// The provider's id.
    pub(crate) payment: &'a str,
    /// The account that has told of it, where it has keys of its own: its payments stand in some shards alone.
    pub(crate) account: Option<&'a str>,
    /// That it is in no place is believed if a round says so that has begun then or later, in ms since the epoch.
    pub(crate) from_ms: u64,
    /// Whether shards are asked at all.
    pub(crate) is_in_shards: bool,
}

/// How much a try may do.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// How many shards it may ask.
    pub(crate) shards: usize,
    /// For how long it begins to ask more, in ms.
    pub(crate) for_ms: u64,
}

/// What is known of one by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// It is this object's.
    Object(ObjectId),
    /// It is in no place.
    Nobodys,
    /// There are shards that were not asked yet.
    Left,
    /// A shard did not answer.
    Silent(String),
}

/// What is known of payments, by who tells of each and the provider's id.
#[derive(Debug, Default)]
pub(crate) struct Found(BTreeMap<(String, String), Whose>);

impl Found {
    /// What is known of a payment of which this provider has told, for an account with keys of its own where there is one.
    pub(crate) fn of(&self, provider: Provider, account: Option<&str>, payment: &str) -> Option<&Whose> {
        self.0.get(&(teller(provider, account).1, payment.to_owned()))
    }
}

#[derive(Deserialize)]
struct Row {
    payment: String,
    object: String,
}

/// The owner whose shards are asked, and who tells.
fn teller(provider: Provider, account: Option<&str>) -> (Option<String>, String) {
    let owner = account.and_then(account_of).map(|id| Owner::Account(id.into()).to_text());
    let tells = tells(provider.as_str(), owner.as_deref());
    (owner, tells)
}

/// Looks for these payments, within the limits.
pub(crate) async fn find(
    env: &Env,
    provider: Provider,
    asked: &[Asked<'_>],
    limits: Limits,
) -> Result<Found> {
    let mut whose = BTreeMap::new();
    // What is told of one several times is looked for once, for the newest of them.
    let mut each: BTreeMap<(String, &str), (Option<String>, u64, bool)> = BTreeMap::new();
    for one in asked {
        let (owner, tells) = teller(provider, one.account);
        let (_, from_ms, is_in_shards) = each.entry((tells, one.payment)).or_insert((owner, 0, false));
        *from_ms = one.from_ms.max(*from_ms);
        *is_in_shards |= one.is_in_shards;
    }
    if each.is_empty() {
        return Ok(Found(whose));
    }
    let d1 = Db::of(env)?;
    let keys: Vec<_> = each.keys().collect();
    let known: Vec<Known> = d1.rows(KNOWN, vec![serde_json::to_string(&keys)?.into()]).await?;
    let now_ms = runtime::now_ms();
    let mut sought = Vec::new();
    for known in known {
        let Some((owner, from_ms, is_in_shards)) = each.get(&(known.tells.clone(), known.payment.as_str()))
        else {
            continue;
        };
        let object = known.object.as_deref().and_then(ObjectId::from_hex);
        let round = known.round(*from_ms, now_ms).filter(|_| *is_in_shards);
        let is = match (object, round) {
            (Some(object), _) => Whose::Object(object),
            (None, None) => Whose::Nobodys,
            (None, Some(round)) => {
                let Known { tells, payment, .. } = known.clone();
                sought.push((owner.clone(), Sought { tells, payment, from_ms: *from_ms, round }));
                Whose::Left
            }
        };
        whose.insert((known.tells, known.payment), is);
    }
    if sought.is_empty() {
        return Ok(Found(whose));
    }
    if !ReadModel::of(env).may_be_many().await? {
        whose.values_mut().filter(|is| **is == Whose::Left).for_each(|is| *is = Whose::Nobodys);
        return Ok(Found(whose));
    }
    let owners = walks(sought, now_ms);
    let (mut left, mut waiting) = (limits.shards, owners.len());
    let until_ms = now_ms.saturating_add(limits.for_ms);
    let mut noted = Vec::new();
    for owner in owners {
        let mut may = share(left, waiting);
        left -= may;
        // Of what is left of the time each has its part, too.
        let at_ms = runtime::now_ms();
        let part = until_ms.saturating_sub(at_ms).checked_div(waiting as u64).unwrap_or_default();
        waiting -= 1;
        for one in owner {
            walk(env, one, (&mut may, at_ms.saturating_add(part)), &mut whose, &mut noted).await?;
        }
        left += may;
    }
    if !noted.is_empty() {
        d1.run(NOTE, vec![serde_json::to_string(&noted)?.into(), now_ms.into()]).await?;
    }
    Ok(Found(whose))
}

/// Asks the next shards, as long as any payment is unknown, some may be asked, and it is early enough.
async fn walk(
    env: &Env,
    Walk { owner, mut after, mut sought }: Walk,
    (left, until_ms): (&mut usize, u64),
    whose: &mut BTreeMap<(String, String), Whose>,
    noted: &mut Vec<Noted>,
) -> Result<()> {
    let model = ReadModel::of(env);
    let owners: Option<BTreeSet<String>> = owner.map(|owner| BTreeSet::from([owner]));
    while *left > 0 && !sought.is_empty() && runtime::now_ms() < until_ms {
        let most = STEP.min(*left);
        let from = ShardName::parse(&after);
        let next = match &owners {
            Some(owners) => model.shards_of_behind(owners, from.as_ref(), most).await?,
            None => model.shards_behind(from.as_ref(), most).await?,
        };
        let asks: Vec<&ShardName> =
            next.iter().take_while(|name| sought.iter().any(|one| one.round.asks(name))).collect();
        let is_over = asks.len() < most;
        *left -= asks.len();
        if !asks.is_empty() {
            let ids = sorted::set(sought.iter().map(|one| one.payment.as_str()));
            let ids = serde_json::to_string(&ids)?;
            let places = asks.iter().map(|name| shard(env, name)).collect();
            let ask = async |db: Db| db.rows::<Row>(IN_SHARD, vec![ids.as_str().into()]).await;
            let answers = model.each(places, ask).await?;
            for Row { payment, object } in answers.into_iter().flat_map(|(_, rows)| rows) {
                let Some(id) = ObjectId::from_hex(&object) else { continue };
                while let Some(at) = sought.iter().position(|one| one.payment == payment) {
                    let one = sought.swap_remove(at);
                    noted.push(one.over(Some(object.clone())));
                    whose.insert((one.tells, one.payment), Whose::Object(id));
                }
            }
            if let Some(missing) = model.missing() {
                for Sought { tells, payment, .. } in &sought {
                    whose.insert((tells.clone(), payment.clone()), Whose::Silent(missing.clone()));
                }
                break;
            }
            after = asks.last().map(ToString::to_string).unwrap_or_default();
        }
        if is_over {
            for one in sought.drain(..) {
                noted.push(one.over(None));
                // What came after a round has begun may stand in a shard that it had asked before.
                let is = if one.round.decides(one.from_ms) { Whose::Nobodys } else { Whose::Left };
                whose.insert((one.tells, one.payment), is);
            }
        }
    }
    noted.extend(sought.iter().filter_map(|one| one.until(&after)));
    Ok(())
}
