//! What the gate has passed on: the list, the page of an operation, and an operator's word on one that nobody knows the end of. Only where
//! the desk is bound to the gate's objects (docs/gate.md).

use serde::Deserialize;
use worker::Env;

use super::action_outcome::ActionOutcome;
use super::context::Desk;
use super::detail::{Parts, show};
use super::detail_tables::{fact, row, settled_by};
use super::format;
use super::queries::{Where, page};
use super::route::{OperatorAction, Target};
use super::status::Entity;
use super::view_models::{Cell, List, Row, Table};
use messages::gate::{GateAsk, GateRow, GateWord, reference};
use messages::inspection::{CallView, Inspection};
use messages::message::{ByHandAnswer, Inspected};
use messages::snapshot::KeyRow;
use once::replays::REPLAYS_SHOWN_MAX;
use runtime::db::Db;
use runtime::objects::{ObjectRef, Objects};
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

/// Where the list is.
pub(super) const PATH: &str = "/admin/gate";

/// What the gate has kept from being done again, of what began since.
pub(super) async fn stopped_since(env: &Env, since_ms: u64) -> worker::Result<u64> {
    #[derive(Default, Deserialize)]
    struct Stopped {
        number: u64,
    }
    let sql = "SELECT coalesce(sum(replays), 0) AS number FROM gate_operations WHERE replays > 0 AND began_at_ms >= ?1";
    let stopped: Option<Stopped> = Db::of(env)?.first(sql, vec![since_ms.into()]).await?;
    Ok(stopped.unwrap_or_default().number)
}

/// The digits with which what was searched for begins; `None` if it is no reference.
fn digits(search: &str) -> Option<String> {
    let digits = search.replace('-', "").to_ascii_lowercase();
    ((4..=64).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit())).then_some(digits)
}

async fn operations(env: &Env, search: &str, state: &str, number: usize) -> worker::Result<Vec<GateRow>> {
    let mut conditions = Where::default();
    if !search.is_empty() {
        // All that begins with them: `g` comes after the last digit. What is no reference is found nowhere.
        let digits = digits(search).unwrap_or_else(|| "g".to_owned());
        let end = format!("{digits}g");
        conditions.and_value("key_hash >= ?", digits);
        conditions.and_value("key_hash < ?", end);
    }
    match state {
        "" => {}
        "done" => conditions.and("state = 'done'"),
        other => {
            conditions.and_value("state = ?", other);
            conditions.and("state != 'done'");
        }
    }
    let select =
        "SELECT key_hash, number, version, host, route, state, status, attempts, replays, began_at_ms, ended_at_ms
         FROM gate_operations";
    page(env, select, conditions, "began_at_ms DESC, key_hash, number", number).await
}

/// Where what was searched for is listed, if it is the reference of something that was passed on.
pub(super) async fn listed(desk: &Desk<'_>, search: &str) -> worker::Result<Option<String>> {
    let is_one = || digits(search).is_some_and(|digits| digits.len() == 8 && search.contains('-'));
    if desk.app.gate.is_none() || !is_one() {
        return Ok(None);
    }
    let found = operations(&desk.app.env, search, "", 0).await?;
    Ok((!found.is_empty()).then(|| format!("{PATH}?q={search}")))
}

fn objects<'a>(desk: &'a Desk<'_>) -> Result<&'a Objects, Problem> {
    desk.app.gate.as_ref().ok_or_else(|| Problem::new(Kind::NotFound))
}

