//! One attempt to pay a PaymentIntent: what its card does when it is confirmed, and after 3-D Secure.
//!
//! - [`Attempt::Accepted`]: paid, reserved, waiting for 3-D Secure, or for the bank's decision.
//! - [`Attempt::Declined`]: a 402 whose PaymentIntent persists. <https://docs.stripe.com/declines/codes>
//!
//! Each attempt that reaches the issuer makes exactly one charge, declined or not.

use serde_json::{Value, json};

use crate::provider::Call;
use crate::stripe::cards::{
    ACTION_REFUSED, AUTHENTICATION_FAILED, AUTHENTICATION_REQUIRED, Behaviour, Card, Decline,
};
use crate::stripe::charge::Answer;
use crate::stripe::charges;
use crate::stripe::errors::{ApiError, ErrorType, Outcome, doc_url};
use crate::stripe::events;
use crate::stripe::objects::shown;
use crate::stripe::params::Params;
use crate::stripe::payment_intent::{self, PaymentIntent, Status};
use crate::stripe::payment_methods::{self, PaymentMethod};
use crate::stripe::unshown;
use crate::three_d_secure;

/// How to confirm.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the browser comes back to.
    pub return_url: Option<String>,
    error_on_requires_action: bool,
    off_session: bool,
}

impl Options {
    /// Reads them from the parameters.
    pub fn parse(params: &Params) -> Outcome<Self> {
        let return_url = params.text("return_url")?;
        if return_url.is_some_and(|url| !is_web_address(url)) {
            return Err(ApiError::invalid("Not a valid URL")
                .code("url_invalid")
                .param("return_url")
                .refused());
        }
        let off_session = match params.text("off_session")? {
            // Stripe also takes the kind of the later payment instead of a boolean.
            Some("one_off" | "recurring") => true,
            _ => params.boolean("off_session")?.unwrap_or(false),
        };
        Ok(Options {
            return_url: return_url.map(str::to_owned),
            error_on_requires_action: params.boolean("error_on_requires_action")?.unwrap_or(false),
            off_session,
        })
    }
}

/// What came of an attempt.
pub enum Attempt {
    /// It stands: `succeeded`, `requires_capture`, `requires_action` or `processing`.
    Accepted(Box<PaymentIntent>),
    /// 402.
    Declined(Box<ApiError>),
}

/// Confirms a PaymentIntent that has a payment method.
pub fn run(call: &mut Call, intent: PaymentIntent, options: &Options) -> Outcome<Attempt> {
    let (payment_method, card) = card_of(call, &intent)?;
    let off_session = options.off_session;
    let authenticated = intent.payment_method.is_some()
        && unshown::of(call, &intent.id)?.authenticated == intent.payment_method;
    let asks = match card.behaviour {
        Behaviour::Authenticate(_) => true,
        Behaviour::AuthenticateOnSession => !off_session,
        Behaviour::AuthenticateOnRequest(_) => {
            !off_session && matches!(intent.card_option("request_three_d_secure"), Some("any" | "challenge"))
        }
        _ => false,
    };
    if asks && !authenticated {
        if off_session {
            return settle(
                call,
                intent,
                (&payment_method, card),
                Some(&AUTHENTICATION_REQUIRED),
                off_session,
            );
        }
        // To ask is already too much for this one.
        if let Behaviour::AuthenticateOnRequest(Some(decline)) = card.behaviour {
            return settle(call, intent, (&payment_method, card), Some(&decline), off_session);
        }
        // The issuer was never asked to pay: an error, but no charge.
        if options.error_on_requires_action {
            let refused = fail(call, intent, &payment_method, &ACTION_REFUSED, None)?;
            return Ok(Attempt::Declined(Box::new(refused)));
        }
        return ask(call, intent, options);
    }
    if matches!(card.behaviour, Behaviour::Process(_)) {
        return process(call, intent, (&payment_method, card));
    }
    settle(call, intent, (&payment_method, card), card.behaviour.decline(), off_session)
}

/// Goes on after the 3-D Secure page. With `confirmation_method=manual` the merchant's server does, by another confirmation: it can still
/// decide not to charge.
pub fn authenticated(call: &mut Call, mut intent: PaymentIntent, accepted: bool) -> Outcome<Attempt> {
    let (payment_method, card) = card_of(call, &intent)?;
    if !accepted {
        return Ok(Attempt::Declined(Box::new(fail(
            call,
            intent,
            &payment_method,
            &AUTHENTICATION_FAILED,
            None,
        )?)));
    }
    let authenticated = intent.payment_method.clone();
    unshown::change(call, &intent.id, |unshown| unshown.authenticated = authenticated)?;
    if intent.confirmation_method == "manual" {
        intent.status = Status::RequiresConfirmation;
        intent.next_action = None;
        payment_intent::save(call, &intent)?;
        return Ok(Attempt::Accepted(Box::new(intent)));
    }
    settle(call, intent, (&payment_method, card), card.behaviour.decline(), false)
}

/// The card that a PaymentIntent is paid with.
pub fn card_of(call: &mut Call, intent: &PaymentIntent) -> Outcome<(PaymentMethod, &'static Card)> {
    payment_methods::of_param(call, intent.payment_method.as_deref().unwrap_or_default())
}

