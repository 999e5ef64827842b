//! Every route of the desk, on one page: the method and the pattern, who may use it, and who answers.
//!
//! The first pattern that fits counts, so one without parameters stands before those that would take its place. HEAD works wherever
//! GET does, OPTIONS everywhere. A number in brackets is the longest body, where it is not [`REQUEST_MAX_BYTES`].

use futures_util::future::LocalBoxFuture;

use crate::break_kinds::BreakKind;
use crate::route::{
    AccountAction, BreakAction, CallAction, CloseAction, CredentialAction, DeadKind, GateAction, JobAction,
    KeyAction, MoneyAction, PaymentAction, PurgeAction, RevokeAction, TokenAction,
};
use crate::{
    accounts, admin, app::App, audit_log, breaks, buttons, by_hand, confirm, detail, gate, history, lists,
    login, overview, pages, payments_csv, reports, requeue, retention, settlement, shards, sign_in,
};
use messages::settlement::{ACK_MAX_BYTES, REPORT_MAX_BYTES};
use web::http::REQUEST_MAX_BYTES;
use web::http::{Answer, Request};
use web::problem::Kind;
use web::problem::Problem;
use web::route::Parameters;
use web::route::{Decoded, FromPath, Method, PathParameter, Text};

/// A line of the table.
pub type Endpoint = web::route::Endpoint<Own>;
/// An address that exists.
pub type Route = web::route::Route<Own>;

/// Who may use a route. A POST must show it before its body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody.
    Anyone,
    /// Programs of the operator; in the lab everybody may read the counts.
    Operator,
    /// An operator in a browser: whoever is none is shown the way in.
    Desk,
    /// Whoever wants to be let in.
    Login,
    /// A form of our own pages.
    OurPages,
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
    ($($method:ident $([$max:expr])? $pattern:literal $who:ident
        $($handler:ident)::+ ($($name:ident: $type:ty),*);)*) => {
        /// All of them.
        pub static ENDPOINTS: &[Endpoint] = &[$(Endpoint {
            method: Method::$method,
            pattern: $pattern,
            parameters: &[$(PathParameter {
                name: stringify!($name),
                fits: <$type as FromPath>::fits,
            }),*],
            body_max_bytes: body_max_bytes(&[$($max)?]),
            own: Own {
                who: Who::$who,
                handler: |app, request, _parameters| Box::pin(async move {
                    answer!($who app, request, $($handler)::+, $(&_parameters.get::<$type>(stringify!($name))),*)
                }),
            },
        }),*];
    };
}

/// How a handler is called: one of the pages only for those who are let in.
macro_rules! answer {
    (Desk $app:ident, $request:ident, $handler:path, $($parameter:expr),*) => {
        match sign_in::enter($app, $request).await? {
            Ok(desk) => $handler(&desk, $($parameter),*).await,
            Err(login) => Ok(login),
        }
    };
    ($who:ident $app:ident, $request:ident, $handler:path, $($parameter:expr),*) => {
        $handler($app, $request, $($parameter),*).await
    };
}

/// The route of a path, if there is one.
pub fn find(path: &str) -> Option<Route> {
    Route::find(ENDPOINTS, path)
}

const fn body_max_bytes(given: &[usize]) -> usize {
    match given {
        [max, ..] => *max,
        [] => REQUEST_MAX_BYTES,
    }
}

/// A report with the other fields of its form.
const REPORT_FORM_MAX_BYTES: usize = REPORT_MAX_BYTES + REQUEST_MAX_BYTES;

