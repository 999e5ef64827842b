//! Every endpoint on one page.

use serde_json::Value;

use crate::http::Request;
use crate::provider::Call;
use crate::stripe::errors::{ApiError, Outcome};
use crate::stripe::params::Params;
use crate::stripe::{
    accounts, balance, captures, charges, customers, disputes, events, payment_intents, payment_methods,
    refunds, search,
};

/// What a request asks for, with the id from its path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the endpoint of its name")]
pub enum Operation {
    RetrieveAccount(Option<String>),
    CreatePaymentIntent,
    ListPaymentIntents,
    SearchPaymentIntents,
    RetrievePaymentIntent(String),
    UpdatePaymentIntent(String),
    ConfirmPaymentIntent(String),
    CapturePaymentIntent(String),
    CancelPaymentIntent(String),
    ListCharges,
    RetrieveCharge(String),
    UpdateCharge(String),
    CreateRefund,
    ListRefunds,
    RetrieveRefund(String),
    UpdateRefund(String),
    CancelRefund(String),
    CreateCustomer,
    ListCustomers,
    SearchCustomers,
    RetrieveCustomer(String),
    UpdateCustomer(String),
    DeleteCustomer(String),
    CreatePaymentMethod,
    RetrievePaymentMethod(String),
    ListEvents,
    RetrieveBalance,
    ListBalanceTransactions,
    RetrieveBalanceTransaction(String),
    RetrieveEvent(String),
    ListDisputes,
    RetrieveDispute(String),
    CloseDispute(String),
}

