//! A ride's two addresses, each for browsers and for API clients.

use super::api::{self, Call, invalid_parameters, owner};
use super::app::{App, ObjectRef};
use super::form;
use super::reply;
use super::ride::{RidePage, Visit, api_request, page};
use messages::message::Ask;
use once::id::Owner;
use payments::payment::id::RideId;
use runtime::serve::session;
use web::entries::kept;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};
use web::route::Parameter;

/// `POST /rides`
pub(super) async fn book(app: &App, request: &Request) -> Result<Answer, Problem> {
    if request.is_form() { form::post_ride(app, request).await } else { book_by_api(app, request).await }
}

/// The ride of an API client, who pays with the account's payment method.
async fn book_by_api(app: &App, request: &Request) -> Result<Answer, Problem> {
    let call = Call::read(app, request)?;
    let account = call.account;
    let operation = api_request(
        &call.parameters,
        &account.payment_method,
        account.customer.as_deref(),
        account.stripe_account.as_deref(),
        account.email.as_deref(),
    )
    .map_err(invalid_parameters)?;
    call.run(operation, None).await
}

/// `GET /rides/{id}`: page or JSON.
pub(super) async fn show(
    app: &App,
    request: &Request,
    id: &Parameter<'_, RideId>,
) -> Result<Answer, Problem> {
    let owner = owner(app, request)?;
    let ride_id = id.read()?;
    let place = ObjectRef::Id(ride_id.object());
    if !app.exists(&place) {
        return Err(Problem::new(Kind::NotFound));
    }
    let view =
        api::show(app, &place, Ask::Show { owner: owner.clone(), key_hash: None, refresh: false }).await?;
    if !request.wants_html() {
        return Ok(reply::ride(&view, id));
    }
    let object = ride_id.object();
    let may_try_again = app.config.demo && matches!(owner, Owner::Session(_));
    let visit = Visit { edited: request.has_query("edited"), may_try_again, now_ms: request.now_ms };
    match page(app.site(request), id, &view, &visit) {
        RidePage::Receipt(receipt) => Ok(web::reply::html(200, &receipt, "receipt")),
        RidePage::Status(status) => Ok(web::reply::html(200, &status, "status")),
        RidePage::NotPaid(page) => Ok(web::reply::html(200, &page, "not_paid")),
        RidePage::Again(notice) => {
            let session = session(request).map_err(api::unavailable)?;
            let entries = view.parameters.as_ref().and_then(kept);
            let sheet = form::FormState {
                kept: entries.as_ref(),
                notice: Some(notice),
                ..form::FormState::default()
            };
            form::open_form(app, request, &session, sheet, Some(object)).await
        }
    }
}
