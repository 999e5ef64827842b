//! The detail pages of a payment, a key and a dead letter: the object's own state, and the buttons.

use futures_util::try_join;

use super::button::{Button, SHARD};
use super::context::Desk;
use super::detail_tables::{
    calls, fact, key_state, keys, links, metadata, optional, refunds, row, tries, words,
};
use super::format;
use super::history;
use super::outcome::can_be_asked;
use super::payment_summary::{self, InDoubt};
use super::queries::{self, Where};
use super::route::{OperatorAction, Target};
use super::status::Entity;
use super::timeline::{self, Entry};
use super::timeline_svg::{self, CALLS, Picture};
use super::view_models::{Cell, DetailPage, EntryView, Fact, Table};
use messages::inspection::Inspection;
use messages::message::{Inspected, ObjectRequest};
use once::id::ObjectId;
use once::replays::REPLAYS_SHOWN_MAX;
use payments::payment::RefundReason;
use payments::payment::id::{PaymentId, object_of, reference};
use payments::timestamp;
use runtime::objects::ObjectRef;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::{Decoded, Parameter};

impl Desk<'_> {
    /// The object's whole state.
    pub(super) async fn inspect(&self, object: Option<ObjectId>) -> Result<(ObjectId, Inspection), Problem> {
        let not_found = || Problem::new(Kind::NotFound);
        let object = object.ok_or_else(not_found)?;
        let place = ObjectRef::Id(object);
        if !self.app.exists(&place) {
            return Err(not_found());
        }
        let inspected =
            self.app.ask::<Inspected>(&place, ObjectRequest::Inspect).await.map_err(unreadable)?;
        Ok((object, inspected.ok_or_else(not_found)?))
    }
}

/// An amount that was entered on a payment's page and cannot be done.
pub(super) struct Mistake {
    /// What was to be done.
    pub(super) act: OperatorAction,
    /// What was entered.
    pub(super) entered: String,
    /// What is wrong with it, in a sentence.
    pub(super) wrong: String,
    /// The reason that was chosen.
    pub(super) reason: RefundReason,
}

/// `GET /admin/payments/{id}`
pub(crate) async fn payment(desk: &Desk<'_>, id: &str) -> Result<Answer, Problem> {
    page_of_payment(desk, id, None).await
}

/// The page of a payment on which a mistake was made, with what was entered and what is wrong with it.
pub(super) async fn payment_again(desk: &Desk<'_>, id: &str, mistake: Mistake) -> Result<Answer, Problem> {
    let answer = page_of_payment(desk, id, Some(mistake)).await?;
    Ok(Answer { status: 422, ..answer })
}