/// `GET /admin/gate`
pub(crate) async fn list(desk: &Desk<'_>) -> Result<Answer, Problem> {
    objects(desk)?;
    let (search, state, now_ms) = (desk.query("q"), desk.query("state"), desk.request.now_ms);
    let mut rows =
        operations(&desk.app.env, &search, &state, desk.page_number()).await.map_err(unreadable)?;
    let (newer, older) = desk.around(&mut rows);
    let rows = rows.into_iter().map(|row| {
        let target = Target::Gate(row.key_hash.clone(), row.number);
        let took = row.ended_at_ms.map(|at_ms| format::duration(at_ms.saturating_sub(row.began_at_ms)));
        let again = (row.number > 1).then(|| format!("sent anew, number {}", row.number));
        let runs = if row.attempts > 1 { format!("{} runs", row.attempts) } else { String::new() };
        let cells = vec![
            Cell::link(reference(&row.key_hash), target.path()).with(again.unwrap_or_default()),
            Cell::text(row.route).with(row.host),
            Entity::Gate.chip(&row.state).with(runs),
            Cell::number(row.status.map(|status| status.to_string()).unwrap_or_default())
                .with(took.unwrap_or_default()),
            Cell::number(row.replays.to_string()),
            Cell::moment(row.began_at_ms).with(format::from_now(row.began_at_ms, now_ms)),
        ];
        Row { cells, buttons: Vec::new() }
    });
    let states = Entity::Gate.statuses().iter().map(|status| (status.name, status.word));
    let states: Vec<_> = [("", "all")].into_iter().chain(states).collect();
    let page = List {
        title: "Gate",
        intro: "What the gate has passed on to your own sites, each once. Nothing of what was sent is kept.",
        search: Some(search),
        day: None,
        hint: "The reference that a person was shown, such as 3F9A-0C21",
        selects: vec![desk.select("state", "State", &states)],
        columns: &["Reference", "Route", "State", "Answer", "Duplicates", "Sent (UTC)"],
        rows: rows.collect(),
        empty_text: "Nothing matches. What is sent through the gate appears within moments.",
        buttons: Vec::new(),
        download: String::new(),
        upload: None,
        newer,
        older,
        site: desk.site(),
        legend: Entity::Gate.legend(),
        chrome: desk.chrome(PATH).await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// `GET /admin/gate/{key}/{number}`
pub(crate) async fn operation(
    desk: &Desk<'_>,
    key: &str,
    number: &Parameter<'_, u32>,
) -> Result<Answer, Problem> {
    let (number, not_found) = (number.read()?, || Problem::new(Kind::NotFound));
    let place = place(key).ok_or_else(not_found)?;
    let asked = objects(desk)?.ask::<Inspected>(&place, GateAsk::Inspect).await;
    let inspection = asked.map_err(unreadable)?.ok_or_else(not_found)?;
    let found = inspection.snapshot.keys.iter().find(|found| found.key_id == number);
    let found = found.ok_or_else(not_found)?;
    let call = inspection.calls.iter().find(|call| call.key_id == number);
    let subject = Target::Gate(key.to_owned(), number);
    let route = found.operation.clone().unwrap_or_else(|| "–".to_owned());
    let mut facts = vec![
        fact("Reference", Cell { class: "id", ..Cell::text(reference(key)) }),
        fact("Route", Cell::text(route).with(call.map(|call| call.provider.clone()).unwrap_or_default())),
        fact("Sent first", Cell::moment(found.created_at_ms)),
    ];
    if let Some(at_ms) = found.finished_at_ms {
        let took = format::duration(at_ms.saturating_sub(found.created_at_ms));
        facts.push(fact("Ended", Cell::moment(at_ms).with(format!("after {took}"))));
    }
    if let Some(status) = found.response_status {
        facts.push(fact("Answer", Cell::text(status.to_string())));
    }
    let replays = inspection.replays.get(&number).copied().unwrap_or(0);
    let shown = if replays > REPLAYS_SHOWN_MAX {
        format!("the first {REPLAYS_SHOWN_MAX} are shown")
    } else {
        String::new()
    };
    facts.push(fact("Answered again", Cell::text(format::replays(replays)).with(shown)));
    let others = inspection.snapshot.keys.iter().filter(|other| other.key_id != number);
    for other in others {
        let path = Target::Gate(key.to_owned(), other.key_id).path();
        let link = Cell { class: "", ..Cell::link(format!("number {}", other.key_id), path) };
        facts.push(fact("Under the same key", link.with(Entity::Gate.word(&other.status))));
    }
    facts.push(fact("Object", Cell { class: "id", ..Cell::text(inspection.snapshot.object.clone()) }));
    let mut buttons = Vec::new();
    if is_unsettled(found) {
        for (act, label) in
            [(OperatorAction::Done, "It was done"), (OperatorAction::NotDone, "It was not done")]
        {
            let mut button = desk.button(act, &subject, label)?;
            button.note = "How you know it";
            button.tone = if act == OperatorAction::NotDone { "danger" } else { "" };
            buttons.push(button);
        }
    }
    let parts = Parts {
        kind: "Operation",
        id: key.to_owned(),
        state: Entity::Gate.chip(&found.status),
        summary: call.filter(|_| is_unsettled(found)).map(|call| summary(found, call)).unwrap_or_default(),
        facts,
        buttons,
        tables: vec![calls(desk, &inspection, number)],
        internals: Vec::new(),
        calls_lane: "Origin",
    };
    show(desk, PATH, &inspection, Some(number), parts, &subject).await
}

fn place(key: &str) -> Option<ObjectRef> {
    let is_one = key.len() == 64 && key.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_one.then(|| ObjectRef::Named(key.to_owned()))
}

/// Whether an operator can say how it ended.
fn is_unsettled(key: &KeyRow) -> bool {
    matches!(key.status.as_str(), "unknown" | "in_doubt")
}

/// What an operator has to know before they say anything.
fn summary(key: &KeyRow, call: &CallView) -> Vec<String> {
    let at =
        call.last_sent_at_ms.map(|at_ms| format!(" at {} UTC", format::moment(at_ms))).unwrap_or_default();
    let first = format!("It was sent to {}{at}, and no answer says whether it was done.", call.provider);
    let next = match key.status.as_str() {
        "in_doubt" => {
            "The site is asked, or gets it once more under the same key, when its visitor comes again."
        }
        _ => "It is not sent again, and its visitor was told so, with the reference.",
    };
    vec![
        first,
        next.to_owned(),
        "Look for it in the site itself: it got the Idempotency-Key that stands below.".to_owned(),
        "Then say here how it ended. If it was done, its visitor is told so. If it was not, they can send it once more: where that is \
         wrong it is done twice. What you enter is kept as long as the gate keeps an answer, and is then forgotten."
            .to_owned(),
    ]
}

fn calls(desk: &Desk<'_>, inspection: &Inspection, number: u32) -> Table {
    let rows = inspection.calls.iter().filter(|call| call.key_id == number).map(|call| {
        let answer = match &call.result {
            Some(result) => result.replace('_', " "),
            None if call.in_doubt => "may have been done".to_owned(),
            None => "none yet".to_owned(),
        };
        let http = call.http_status.map(|status| format!("HTTP {status}")).unwrap_or_default();
        let sent = call.last_sent_at_ms.map(|at_ms| format::from_now(at_ms, desk.request.now_ms));
        row(vec![
            Cell::text(call.provider.clone()),
            Cell::text(answer).with(settled_by(call).unwrap_or(http)),
            Cell::number(call.sends.to_string()).with(sent.unwrap_or_default()),
            Cell { class: "id", ..Cell::text(call.provider_key.clone()) },
        ])
    });
    Table {
        title: "Sent to the site",
        columns: &["Site", "Answer", "Sends", "Idempotency-Key"],
        rows: rows.collect(),
    }
}

/// Tells an operator's word to the object.
pub(super) async fn settle(desk: &Desk<'_>, key: &str, word: GateWord) -> worker::Result<ActionOutcome> {
    let (Some(place), Some(objects)) = (place(key), desk.app.gate.as_ref()) else {
        return Ok(ActionOutcome::refused("there is no such operation"));
    };
    let answer = objects.ask::<ByHandAnswer>(&place, GateAsk::Settle(word)).await?;
    Ok(match answer {
        ByHandAnswer::Settled { how } => ActionOutcome::done(format!("settled as {how}")),
        other => super::by_hand::said(&other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_found_however_it_is_written() {
        assert_eq!(reference(&"3f9a0c21".repeat(8)), "3F9A-0C21");
        for written in ["3F9A-0C21", "3f9a0c21", "3F9A0C21"] {
            assert_eq!(digits(written).as_deref(), Some("3f9a0c21"), "{written}");
        }
        for other in ["", "3F9", "order 7", "3F9A-0C2G", &"a".repeat(65)] {
            assert_eq!(digits(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_stands_for_a_key_is_a_place() {
        assert!(place(&"0a".repeat(32)).is_some());
        for other in ["", "0a", &"0A".repeat(32), &"0g".repeat(32)] {
            assert!(place(other).is_none(), "{other}");
        }
    }
}
