//! What an operator does to what is kept: erase personal data, write the read model anew, import the bank's answer. All of it
//! may be asked any number of times.

use serde::Deserialize;
use serde_json::json;

use super::api::{invalid_parameters, unreadable};
use super::app::{App, ObjectRef};
use super::http::{Answer, Request};
use super::operator::admit;
use super::problem::{Kind, Problem};
use crate::flows::ride::FieldError;
use crate::machine::id::{ObjectId, PaymentId, RideId};
use crate::machine::personal::Erased;
use crate::object::message::Ask;
use crate::readmodel::db::Db;
use crate::tasks::settle;
use crate::tasks::settlement::ANSWER_MAX_BYTES;

/// How many objects one request projects: an invocation has 1000 calls, and a person waits.
const PAGE: u32 = 50;

/// `POST /admin/payments/{id}/erase`
pub(super) async fn erase(app: &App, request: &Request, id: &str) -> Result<Answer, Problem> {
    admit(app, request).await?;
    let place = place(app, id)?;
    match app.ask::<Erased>(&place, Ask::Erase).await.map_err(unreadable)? {
        Erased::Gone => {}
        Erased::Nothing => return Err(Problem::new(Kind::NotFound)),
        Erased::Unfinished => {
            let mut problem = Problem::because(
                Kind::InProgress,
                "An operation is not finished and needs the data. Nothing was erased: ask again later.",
            );
            problem.retry_after_s = Some(60);
            return Err(problem);
        }
    }
    let body = json!({ "id": id, "personal_data": "erased" });
    Ok(Answer::new(200, "application/json", body.to_string(), "erased"))
}

/// `POST /admin/payments/{id}/project`; with `all` as the id, a page of all that the read model knows.
pub(super) async fn project(app: &App, request: &Request, id: &str) -> Result<Answer, Problem> {
    admit(app, request).await?;
    if id == "all" {
        return project_all(app, request).await.map_err(unreadable);
    }
    let place = place(app, id)?;
    app.ask::<()>(&place, Ask::Project).await.map_err(unreadable)?;
    Ok(Answer::new(200, "application/json", json!({ "projected": 1, "next": null }).to_string(), "projected"))
}

async fn project_all(app: &App, request: &Request) -> worker::Result<Answer> {
    #[derive(Deserialize, Default)]
    struct Query {
        #[serde(default)]
        after: String,
    }
    #[derive(Deserialize)]
    struct Row {
        object: String,
    }
    let query: Query = serde_urlencoded::from_str(&request.query).unwrap_or_default();
    let sql = "SELECT object FROM (SELECT object FROM payments UNION SELECT object FROM rides UNION SELECT object FROM keys)
         WHERE object > ?1 ORDER BY object LIMIT ?2";
    let rows: Vec<Row> = Db::of(&app.env)?.rows(sql, vec![query.after.into(), PAGE.into()]).await?;
    for object in rows.iter().filter_map(|row| ObjectId::from_hex(&row.object)) {
        app.ask::<()>(&ObjectRef::Id(object), Ask::Project).await?;
    }
    let is_full = rows.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
    let next = rows.last().filter(|_| is_full).map(|row| row.object.as_str());
    let body = json!({ "projected": rows.len(), "next": next });
    Ok(Answer::new(200, "application/json", body.to_string(), "projected"))
}

/// `POST /admin/settlement/answers`: the body is the file.
pub(super) async fn answers(app: &App, request: &Request) -> Result<Answer, Problem> {
    admit(app, request).await?;
    if request.body.len() > ANSWER_MAX_BYTES {
        return Err(Problem::because(Kind::TooLarge, "An answer has at most 1 MiB. Nothing was imported."));
    }
    let imported = settle::upload(&app.env, request.body.clone()).await.map_err(unreadable)?;
    match imported {
        None => Err(Problem::because(Kind::Misconfigured, "There is no bucket: bind one as SETTLEMENT.")),
        Some(Ok(lines)) => {
            Ok(Answer::new(200, "application/json", json!({ "lines": lines }).to_string(), "imported"))
        }
        Some(Err(errors)) => {
            let error = |message| FieldError { field: "body".to_owned(), message };
            Err(invalid_parameters(errors.into_iter().map(error).collect()))
        }
    }
}

fn place(app: &App, id: &str) -> Result<ObjectRef, Problem> {
    let payment = PaymentId::parse(id).map(PaymentId::object);
    let object = payment.or_else(|| RideId::parse(id).map(RideId::object));
    let object = object.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let place = ObjectRef::Id(object);
    if app.exists(&place) { Ok(place) } else { Err(Problem::new(Kind::NotFound)) }
}
