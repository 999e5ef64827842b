//! Every route on one page.
//!
//! | address | methods | who | what |
//! |---|---|---|---|
//! | `/` | GET | anyone | what this is |
//! | `/healthz` | GET | anyone | is it set up |
//! | `/health` | GET | anyone | the same |
//! | `/assets/{file}` | GET | anyone | style sheet, script, icon |
//! | `/.well-known/security.txt` | GET | anyone | to whom a weakness is reported, where that is set |
//! | `/problems/{kind}` | GET | anyone | what a problem type means |
//! | `/openapi.json` | GET | anyone | the API, for programs |
//! | `/docs` | GET | anyone | the API, to read and to try |
//! | `/docs/{file}` | GET | anyone | what that page is made of |
//! | `/rides/new` | GET | anyone | the form, with this browser's open key or a fresh one; what it booked, if it was used |
//! | `/rides` | POST | form or API | book and pay |
//! | `/rides/{id}` | GET | its owner | the ride: page or JSON |
//! | `/checkout` | GET | anyone, in the demo | a small cart to pay: leads to its order's page |
//! | `/checkout/sessions` | POST | API | the link to an order: JSON |
//! | `/checkout/sessions/{order}/expire` | POST | API | ends all links of an order: JSON |
//! | `/checkout/{token}` | GET, POST | who has the link | the order's one page: form, way to the bank, or receipt |
//! | `/payments` | GET, POST | API | the account's payments; authorise, and capture if asked |
//! | `/payments/{id}` | GET | its owner | the payment: JSON |
//! | `/payments/{id}/capture` | POST | its owner | take what was authorised, or a part |
//! | `/payments/{id}/void` | POST | its owner | give up what was authorised |
//! | `/payments/{id}/refunds` | GET, POST | its owner | give money back; what was given back |
//! | `/payments/{id}/return` | GET | who comes from the bank | on to where the payment says; signed |
//! | `/idempotency-keys/{key}` | GET, DELETE | its owner | where the key stands: JSON; forget its response |
//! | `/_sim/3ds/{id}` | GET, POST | anyone | the simulator's bank page and its buttons, in the demo |
//! | `/_sim/mailbox` | GET | anyone | the emails that were sent, in the demo |
//! | `/lab` | GET | anyone, in the demo | an experiment to choose |
//! | `/lab/{id}` | GET | anyone, in the demo | what became of it |
//! | `/lab/{id}/pay` | POST | anyone, in the demo | presses Pay, with protection and without |
//! | `/webhooks/stripe` | POST | Stripe | what it tells by itself |
//! | `/webhooks/adyen` | POST | Adyen | what it tells by itself |
//! | `/metrics` | GET | operator | the counts, for Prometheus |
//! | `/admin/stats` | GET | operator | the counts as JSON |
//! | `/admin` | GET | operator | the desk: how it goes; its other pages and buttons are in `desk/route.rs` |
//! | `/admin/payments/{id}/erase` | POST | operator | drop the personal data of a payment or a ride |
//! | `/admin/payments/{id}/project` | POST | operator | write it into the read model anew |
//! | `/admin/settlement/answers` | POST | operator | import the bank's answer to a settlement file |
//! | `/admin/settlement/reports` | POST | operator | import a settlement details report of Adyen's |
//!
//! HEAD works wherever GET does, OPTIONS everywhere.

use super::desk::route::DeskRoute;
use super::http::{REQUEST_MAX_BYTES, WEBHOOK_MAX_BYTES};
use crate::tasks::adyen_report::REPORT_MAX_BYTES;
use crate::tasks::settlement::ANSWER_MAX_BYTES;