async fn page_of_payment(desk: &Desk<'_>, id: &str, mistake: Option<Mistake>) -> Result<Answer, Problem> {
    let (object, inspection) = desk.inspect(object_of(id)).await?;
    let subject = Target::Payment(id.to_owned());
    let payment = inspection.snapshot.payment.as_ref().filter(|payment| payment.payment_id == id);
    let payment = payment.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let money = |minor: u64| format::money(minor, &payment.currency);
    let in_doubt = InDoubt::of(&inspection.snapshot.keys);
    let refunded = Cell::text(money(payment.refunded_minor));
    let mut facts = vec![
        fact("Amount", Cell::text(money(payment.amount_minor))),
        fact(
            "Captured",
            Cell::text(if in_doubt.captured {
                "not known".to_owned()
            } else {
                money(payment.captured_minor)
            }),
        ),
        fact(
            "Refunded",
            if in_doubt.refunded { refunded.with("a refund is not known yet") } else { refunded },
        ),
        fact("Provider", Cell::text(payment.provider.clone())),
        fact("Provider’s id", optional(payment.provider_payment.as_ref())),
        fact("Reference", optional(PaymentId::parse(id).map(reference).as_ref())),
        fact("Order", optional(payment.order_id.as_ref())),
        fact("Card", Cell::text(inspection.card.map_or_else(|| "–".to_owned(), |card| card.to_string()))),
        fact("Attempt", Cell::text(payment.attempt.to_string())),
    ];
    if let Some(at_ms) = inspection.capture_before_ms {
        let from_now = format::from_now(at_ms, desk.request.now_ms);
        facts.push(fact("Capture before", Cell::moment(at_ms).with(from_now)));
    }
    facts.extend(links(&inspection));
    if let Some(code) = &payment.failure_code {
        facts.push(fact("Failure", Cell::text(code.replace('_', " "))));
    }
    facts.push(fact(
        "Account",
        Cell { class: "wide", ..Cell::text(format::owner(&inspection.snapshot.owner)) },
    ));
    facts.extend(words(&inspection));
    let left = history::of_payment(desk, object, id, &inspection.snapshot).await;
    if let Some(left) = left.map_err(unreadable)? {
        facts.push(fact("History", left));
    }
    if let Some(move_) = &inspection.under_way {
        facts.push(fact("Under way", Entity::Payment.chip(move_)));
    }
    if let Some(at_ms) = inspection.next_check_at_ms {
        facts.push(fact("Provider is asked", Cell::text(format::from_now(at_ms, desk.request.now_ms))));
    }
    let is_open = inspection.snapshot.keys.iter().any(|key| key.status == "open");
    let mut buttons = go_on(desk, &subject, &payment.provider, is_open)?;
    if inspection.capturable_minor > 0 {
        let mut capture = Button::asking(OperatorAction::Capture, &subject, "Capture");
        capture.amount = Some(money(inspection.capturable_minor));
        buttons.push(capture);
    }
    if inspection.voidable {
        buttons.push(Button::dangerous(OperatorAction::Void, &subject, "Void"));
    }
    if inspection.refundable_minor > 0 {
        let mut refund = Button::dangerous(OperatorAction::Refund, &subject, "Refund");
        refund.amount = Some(money(inspection.refundable_minor));
        refund.reasons = reasons(mistake.as_ref().map(|mistake| mistake.reason));
        buttons.push(refund);
    }
    if let Some(mistake) = mistake {
        let path = Button::path_of(mistake.act, &subject);
        if let Some(button) = buttons.iter_mut().find(|button| button.path == path) {
            (button.entered, button.wrong) = (mistake.entered, mistake.wrong);
        }
    }
    let internals = vec![tries(&inspection), keys(desk, object, &inspection), calls(desk, &inspection, None)];
    let (id, state, tables) = (
        id.to_owned(),
        Entity::Payment.chip(&payment.status),
        vec![metadata(&inspection), refunds(&inspection)],
    );
    let (summary, calls_lane) = (Vec::new(), CALLS);
    let page = Parts { kind: "Payment", id, state, summary, facts, buttons, tables, internals, calls_lane };
    show(desk, "/admin/payments", &inspection, None, page, &subject).await
}

/// The buttons that take up what waits, and ask the provider. Where it cannot be asked they would do the same, so there is one.
fn go_on(desk: &Desk<'_>, subject: &Target, provider: &str, is_open: bool) -> Result<Vec<Button>, Problem> {
    let resume = "Resume now";
    if !can_be_asked(provider) {
        return Ok(vec![desk.button(OperatorAction::Settle, subject, resume)?]);
    }
    let mut buttons = Vec::new();
    if is_open {
        buttons.push(desk.button(OperatorAction::Resume, subject, resume)?);
    }
    buttons.push(desk.button(OperatorAction::Settle, subject, "Check with the provider")?);
    Ok(buttons)
}

/// The reasons for a refund, the chosen one first.
fn reasons(chosen: Option<RefundReason>) -> Vec<&'static str> {
    let all = [RefundReason::RequestedByCustomer, RefundReason::Duplicate, RefundReason::Fraudulent];
    let others = all.into_iter().filter(|reason| Some(*reason) != chosen);
    chosen.into_iter().chain(others).map(RefundReason::as_str).collect()
}

