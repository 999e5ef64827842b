//! What a POST must show before its body is read: a stranger cannot make us read, keep or pay for one.
//!
//! By then its address and its method are known to be right. Here it shows who it is, as far as its headers tell. The handlers
//! ask again where they need to know who it is: this only guards the body.

use super::api::account;
use super::app::App;
use super::checkout::serve;
use super::route::{AccountId, OrderLink, Who};
use super::webhooks;
use ::payments::providers::Provider;
use web::http::Request;
use web::problem::{Kind, Problem};
use web::route::Parameters;

/// Refuses a POST whose headers are reason enough.
pub(super) async fn admit(
    app: &App,
    request: &Request,
    who: Who,
    parameters: &Parameters,
) -> Result<(), Problem> {
    match who {
        Who::Account => account(app, request).await.map(drop),
        Who::LinkHolder => serve::admit(app, request, &parameters.get::<OrderLink>("token")).await,
        Who::Stripe => webhooks::admit(app, request, Provider::Stripe),
        Who::OwnStripe => webhooks::admit_signed(request),
        Who::Adyen => webhooks::admit(app, request, Provider::Adyen),
        Who::OwnAdyen => {
            webhooks::admit_own_adyen(app, request, &parameters.get::<AccountId>("account")).await.map(drop)
        }
        // The desk answers operators: see `desk.rs`.
        Who::Operator => Err(Problem::new(Kind::NotFound)),
        // Whoever may look may not change anything.
        Who::Anyone => Err(Problem::new(Kind::MethodNotAllowed)),
    }
}