/// An address that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/`
    Home,
    /// `/healthz`, `/health`
    Health,
    /// `/assets/{file}`
    Asset(String),
    /// `/.well-known/security.txt`
    SecurityTxt,
    /// `/problems/{kind}`
    Problem(String),
    /// `/openapi.json`
    OpenApi,
    /// `/docs`
    Docs,
    /// `/docs/{file}`
    DocsFile(String),
    /// `/rides/new`
    RideForm,
    /// `/rides`
    Rides,
    /// `/rides/{id}`
    Ride(String),
    /// `/payments`
    Payments,
    /// `/payments/{id}`
    Payment(String),
    /// `/payments/{id}/capture`
    Capture(String),
    /// `/payments/{id}/void`
    Void(String),
    /// `/payments/{id}/refunds`
    Refunds(String),
    /// `/payments/{id}/return`
    Return(String),
    /// `/checkout`
    Checkout,
    /// `/checkout/sessions`
    CheckoutSessions,
    /// `/checkout/sessions/{order}/expire`; the order's id is still percent-encoded
    ExpireLinks(String),
    /// `/checkout/{token}`
    Order(String),
    /// `/idempotency-keys/{key}`, still percent-encoded
    Key(String),
    /// `/_sim/3ds/{id}`, and its buttons `…/accept` and `…/fail`
    BankPage,
    /// `/_sim/mailbox`, and `/_sim/mailbox/{id}`
    Mailbox,
    /// `/lab`
    Lab,
    /// `/lab/{id}`
    Experiment(String),
    /// `/lab/{id}/pay`
    Presses(String),
    /// `/webhooks/stripe`
    StripeWebhook,
    /// `/webhooks/adyen`
    AdyenWebhook,
    /// `/metrics`
    Metrics,
    /// `/admin/stats`
    Stats,
    /// `/admin` and what is below it
    Desk(DeskRoute),
    /// `/admin/payments/{id}/erase`
    Erase(String),
    /// `/admin/payments/{id}/project`; `all` is one page of all
    Project(String),
    /// `/admin/settlement/answers`
    Answers,
    /// `/admin/settlement/reports`
    Reports,
}

impl Route {
    /// The route of a path, if there is one.
    pub fn find(path: &str) -> Option<Self> {
        if let Some(bank) = path.strip_prefix("/_sim/3ds/") {
            let (id, button) = bank.split_once('/').unwrap_or((bank, ""));
            let is_there = !id.is_empty() && matches!(button, "" | "accept" | "fail");
            return is_there.then_some(Self::BankPage);
        }
        if path == "/_sim/mailbox" || path.starts_with("/_sim/mailbox/") {
            return Some(Self::Mailbox);
        }
        if let Some((id, what)) = path.strip_prefix("/admin/payments/").and_then(|rest| rest.split_once('/'))
        {
            match what {
                "erase" => return Some(Self::Erase(id.to_owned())),
                "project" => return Some(Self::Project(id.to_owned())),
                _ => {}
            }
        }
        if let Some(desk) = path.strip_prefix("/admin").and_then(DeskRoute::find) {
            return Some(Self::Desk(desk));
        }
        if let Some(order) = path.strip_prefix("/checkout/sessions/") {
            let order =
                order.strip_suffix("/expire").filter(|order| !order.is_empty() && !order.contains('/'));
            return order.map(|order| Self::ExpireLinks(order.to_owned()));
        }
        let mut segments = path.strip_prefix('/')?.splitn(4, '/');
        let first = segments.next()?;
        let (second, third) = (segments.next(), segments.next());
        if segments.next().is_some() {
            return None;
        }
        Some(match (first, second, third) {
            ("", None, None) => Self::Home,
            ("healthz" | "health", None, None) => Self::Health,
            ("assets", Some(file), None) => Self::Asset(file.to_owned()),
            (".well-known", Some("security.txt"), None) => Self::SecurityTxt,
            ("problems", Some(kind), None) => Self::Problem(kind.to_owned()),
            ("openapi.json", None, None) => Self::OpenApi,
            ("docs", None, None) => Self::Docs,
            ("docs", Some(file), None) => Self::DocsFile(file.to_owned()),
            ("rides", None, None) => Self::Rides,
            ("rides", Some("new"), None) => Self::RideForm,
            ("rides", Some(id), None) if !id.is_empty() => Self::Ride(id.to_owned()),
            ("payments", None, None) => Self::Payments,
            ("payments", Some(id), None) if !id.is_empty() => Self::Payment(id.to_owned()),
            ("payments", Some(id), Some("capture")) => Self::Capture(id.to_owned()),
            ("payments", Some(id), Some("void")) => Self::Void(id.to_owned()),
            ("payments", Some(id), Some("refunds")) => Self::Refunds(id.to_owned()),
            ("payments", Some(id), Some("return")) => Self::Return(id.to_owned()),
            ("checkout", None, None) => Self::Checkout,
            ("checkout", Some("sessions"), None) => Self::CheckoutSessions,
            ("checkout", Some(link), None) if !link.is_empty() => Self::Order(link.to_owned()),
            ("idempotency-keys", Some(key), None) if !key.is_empty() => Self::Key(key.to_owned()),
            ("lab", None, None) => Self::Lab,
            ("lab", Some(id), None) if !id.is_empty() => Self::Experiment(id.to_owned()),
            ("lab", Some(id), Some("pay")) => Self::Presses(id.to_owned()),
            ("webhooks", Some("stripe"), None) => Self::StripeWebhook,
            ("webhooks", Some("adyen"), None) => Self::AdyenWebhook,
            ("metrics", None, None) => Self::Metrics,
            ("admin", Some("stats"), None) => Self::Stats,
            ("admin", Some("settlement"), Some("answers")) => Self::Answers,
            ("admin", Some("settlement"), Some("reports")) => Self::Reports,
            _ => return None,
        })
    }

