//! What an operator does to what is kept: erase personal data, write the read model anew, import the bank's answer or Adyen's report. All of it
//! may be asked any number of times, and each time stands in the log of operators.

use std::time::Duration;

use data_encoding::HEXLOWER;
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::action_outcome::{ActionOutcome, Status};
use super::app::App;
use super::operator::admit;
use super::operator_log::{Action, logged};
use crate::reports::ended;
use crate::tasks::{adyen_import, bank_acks};
use messages::message::ObjectRequest;
use messages::settlement::{self, Uploaded};
use once::fingerprint::FieldError;
use once::id::ObjectId;
use payments::payment::id::{PaymentId, object_of};
use payments::transitions::pii::Erased;
use runtime::http_client::within;
use runtime::log::log;
use runtime::objects::ObjectRef;
use runtime::serve::unreadable;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem, invalid_parameters};
use web::query;

/// Where the page after the last payment begins: with the objects that are known by their keys.
const KEYS: &str = "keys";
/// What the place where a page begins begins with, where that is in a shard.
const SHARD: &str = "shard:";
/// How many objects one request projects: an invocation has 1000 calls, and a person waits.
const PAGE: u32 = 50;
/// How many of them are asked at once.
const AT_ONCE: usize = 10;
/// How long one may take: it holds up its part of a page, for which somebody waits.
const OBJECT_TAKES: Duration = Duration::from_secs(10);

/// `POST /admin/payments/{id}/erase`, `POST /admin/customers/{id}/erase`
pub(super) async fn erase(app: &App, request: &Request, id: &str) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let place = place(app, id)?;
    let action = Action { operator: &operator, what: "erase", subject: id };
    logged(app, request, action, erased(app, id, &place)).await
}

async fn erased(app: &App, id: &str, place: &ObjectRef) -> Result<(Answer, ActionOutcome), Problem> {
    match app.ask::<Erased>(place, ObjectRequest::Erase).await.map_err(unreadable)? {
        Erased::Gone => {}
        Erased::Nothing => return Err(Problem::new(Kind::NotFound)),
        Erased::Unfinished => {
            let detail = "An operation is not finished, or the payment provider has not decided, and the data is needed. Nothing was \
                 erased: ask again later. A payment that is left at the bank's page can be canceled first.";
            return Err(Problem::because(Kind::InProgress, detail).retry_after_s(60));
        }
    }
    let body = json!({ "id": id, "personal_data": "erased" });
    let answer = Answer::new(200, "application/json", body.to_string(), "erased");
    Ok((answer, ActionOutcome::done("the personal data is erased")))
}

/// `POST /admin/payments/{id}/project`; with `all` as the id, a page of all that the read model knows.
pub(super) async fn project(app: &App, request: &Request, id: &str) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    if id == "all" {
        let action = Action { operator: &operator, what: "project", subject: "all objects" };
        let after = query::only("after", &request.query).map_err(invalid_parameters)?;
        let work = async { project_all(app, &after).await.map_err(unreadable) };
        return logged(app, request, action, work).await;
    }
    let place = place(app, id)?;
    let action = Action { operator: &operator, what: "project", subject: id };
    let work = async {
        app.ask::<()>(&place, ObjectRequest::Project).await.map_err(unreadable)?;
        Ok(projected(1, &[], None))
    };
    logged(app, request, action, work).await
}

/// The answer, and what the log says.
fn projected(number: usize, failed: &[String], next: Option<&str>) -> (Answer, ActionOutcome) {
    let body = json!({ "projected": number, "failed": failed, "next": next });
    let answer = Answer::new(200, "application/json", body.to_string(), "projected");
    let said = format!("{number} on the way into the read model");
    let outcome = match failed.len() {
        0 => ActionOutcome::done(said),
        number => ActionOutcome { status: Status::Failed, text: format!("{said}, {number} failed") },
    };
    (answer, outcome)
}