/// `GET /admin/keys/{object}/{key_id}`
pub(crate) async fn key(
    desk: &Desk<'_>,
    object: &str,
    key_id: &Parameter<'_, u32>,
) -> Result<Answer, Problem> {
    let key_id = key_id.read()?;
    let (object, inspection) = desk.inspect(ObjectId::from_hex(object)).await?;
    let key = inspection.snapshot.keys.iter().find(|key| key.key_id == key_id);
    let key = key.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let subject = Target::Key(object.to_hex(), key_id);
    let now_ms = desk.request.now_ms;
    let resource = match &inspection.snapshot.payment {
        Some(payment) => {
            Cell::link(payment.payment_id.clone(), format!("/admin/payments/{}", payment.payment_id))
        }
        None => Cell::text("not made yet"),
    };
    let mut facts = vec![
        fact("Operation", Cell::text(key.operation.clone().unwrap_or_else(|| "–".to_owned()))),
        fact("Recovery point", Cell::text(key.recovery_point.replace('_', " "))),
        fact("Runs", Cell::text(key.attempts.to_string())),
        fact("First used", Cell::moment(key.created_at_ms)),
    ];
    if let Some(at_ms) = key.finished_at_ms {
        let took = format::duration(at_ms.saturating_sub(key.created_at_ms));
        let answer = key.response_status.map(|status| status.to_string()).unwrap_or_default();
        facts.push(fact("Finished", Cell::moment(at_ms).with(format!("after {took}"))));
        facts.push(fact("Answer", Cell::text(answer)));
    }
    if key.status != "open" {
        let count = inspection.replays.get(&key_id).copied().unwrap_or(0);
        let replays = Cell::text(format::replays(count));
        let is_cut = count > REPLAYS_SHOWN_MAX;
        let replays =
            if is_cut { replays.with(format!("the first {REPLAYS_SHOWN_MAX} are shown")) } else { replays };
        facts.push(fact("Answered again", replays));
    }
    if let Some(at_ms) = key.wake_at_ms {
        facts.push(fact(
            "Taken up",
            Cell::text(format::from_now(at_ms, now_ms)).with("at the latest, by the alarm"),
        ));
    }
    facts.push(fact("Account", Cell::text(format::owner(&key.owner))));
    facts.push(fact("Resource", resource));
    facts.push(fact("Object", Cell { class: "id", ..Cell::text(object.to_hex()) }));
    let provider = inspection.snapshot.payment.as_ref().map_or("", |payment| &payment.provider);
    let buttons = if key.status == "open" { go_on(desk, &subject, provider, true)? } else { Vec::new() };
    let tables = vec![calls(desk, &inspection, Some(key_id))];
    let (id, state, internals) = (key.key_hash.clone(), key_state(key), Vec::new());
    let (summary, calls_lane) = (Vec::new(), CALLS);
    let page = Parts { kind: "Key", id, state, summary, facts, buttons, tables, internals, calls_lane };
    show(desk, "/admin/keys", &inspection, Some(key_id), page, &subject).await
}

/// A detail page without its timeline.
pub(super) struct Parts {
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) state: Cell,
    pub(super) summary: Vec<String>,
    pub(super) facts: Vec<Fact>,
    pub(super) buttons: Vec<Button>,
    pub(super) tables: Vec<Table>,
    pub(super) internals: Vec<Table>,
    /// What its calls' lane is called.
    pub(super) calls_lane: &'static str,
}