    /// The methods that it answers, as the `Allow` header lists them.
    pub const fn allow(&self) -> &'static str {
        match self {
            Self::Rides
            | Self::CheckoutSessions
            | Self::ExpireLinks(_)
            | Self::Capture(_)
            | Self::Void(_)
            | Self::Presses(_)
            | Self::StripeWebhook
            | Self::AdyenWebhook
            | Self::Erase(_)
            | Self::Project(_)
            | Self::Answers
            | Self::Reports => "POST, OPTIONS",
            Self::Payments | Self::Order(_) | Self::Refunds(_) | Self::BankPage => "GET, HEAD, POST, OPTIONS",
            Self::Key(_) => "GET, HEAD, DELETE, OPTIONS",
            Self::Desk(page) => page.allow(),
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// The longest body that is read, in bytes.
    pub const fn body_max_bytes(&self) -> usize {
        match self {
            Self::Answers => ANSWER_MAX_BYTES,
            Self::Reports => REPORT_MAX_BYTES,
            // With the other fields of its form.
            Self::Desk(DeskRoute::Reports) => REPORT_MAX_BYTES + REQUEST_MAX_BYTES,
            Self::StripeWebhook | Self::AdyenWebhook => WEBHOOK_MAX_BYTES,
            _ => REQUEST_MAX_BYTES,
        }
    }

    /// Whether it is for programs, which scripts of other sites may be.
    pub const fn is_api(&self) -> bool {
        matches!(
            self,
            Self::Rides
                | Self::Ride(_)
                | Self::Payments
                | Self::Payment(_)
                | Self::Capture(_)
                | Self::Void(_)
                | Self::Refunds(_)
                | Self::CheckoutSessions
                | Self::ExpireLinks(_)
                | Self::Key(_)
        )
    }

    /// Whether it answers this method.
    pub fn allows(&self, method: &str) -> bool {
        self.allow().split(", ").any(|allowed| allowed == method)
    }

    /// Its name in the log, without anything from the request.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Home => "/",
            Self::Health => "/healthz",
            Self::Asset(_) => "/assets/{file}",
            Self::SecurityTxt => "/.well-known/security.txt",
            Self::Problem(_) => "/problems/{kind}",
            Self::OpenApi => "/openapi.json",
            Self::Docs => "/docs",
            Self::DocsFile(_) => "/docs/{file}",
            Self::RideForm => "/rides/new",
            Self::Rides => "/rides",
            Self::Ride(_) => "/rides/{id}",
            Self::Payments => "/payments",
            Self::Payment(_) => "/payments/{id}",
            Self::Capture(_) => "/payments/{id}/capture",
            Self::Void(_) => "/payments/{id}/void",
            Self::Refunds(_) => "/payments/{id}/refunds",
            Self::Return(_) => "/payments/{id}/return",
            Self::Checkout => "/checkout",
            Self::CheckoutSessions => "/checkout/sessions",
            Self::ExpireLinks(_) => "/checkout/sessions/{order}/expire",
            Self::Order(_) => "/checkout/{token}",
            Self::Key(_) => "/idempotency-keys/{key}",
            Self::BankPage => "/_sim/3ds/{id}",
            Self::Mailbox => "/_sim/mailbox",
            Self::Lab => "/lab",
            Self::Experiment(_) => "/lab/{id}",
            Self::Presses(_) => "/lab/{id}/pay",
            Self::StripeWebhook => "/webhooks/stripe",
            Self::AdyenWebhook => "/webhooks/adyen",
            Self::Metrics => "/metrics",
            Self::Stats => "/admin/stats",
            Self::Desk(page) => page.name(),
            Self::Erase(_) => "/admin/payments/{id}/erase",
            Self::Project(_) => "/admin/payments/{id}/project",
            Self::Answers => "/admin/settlement/answers",
            Self::Reports => "/admin/settlement/reports",
        }
    }
}
