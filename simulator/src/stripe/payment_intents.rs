//! PaymentIntents: <https://docs.stripe.com/api/payment_intents> and <https://docs.stripe.com/payments/paymentintents/lifecycle>.
//!
//! ```text
//! requires_payment_method ⇄ requires_confirmation ─confirm→ succeeded | requires_capture | requires_action | (402) requires_payment_method
//! requires_action ─3-D Secure→ succeeded | requires_capture | requires_payment_method
//! … ─confirm→ processing ─the bank's decision→ succeeded | requires_capture | requires_payment_method
//! requires_capture ─capture→ succeeded       any but succeeded, canceled ─cancel→ canceled
//! ```
//! What a confirmation does with the card is in `attempt`; here is what may be asked of a PaymentIntent in which state.

use serde_json::{Value, json};

use crate::ids;
use crate::metadata::Metadata;
use crate::provider::{Call, Links};
use crate::store::Query;
use crate::stripe::attempt::{self, Attempt};
use crate::stripe::captures;
use crate::stripe::charges;
use crate::stripe::currencies;
use crate::stripe::customers;
use crate::stripe::descriptors;
use crate::stripe::errors::{ApiError, Failure, Outcome};
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::lists::{self, Page};
use crate::stripe::metadata;
use crate::stripe::method_options;
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::stripe::payment_intent::{PaymentIntent, Status, load, save, unexpected};
use crate::stripe::payment_method_types::{Methods, named_types};
use crate::stripe::payment_methods;
use crate::stripe::unshown;

/// Known to Stripe and taken without any effect here.
const UNMODELLED: &[&str] = &["mandate", "mandate_data", "radar_options", "shipping", "use_stripe_sdk"];

/// The two ways to capture.
const CAPTURE_METHODS: &[&str] = &["automatic", "automatic_async", "manual"];

/// What a confirmation takes, alone or as a part of a creation.
const CONFIRMATION: &[&str] = &[
    "error_on_requires_action",
    "off_session",
    "payment_method",
    "payment_method_options",
    "return_url",
    "setup_future_usage",
];

/// `POST /v1/payment_intents`
pub fn create(call: &mut Call, params: &Params) -> Outcome<Value> {
    allow(
        params,
        &[
            "allowed_payment_method_types",
            "amount",
            "automatic_payment_methods",
            "capture_method",
            "confirm",
            "confirmation_method",
            "currency",
            "customer",
            "description",
            "metadata",
            "payment_method_types",
            "receipt_email",
            "statement_descriptor",
            "statement_descriptor_suffix",
            "transfer_group",
        ],
    )?;
    let mut intent = parse_new(call, params)?;
    let confirm = params.boolean("confirm")?.unwrap_or(false);
    if let Some(customer) = &intent.customer {
        customers::of_param(call, customer)?;
    }
    if let Some(id) = params.text("payment_method")? {
        intent.payment_method = Some(method_for(call, id, intent.customer.as_deref())?);
        intent.status = Status::RequiresConfirmation;
    }
    descriptors::check(params, intent.is_by_card())?;
    method_options::apply(&mut intent.payment_method_options, params)?;
    let options = attempt::Options::parse(params)?;
    if confirm {
        if intent.payment_method.is_none() {
            return Err(no_payment_method().refused());
        }
        check_return_url(&intent, &options)?;
    }
    let links = Links { customer: intent.customer.clone(), ..Links::default() };
    call.insert(Kind::PaymentIntent, &intent.id, &intent, links)?;
    events::record(call, "payment_intent.created", &intent)?;
    if confirm { run_attempt(call, intent, &options) } else { shown(&intent) }
}

/// The id of the payment method that a parameter names, if it may pay for this customer.
fn method_for(call: &mut Call, id: &str, customer: Option<&str>) -> Outcome<String> {
    let (payment_method, _) = payment_methods::of_param(call, id)?;
    payment_method.pays_for(customer)?;
    Ok(payment_method.id)
}

/// `GET /v1/payment_intents/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&["client_secret"])?;
    shown(&load(call, id)?)
}

