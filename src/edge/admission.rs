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
use once::fingerprint::FieldError;
use web::http::{FIELD_SHOWN_MAX, Request, percent_decode};
use web::problem::{Kind, Problem, invalid_parameters};
use web::route::Parameters;

/// Refuses a POST whose headers are reason enough.
pub(super) async fn admit(
    app: &App,
    request: &Request,
    who: Who,
    parameters: &Parameters,
) -> Result<(), Problem> {
    match who {
        Who::Account => {
            account(app, request).await?;
            no_query(&request.query)
        }
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

/// How many parameters of a query are named, at most.
const NAMED_MAX: usize = 20;

/// A parameter in the address would be read by nobody: a refund of a part would become one of all that is left. Nor is it part of the
/// fingerprint.
fn no_query(query: &str) -> Result<(), Problem> {
    let names =
        query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap_or(pair));
    let error = |name: &str| FieldError {
        field: percent_decode(name)
            .unwrap_or_else(|| name.to_owned())
            .chars()
            .take(FIELD_SHOWN_MAX)
            .collect(),
        message: "stands in the address: send it in the body".to_owned(),
    };
    let errors: Vec<FieldError> = names.take(NAMED_MAX).map(error).collect();
    if errors.is_empty() { Ok(()) } else { Err(invalid_parameters(errors)) }
}
