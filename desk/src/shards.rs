//! The shards of the read model, as an operator sets them: which layout there is, a new one, and the move of what is in D1.
//! `npm run shards` asks these addresses.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use worker::Env;

use super::action_outcome::ActionOutcome;
use super::app::App;
use super::operator::admit;
use super::operator_log::{Action, logged};
use crate::tasks::shards::part;
use messages::placement::{ALL, LEAD_MS, Layout, Period};
use once::fingerprint::{FieldError, Parameters};
use payments::timestamp;
use runtime::db::Db;
use runtime::places;
use runtime::serve::unreadable;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem, invalid_parameters};

/// How many steps one request of the mover makes: a person waits.
const STEPS_MAX: usize = 10;

/// What a layout is to be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Over how many shards a period; 0: back to D1.
    slots: u32,
    /// Of how long a time the payments of a shard are.
    #[serde(default)]
    period: Period,
    /// Over how many of these the payments of single owners are spread.
    #[serde(default)]
    spread: BTreeMap<String, u32>,
    /// From when on, by RFC 3339; as soon as may be, without it.
    #[serde(default)]
    from: Option<String>,
}

/// From when on payments in D1 are to be moved.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedMove {
    /// By RFC 3339; all of them, without it.
    #[serde(default)]
    since: Option<String>,
}

fn wrong(field: &str, message: impl Into<String>) -> Problem {
    invalid_parameters(vec![FieldError { field: field.to_owned(), message: message.into() }])
}

fn body<T: for<'a> Deserialize<'a>>(request: &Request) -> Result<T, Problem> {
    let Parameters::Json(members) = request.parameters()? else {
        return Err(Problem::json_alone("Send it as application/json."));
    };
    serde_json::from_value(Value::Object(members))
        .map_err(|error| wrong("body", format!("is not valid: {error}")))
}

/// A moment by RFC 3339, in ms since the epoch.
fn moment(field: &str, text: &str) -> Result<u64, Problem> {
    let at = chrono::DateTime::parse_from_rfc3339(text).ok();
    at.and_then(|at| at.timestamp_millis().try_into().ok())
        .ok_or_else(|| wrong(field, "must be a time such as 2026-11-21T09:30:00Z"))
}

/// Whether there may be shards here at all.
fn must_be_bound(env: &Env) -> Result<(), Problem> {
    if !places::is_bound(env) {
        let detail =
            "The shards are not bound: bind SHARDS in wrangler.toml and desk/wrangler.toml, and deploy.";
        return Err(Problem::of_setting(Kind::Misconfigured, detail));
    }
    Ok(())
}

fn answer(body: &Value, outcome: &'static str) -> Answer {
    Answer::new(200, "application/json", body.to_string(), outcome)
}

fn shown(layout: &Layout) -> Value {
    json!({
        "layout": layout.layout_id,
        "from": timestamp(layout.from_ms),
        "slots": layout.slots,
        "period": layout.period.as_str(),
        "spread": layout.spread,
        "moved_since": layout.moved_since_ms.map(timestamp),
        "moves_from": layout.moved_at_ms.map(timestamp),
    })
}

/// The layouts, how many shards there are, and the newest of these by name.
async fn all(env: &Env) -> worker::Result<Value> {
    #[derive(Default, Deserialize)]
    struct Counted {
        awake: u64,
        at_rest: u64,
    }
    let directory = places::fresh(env).await?;
    let sql = "SELECT (SELECT count(*) FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL) AS awake,
            (SELECT count(*) FROM shards INDEXED BY shards_at_rest WHERE rests_since_ms IS NOT NULL) AS at_rest";
    let counted: Option<Counted> = match places::is_bound(env) {
        true => Db::of(env)?.first(sql, Vec::new()).await?,
        false => None,
    };
    let Counted { awake, at_rest } = counted.unwrap_or_default();
    Ok(json!({
        "bound": places::is_bound(env),
        "layouts": directory.layouts.iter().map(shown).collect::<Vec<_>>(),
        "shards": directory.shards.names.iter().map(|(_, name)| name.to_string()).collect::<Vec<_>>(),
        "awake": awake,
        "at_rest": at_rest,
    }))
}

/// `GET /admin/api/shards`
pub(super) async fn show(app: &App, request: &Request) -> Result<Answer, Problem> {
    admit(app, request).await?;
    Ok(answer(&all(&app.env).await.map_err(unreadable)?, "shown"))
}

