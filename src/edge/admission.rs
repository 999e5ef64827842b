//! What a request must show before its body is read: a stranger cannot make us read, keep or pay for one.
//!
//! By then its address and its method are known to be right. Here it shows who it is, as far as its headers tell. The handlers
//! ask again where they need to know who it is: this only guards the body.

use super::api::account;
use super::app::App;
use super::checkout::serve;
use super::desk::route::DeskRoute;
use super::handle::is_form;
use super::http::Request;
use super::key_source::from_our_pages;
use super::lab::run as lab;
use super::login;
use super::operator;
use super::problem::{Kind, Problem};
use super::routes::Route;
use super::{payments, webhooks};
use crate::providers::Provider;

/// Refuses a POST whose headers are reason enough. Each route is listed: a new one has to say what it asks for.
pub(super) async fn admit(app: &App, request: &Request, route: &Route) -> Result<(), Problem> {
    match route {
        Route::Rides if is_form(request) => from_here(request),
        Route::Rides
        | Route::Payments
        | Route::Capture(_)
        | Route::Void(_)
        | Route::Refunds(_)
        | Route::CheckoutSessions
        | Route::ExpireLinks(_) => account(app, request).map(drop),
        Route::Order(link) => serve::admit(app, request, link),
        Route::BankPage => payments::only_in_the_demo(app),
        Route::Presses(id) => lab::admit(app, request, id),
        Route::StripeWebhook => webhooks::admit(app, request, Provider::Stripe),
        Route::AdyenWebhook => webhooks::admit(app, request, Provider::Adyen),
        Route::Desk(DeskRoute::Login) => login::may_try(app, request).await,
        Route::Desk(DeskRoute::Logout) => from_here(request),
        Route::Desk(DeskRoute::Act(..) | DeskRoute::Review(..) | DeskRoute::Reports)
        | Route::Erase(_)
        | Route::Project(_)
        | Route::Answers
        | Route::Reports => operator::admit(app, request).await.map(drop),
        // None of these takes a POST.
        Route::Home
        | Route::Health
        | Route::Asset(_)
        | Route::SecurityTxt
        | Route::Problem(_)
        | Route::OpenApi
        | Route::Docs
        | Route::DocsFile(_)
        | Route::RideForm
        | Route::Ride(_)
        | Route::Payment(_)
        | Route::Return(_)
        | Route::Checkout
        | Route::Key(_)
        | Route::Mailbox
        | Route::Lab
        | Route::Experiment(_)
        | Route::Metrics
        | Route::Stats
        | Route::Desk(
            DeskRoute::Overview
            | DeskRoute::Payments
            | DeskRoute::Payment(_)
            | DeskRoute::Call(..)
            | DeskRoute::Keys
            | DeskRoute::Key(..)
            | DeskRoute::DeadLetters
            | DeskRoute::DeadLetter(_)
            | DeskRoute::Breaks
            | DeskRoute::Audit,
        ) => Err(Problem::new(Kind::MethodNotAllowed)),
    }
}

/// A form of another site's page is refused.
pub(super) fn from_here(request: &Request) -> Result<(), Problem> {
    if from_our_pages(request) { Ok(()) } else { Err(Problem::new(Kind::Forbidden)) }
}
