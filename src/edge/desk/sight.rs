//! The page of a payment, of a key, or of a dead letter: all that is known, as the object itself tells it, and the buttons.

use futures_util::try_join;

use super::context::Desk;
use super::data::{self, Where};
use super::lists::{last_error, status};
use super::picture;
use super::route::{Act, Subject};
use super::sheets::{Cell, Fact, Row, Sight, StoryLine, Table};
use super::story::{self, Line};
use super::words;
use crate::edge::api::unreadable;
use crate::edge::app::ObjectRef;
use crate::edge::http::Answer;
use crate::edge::problem::{Kind, Problem};
use crate::edge::reply;
use crate::edge::route::{Decoded, Parameter};
use crate::machine::id::ObjectId;
use crate::machine::record::REPLAYS_SHOWN_MAX;
use crate::object::inspection::Inspection;
use crate::object::message::{Ask, Inspected};
use crate::payment::id::{PaymentId, RideId};
use crate::readmodel::snapshot::KeyRow;
use crate::timestamp;

/// The object of a payment's or a ride's id.
pub(super) fn object_of(id: &str) -> Option<ObjectId> {
    PaymentId::parse(id).map(PaymentId::object).or_else(|| RideId::parse(id).map(RideId::object))
}

impl Desk<'_> {
    /// All that an object knows.
    pub(super) async fn inspect(&self, object: Option<ObjectId>) -> Result<(ObjectId, Inspection), Problem> {
        let not_found = || Problem::new(Kind::NotFound);
        let object = object.ok_or_else(not_found)?;
        let place = ObjectRef::Id(object);
        if !self.app.exists(&place) {
            return Err(not_found());
        }
        let inspected = self.app.ask::<Inspected>(&place, Ask::Inspect).await.map_err(unreadable)?;
        Ok((object, inspected.ok_or_else(not_found)?))
    }
}

/// `GET /admin/payments/{id}`
pub(in crate::edge) async fn payment(desk: &Desk<'_>, id: &str) -> Result<Answer, Problem> {
    let (object, inspection) = desk.inspect(object_of(id)).await?;
    let subject = Subject::Payment(id.to_owned());
    let (kind, state, mut facts) = match (&inspection.snapshot.payment, &inspection.snapshot.ride) {
        (Some(payment), _) if payment.payment_id == id => {
            let money = |minor: u32| words::money(minor.into(), &payment.currency);
            let mut facts = vec![
                fact("Amount", Cell::text(money(payment.amount_minor))),
                fact("Taken", Cell::text(money(payment.captured_minor))),
                fact("Refunded", Cell::text(money(payment.refunded_minor))),
                fact("Provider", Cell::text(payment.provider.clone())),
                fact("Provider’s id", optional(payment.provider_payment.as_ref())),
                fact("Order", optional(payment.order_id.as_ref())),
                fact("Try", Cell::text(payment.attempt.to_string())),
            ];
            if let Some(at_ms) = inspection.capture_before_ms {
                let from_now = words::from_now(at_ms, desk.request.now_ms);
                facts.push(fact("Capture before", Cell::text(words::moment(at_ms)).with(from_now)));
            }
            facts.extend(links(&inspection));
            if let Some(code) = &payment.failure_code {
                facts.push(fact("Failure", Cell::text(code.replace('_', " "))));
            }
            ("Payment", status(&payment.status), facts)
        }
        (_, Some(ride)) if ride.ride_id == id => {
            let mut facts = vec![
                fact("Fare", Cell::text(words::money(ride.amount_minor.into(), &ride.currency))),
                fact("Provider’s id", optional(ride.provider_payment.as_ref())),
            ];
            if let Some(code) = &ride.failure_code {
                facts.push(fact("Failure", Cell::text(code.replace('_', " "))));
            }
            ("Ride", status(&ride.status), facts)
        }
        _ => return Err(Problem::new(Kind::NotFound)),
    };
    facts.push(fact("Account", Cell::text(words::owner(&inspection.snapshot.owner))));
    if let Some(move_) = &inspection.under_way {
        facts.push(fact("Under way", Cell::chip(move_.clone(), "warn")));
    }
    if let Some(at_ms) = inspection.next_check_at_ms {
        facts.push(fact("Provider is asked", Cell::text(words::from_now(at_ms, desk.request.now_ms))));
    }
    let is_open = inspection.snapshot.keys.iter().any(|key| key.status == "open");
    let mut buttons = Vec::new();
    if is_open {
        buttons.push(desk.button(Act::Resume, &subject, "Resume now")?);
    }
    if kind == "Payment" || is_open {
        buttons.push(desk.button(Act::Settle, &subject, "Settle against the provider")?);
    }
    if let Some(payment) = inspection.snapshot.payment.as_ref().filter(|_| kind == "Payment") {
        let money = |minor: u32| words::money(minor.into(), &payment.currency);
        if inspection.capturable_minor > 0 {
            let mut capture = desk.button(Act::Capture, &subject, "Capture")?;
            capture.amount = Some(money(inspection.capturable_minor));
            buttons.push(capture);
        }
        if inspection.voidable {
            let mut void = desk.button(Act::Void, &subject, "Void")?;
            void.tone = "danger";
            buttons.push(void);
        }
        if inspection.refundable_minor > 0 {
            let mut refund = desk.button(Act::Refund, &subject, "Refund")?;
            refund.amount = Some(money(inspection.refundable_minor));
            refund.has_reason = true;
            refund.tone = "danger";
            buttons.push(refund);
        }
    }
    let tables = vec![
        tries(&inspection),
        refunds(&inspection),
        keys(desk, object, &inspection),
        calls(desk, &inspection, None),
    ];
    let page = Parts { kind, id: id.to_owned(), state, facts, buttons, tables };
    show(desk, "/admin/payments", &inspection, None, page, &subject).await
}