/// `POST /v1/payment_intents/{id}`
pub fn update(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    allow(
        params,
        &[
            "amount",
            "capture_method",
            "currency",
            "customer",
            "description",
            "metadata",
            "receipt_email",
            "statement_descriptor",
            "statement_descriptor_suffix",
            "transfer_group",
        ],
    )?;
    let mut intent = load(call, id)?;
    let open = matches!(
        intent.status,
        Status::RequiresPaymentMethod | Status::RequiresConfirmation | Status::RequiresAction
    );
    for name in ["amount", "currency", "payment_method", "capture_method", "customer", "setup_future_usage"] {
        if params.has(name) && !open {
            return Err(unexpected(
                &intent,
                format!(
                    "This PaymentIntent's {name} could not be updated because it has a status of {}. You may only update the {name} of a \
                     PaymentIntent with one of the following statuses: requires_payment_method, requires_confirmation, requires_action.",
                    intent.status
                ),
            )?);
        }
    }
    if let Some(currency) = params.text("currency")? {
        intent.currency = currencies::parse(currency)?;
    }
    if let Some(amount) = params.integer("amount")? {
        intent.amount = amount;
    }
    currencies::check_amount(intent.amount, &intent.currency)?;
    if let Some(capture_method) = params.choice("capture_method", CAPTURE_METHODS)? {
        intent.capture_method = capture_method.to_owned();
    }
    if let Some(customer) = params.text("customer")? {
        customers::of_param(call, customer)?;
        intent.customer = Some(customer.to_owned());
    }
    if let Some(id) = params.text("payment_method")? {
        intent.payment_method = Some(method_for(call, id, intent.customer.as_deref())?);
        intent.next_action = None;
        intent.status = Status::RequiresConfirmation;
    }
    descriptors::check(params, intent.is_by_card())?;
    method_options::apply(&mut intent.payment_method_options, params)?;
    intent.metadata = metadata::merge(&intent.metadata, params)?;
    params.update("description", &mut intent.description)?;
    params.update("receipt_email", &mut intent.receipt_email)?;
    params.update("statement_descriptor", &mut intent.statement_descriptor)?;
    params.update("statement_descriptor_suffix", &mut intent.statement_descriptor_suffix)?;
    params.update("transfer_group", &mut intent.transfer_group)?;
    save(call, &intent)?;
    shown(&intent)
}

/// `POST /v1/payment_intents/{id}/confirm`
pub fn confirm(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    allow(params, &["capture_method", "client_secret", "payment_method_types", "receipt_email"])?;
    named_types(call, params)?;
    let options = attempt::Options::parse(params)?;
    let mut intent = load(call, id)?;
    match intent.status {
        Status::RequiresPaymentMethod | Status::RequiresConfirmation | Status::RequiresAction => {}
        Status::Succeeded => {
            let message = "You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.";
            return Err(unexpected(&intent, message.to_owned())?);
        }
        Status::Processing | Status::RequiresCapture | Status::Canceled => {
            return Err(unexpected(
                &intent,
                format!(
                    "You cannot confirm this PaymentIntent because it has a status of {}. Only a PaymentIntent with one of the following \
                     statuses may be confirmed: requires_payment_method, requires_confirmation, requires_action.",
                    intent.status
                ),
            )?);
        }
    }
    if let Some(capture_method) = params.choice("capture_method", CAPTURE_METHODS)? {
        intent.capture_method = capture_method.to_owned();
    }
    params.update("receipt_email", &mut intent.receipt_email)?;
    method_options::apply(&mut intent.payment_method_options, params)?;
    if let Some(id) = params.text("payment_method")? {
        intent.payment_method = Some(method_for(call, id, intent.customer.as_deref())?);
    }
    if intent.payment_method.is_none() {
        return Err(no_payment_method().payment_intent(shown(&intent)?).outcome());
    }
    check_return_url(&intent, &options)?;
    if intent.statement_descriptor.is_some() {
        return Err(descriptors::refuse_for_card().payment_intent(shown(&intent)?).outcome());
    }
    // What it waited for is over: this is another attempt.
    intent.status = Status::RequiresConfirmation;
    run_attempt(call, intent, &options)
}

/// `POST /v1/payment_intents/{id}/cancel`
pub fn cancel(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&["cancellation_reason"])?;
    let reasons = ["abandoned", "duplicate", "fraudulent", "requested_by_customer"];
    let reason = params.choice("cancellation_reason", &reasons)?;
    let intent = load(call, id)?;
    if matches!(intent.status, Status::Succeeded | Status::Canceled) {
        return Err(unexpected(
            &intent,
            format!(
                "You cannot cancel this PaymentIntent because it has a status of {}. Only a PaymentIntent with one of the following \
                 statuses may be canceled: requires_payment_method, requires_capture, requires_confirmation, requires_action, processing.",
                intent.status
            ),
        )?);
    }
    // No bank debit, which could still be stopped: the card's network has the capture already.
    if intent.status == Status::Processing && unshown::of(call, &intent.id)?.capturing.is_some() {
        let message = "You cannot cancel this PaymentIntent because it has a status of processing, and its payment method cannot be canceled \
                       then.";
        return Err(unexpected(&intent, message.to_owned())?);
    }
    // Of several captures, only what is left is given up.
    if intent.amount_received > 0 {
        return shown(&captures::take(call, intent, None, true)?);
    }
    if let Some(charge) = &intent.latest_charge {
        match intent.status {
            Status::RequiresCapture => charges::void(call, charge)?,
            Status::Processing => charges::abandon(call, charge)?,
            _ => {}
        }
    }
    shown(&close(call, intent, reason)?)
}

/// Ends a PaymentIntent whose reserved amount nobody has captured in time. Of one that was captured in part only the rest lapses.
pub fn expire(call: &mut Call, intent: PaymentIntent) -> Outcome<()> {
    if intent.amount_received > 0 {
        return captures::take(call, intent, None, true).map(drop);
    }
    if let Some(charge) = &intent.latest_charge {
        charges::expire(call, charge)?;
    }
    close(call, intent, Some("expired")).map(drop)
}

