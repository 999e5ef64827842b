//! Finds the objects of payments of which a provider tells by its own ids alone, in whichever place of the read model they stand: some shards in each
//! try, all payments of a try together. See [`messages::lookup`].

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use worker::{Date, Env, Result};

use messages::lookup::{IN_SHARD, KNOWN, Known, NOTE, Noted, Round, STEP};
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

#[derive(Deserialize)]
struct Found {
    payment: String,
    object: String,
}

/// Those that go on from the same shard, among the shards of the same owner.
type Groups = BTreeMap<(Option<String>, String), Vec<(String, Round)>>;

/// Looks for these payments; at most so many shards are asked.
pub(crate) async fn find(
    env: &Env,
    provider: Provider,
    asked: &[Asked<'_>],
    most: usize,
) -> Result<BTreeMap<String, Whose>> {
    let mut whose = BTreeMap::new();
    if asked.is_empty() {
        return Ok(whose);
    }
    let d1 = Db::of(env)?;
    let ids = sorted::set(asked.iter().map(|one| one.payment));
    let values = vec![provider.as_str().into(), serde_json::to_string(&ids)?.into()];
    let known: Vec<Known> = d1.rows(KNOWN, values).await?;
    let known = sorted::map(known.iter().map(|known| (known.payment.as_str(), known)));
    let now_ms = Date::now().as_millis();
    let mut groups = Groups::new();
    for one in asked {
        let Some(known) = known.get(one.payment) else { continue };
        let object = known.object.as_deref().and_then(ObjectId::from_hex);
        let round = known.round(one.from_ms, now_ms).filter(|_| one.is_in_shards);
        let is = match (object, round) {
            (Some(object), _) => Whose::Object(object),
            (None, None) => Whose::Nobodys,
            (None, Some(round)) => {
                let owner = one.account.and_then(account_of).map(|id| Owner::Account(id.into()).to_text());
                let group = groups.entry((owner, round.after.clone())).or_default();
                if group.iter().all(|(payment, _)| payment != one.payment) {
                    group.push((one.payment.to_owned(), round));
                }
                Whose::Left
            }
        };
        whose.insert(one.payment.to_owned(), is);
    }
    if groups.is_empty() {
        return Ok(whose);
    }
    if !ReadModel::of(env).may_be_many().await? {
        whose.values_mut().filter(|is| **is == Whose::Left).for_each(|is| *is = Whose::Nobodys);
        return Ok(whose);
    }
    let mut left = most;
    let mut noted = Vec::new();
    // Those that have come furthest first: they are soon over.
    for ((owner, after), group) in groups.into_iter().rev() {
        walk(env, owner.as_deref(), after, group, &mut left, &mut whose, &mut noted).await?;
    }
    if !noted.is_empty() {
        let values = vec![provider.as_str().into(), serde_json::to_string(&noted)?.into(), now_ms.into()];
        d1.run(NOTE, values).await?;
    }
    Ok(whose)
}

/// Asks the next shards for a group, as long as any of it is unknown and some may be asked.
async fn walk(
    env: &Env,
    owner: Option<&str>,
    mut after: String,
    mut group: Vec<(String, Round)>,
    left: &mut usize,
    whose: &mut BTreeMap<String, Whose>,
    noted: &mut Vec<Noted>,
) -> Result<()> {
    let model = ReadModel::of(env);
    let owners: Option<BTreeSet<String>> = owner.map(|owner| BTreeSet::from([owner.to_owned()]));
    let began = after.clone();
    while *left > 0 && !group.is_empty() {
        let most = STEP.min(*left);
        let from = ShardName::parse(&after);
        let next = match &owners {
            Some(owners) => model.shards_of_behind(owners, from.as_ref(), most).await?,
            None => model.shards_behind(from.as_ref(), most).await?,
        };
        let asks: Vec<&ShardName> =
            next.iter().take_while(|name| group.iter().any(|(_, round)| round.asks(name))).collect();
        let is_over = asks.len() < most;
        *left -= asks.len();
        if !asks.is_empty() {
            let ids: Vec<&str> = group.iter().map(|(payment, _)| payment.as_str()).collect();
            let ids = serde_json::to_string(&ids)?;
            let places = asks.iter().map(|name| shard(env, name)).collect();
            let ask = async |db: Db| db.rows::<Found>(IN_SHARD, vec![ids.as_str().into()]).await;
            let answers = model.each(places, ask).await?;
            for Found { payment, object } in answers.into_iter().flat_map(|(_, rows)| rows) {
                let Some(id) = ObjectId::from_hex(&object) else { continue };
                let of = group.iter().position(|(one, _)| *one == payment).map(|at| group.swap_remove(at));
                if let Some((payment, round)) = of {
                    noted.push(round.noted(&payment, None).found(object));
                    whose.insert(payment, Whose::Object(id));
                }
            }
            if let Some(missing) = model.missing() {
                for (payment, _) in &group {
                    whose.insert(payment.clone(), Whose::Silent(missing.clone()));
                }
                break;
            }
            after = asks.last().map(ToString::to_string).unwrap_or_default();
        }
        if is_over {
            for (payment, round) in group.drain(..) {
                noted.push(round.noted(&payment, None));
                whose.insert(payment, Whose::Nobodys);
            }
        }
    }
    if after != began {
        noted.extend(group.iter().map(|(payment, round)| round.noted(payment, Some(&after))));
    }
    Ok(())
}
