//! The payments API. Where an operation runs: a payment of an order in the order's object, any other payment in its key's
//! own; a capture, a void and a refund in the payment's.

use super::api::{Call, TargetObject, account, invalid_parameters, reader, unavailable, unreadable};
use super::app::{App, ObjectRef};
use super::ask;
use super::fields::visible;
use super::pages::Returning;
use super::payment_params::{ORDER_MAX, capture_request, payment_request, refund_request, void_request};
use super::reply;
use super::return_key::{self, ReturnKey};
use super::route::OneRefund;
use crate::readmodel::{self, list::ListQuery, payments::Page};
use messages::message::{ObjectRequest, Returned, Shown, View, WayOn};
use once::fingerprint::{Field, FieldError, Parameters};
use once::id::Owner;
use payments::payment::id::PaymentId;
use payments::payment::money::AmountMinor;
use payments::payment::natural_key::{NaturalKey, order_object_name};
use payments::payment::operation::Operation;
use payments::payment::{Payment, RefundReason};
use web::http::{Answer, Request, with_query};
use web::pages::Site;
use web::problem::{Kind, Problem};
use web::reply::in_language;
use web::route::Parameter;

/// `POST /payments`
pub(super) async fn pay(app: &App, request: &Request) -> Result<Answer, Problem> {
    let has_order =
        |body: Option<&Parameters>| body.is_some_and(|body| body.text("order_id") != Field::Missing);
    let mut call = Call::with_key(app, request, has_order).await?;
    let payment =
        call.asked(payment_request(&call.parameters, &app.config, &call.account, &request.origin()))?;
    let order = payment.order_id.as_deref().map(|order_id| TargetObject {
        place: ObjectRef::Named(order_object_name(call.owner(), order_id)),
        natural: (NaturalKey::order(order_id), call.parameters.clone()),
    });
    call.run(Operation::Payment(Box::new(payment)), order).await
}

/// `GET /payments`: from the read model, which follows within moments; that of one order from the order's object.
pub(super) async fn list(app: &App, request: &Request) -> Result<Answer, Problem> {
    let (owner, _) = account(app, request).await?;
    let query = ListQuery::parse(&request.query).map_err(invalid_parameters)?;
    let wrong =
        |field: &str, message| Err(invalid_parameters(vec![FieldError { field: field.to_owned(), message }]));
    if let Some(order_id) = query.order_id {
        return match visible(&order_id, ORDER_MAX) {
            Ok(order_id) => of_order(app, owner, &order_id).await,
            Err(message) => wrong("order_id", message),
        };
    }
    let page = readmodel::payments::page(&app.env, &owner, &query).await.map_err(unreadable)?;
    let (payments, has_more) = match page {
        Page::Of(payments, has_more) => (payments, has_more),
        Page::AfterUnknown => {
            return wrong(
                "starting_after",
                "is not a payment of this account, or not in the list yet".to_owned(),
            );
        }
        Page::NoneSince(at_ms) => {
            // In whole seconds, as it is given. What was made in this one is looked through again.
            let at = payments::timestamp(at_ms.div_ceil(1000).saturating_mul(1000));
            let message = format!(
                "none of these payments was made since {at}, and one request looks no further: go on with created[lt]={at}"
            );
            return wrong("created", message);
        }
    };
    Ok(reply::list("/payments", &payments, has_more))
}

/// The payment of an order, if it has one. As at its own address the provider is asked where its outcome is not known.
async fn of_order(app: &App, owner: Owner, order_id: &str) -> Result<Answer, Problem> {
    let place = ObjectRef::Named(order_object_name(&owner, order_id));
    let ask = ObjectRequest::Show { owner, key_hash: None, refresh: true };
    let shown = app.ask::<Shown>(&place, ask).await.map_err(unreadable)?;
    let payment = shown.and_then(|view| Some(view.payment?.to_json(&view.refunds, &view.tries)));
    Ok(reply::list("/payments", payment.as_slice(), false))
}

