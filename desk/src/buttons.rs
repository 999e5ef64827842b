//! The addresses of the buttons.

use super::actions::act;
use super::break_kinds::BreakKind;
use super::context::Desk;
use super::route::{
    AccountAction, BreakAction, CallAction, CredentialAction, DeadKind, GateAction, JobAction, KeyAction,
    OperatorAction, PaymentAction, Target, TokenAction,
};
use messages::credentials::CredentialKind;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::route::{Decoded, Parameter};

type Pressed<'a, T> = &'a Parameter<'a, T>;

/// `POST /admin/payments/{id}/{action}`
pub(crate) async fn of_payment(
    desk: &Desk<'_>,
    id: &str,
    action: Pressed<'_, PaymentAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Payment(id.to_owned())).await
}

/// `POST /admin/payments/{id}/calls/{number}/{action}`
pub(crate) async fn of_call(
    desk: &Desk<'_>,
    id: &str,
    number: Pressed<'_, u32>,
    action: Pressed<'_, CallAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Call(id.to_owned(), number.read()?)).await
}

/// `POST /admin/keys/{object}/{key}/{action}`
pub(crate) async fn of_key(
    desk: &Desk<'_>,
    object: &str,
    key_id: Pressed<'_, u32>,
    action: Pressed<'_, KeyAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Key(object.to_owned(), key_id.read()?)).await
}

/// `POST /admin/gate/{key}/{number}/{action}`
pub(crate) async fn of_gate(
    desk: &Desk<'_>,
    key: &str,
    number: Pressed<'_, u32>,
    action: Pressed<'_, GateAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Gate(key.to_owned(), number.read()?)).await
}

/// `POST /admin/accounts/{id}/{action}`
pub(crate) async fn of_account(
    desk: &Desk<'_>,
    id: Pressed<'_, Decoded>,
    action: Pressed<'_, AccountAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Account(id.read()?.0)).await
}

/// `POST /admin/accounts/{id}/tokens/{token}/{action}`
pub(crate) async fn of_token(
    desk: &Desk<'_>,
    id: Pressed<'_, Decoded>,
    token: &str,
    action: Pressed<'_, TokenAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Token(id.read()?.0, token.to_owned())).await
}

/// `POST /admin/accounts/{id}/credentials/{kind}/{action}`
pub(crate) async fn of_credential(
    desk: &Desk<'_>,
    id: Pressed<'_, Decoded>,
    kind: &str,
    action: Pressed<'_, CredentialAction>,
) -> Result<Answer, Problem> {
    let kind = CredentialKind::parse(kind).ok_or_else(|| Problem::new(Kind::NotFound))?;
    act(desk, action.read()?.0, &Target::Credential(id.read()?.0, kind)).await
}

/// `POST /admin/dead-letters/{job}/{action}`
pub(crate) async fn of_job(
    desk: &Desk<'_>,
    job: Pressed<'_, Decoded>,
    action: Pressed<'_, JobAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Job(job.read()?.0)).await
}

/// `POST /admin/dead-letters/requeue-all`
pub(crate) async fn requeue_all(desk: &Desk<'_>) -> Result<Answer, Problem> {
    act(desk, OperatorAction::RequeueAll, &Target::Jobs(None)).await
}

/// `POST /admin/dead-letters/requeue-all/{kind}`
pub(crate) async fn requeue_kind(desk: &Desk<'_>, kind: Pressed<'_, DeadKind>) -> Result<Answer, Problem> {
    act(desk, OperatorAction::RequeueAll, &Target::Jobs(Some(kind.read()?))).await
}

/// `POST /admin/tasks/run`
pub(crate) async fn run_tasks(desk: &Desk<'_>) -> Result<Answer, Problem> {
    act(desk, OperatorAction::Run, &Target::Tasks).await
}

/// `POST /admin/breaks/accept-all/{kind}`
pub(crate) async fn accept_kind(desk: &Desk<'_>, kind: Pressed<'_, BreakKind>) -> Result<Answer, Problem> {
    act(desk, OperatorAction::AcceptAll, &Target::Breaks(kind.read()?)).await
}

/// `POST /admin/breaks/{id}/{action}`
pub(crate) async fn of_break(
    desk: &Desk<'_>,
    id: Pressed<'_, Decoded>,
    action: Pressed<'_, BreakAction>,
) -> Result<Answer, Problem> {
    act(desk, action.read()?.0, &Target::Break(id.read()?.0)).await
}