async fn project_all(app: &App, after: &str) -> worker::Result<(Answer, ActionOutcome)> {
    #[derive(Deserialize)]
    struct Row {
        object: String,
        /// Where the next page begins, after it.
        place: String,
    }
    // Place after place: where one goes on names it, but for D1, which is the first. One that is laid to rest between two pages is among them,
    // too, and a page asks one place alone: there may be any number.
    let (place, after) = match after.strip_prefix(SHARD).and_then(|text| text.split_once(':')) {
        Some((name, after)) => (Some(name), after),
        None => (None, after),
    };
    let db = match place {
        None => app.model.d1()?,
        Some(name) => {
            let Some(db) = app.model.shard(name).await? else {
                let error = format!("there is no shard {name}: begin anew, without `after`");
                return Err(worker::Error::RustError(error));
            };
            db
        }
    };
    let (of_payments, of_keys) = match after {
        KEYS => (None, Some("")),
        after if after.is_empty() || PaymentId::parse(after).is_some() => (Some(after), None),
        after => (None, Some(after)),
    };
    let mut rows: Vec<Row> = Vec::new();
    if let Some(after) = of_payments {
        let sql = "SELECT object, payment_id AS place FROM payments WHERE payment_id > ?1 ORDER BY payment_id LIMIT ?2";
        rows = db.rows(sql, vec![after.into(), PAGE.into()]).await?;
    }
    if let Some(after) = of_keys {
        // Those without a payment, too. To project an object twice changes nothing.
        let sql = "SELECT object, object AS place FROM keys WHERE object > ?1 GROUP BY object ORDER BY object LIMIT ?2";
        rows = db.rows(sql, vec![after.into(), PAGE.into()]).await?;
    }
    let objects = rows.iter().filter_map(|row| ObjectId::from_hex(&row.object));
    let asked = stream::iter(objects).map(|object| project_one(app, object)).buffered(AT_ONCE);
    let failed: Vec<String> = asked.filter_map(async |failed| failed).collect().await;
    let is_full = rows.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
    let last = rows.last().filter(|_| is_full).map(|row| row.place.as_str());
    let here = |after: &str| match place {
        Some(name) => format!("{SHARD}{name}:{after}"),
        None => after.to_owned(),
    };
    let next = last.or_else(|| of_payments.map(|_| KEYS)).map(here);
    let next = match next {
        Some(next) => Some(next),
        None => app.model.shard_after(place.unwrap_or_default()).await?.map(|name| format!("{SHARD}{name}:")),
    };
    Ok(projected(rows.len().saturating_sub(failed.len()), &failed, next.as_deref()))
}

/// Gives the id of a payment in the object if that failed: it keeps no other from being asked.
async fn project_one(app: &App, object: ObjectId) -> Option<String> {
    let place = ObjectRef::Id(object);
    let asked = app.ask::<()>(&place, ObjectRequest::Project);
    let error = within(OBJECT_TAKES, "the object's answer", asked).await.err()?;
    let id = PaymentId::in_object(object).to_string();
    let fields =
        [("event", "project_failed".into()), ("id", id.as_str().into()), ("error", error.to_string().into())];
    log("error", &fields);
    Some(id)
}

/// `POST /admin/settlement/answers`: the body is the file.
pub(super) async fn answers(app: &App, request: &Request) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let what = format!("import answer {}", HEXLOWER.encode(&Sha256::digest(&request.body)));
    let action = Action { operator: &operator, what: &what, subject: "settlement" };
    logged(app, request, action, imported(app, request)).await
}

async fn imported(app: &App, request: &Request) -> Result<(Answer, ActionOutcome), Problem> {
    match bank_acks::upload(&app.env, request.body.clone()).await.map_err(unreadable)? {
        None => Err(Problem::of_setting(Kind::Misconfigured, "There is no bucket: bind one as SETTLEMENT.")),
        Some(Ok(lines)) => {
            let counts: Vec<String> =
                lines.iter().map(|(booked, lines)| format!("{lines} {booked}")).collect();
            let body = json!({ "lines": lines }).to_string();
            Ok((
                Answer::new(200, "application/json", body, "imported"),
                ActionOutcome::done(format!("lines: {}", counts.join(", "))),
            ))
        }
        Some(Err(errors)) => {
            let error = |message| FieldError { field: "body".to_owned(), message };
            Err(invalid_parameters(errors.into_iter().map(error).collect()))
        }
    }
}

/// `POST /admin/settlement/reports`: the body is the file, and `name` what it is called.
pub(super) async fn report(app: &App, request: &Request) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let name = query::only("name", &request.query).map_err(invalid_parameters)?;
    let name = settlement::name(&name);
    let what = settlement::action(&request.body);
    let action = Action { operator: &operator, what: &what, subject: &name };
    let work = async {
        match adyen_import::upload(&app.env, &name, request.body.clone()).await.map_err(unreadable)? {
            Uploaded::Off(why) => Err(Problem::of_setting(Kind::Misconfigured, why)),
            Uploaded::NoReport(message) => {
                Err(invalid_parameters(vec![FieldError { field: "body".to_owned(), message }]))
            }
            Uploaded::Kept(report) => {
                let counts = report.counted();
                let body = json!({
                    "report": report.report_id, "state": report.state, "error": report.error, "bytes": report.bytes,
                    "bytes_read": report.bytes_done, "lines": counts.types, "unknown": counts.unknown,
                    "own": counts.own, "of_others": counts.of_others, "unreadable": counts.unreadable,
                });
                Ok((Answer::new(200, "application/json", body.to_string(), "imported"), ended(&report)))
            }
        }
    };
    logged(app, request, action, work).await
}

fn place(app: &App, id: &str) -> Result<ObjectRef, Problem> {
    let object = object_of(id).ok_or_else(|| Problem::new(Kind::NotFound))?;
    let place = ObjectRef::Id(object);
    if app.exists(&place) { Ok(place) } else { Err(Problem::new(Kind::NotFound)) }
}