routes! {
    Get  "/"                                                Anyone    pages::home();
    Get  "/healthz"                                         Anyone    pages::health();
    Get  "/assets/{file}"                                   Anyone    pages::asset(file: Text);
    Get  "/problems/{kind}"                                 Anyone    pages::problem(kind: Kind);

    Get  "/metrics"                                         Operator  admin::metrics();
    Get  "/admin/stats"                                     Operator  admin::stats();
    Post "/admin/payments/{id}/erase"                       Operator  retention::erase(id: Text);
    Post "/admin/customers/{id}/erase"                      Operator  retention::erase(id: Text);
    Post "/admin/payments/{id}/project"                     Operator  retention::project(id: Text);
    Post[ACK_MAX_BYTES] "/admin/settlement/answers"         Operator  retention::answers();
    Post[REPORT_MAX_BYTES] "/admin/settlement/reports"      Operator  retention::report();

    Get    "/admin/api/accounts"                            Operator  accounts::api::list();
    Get    "/admin/api/accounts/{id}"                       Operator  accounts::api::show(id: Decoded);
    Put    "/admin/api/accounts/{id}"                       Operator  accounts::api::put(id: Decoded);
    Put    "/admin/api/accounts/{id}/tokens/{token}"        Operator  accounts::api::put_token(id: Decoded, token: Text);
    Delete "/admin/api/accounts/{id}/tokens/{token}"        Operator  accounts::api::revoke_token(id: Decoded, token: Text);
    Put    "/admin/api/accounts/{id}/credentials/{kind}"    Operator  accounts::api::put_credential(id: Decoded, kind: Text);
    Delete "/admin/api/accounts/{id}/credentials/{kind}"    Operator  accounts::api::remove_credential(id: Decoded, kind: Text);

    Post "/admin/api/dead-letters/{kind}/requeue"           Operator  requeue::requeue(kind: DeadKind);

    Get  "/admin/api/shards"                                Operator  shards::show();
    Post "/admin/api/shards"                                Operator  shards::set();
    Post "/admin/api/shards/move"                           Operator  shards::take();

    Get  "/admin"                                           Desk      overview::page();
    Get  "/admin/login"                                     Desk      sign_in::logged_in();
    Post "/admin/login"                                     Login     sign_in::log_in();
    Post "/admin/logout"                                    OurPages login::log_out();
    Get  "/admin/payments"                                  Desk      lists::payments();
    Get  "/admin/payments.csv"                              Desk      payments_csv::file();
    Get  "/admin/payments/{id}"                             Desk      detail::payment(id: Text);
    Get  "/admin/payments/{id}/{action}"                    Desk      confirm::page(id: Text, action: MoneyAction);
    Post "/admin/payments/{id}/{action}"                    Desk      buttons::of_payment(id: Text, action: PaymentAction);
    Get  "/admin/payments/{id}/calls/{number}"              Desk      by_hand::page(id: Text, number: u32);
    Post "/admin/payments/{id}/calls/{number}/review"       Desk      by_hand::review(id: Text, number: u32);
    Post "/admin/payments/{id}/calls/{number}/{action}"     Desk      buttons::of_call(id: Text, number: u32, action: CallAction);
    Post "/admin/tasks/run"                                 Desk      buttons::run_tasks();
    Get  "/admin/keys"                                      Desk      lists::keys();
    Get  "/admin/keys/{object}/{key}"                       Desk      detail::key(object: Text, key: u32);
    Post "/admin/keys/{object}/{key}/{action}"              Desk      buttons::of_key(object: Text, key: u32, action: KeyAction);
    Get  "/admin/gate"                                      Desk      gate::list();
    Get  "/admin/gate/{key}/{number}"                       Desk      gate::operation(key: Text, number: u32);
    Post "/admin/gate/{key}/{number}/{action}"              Desk      buttons::of_gate(key: Text, number: u32, action: GateAction);
    Get  "/admin/accounts"                                  Desk      accounts::pages::list();
    Get  "/admin/accounts/new"                              Desk      accounts::pages::new();
    Post "/admin/accounts/new"                              Desk      accounts::pages::create();
    Get  "/admin/accounts/{id}"                             Desk      accounts::pages::account(id: Decoded);
    Get  "/admin/accounts/{id}/edit"                        Desk      accounts::pages::edit(id: Decoded);
    Post "/admin/accounts/{id}/edit"                        Desk      accounts::pages::change(id: Decoded);
    Post "/admin/accounts/{id}/tokens"                      Desk      accounts::pages::make_token(id: Decoded);
    Get  "/admin/accounts/{id}/tokens/{token}/{action}"     Desk      accounts::tokens::revoke(id: Decoded, token: Text, action: RevokeAction);
    Post "/admin/accounts/{id}/tokens/{token}/{action}"     Desk      buttons::of_token(id: Decoded, token: Text, action: TokenAction);
    Post "/admin/accounts/{id}/credentials"                 Desk      accounts::pages::set_credentials(id: Decoded);
    Get  "/admin/accounts/{id}/credentials/{kind}/{action}" Desk      accounts::credentials::confirm(id: Decoded, kind: Text, action: CredentialAction);
    Post "/admin/accounts/{id}/credentials/{kind}/{action}" Desk      buttons::of_credential(id: Decoded, kind: Text, action: CredentialAction);
    Get  "/admin/accounts/{id}/{action}"                    Desk      accounts::pages::close(id: Decoded, action: CloseAction);
    Post "/admin/accounts/{id}/{action}"                    Desk      buttons::of_account(id: Decoded, action: AccountAction);
    Get  "/admin/dead-letters"                              Desk      lists::dead_letters();
    Post "/admin/dead-letters/requeue-all"                  Desk      buttons::requeue_all();
    Post "/admin/dead-letters/requeue-all/{kind}"           Desk      buttons::requeue_kind(kind: DeadKind);
    Get  "/admin/dead-letters/{job}"                        Desk      detail::dead_letter(job: Decoded);
    Get  "/admin/dead-letters/{job}/{action}"               Desk      confirm::purge(job: Decoded, action: PurgeAction);
    Post "/admin/dead-letters/{job}/{action}"               Desk      buttons::of_job(job: Decoded, action: JobAction);
    Get  "/admin/breaks"                                    Desk      breaks::list();
    Get  "/admin/breaks/accept-all/{kind}"                  Desk      breaks::confirm(kind: BreakKind);
    Post "/admin/breaks/accept-all/{kind}"                  Desk      buttons::accept_kind(kind: BreakKind);
    Post "/admin/breaks/{id}/{action}"                      Desk      buttons::of_break(id: Decoded, action: BreakAction);
    Get  "/admin/reports"                                   Desk      reports::page();
    Post[REPORT_FORM_MAX_BYTES] "/admin/reports"            Desk      reports::upload();
    Get  "/admin/history"                                   Desk      history::list();
    Get  "/admin/history/{batch}/{kind}"                    Desk      history::file(batch: u32, kind: Text);
    Get  "/admin/history/{shard}/{batch}/{kind}"            Desk      history::file_of_shard(shard: Text, batch: u32, kind: Text);
    Get  "/admin/settlement"                                Desk      settlement::files();
    Get  "/admin/settlement/{day}"                          Desk      settlement::parts(day: Text);
    Get  "/admin/audit"                                     Desk      audit_log::audit();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> Option<&'static str> {
        find(path).map(|route| route.name())
    }

    #[test]
    fn an_address_without_parameters_stands_before_one_with_them() {
        assert_eq!(name("/admin/dead-letters/requeue-all"), Some("/admin/dead-letters/requeue-all"));
        assert_eq!(
            name("/admin/dead-letters/requeue-all/webhook"),
            Some("/admin/dead-letters/requeue-all/{kind}")
        );
        assert_eq!(name("/admin/breaks/accept-all/orphan"), Some("/admin/breaks/accept-all/{kind}"));
        assert_eq!(name("/admin/breaks/accept-all/accept"), Some("/admin/breaks/{id}/{action}"));
        assert_eq!(name("/admin/dead-letters/job/requeue"), Some("/admin/dead-letters/{job}/{action}"));
    }

    #[test]
    fn a_path_is_of_a_route_as_a_whole() {
        for nothing in ["", "admin", "/admin/", "/administrator", "/admin/payments/", "/admin/keys/ab"] {
            assert_eq!(name(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_part_that_cannot_be_there_is_no_address() {
        for nothing in [
            "/admin/payments/a/calls/x",
            "/admin/payments/a/calls/1/void",
            "/admin/payments/a/requeue",
            "/admin/keys/ab/x",
            "/admin/breaks/%ff/repair",
        ] {
            assert_eq!(name(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn every_button_has_its_address() {
        let action = |path: &str, name: &str| {
            find(path).map(|route| String::from(&*route.parameters.get::<Text>(name)))
        };
        assert_eq!(action("/admin/payments/pay_x/refund", "action").as_deref(), Some("refund"));
        assert_eq!(action("/admin/payments/pay_x/calls/3/hold", "number").as_deref(), Some("3"));
        let route = find("/admin/breaks/adyen%3A1/accept").unwrap();
        assert_eq!(route.parameters.get::<Decoded>("id").read(), Ok(Decoded("adyen:1".into())));
        assert_eq!(find("/admin/payments/pay_x/void").unwrap().allow(), "GET, HEAD, POST, OPTIONS");
    }
}