fn close(call: &mut Call, mut intent: PaymentIntent, reason: Option<&str>) -> Outcome<PaymentIntent> {
    intent.status = Status::Canceled;
    intent.processing = None;
    intent.amount_capturable = 0;
    intent.next_action = None;
    intent.canceled_at = Some(call.now_s());
    intent.cancellation_reason = reason.map(str::to_owned);
    save(call, &intent)?;
    events::record(call, "payment_intent.canceled", &intent)?;
    Ok(intent)
}

/// `GET /v1/payment_intents`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["created", "customer", "ending_before", "limit", "starting_after"])?;
    let query =
        Query { customer: params.text("customer")?.map(str::to_owned), ..Query::all(Kind::PaymentIntent) };
    lists::page(call, params, Page { kind: Kind::PaymentIntent, query, url: "/v1/payment_intents" })
}

fn run_attempt(call: &mut Call, intent: PaymentIntent, options: &attempt::Options) -> Outcome<Value> {
    match attempt::run(call, intent, options)? {
        Attempt::Accepted(intent) => shown(&*intent),
        Attempt::Declined(error) => Err(Failure::Outcome(error)),
    }
}

fn parse_new(call: &mut Call, params: &Params) -> Outcome<PaymentIntent> {
    let amount = params.integer("amount")?;
    let amount = amount.ok_or_else(|| crate::stripe::errors::missing("amount"))?;
    let currency = currencies::parse(params.required("currency")?)?;
    currencies::check_amount(amount, &currency)?;
    let methods = Methods::of(call, params)?;
    let id = call.new_id(Kind::PaymentIntent);
    let owned = |name: &str| -> Outcome<Option<String>> { Ok(params.text(name)?.map(str::to_owned)) };
    Ok(PaymentIntent {
        client_secret: format!("{id}_secret_{}", ids::word(call.ids, 25)),
        id,
        object: "payment_intent".to_owned(),
        allowed_payment_method_types: methods.allowed,
        amount,
        amount_capturable: 0,
        amount_details: json!({ "tip": {} }),
        amount_received: 0,
        application: None,
        application_fee_amount: None,
        automatic_payment_methods: methods.automatic,
        canceled_at: None,
        cancellation_reason: None,
        capture_method: params
            .choice("capture_method", CAPTURE_METHODS)?
            .unwrap_or("automatic_async")
            .to_owned(),
        confirmation_method: params
            .choice("confirmation_method", &["automatic", "manual"])?
            .unwrap_or("automatic")
            .to_owned(),
        created: call.now_s(),
        currency,
        customer: owned("customer")?,
        customer_account: None,
        description: owned("description")?,
        excluded_payment_method_types: None,
        last_payment_error: None,
        latest_charge: None,
        livemode: false,
        managed_payments: None,
        metadata: metadata::merge(&Metadata::new(), params)?,
        next_action: None,
        on_behalf_of: None,
        payment_method: None,
        payment_method_configuration_details: None,
        payment_method_options: method_options::none(),
        payment_method_types: methods.types,
        payment_record: None,
        processing: None,
        receipt_email: owned("receipt_email")?,
        review: None,
        setup_future_usage: params
            .choice("setup_future_usage", &["off_session", "on_session"])?
            .map(str::to_owned),
        shipping: None,
        source: None,
        statement_descriptor: owned("statement_descriptor")?,
        statement_descriptor_suffix: owned("statement_descriptor_suffix")?,
        status: Status::RequiresPaymentMethod,
        transfer_data: None,
        transfer_group: owned("transfer_group")?,
    })
}

/// Automatic methods may redirect, so confirming needs somewhere to come back to.
fn check_return_url(intent: &PaymentIntent, options: &attempt::Options) -> Outcome<()> {
    let may_redirect = intent
        .automatic_payment_methods
        .as_ref()
        .and_then(|automatic| automatic.get("allow_redirects"))
        .is_some_and(|redirects| redirects == "always");
    if !may_redirect || options.return_url.is_some() {
        return Ok(());
    }
    Err(ApiError::invalid(
        "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might \
         redirect your customer off of your page, you must provide a `return_url`. If you don't want to accept redirect-based payment \
         methods, set `automatic_payment_methods[enabled]` to `true` and `automatic_payment_methods[allow_redirects]` to `never` when \
         creating Setup Intents and Payment Intents.",
    )
    .refused())
}

fn allow(params: &Params, own: &[&str]) -> Outcome<()> {
    if params.has("payment_method_data") {
        // A raw card number must not even be looked at.
        let message = "Sending card details to the API directly is unsafe and not supported here: use a test PaymentMethod such as \
                       pm_card_visa.";
        return Err(ApiError::invalid(message).param("payment_method_data").refused());
    }
    let known: Vec<&str> = own.iter().chain(CONFIRMATION).chain(UNMODELLED).copied().collect();
    params.allow(&known)
}

fn no_payment_method() -> ApiError {
    ApiError::invalid(
        "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the PaymentIntent with a \
         payment method and then confirm it again, or confirm it again directly with a payment method or ConfirmationToken.",
    )
    .code("payment_intent_unexpected_state")
}
