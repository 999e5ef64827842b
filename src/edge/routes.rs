//! Every route, on one page: a line has the method and the pattern, who may use it, who answers,
//! and what the API's document says of it. From here come matching, 405 and
//! `Allow`, what a POST must show before its body is read, which answers scripts of other sites may read, and the names of the log and
//! the metrics.
//!
//! The first pattern that fits counts, so one without parameters stands before those that would take its place. HEAD works wherever
//! GET does, OPTIONS everywhere. A number in brackets is the longest body, where it is not [`REQUEST_MAX_BYTES`].

use super::openapi::{Described, Documented, Operation, operations};
use super::route::{
    AccountId, CredentialName, EncodedEmail, EncodedKey, EncodedOrder, Endpoint, OneDelivery, OneOrAll,
    OneRefund, OrderLink, Own, Route, TokenHash, Who,
};
use super::{
    assets,
    checkout::{links, serve as checkout},
    customers, desk, docs, guide, info, keys, payments, webhook_endpoint, webhooks,
};
use ::payments::payment::id::{CustomerId, PaymentId};
use messages::settlement::{ACK_MAX_BYTES, REPORT_MAX_BYTES};
use web::http::{REQUEST_MAX_BYTES, WEBHOOK_MAX_BYTES};
use web::problem::Kind;
use web::route::{FromPath, Method, PathParameter, Text};

macro_rules! routes {
    ($($method:ident $([$max:expr])? $pattern:literal $who:ident
        $($handler:ident)::+ ($($name:ident: $type:ty),*) $($operation:ident)?;)*) => {
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
                    $($handler)::+(app, request, $(&_parameters.get::<$type>(stringify!($name))),*).await
                }),
            },
        }),*];

        /// What the API's document says of them. It is made when the Worker is built, on the machine that builds it.
        pub static DOCUMENTED: &[Documented] = &[$(Documented {
            method: Method::$method,
            pattern: $pattern,
            who: Who::$who,
            parameters: &[$((stringify!($name), <$type as Described>::described)),*],
            operation: operation(&[$(operations::$operation)?]),
        }),*];
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

const fn operation(given: &[fn() -> Operation]) -> Option<fn() -> Operation> {
    match given {
        [operation, ..] => Some(*operation),
        [] => None,
    }
}