impl Operation {
    /// Finds the endpoint of a request.
    pub fn of(request: &Request) -> Outcome<Self> {
        use Operation as Op;
        let path = request.path.strip_prefix("/v1/").unwrap_or_default();
        let segments: Vec<&str> = path.split('/').collect();
        Ok(match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["account"]) => Op::RetrieveAccount(None),
            ("GET", ["accounts", id]) => Op::RetrieveAccount(Some((*id).to_owned())),
            ("POST", ["payment_intents"]) => Op::CreatePaymentIntent,
            ("GET", ["payment_intents"]) => Op::ListPaymentIntents,
            ("GET", ["payment_intents", "search"]) => Op::SearchPaymentIntents,
            ("GET", ["payment_intents", id]) => Op::RetrievePaymentIntent((*id).to_owned()),
            ("POST", ["payment_intents", id]) => Op::UpdatePaymentIntent((*id).to_owned()),
            ("POST", ["payment_intents", id, "confirm"]) => Op::ConfirmPaymentIntent((*id).to_owned()),
            ("POST", ["payment_intents", id, "capture"]) => Op::CapturePaymentIntent((*id).to_owned()),
            ("POST", ["payment_intents", id, "cancel"]) => Op::CancelPaymentIntent((*id).to_owned()),
            ("GET", ["charges"]) => Op::ListCharges,
            ("POST", ["charges", id]) => Op::UpdateCharge((*id).to_owned()),
            ("GET", ["charges", id]) => Op::RetrieveCharge((*id).to_owned()),
            ("POST", ["refunds"]) => Op::CreateRefund,
            ("GET", ["refunds"]) => Op::ListRefunds,
            ("POST", ["refunds", id]) => Op::UpdateRefund((*id).to_owned()),
            ("POST", ["refunds", id, "cancel"]) => Op::CancelRefund((*id).to_owned()),
            ("GET", ["refunds", id]) => Op::RetrieveRefund((*id).to_owned()),
            ("POST", ["customers"]) => Op::CreateCustomer,
            ("GET", ["customers"]) => Op::ListCustomers,
            ("GET", ["customers", "search"]) => Op::SearchCustomers,
            ("DELETE", ["customers", id]) => Op::DeleteCustomer((*id).to_owned()),
            ("GET", ["customers", id]) => Op::RetrieveCustomer((*id).to_owned()),
            ("POST", ["customers", id]) => Op::UpdateCustomer((*id).to_owned()),
            ("POST", ["payment_methods"]) => Op::CreatePaymentMethod,
            ("GET", ["payment_methods", id]) => Op::RetrievePaymentMethod((*id).to_owned()),
            ("GET", ["events"]) => Op::ListEvents,
            ("GET", ["balance"]) => Op::RetrieveBalance,
            ("GET", ["balance_transactions"]) => Op::ListBalanceTransactions,
            ("GET", ["balance_transactions", id]) => Op::RetrieveBalanceTransaction((*id).to_owned()),
            ("GET", ["events", id]) => Op::RetrieveEvent((*id).to_owned()),
            ("GET", ["disputes"]) => Op::ListDisputes,
            ("GET", ["disputes", id]) => Op::RetrieveDispute((*id).to_owned()),
            ("POST", ["disputes", id, "close"]) => Op::CloseDispute((*id).to_owned()),
            _ => {
                let mut error = ApiError::invalid(format!(
                    "Unrecognized request URL ({}: {}). The simulator knows PaymentIntents, charges, refunds, customers, payment methods, accounts, the balance, \
                     disputes and events.",
                    request.method, request.path
                ));
                error.status = 404;
                return Err(error.refused());
            }
        })
    }

    /// Runs it.
    pub fn run(&self, call: &mut Call, params: &Params) -> Outcome<Value> {
        match self {
            Operation::RetrieveAccount(id) => accounts::retrieve(call, id.as_deref(), params),
            Operation::CreatePaymentIntent => payment_intents::create(call, params),
            Operation::ListPaymentIntents => payment_intents::list(call, params),
            Operation::SearchPaymentIntents => search::payment_intents(call, params),
            Operation::RetrievePaymentIntent(id) => payment_intents::retrieve(call, id, params),
            Operation::UpdatePaymentIntent(id) => payment_intents::update(call, id, params),
            Operation::ConfirmPaymentIntent(id) => payment_intents::confirm(call, id, params),
            Operation::CapturePaymentIntent(id) => captures::capture(call, id, params),
            Operation::CancelPaymentIntent(id) => payment_intents::cancel(call, id, params),
            Operation::ListCharges => charges::list(call, params),
            Operation::UpdateCharge(id) => charges::update(call, id, params),
            Operation::RetrieveCharge(id) => charges::retrieve(call, id, params),
            Operation::CreateRefund => refunds::create(call, params),
            Operation::ListRefunds => refunds::list(call, params),
            Operation::UpdateRefund(id) => refunds::update(call, id, params),
            Operation::CancelRefund(id) => refunds::cancel(call, id, params),
            Operation::RetrieveRefund(id) => refunds::retrieve(call, id, params),
            Operation::CreateCustomer => customers::create(call, params),
            Operation::ListCustomers => customers::list(call, params),
            Operation::SearchCustomers => search::customers(call, params),
            Operation::DeleteCustomer(id) => customers::delete(call, id, params),
            Operation::RetrieveCustomer(id) => customers::retrieve(call, id, params),
            Operation::UpdateCustomer(id) => customers::update(call, id, params),
            Operation::CreatePaymentMethod => payment_methods::make(call, params),
            Operation::RetrievePaymentMethod(id) => payment_methods::retrieve(call, id, params),
            Operation::ListEvents => events::list(call, params),
            Operation::RetrieveBalance => balance::balance(call, params),
            Operation::ListBalanceTransactions => balance::list(call, params),
            Operation::RetrieveBalanceTransaction(id) => balance::retrieve(call, id, params),
            Operation::RetrieveEvent(id) => events::retrieve(call, id, params),
            Operation::ListDisputes => disputes::list(call, params),
            Operation::RetrieveDispute(id) => disputes::retrieve(call, id, params),
            Operation::CloseDispute(id) => disputes::close(call, id, params),
        }
    }
}