pub(super) async fn show(
    desk: &Desk<'_>,
    here: &'static str,
    inspection: &Inspection,
    key_id: Option<u32>,
    parts: Parts,
    subject: &Target,
) -> Result<Answer, Problem> {
    let env = &desk.app.env;
    let mut about = Where::default();
    let payment = inspection.snapshot.payment.as_ref().map(|payment| payment.payment_id.as_str());
    // Actions on the payment concern its keys, too.
    let mut names = vec![subject.name()];
    names.extend(payment.into_iter().filter(|_| key_id.is_some()).map(str::to_owned));
    let names: Vec<String> = names.into_iter().map(|name| about.place(name)).collect();
    about.and(&format!("subject IN ({})", names.join(", ")));
    let (jobs, acts) =
        try_join!(queries::jobs_of(env, &inspection.snapshot), queries::actions(env, about, 0))
            .map_err(unreadable)?;
    let mut timeline = timeline::timeline(inspection, key_id, &jobs);
    let lanes = timeline.entries.iter_mut().map(|entry| &mut entry.lane);
    for lane in lanes.chain(timeline.spans.iter_mut().map(|span| &mut span.lane)) {
        if *lane == CALLS {
            *lane = parts.calls_lane;
        }
    }
    let mut tables = parts.tables;
    tables.push(acts_table(acts));
    tables.retain(|table| !table.rows.is_empty());
    let mut internals = parts.internals;
    internals.retain(|table| !table.rows.is_empty());
    let is_open = inspection.snapshot.keys.iter().any(|key| key.status == "open");
    let in_doubt = InDoubt::of(&inspection.snapshot.keys);
    let told = inspection.snapshot.payment.as_ref().filter(|_| key_id.is_none());
    let account = format::owner(&inspection.snapshot.owner);
    let title =
        format!("What happened to this {} when; the list below says the same.", parts.kind.to_lowercase());
    let page = DetailPage {
        kind: parts.kind,
        id: parts.id,
        status: parts.state,
        summary: told
            .map(|payment| {
                payment_summary::sentences(payment, &inspection.snapshot.refunds, &account, in_doubt)
            })
            .unwrap_or(parts.summary),
        shares: told.map(payment_summary::shares).unwrap_or_default(),
        facts: parts.facts,
        buttons: parts.buttons,
        picture: timeline_svg::picture(&timeline.spans, &title, desk.request.now_ms),
        tables,
        internals,
        internals_open: is_open || inspection.given_up_call.is_some() || !inspection.untold_calls.is_empty(),
        timeline: entry_views(timeline.entries),
        raw: String::new(),
        site: desk.site(),
        chrome: desk.chrome(here).await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// `GET /admin/dead-letters/{job}`
pub(crate) async fn dead_letter(desk: &Desk<'_>, job: &Parameter<'_, Decoded>) -> Result<Answer, Problem> {
    let Decoded(job_id) = &job.read()?;
    let found =
        queries::dead_letter(&desk.app.model, job_id, &desk.query(SHARD)).await.map_err(unreadable)?;
    let row = found.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let subject = Target::Job(row.job_id.clone());
    let mut buttons = Vec::new();
    if row.state == "dead" {
        let shard = row.shard.as_deref();
        buttons.push(desk.button(OperatorAction::Requeue, &subject, "Requeue")?.found_in(shard));
        buttons.push(Button::dangerous(OperatorAction::Purge, &subject, "Purge").found_in(shard));
    }
    let history: Vec<serde_json::Value> = serde_json::from_str(&row.history).unwrap_or_default();
    let entries = history.iter().filter_map(|line| {
        Some(Entry {
            at_ms: line.get("at_ms")?.as_u64()?,
            lane: "Jobs",
            tone: "bad",
            what: "Failed".to_owned(),
            detail: line.get("error")?.as_str()?.to_owned(),
            place: 0,
        })
    });
    let page = DetailPage {
        kind: if row.event_key().is_some() { "Webhook" } else { "Job" },
        id: row.job_id.clone(),
        status: Entity::Job.chip(&row.state),
        summary: Vec::new(),
        shares: Vec::new(),
        facts: vec![
            fact("Kind", Cell::text(row.kind.replace('_', " "))),
            fact("Tries", Cell::text(row.attempts.to_string())),
            fact("Staged", Cell::moment(row.staged_at_ms)),
            fact("Last tried", Cell::moment(row.updated_at_ms)),
            fact("Last error", Cell::text(row.last_error())),
            fact(
                "Object",
                row.object_path()
                    .map_or_else(|| Cell::text("not known"), |path| Cell::link(row.object.clone(), path)),
            ),
        ],
        buttons,
        picture: Picture::default(),
        tables: Vec::new(),
        internals: Vec::new(),
        internals_open: false,
        timeline: entry_views(entries.collect()),
        raw: row.payload.as_deref().map(readable).unwrap_or_default(),
        site: desk.site(),
        chrome: desk.chrome("/admin/dead-letters").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// A payload for display, with email addresses masked.
fn readable(payload: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(payload).unwrap_or_default();
    mask(&mut value);
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

fn mask(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = format::masked(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(mask),
        // A snapshot contains the payment as its owner sees it: hide it.
        serde_json::Value::Object(members) => {
            members.iter_mut().for_each(|(name, value)| match name.as_str() {
                "shown" => *value = "…".into(),
                _ => mask(value),
            })
        }
        _ => {}
    }
}

fn entry_views(entries: Vec<Entry>) -> Vec<EntryView> {
    let mut before: Option<u64> = None;
    let shown = entries.into_iter().map(|entry| {
        let since = before.replace(entry.at_ms).map(|before| entry.at_ms.saturating_sub(before));
        EntryView {
            at: timestamp(entry.at_ms),
            moment: format::moment(entry.at_ms),
            since: since
                .filter(|ms| *ms > 0)
                .map(|ms| format!("+{}", format::duration(ms)))
                .unwrap_or_default(),
            lane: entry.lane,
            tone: entry.tone,
            what: entry.what,
            detail: entry.detail,
        }
    });
    shown.collect()
}

/// What operators did, as a table.
fn acts_table(acts: Vec<queries::ActionRow>) -> Table {
    let rows = acts.into_iter().map(|act| {
        row(vec![
            Cell::moment(act.at_ms),
            Cell::text(act.operator),
            Cell::text(act.action),
            Cell::text(act.outcome),
        ])
    });
    Table {
        title: "What operators did here",
        columns: &["When (UTC)", "Who", "Action", "Outcome"],
        rows: rows.collect(),
    }
}

/// The same of one subject; `None` if it is nothing.
pub(super) async fn acts_on(desk: &Desk<'_>, subject: &str) -> Result<Option<Table>, Problem> {
    let mut about = Where::default();
    about.and_value("subject = ?", subject);
    let acts = queries::actions(&desk.app.env, about, 0).await.map_err(unreadable)?;
    Ok(Some(acts_table(acts)).filter(|table| !table.rows.is_empty()))
}
