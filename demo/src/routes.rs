//! Every route of the demo, on one page: the method and the pattern, who may use it, and who answers.
//!
//! The first pattern that fits counts, so one without parameters stands before those that would take its place. HEAD works wherever
//! GET does, OPTIONS everywhere.

use futures_util::future::LocalBoxFuture;

use crate::lab::ExperimentId;
use crate::rides::id::RideId;
use crate::{
    app::App,
    bank_pages,
    lab::run as lab,
    pages,
    rides::{form, serve as rides},
};
use web::http::REQUEST_MAX_BYTES;
use web::route::{FromPath, Method, PathParameter, Text};
use web::{
    http::{Answer, Request},
    problem::Problem,
    route::Parameters,
};

/// A line of the table.
pub type Endpoint = web::route::Endpoint<Own>;
/// An address that exists.
pub type Route = web::route::Route<Own>;

/// Who may use a route. A POST must show it before its body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody.
    Anyone,
    /// A form of our own pages.
    OurPages,
    /// An API client, or a form of our own pages.
    FormOrAccount,
}

/// What the table says of an address.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Who may.
    pub who: Who,
    /// Who answers.
    pub(crate) handler: Handler,
}

/// Answers a request.
pub(crate) type Handler =
    for<'a> fn(&'a App, &'a Request, &'a Parameters) -> LocalBoxFuture<'a, Result<Answer, Problem>>;

macro_rules! routes {
    ($($method:ident $pattern:literal $who:ident $($handler:ident)::+ ($($name:ident: $type:ty),*);)*) => {
        /// All of them.
        pub static ENDPOINTS: &[Endpoint] = &[$(Endpoint {
            method: Method::$method,
            pattern: $pattern,
            parameters: &[$(PathParameter {
                name: stringify!($name),
                fits: <$type as FromPath>::fits,
            }),*],
            body_max_bytes: REQUEST_MAX_BYTES,
            own: Own {
                who: Who::$who,
                handler: |app, request, _parameters| Box::pin(async move {
                    $($handler)::+(app, request, $(&_parameters.get::<$type>(stringify!($name))),*).await
                }),
            },
        }),*];
    };
}

/// The route of a path, if there is one.
pub fn find(path: &str) -> Option<Route> {
    Route::find(ENDPOINTS, path)
}

routes! {
    Get  "/"                        Anyone    pages::home();
    Get  "/assets/{file}"           Anyone    pages::asset(file: Text);

    Get  "/lab"                     Anyone    lab::begin();
    Get  "/lab/{id}"                Anyone    lab::show(id: ExperimentId);
    Post "/lab/{id}/pay"            OurPages  lab::pay(id: ExperimentId);

    Get  "/rides/new"               Anyone         form::new_ride();
    Post "/rides"                   FormOrAccount  rides::book();
    Get  "/rides/keys/{key}"        Anyone         form::used(key: Text);
    Get  "/rides/{id}"              Anyone         rides::show(id: RideId);

    Get  "/_sim/3ds/{id}"           Anyone    bank_pages::show();
    Post "/_sim/3ds/{id}"           Anyone    bank_pages::show();
    Get  "/_sim/3ds/{id}/accept"    Anyone    bank_pages::show();
    Post "/_sim/3ds/{id}/accept"    Anyone    bank_pages::show();
    Get  "/_sim/3ds/{id}/fail"      Anyone    bank_pages::show();
    Post "/_sim/3ds/{id}/fail"      Anyone    bank_pages::show();
    Get  "/_sim/mailbox"            Anyone    bank_pages::show();
    Get  "/_sim/mailbox/{id}"       Anyone    bank_pages::show();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_of_a_route_as_a_whole() {
        let name = |path: &str| find(path).map(|route| route.name());
        assert_eq!(name("/lab"), Some("/lab"));
        assert_eq!(name("/lab/x/pay"), Some("/lab/{id}/pay"));
        assert_eq!(name("/rides/new"), Some("/rides/new"));
        assert_eq!(name("/rides/x"), Some("/rides/{id}"));
        for nothing in ["", "/lab/", "/lab/x/pay/x", "/_sim", "/_sim/ledger", "/_sim/faults", "/rides/"] {
            assert_eq!(name(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn only_our_own_pages_press_the_button() {
        let posts = ENDPOINTS.iter().filter(|endpoint| endpoint.method == Method::Post);
        let ours: Vec<_> = posts
            .filter(|endpoint| endpoint.own.who == Who::OurPages)
            .map(|endpoint| endpoint.pattern)
            .collect();
        assert_eq!(ours, ["/lab/{id}/pay"]);
    }
}