/// `POST /payments/{id}/capture`
pub(super) async fn capture(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<Answer, Problem> {
    let mut call = Call::with_key(app, request, |_| true).await?;
    let mut capture = call.asked(capture_request(&call.parameters))?;
    let place = place(app, id)?;
    capture.attempt = attempt(app, &call, &place, capture.attempt).await?;
    let natural = (NaturalKey::capture(capture.attempt.unwrap_or(1)), meaning(capture.amount, None));
    call.run(Operation::Capture(capture), Some(TargetObject { place, natural })).await
}

/// `POST /payments/{id}/void`
pub(super) async fn void(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<Answer, Problem> {
    let mut call = Call::with_key(app, request, |_| true).await?;
    let mut void = call.asked(void_request(&call.parameters))?;
    let place = place(app, id)?;
    void.attempt = attempt(app, &call, &place, void.attempt).await?;
    let natural = (NaturalKey::void(void.attempt.unwrap_or(1)), meaning(None, None));
    call.run(Operation::Void(void), Some(TargetObject { place, natural })).await
}

/// `POST /payments/{id}/refunds`, and `POST /payments/{id}/refund`: two addresses of one request.
pub(super) async fn refund(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<Answer, Problem> {
    let mut call = Call::with_key(app, request, |_| true).await?.at(format!("/payments/{}/refunds", &**id));
    let refund = call.asked(refund_request(&call.parameters))?;
    let place = place(app, id)?;
    let amount_minor = refund.amount.map(|amount| amount.get());
    let key = NaturalKey::refund(refund.reason.as_str(), amount_minor);
    let natural = (key, meaning(refund.amount, Some(refund.reason)));
    call.run(Operation::Refund(refund), Some(TargetObject { place, natural })).await
}

/// The attempt that is moved, of which the natural key is made: the one that is asked for, or without a key the only one. Once there was another one, a
/// retry of a request that says neither would move that.
async fn attempt(
    app: &App,
    call: &Call<'_>,
    place: &ObjectRef,
    asked: Option<u32>,
) -> Result<Option<u32>, Problem> {
    if call.has_key() || asked.is_some() {
        return Ok(asked);
    }
    let ask = ObjectRequest::Show { owner: call.owner().clone(), key_hash: None, refresh: false };
    let shown = app.ask::<Shown>(place, ask).await.map_err(unavailable)?;
    let view = shown.ok_or_else(|| Problem::new(Kind::NotFound))?;
    match view.payment.map_or(1, |payment| payment.attempt) {
        1 => Ok(Some(1)),
        current => Err(Problem::because(
            Kind::KeyMissing,
            format!(
                "The order was tried again: this is attempt {current} of the payment, and this request may be a retry that meant an \
                 earlier one. Send `attempt`, or an Idempotency-Key. Nothing was executed."
            ),
        )),
    }
}

/// Under its natural key a move is what it means, however it was written: as JSON, as a form, or without a body.
fn meaning(amount: Option<AmountMinor>, reason: Option<RefundReason>) -> Parameters {
    let reason = reason.map(|reason| ("reason".to_owned(), reason.as_str().into()));
    let amount = amount.map(|amount| ("amount".to_owned(), amount.get().into()));
    Parameters::Json(reason.into_iter().chain(amount).collect())
}

/// The object of a payment's id.
fn place(app: &App, id: &Parameter<'_, PaymentId>) -> Result<ObjectRef, Problem> {
    let place = ObjectRef::Id(id.read()?.object());
    if app.exists(&place) { Ok(place) } else { Err(Problem::new(Kind::NotFound)) }
}

async fn view(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<(Payment, View), Problem> {
    let owner = reader(app, request).await?;
    let place = place(app, id)?;
    let mut view =
        ask::show(app, &place, ObjectRequest::Show { owner, key_hash: None, refresh: true }).await?;
    let payment = view.payment.take().ok_or_else(|| Problem::new(Kind::NotFound))?;
    Ok((payment, view))
}

/// `GET /payments/{id}`
pub(super) async fn show(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<Answer, Problem> {
    let (payment, view) = view(app, request, id).await?;
    Ok(reply::payment(&payment, &view.refunds, &view.tries))
}

/// `GET /payments/{id}/refunds`
pub(super) async fn list_refunds(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<Answer, Problem> {
    let (payment, view) = view(app, request, id).await?;
    Ok(reply::refunds(&payment, &view.refunds))
}

/// `GET /payments/{id}/refunds/{refund}`
pub(super) async fn show_refund(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
    refund: &Parameter<'_, OneRefund>,
) -> Result<Answer, Problem> {
    let (payment, view) = view(app, request, id).await?;
    let refund = view.refunds.iter().find(|known| known.id.0 == **refund);
    let shown = refund.ok_or_else(|| Problem::new(Kind::NotFound))?.to_json(&payment);
    Ok(Answer::new(200, "application/json", shown.to_string(), "shown"))
}

/// `GET /payments/{id}/return`: somebody comes back from the bank's page. Where that leads is for the person alone who pays:
/// without the address's own signature it leads nowhere, and looks the same whether or not there is such a payment. What
/// else the query says is not believed: the provider is asked, and the browser sent on to where the payment said when it
/// was made.
pub(super) async fn back(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<Answer, Problem> {
    let Some(to) = way_on(app, request, id).await? else {
        return match request.wants_html() {
            true => {
                let t = request.messages();
                let page = Returning { site: Site { t, ..app.site(request) } };
                Ok(in_language(web::reply::html(404, &page, Kind::NotFound.slug()), t))
            }
            false => Err(Problem::new(Kind::NotFound)),
        };
    };
    let WayOn { return_url, amount_minor, currency } = to;
    let told = format!("payment={}&amount={amount_minor}&currency={}", &**id, currency.as_str());
    Ok(Answer::see_other(&with_query(&return_url, &told), "returned"))
}

/// Where the browser goes from `/payments/{id}/return`; `None` without that address's signature. No object is woken then.
async fn way_on(
    app: &App,
    request: &Request,
    id: &Parameter<'_, PaymentId>,
) -> Result<Option<WayOn>, Problem> {
    let (Some(payment), Some(key)) = (PaymentId::parse(id), request.query_value(return_key::PARAMETER))
    else {
        return Ok(None);
    };
    let Ok(key) = ReturnKey::open(key, payment, &app.config.signing_keys) else {
        return Ok(None);
    };
    let place = ObjectRef::Id(payment.object());
    if !app.exists(&place) {
        return Ok(None);
    }
    let to = app.ask::<Returned>(&place, ObjectRequest::Return).await.map_err(unreadable)?;
    Ok(to.filter(|to| ReturnKey::leading_to(&to.return_url) == key))
}