routes! {
    Get  "/"                            Anyone  info::home()  home;
    Get  "/healthz"                     Anyone  info::health()  health;
    Get  "/health"                      Anyone  info::health()  health_alias;
    Get  "/assets/{file}"               Anyone  assets::serve(file: Text);
    Get  "/.well-known/security.txt"    Anyone  info::security_txt()  security_txt;
    Get  "/problems/{kind}"             Anyone  info::problem(kind: Kind)  problem_page;
    Get  "/openapi.json"                Anyone  docs::openapi()  openapi;
    Get  "/docs"                        Anyone  docs::page()  docs;
    Get  "/docs/{file}"                 Anyone  docs::file(file: Text);
    Get  "/guide"                       Anyone  guide::first();
    Get  "/guide/{name}"                Anyone  guide::page(name: Text);

    Get  "/payments"                    Account  payments::list()  list_payments;
    Post "/payments"                    Account  payments::pay()  create_payment;
    Get  "/payments/{id}"               Account  payments::show(id: PaymentId)  show_payment;
    Post "/payments/{id}/capture"       Account  payments::capture(id: PaymentId)  capture_payment;
    Post "/payments/{id}/void"          Account  payments::void(id: PaymentId)  void_payment;
    Get  "/payments/{id}/refunds"       Account  payments::list_refunds(id: PaymentId)  list_refunds;
    Post "/payments/{id}/refunds"       Account  payments::refund(id: PaymentId)  refund_payment;
    Get  "/payments/{id}/refunds/{refund}"  Account  payments::show_refund(id: PaymentId, refund: OneRefund)  show_refund;
    Post "/payments/{id}/refund"        Account  payments::refund(id: PaymentId)  refund_payment_alias;
    Get  "/payments/{id}/return"        Anyone   payments::back(id: PaymentId)  return_from_bank;
    Get    "/customers/{email}"         Account    customers::show(email: EncodedEmail)  show_customer;
    Put    "/customers/{email}"         Account    customers::put(email: EncodedEmail)  put_customer;
    Get    "/idempotency-keys/{key}"    Account    keys::show(key: EncodedKey)  show_key;
    Delete "/idempotency-keys/{key}"    Account    keys::forget(key: EncodedKey)  forget_key;

    Get    "/webhook-endpoint"          Account    webhook_endpoint::show()  show_webhook_endpoint;
    Put    "/webhook-endpoint"          Account    webhook_endpoint::put()  put_webhook_endpoint;
    Delete "/webhook-endpoint"          Account    webhook_endpoint::remove()  remove_webhook_endpoint;
    Post   "/webhook-endpoint/test"     Account    webhook_endpoint::test()  test_webhook_endpoint;
    Get    "/webhook-endpoint/deliveries"   Account   webhook_endpoint::deliveries()  list_deliveries;
    Post   "/webhook-endpoint/deliveries/{webhook_id}/requeue"  Account  webhook_endpoint::requeue(webhook_id: OneDelivery)  requeue_delivery;

    Get  "/checkout"                            Anyone      links::demo_order()  new_checkout;
    Post "/checkout/sessions"                   Account     links::make_link()  create_checkout_session;
    Post "/checkout/sessions/{order}/expire"    Account     links::expire_links(order: EncodedOrder)  expire_checkout_sessions;
    Get  "/checkout/{token}"                    LinkHolder  checkout::show_order(token: OrderLink)  checkout_page;
    Post "/checkout/{token}"                    LinkHolder  checkout::pay_order(token: OrderLink)  pay_order;

    Post[WEBHOOK_MAX_BYTES] "/webhooks/stripe"              Stripe    webhooks::from_stripe()  stripe_webhook;
    Post[WEBHOOK_MAX_BYTES] "/webhooks/stripe/{account}"    OwnStripe webhooks::from_own_stripe(account: AccountId)  stripe_account_webhook;
    Post[WEBHOOK_MAX_BYTES] "/webhooks/adyen"               Adyen     webhooks::from_adyen()  adyen_webhook;
    Post[WEBHOOK_MAX_BYTES] "/webhooks/adyen/{account}"     OwnAdyen  webhooks::from_own_adyen(account: AccountId)  adyen_account_webhook;
    Get  "/metrics"                                         Operator  desk::elsewhere()  metrics;
    Get  "/admin/stats"                                     Operator  desk::elsewhere()  stats;
    Get    "/admin/api/accounts"                            Operator  desk::elsewhere()  list_accounts;
    Get    "/admin/api/accounts/{id}"                       Operator  desk::elsewhere_of(id: AccountId)  show_account;
    Put    "/admin/api/accounts/{id}"                       Operator  desk::elsewhere_of(id: AccountId)  put_account;
    Put    "/admin/api/accounts/{id}/tokens/{token}"        Operator  desk::elsewhere_in(id: AccountId, token: TokenHash)  put_account_token;
    Delete "/admin/api/accounts/{id}/tokens/{token}"        Operator  desk::elsewhere_in(id: AccountId, token: TokenHash)  revoke_account_token;
    Put    "/admin/api/accounts/{id}/credentials/{kind}"    Operator  desk::elsewhere_in(id: AccountId, kind: CredentialName)  put_account_credential;
    Delete "/admin/api/accounts/{id}/credentials/{kind}"    Operator  desk::elsewhere_in(id: AccountId, kind: CredentialName)  remove_account_credential;
    Post "/admin/payments/{id}/erase"                       Operator  desk::elsewhere_of(id: PaymentId)  erase_personal_data;
    Post "/admin/customers/{id}/erase"                      Operator  desk::elsewhere_of(id: CustomerId)  erase_customer;
    Post "/admin/payments/{id}/project"                     Operator  desk::elsewhere_of(id: OneOrAll)  project_anew;
    Post[ACK_MAX_BYTES] "/admin/settlement/answers"         Operator  desk::elsewhere()  import_answer;
    Post[REPORT_MAX_BYTES] "/admin/settlement/reports"      Operator  desk::elsewhere()  import_report;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> Option<&'static str> {
        find(path).map(|route| route.name())
    }

    #[test]
    fn an_address_without_parameters_stands_before_one_with_them() {
        assert_eq!(name("/payments/pay_x/return"), Some("/payments/{id}/return"));
        assert_eq!(name("/checkout/sessions"), Some("/checkout/sessions"));
    }

    #[test]
    fn a_path_is_of_a_route_as_a_whole() {
        for nothing in [
            "",
            "payments",
            "//",
            "/rides",
            "/payments/",
            "/payments/x/",
            "/checkout/sessions/x",
            "/docs/",
            "/payments//capture",
        ] {
            assert_eq!(name(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_key_that_is_none_is_an_address_all_the_same() {
        assert_eq!(name("/payments/no_payment"), Some("/payments/{id}"), "that is for its owner to know");
    }

    #[test]
    fn allow_has_all_methods_of_a_pattern() {
        let allow = |path: &str| find(path).unwrap().allow();
        assert_eq!(allow("/payments"), "GET, HEAD, POST, OPTIONS");
        assert_eq!(allow("/idempotency-keys/k"), "GET, HEAD, DELETE, OPTIONS");
        assert_eq!(allow("/payments/x/void"), "POST, OPTIONS");
        assert_eq!(allow("/customers/a@b.example"), "GET, HEAD, PUT, OPTIONS");
    }
}