/// `POST /admin/api/shards`: a new layout, for payments that are made from then on.
pub(super) async fn set(app: &App, request: &Request) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let wanted: Wanted = body(request)?;
    let (period, most) = (wanted.period.as_str(), wanted.period.slots_max());
    if wanted.slots > most {
        return Err(wrong(
            "slots",
            format!("must be a whole number from 0 to {most}, where each shard has a {period}"),
        ));
    }
    if let Some((owner, _)) = wanted.spread.iter().find(|(owner, spread)| {
        !(owner.contains(':') || *owner == ALL) || !(1..=wanted.slots).contains(*spread)
    }) {
        let message = format!(
            "{owner}: name an owner as the desk does, account:ID, or all, and a number from 1 to the number of slots"
        );
        return Err(wrong("spread", message));
    }
    let soonest_ms = request.now_ms.saturating_add(LEAD_MS);
    let from_ms = match &wanted.from {
        // A little more: the answer takes its time.
        None => soonest_ms.saturating_add(LEAD_MS / 6),
        Some(text) => moment("from", text)?,
    };
    if from_ms < soonest_ms {
        return Err(wrong(
            "from",
            format!(
                "must be {} s from now or later: until then not every isolate knows of it",
                LEAD_MS / 1000
            ),
        ));
    }
    must_be_bound(&app.env)?;
    let what = format!("shards {} a {period} from {}", wanted.slots, timestamp(from_ms));
    let action = Action { operator: &operator, what: &what, subject: "read model" };
    let work = async {
        let sql =
            "INSERT INTO shard_layouts (from_ms, slots, spread, made_at_ms, period) SELECT ?1, ?2, ?3, ?4, ?5
             WHERE NOT EXISTS (SELECT 1 FROM shard_layouts WHERE from_ms >= ?1)";
        let spread = serde_json::to_string(&wanted.spread).map_err(|error| unreadable(error.into()))?;
        let values =
            vec![from_ms.into(), wanted.slots.into(), spread.into(), request.now_ms.into(), period.into()];
        let made = async { Db::of(&app.env)?.run(sql, values).await };
        if made.await.map_err(unreadable)? == 0 {
            return Err(wrong("from", "must be later than the newest layout begins"));
        }
        Ok((
            answer(&all(&app.env).await.map_err(unreadable)?, "set"),
            ActionOutcome::done(format!("from {}", timestamp(from_ms))),
        ))
    };
    logged(app, request, action, work).await
}

/// `POST /admin/api/shards/move`: what is in D1 counts as the newest layout's, too; and a part of it is taken there.
pub(super) async fn take(app: &App, request: &Request) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let wanted: WantedMove = body(request)?;
    let since_ms = wanted.since.as_deref().map_or(Ok(0), |text| moment("since", text))?;
    must_be_bound(&app.env)?;
    let known = places::layouts(&app.env).await.map_err(unreadable)?;
    let Some(layout) = known.last().filter(|layout| layout.slots > 0) else {
        return Err(Problem::because(Kind::BadRequest, "There is no layout with shards: set one first."));
    };
    if layout.moved_at_ms.is_none() {
        let action = Action { operator: &operator, what: "move into shards", subject: "read model" };
        let layout_id = layout.layout_id;
        let work = async {
            let begun = begin(&app.env, layout_id, since_ms, request.now_ms).await.map_err(unreadable);
            begun.map(|()| ((), ActionOutcome::begun("begun")))
        };
        logged(app, request, action, work).await?;
    }
    let part = part(&app.env, request.now_ms, STEPS_MAX).await.map_err(unreadable)?;
    Ok(answer(&part, "moved"))
}

async fn begin(env: &Env, layout_id: u64, since_ms: u64, now_ms: u64) -> worker::Result<()> {
    // Not before the layout itself: until then those that are made go on being D1's.
    let sql = "UPDATE shard_layouts SET moved_since_ms = ?2, moved_at_ms = max(?3, from_ms)
         WHERE layout_id = ?1 AND moved_at_ms IS NULL";
    let at_ms = now_ms.saturating_add(LEAD_MS);
    Db::of(env)?.run(sql, vec![layout_id.into(), since_ms.into(), at_ms.into()]).await.map(drop)
}