/// `GET /admin/keys/{object}/{key_id}`
pub(in crate::edge) async fn key(
    desk: &Desk<'_>,
    object: &str,
    key_id: &Parameter<'_, u32>,
) -> Result<Answer, Problem> {
    let key_id = key_id.read()?;
    let (object, inspection) = desk.inspect(ObjectId::from_hex(object)).await?;
    let key = inspection.snapshot.keys.iter().find(|key| key.key_id == key_id);
    let key = key.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let subject = Subject::Key(object.to_hex(), key_id);
    let now_ms = desk.request.now_ms;
    let resource = match (&inspection.snapshot.payment, &inspection.snapshot.ride) {
        (Some(payment), _) => {
            Cell::link(payment.payment_id.clone(), format!("/admin/payments/{}", payment.payment_id))
        }
        (None, Some(ride)) => Cell::link(ride.ride_id.clone(), format!("/admin/payments/{}", ride.ride_id)),
        (None, None) => Cell::text("not made yet"),
    };
    let mut facts = vec![
        fact("Operation", Cell::text(key.operation.clone().unwrap_or_else(|| "–".to_owned()))),
        fact("Recovery point", Cell::text(key.recovery_point.replace('_', " "))),
        fact("Runs", Cell::text(key.attempts.to_string())),
        fact("First used", Cell::text(words::moment(key.created_at_ms))),
    ];
    if let Some(at_ms) = key.finished_at_ms {
        let took = words::duration(at_ms.saturating_sub(key.created_at_ms));
        let answer = key.response_status.map(|status| status.to_string()).unwrap_or_default();
        facts.push(fact("Finished", Cell::text(words::moment(at_ms)).with(format!("after {took}"))));
        facts.push(fact("Answer", Cell::text(answer)));
    }
    if key.status != "open" {
        let count = inspection.replays.get(&key_id).copied().unwrap_or(0);
        let replays = Cell::text(words::replays(count));
        let is_cut = count > REPLAYS_SHOWN_MAX;
        let replays =
            if is_cut { replays.with(format!("the first {REPLAYS_SHOWN_MAX} are shown")) } else { replays };
        facts.push(fact("Answered again", replays));
    }
    if let Some(at_ms) = key.wake_at_ms {
        facts.push(fact(
            "Taken up",
            Cell::text(words::from_now(at_ms, now_ms)).with("at the latest, by the alarm"),
        ));
    }
    facts.push(fact("Account", Cell::text(words::owner(&key.owner))));
    facts.push(fact("Resource", resource));
    facts.push(fact("Object", Cell { class: "id", ..Cell::text(object.to_hex()) }));
    let mut buttons = Vec::new();
    if key.status == "open" {
        buttons.push(desk.button(Act::Resume, &subject, "Resume now")?);
        buttons.push(desk.button(Act::Settle, &subject, "Settle against the provider")?);
    }
    let tables = vec![calls(desk, &inspection, Some(key_id))];
    let page = Parts { kind: "Key", id: key.key_hash.clone(), state: key_state(key), facts, buttons, tables };
    show(desk, "/admin/keys", &inspection, Some(key_id), page, &subject).await
}