/// `requires_action`: the browser has to visit the 3-D Secure page.
fn ask(call: &mut Call, mut intent: PaymentIntent, options: &Options) -> Outcome<Attempt> {
    let url = three_d_secure::address(call.request, &intent.id, options.return_url.as_deref());
    intent.status = Status::RequiresAction;
    intent.last_payment_error = None;
    intent.next_action = Some(match &options.return_url {
        Some(return_url) => {
            json!({ "redirect_to_url": { "return_url": return_url, "url": url }, "type": "redirect_to_url" })
        }
        None => {
            json!({ "type": "use_stripe_sdk", "use_stripe_sdk": { "stripe_js": url, "type": "three_d_secure_redirect" } })
        }
    });
    payment_intent::save(call, &intent)?;
    events::record(call, "payment_intent.requires_action", &intent)?;
    Ok(Attempt::Accepted(Box::new(intent)))
}

/// `processing`: the charge is made, and its bank decides later ([`decided`]).
fn process(call: &mut Call, mut intent: PaymentIntent, method: (&PaymentMethod, &Card)) -> Outcome<Attempt> {
    let charge = charges::create(call, &intent, method, Answer::Later)?;
    intent.status = Status::Processing;
    intent.processing = Some(json!({ "card": {}, "type": "card" }));
    intent.latest_charge = Some(charge.id);
    intent.last_payment_error = None;
    intent.next_action = None;
    payment_intent::save(call, &intent)?;
    events::record(call, "payment_intent.processing", &intent)?;
    Ok(Attempt::Accepted(Box::new(intent)))
}

/// The bank's decision about a PaymentIntent in `processing`.
pub fn decided(call: &mut Call, mut intent: PaymentIntent) -> Outcome<()> {
    let (payment_method, card) = card_of(call, &intent)?;
    let decline = card.behaviour.decline();
    let charge = intent.latest_charge.clone().unwrap_or_default();
    charges::decide(call, &charge, answer(&intent, card, decline, false))?;
    intent.processing = None;
    conclude(call, intent, &payment_method, charge, decline)?;
    Ok(())
}

fn settle(
    call: &mut Call,
    intent: PaymentIntent,
    (payment_method, card): (&PaymentMethod, &Card),
    decline: Option<&Decline>,
    off_session: bool,
) -> Outcome<Attempt> {
    let says = answer(&intent, card, decline, off_session);
    let charge = charges::create(call, &intent, (payment_method, card), says)?;
    conclude(call, intent, payment_method, charge.id, decline)
}

fn answer<'a>(
    intent: &PaymentIntent,
    card: &Card,
    decline: Option<&'a Decline>,
    off_session: bool,
) -> Answer<'a> {
    match decline {
        None => Answer::Yes {
            captured: !intent.reserves(),
            at_risk: card.behaviour == Behaviour::ApproveAtRisk,
            off_session,
        },
        Some(decline) => Answer::No(decline),
    }
}

/// What the bank's answer to a charge makes of its PaymentIntent.
fn conclude(
    call: &mut Call,
    mut intent: PaymentIntent,
    payment_method: &PaymentMethod,
    charge: String,
    decline: Option<&Decline>,
) -> Outcome<Attempt> {
    let (before, manual) = (intent.clone(), intent.reserves());
    if let Some(decline) = decline {
        return Ok(Attempt::Declined(Box::new(fail(call, intent, payment_method, decline, Some(charge))?)));
    }
    intent.latest_charge = Some(charge);
    intent.last_payment_error = None;
    intent.next_action = None;
    if manual {
        intent.status = Status::RequiresCapture;
        intent.amount_capturable = intent.amount;
    } else {
        intent.status = Status::Succeeded;
        intent.amount_received = intent.amount;
    }
    payment_intent::save(call, &intent)?;
    if manual {
        events::record_change(call, "payment_intent.amount_capturable_updated", &before, &intent)?;
    } else {
        events::record(call, "payment_intent.succeeded", &intent)?;
    }
    Ok(Attempt::Accepted(Box::new(intent)))
}

/// Back to `requires_payment_method`, with the reason kept on the PaymentIntent and given in the error.
pub fn fail(
    call: &mut Call,
    mut intent: PaymentIntent,
    payment_method: &PaymentMethod,
    decline: &Decline,
    charge: Option<String>,
) -> Outcome<ApiError> {
    let shown_method = shown(payment_method)?;
    intent.status = Status::RequiresPaymentMethod;
    intent.payment_method = None;
    intent.next_action = None;
    if charge.is_some() {
        intent.latest_charge.clone_from(&charge);
    }
    intent.last_payment_error = Some(last_payment_error(decline, charge.as_deref(), &shown_method));
    payment_intent::save(call, &intent)?;
    events::record(call, "payment_intent.payment_failed", &intent)?;
    let mut error = ApiError::new(402, ErrorType::Card, decline.message).code(decline.code);
    error.decline_code = decline.decline_code.map(str::to_owned);
    error.param = decline.param.map(str::to_owned);
    error.charge = charge;
    error.payment_method = Some(shown_method);
    Ok(error.payment_intent(shown(&intent)?))
}

fn last_payment_error(decline: &Decline, charge: Option<&str>, payment_method: &Value) -> Value {
    let mut error = serde_json::Map::new();
    if let Some(charge) = charge {
        error.insert("charge".into(), json!(charge));
    }
    error.insert("code".into(), json!(decline.code));
    if let Some(decline_code) = decline.decline_code {
        error.insert("decline_code".into(), json!(decline_code));
    }
    error.insert("doc_url".into(), json!(doc_url(decline.code)));
    error.insert("message".into(), json!(decline.message));
    if let Some(param) = decline.param {
        error.insert("param".into(), json!(param));
    }
    error.insert("payment_method".into(), payment_method.clone());
    error.insert("type".into(), json!("card_error"));
    Value::Object(error)
}

fn is_web_address(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '['))
        && text.len() <= 5_000
        && !text.contains(|any: char| any.is_control() || any.is_whitespace())
}