/// What stands on a page besides its story.
struct Parts {
    kind: &'static str,
    id: String,
    state: Cell,
    facts: Vec<Fact>,
    buttons: Vec<super::sheets::Button>,
    tables: Vec<Table>,
}

async fn show(
    desk: &Desk<'_>,
    here: &'static str,
    inspection: &Inspection,
    key_id: Option<u32>,
    parts: Parts,
    subject: &Subject,
) -> Result<Answer, Problem> {
    let env = &desk.app.env;
    let mut about = Where::default();
    let payment = inspection.snapshot.payment.as_ref().map(|payment| payment.payment_id.as_str());
    let ride = inspection.snapshot.ride.as_ref().map(|ride| ride.ride_id.as_str());
    // What was done to the payment made its keys.
    let mut names = vec![subject.name()];
    names.extend([payment, ride].into_iter().flatten().filter(|_| key_id.is_some()).map(str::to_owned));
    let names: Vec<String> = names.into_iter().map(|name| about.place(name)).collect();
    about.and(&format!("subject IN ({})", names.join(", ")));
    let (jobs, acts) =
        try_join!(data::jobs_of(env, &inspection.snapshot.object), data::actions(env, about, 0))
            .map_err(unreadable)?;
    let story = story::story(inspection, key_id, &jobs);
    let mut tables = parts.tables;
    tables.push(Table {
        title: "What operators did here",
        columns: &["When (UTC)", "Who", "Action", "Outcome"],
        rows: acts
            .into_iter()
            .map(|act| {
                row(vec![
                    Cell::text(words::moment(act.at_ms)),
                    Cell::text(act.operator),
                    Cell::text(act.action),
                    Cell::text(act.outcome),
                ])
            })
            .collect(),
    });
    tables.retain(|table| !table.rows.is_empty());
    let title =
        format!("What happened to this {} when; the list below says the same.", parts.kind.to_lowercase());
    let page = Sight {
        kind: parts.kind,
        id: parts.id,
        status: parts.state,
        facts: parts.facts,
        buttons: parts.buttons,
        picture: picture::svg(&story.marks, &title, desk.request.now_ms),
        tables,
        story: lines(story.lines),
        raw: String::new(),
        site: desk.site(),
        frame: desk.frame(here).await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// `GET /admin/dead-letters/{job}`
pub(in crate::edge) async fn dead_letter(
    desk: &Desk<'_>,
    job: &Parameter<'_, Decoded>,
) -> Result<Answer, Problem> {
    let Decoded(job_id) = &job.read()?;
    let found = data::dead_letter(&desk.app.env, job_id).await.map_err(unreadable)?;
    let row = found.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let subject = Subject::Job(row.job_id.clone());
    let mut buttons = Vec::new();
    if row.state == "dead" {
        buttons.push(desk.button(Act::Requeue, &subject, "Requeue")?);
        let mut purge = desk.button(Act::Purge, &subject, "Purge")?;
        purge.tone = "danger";
        buttons.push(purge);
    }
    let history: Vec<serde_json::Value> = serde_json::from_str(&row.history).unwrap_or_default();
    let story = history.iter().filter_map(|line| {
        Some(Line {
            at_ms: line.get("at_ms")?.as_u64()?,
            lane: "Jobs",
            tone: "bad",
            what: "Failed".to_owned(),
            detail: line.get("error")?.as_str()?.to_owned(),
            place: 0,
        })
    });
    let page = Sight {
        kind: if row.event_key().is_some() { "Webhook" } else { "Job" },
        id: row.job_id.clone(),
        status: status(&row.state),
        facts: vec![
            fact("Kind", Cell::text(row.kind.replace('_', " "))),
            fact("Tries", Cell::text(row.attempts.to_string())),
            fact("Staged", Cell::text(words::moment(row.staged_at_ms))),
            fact("Last tried", Cell::text(words::moment(row.updated_at_ms))),
            fact("Last error", Cell::text(last_error(&row))),
            fact(
                "Object",
                row.object_path()
                    .map_or_else(|| Cell::text("not known"), |path| Cell::link(row.object.clone(), path)),
            ),
        ],
        buttons,
        picture: String::new(),
        tables: Vec::new(),
        story: lines(story.collect()),
        raw: row.payload.as_deref().map(readable).unwrap_or_default(),
        site: desk.site(),
        frame: desk.frame("/admin/dead-letters").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// A payload to look at: what is an address is cut.
fn readable(payload: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(payload).unwrap_or_default();
    mask(&mut value);
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

fn mask(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = words::masked(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(mask),
        // A snapshot carries the payment as its owner sees it.
        serde_json::Value::Object(members) => {
            members.iter_mut().for_each(|(name, value)| match name.as_str() {
                "shown" => *value = "…".into(),
                _ => mask(value),
            })
        }
        _ => {}
    }
}

/// An id that there may not be.
fn optional(id: Option<&String>) -> Cell {
    id.map_or_else(|| Cell::text("–"), |id| Cell { class: "id", ..Cell::text(id.clone()) })
}

const fn fact(name: &'static str, cell: Cell) -> Fact {
    Fact { name, cell }
}

const fn row(cells: Vec<Cell>) -> Row {
    Row { cells, buttons: Vec::new() }
}

fn key_state(key: &KeyRow) -> Cell {
    match (key.status.as_str(), key.flagged, key.in_doubt) {
        ("open", 1, _) => Cell::chip("flagged", "bad"),
        ("open", _, 1) => Cell::chip("unknown", "warn"),
        (other, ..) => status(other),
    }
}

fn keys(desk: &Desk<'_>, object: ObjectId, inspection: &Inspection) -> Table {
    let rows = inspection.snapshot.keys.iter().map(|key| {
        row(vec![
            Cell::link(
                key.key_hash.get(..12).unwrap_or(&key.key_hash),
                format!("/admin/keys/{}/{}", object.to_hex(), key.key_id),
            ),
            Cell::text(key.operation.clone().unwrap_or_default()),
            key_state(key),
            Cell::text(key.recovery_point.replace('_', " ")),
            Cell::number(key.attempts.to_string()),
            Cell::number(key.response_status.map(|status| status.to_string()).unwrap_or_default()),
            Cell::number(inspection.replays.get(&key.key_id).copied().unwrap_or(0).to_string()),
            Cell::text(words::from_now(key.created_at_ms, desk.request.now_ms)),
        ])
    });
    Table {
        title: "Keys",
        columns: &["Key", "Operation", "State", "Recovery point", "Runs", "Answer", "Replays", "First used"],
        rows: rows.collect(),
    }
}

fn calls(desk: &Desk<'_>, inspection: &Inspection, key_id: Option<u32>) -> Table {
    let mine = inspection.calls.iter().filter(|call| key_id.is_none_or(|key_id| call.key_id == key_id));
    let payment = inspection.snapshot.payment.as_ref().map(|payment| &payment.payment_id);
    let ride = inspection.snapshot.ride.as_ref().map(|ride| &ride.ride_id);
    let page = payment.or(ride).map(|id| format!("/admin/payments/{id}"));
    let rows = mine.map(|call| {
        let answer = match (&call.result, &call.code) {
            (Some(result), Some(code)) => format!("{}: {}", result.replace('_', " "), code.replace('_', " ")),
            (Some(result), None) => result.replace('_', " "),
            (None, _) if call.in_doubt => "may have been executed".to_owned(),
            (None, _) => "none yet".to_owned(),
        };
        let settled_by = call.by_hand.as_ref().map(|(by, reason)| format!("by hand, {by}: {reason}"));
        let review = call.needs_review.as_deref().map(|why| match &call.provider_id {
            Some(id) => format!("{why} ({id})"),
            None => why.to_owned(),
        });
        let http = call.http_status.map(|status| format!("HTTP {status}")).unwrap_or_default();
        let next = match call.result {
            None if call.sends > 0 => {
                format!("next {}", words::from_now(call.next_try_at_ms, desk.request.now_ms))
            }
            _ => String::new(),
        };
        let unanswered = if call.result.is_none() { call.failures } else { 0 };
        let sends = if unanswered > 0 { format!("{unanswered} without an answer") } else { String::new() };
        let is_given_up = inspection.given_up_call == Some(call.call_id);
        let can_be_settled = (call.result.is_none() && call.sends > 0) || is_given_up;
        let by_hand = page.as_ref().filter(|_| can_be_settled).map(|page| Cell {
            class: "",
            ..Cell::link("Settle by hand", format!("{page}/calls/{}", call.call_id))
        });
        row(vec![
            Cell::text(call.name.clone()).with(call.provider.clone()),
            status(&call.status).with(next),
            Cell::text(answer).with(settled_by.or(review).unwrap_or(http)),
            Cell::number(call.sends.to_string()).with(sends),
            Cell { class: "id", ..Cell::text(call.derived_key.clone()) },
            by_hand.unwrap_or_else(|| optional(call.request_id.as_ref())),
        ])
    });
    Table {
        title: "Calls to the provider",
        columns: &["Call", "State", "Answer", "Sends", "Key for the provider", "Provider’s request"],
        rows: rows.collect(),
    }
}

/// The links to the order: which one is the newest and whether it can be paid, and which one was opened to pay.
fn links(inspection: &Inspection) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(links) = &inspection.links {
        let state = match links.ended_through {
            Some(ended) if ended >= links.revision => "ended by the shop".to_owned(),
            Some(ended) => format!("those up to revision {ended} were ended by the shop"),
            None => String::new(),
        };
        facts.push(fact("Newest link", Cell::text(format!("revision {}", links.revision)).with(state)));
    }
    if let Some(opened) = inspection.link_revision {
        let newest = inspection.links.as_ref().map_or(opened, |links| links.revision);
        let note = if opened < newest { "a newer one was made since" } else { "" };
        facts.push(fact("Opened link", Cell::text(format!("revision {opened}")).with(note)));
    }
    facts
}

fn tries(inspection: &Inspection) -> Table {
    let rows = inspection.tries.iter().map(|one| {
        let call = inspection.calls.iter().find(|call| call.derived_key == one.derived_key);
        let outcome = match one.definitive {
            _ if call.is_some_and(|call| call.by_hand.is_some()) => "settled by hand",
            Some(true) => "definitive",
            Some(false) => "inferred",
            None => "",
        };
        let late = one.late.as_ref().map(|late| {
            let money = words::money(late.amount_minor.into(), one.currency.as_str());
            let what = if late.captured { "taken" } else { "held" };
            format!("{money} {what}: {}", late.stage.as_str().replace('_', " "))
        });
        row(vec![
            Cell::number(one.attempt.to_string()),
            status(&one.status).with(outcome.to_owned()),
            Cell::text(one.provider.as_str().to_owned()),
            optional(one.provider_payment.as_ref()),
            Cell { class: "id", ..Cell::text(one.derived_key.clone()) },
            optional(late.as_ref()),
        ])
    });
    Table {
        title: "Tries",
        columns: &[
            "Try",
            "Ended",
            "Provider",
            "Provider’s id",
            "Key for the provider",
            "Money found after it was over",
        ],
        rows: rows.collect(),
    }
}

fn refunds(inspection: &Inspection) -> Table {
    let rows = inspection.snapshot.refunds.iter().map(|refund| {
        row(vec![
            Cell { class: "id", ..Cell::text(refund.refund_id.clone()) },
            status(&refund.status),
            Cell::number(words::money(refund.amount_minor.into(), &refund.currency)),
            Cell::text(refund.reason.replace('_', " ")),
            optional(refund.provider_refund.as_ref()),
            Cell::text(words::moment(refund.created_at_ms)),
        ])
    });
    Table {
        title: "Refunds",
        columns: &["Refund", "Status", "Amount", "Reason", "Provider’s id", "Asked for (UTC)"],
        rows: rows.collect(),
    }
}

fn lines(lines: Vec<Line>) -> Vec<StoryLine> {
    let mut before: Option<u64> = None;
    let shown = lines.into_iter().map(|line| {
        let since = before.replace(line.at_ms).map(|before| line.at_ms.saturating_sub(before));
        StoryLine {
            at: timestamp(line.at_ms),
            moment: words::moment(line.at_ms),
            since: since
                .filter(|ms| *ms > 0)
                .map(|ms| format!("+{}", words::duration(ms)))
                .unwrap_or_default(),
            lane: line.lane,
            tone: line.tone,
            what: line.what,
            detail: line.detail,
        }
    });
    shown.collect()
}
