//! Paying: `reserved → finished`, with one call in between for each try.
//!
//! Outcomes: 201 and a payment that succeeded, is reserved (`requires_capture`), waits for the bank's page
//! (`requires_action`) or for the provider (`processing`); 402 and one that was not charged.
//!
//! A try that failed *definitively* may be followed by another one, under a derived key of its own: at once with the
//! request's fallback, or later under another key for the same order. One whose outcome is unknown never is. What an earlier
//! try has left open at its provider is closed first ([`close`]).

use super::capture::under_way;
use super::close::{self, Earlier};
use super::{order_link, tries};
use serde_json::json;

use super::phase::PhaseExt;
use crate::engine::{
    CallSpec, CallState, Context, End, ObjectState, Payments, Phase, ProviderCall, RecoveryPoint, Settlement,
    are_keys_usable,
};
use crate::flows::phase::{refusal, respond};
use crate::payment::card::Card;
use crate::payment::id::PaymentId;
use crate::payment::money::{AmountMinor, Currency};
use crate::payment::operation::{PaymentRequest, Point, Refusal, Route};
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::tries::{GIVING_BACK, NOT_GIVEN_BACK, Stage, not_given_back};
use crate::payment::{Failure, Payment, PaymentState};
use crate::providers::codec::Authorization;
use crate::transitions::audit::add_to_newest;
use crate::transitions::effects::on_transition;
use crate::transitions::try_rows;
use once::call::RetryPolicy;
use once::context::Bug;
use once::flow::Admission;

impl PaymentRequest {
    fn payment(&self, object_state: &ObjectState, id: PaymentId, ctx: &Context) -> Payment {
        let before = object_state.resource.payment.as_ref();
        Payment {
            id,
            amount: self.amount,
            currency: self.currency,
            capture: self.capture,
            order_id: self.order_id.clone(),
            description: self.description.clone(),
            customer: self.route.customer.clone(),
            metadata: self.metadata.clone(),
            return_url: self.return_url.clone(),
            receipt_email: self.receipt_email.clone(),
            receipt_content: self.receipt_content.clone(),
            provider: self.route.provider,
            merchant_account: self.route.merchant_account.clone(),
            provider_payment: None,
            link_revision: self.link_revision,
            attempt: next_attempt(object_state),
            moves: before.map_or(0, |before| before.moves),
            state: PaymentState::Authorizing,
            pending: None,
            failed_operation: None,
            ended_at_ms: None,
            captured_by: None,
            dispute: None,
            disputes: Vec::new(),
            receipted: false,
            check: None,
            doubts: Vec::new(),
            watch: None,
            refunded_elsewhere_minor: 0,
            in_provider_units: true,
            capture_before_ms: None,
            held_elsewhere_minor: 0,
            disbelieved: None,
            refunds_elsewhere: Vec::new(),
            card: None,
            is_erased: false,
            created_at_ms: before.map_or(ctx.now_ms, |before| before.created_at_ms),
            paid_at_ms: None,
        }
    }
}

/// Both providers of a request can be told the amount: a fallback that cannot would be found out only when it is needed.
fn must_be_payable(request: &PaymentRequest) -> Result<(), Refusal> {
    let refused = |message: String| Refusal::Amount { message };
    Currency::parse_offered(request.currency.as_str()).map_err(refused)?;
    request.amount.check_rounding(request.currency).map_err(refused)?;
    for route in [Some(&request.route), request.fallback.as_ref()].into_iter().flatten() {
        let checked = route.provider.check_amount(request.amount, request.currency);
        checked.map_err(|reason| refused(reason.message().to_owned()))?;
    }
    Ok(())
}

/// The order has money of a try that was over: charged now, it would be paid twice.
fn money_of_earlier_try(stage: Stage) -> Refusal {
    let (state, detail) = match stage {
        Stage::Refused => (
            NOT_GIVEN_BACK,
            "An earlier attempt was paid after it was over, and the payment provider has refused to give that money back, or does \
             not tell that it has. Nothing was executed. A person must look, and give the money back at the provider: then this order \
             takes another attempt. Or make a new order, under another order id.",
        ),
        _ => (
            GIVING_BACK,
            "An earlier attempt was paid after it was over, and that money is being given back. Nothing was executed. Send the same \
             request with the same key again after the time in Retry-After.",
        ),
    };
    Refusal::State { state: state.to_owned(), detail: detail.to_owned() }
}

/// The payment and its audit record; or another try of an order whose last one is over, unpaid.
pub(crate) fn admit(request: &PaymentRequest, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    if let Err(refusal) = must_be_payable(request) {
        return Ok(Err(refusal));
    }
    let before = phase.object_state.resource.payment.as_ref();
    if let Some(payment) = before.filter(|payment| !payment.is_over_unpaid()) {
        let detail = match payment.state {
            PaymentState::Captured { .. } | PaymentState::Authorized if payment.pending.is_none() => {
                "The order is paid already: see `resource`."
            }
            PaymentState::CaptureFailed { .. } => {
                "The order is being paid: the provider may repeat the capture by itself. See `resource`."
            }
            _ => {
                "The order is being paid under another key: see `resource`, and do not start another try before that one is over."
            }
        };
        let state = under_way(payment).unwrap_or_else(|| payment.status());
        return Ok(Err(Refusal::State { state: state.to_owned(), detail: detail.to_owned() }));
    }
    if let Some(stage) = not_given_back(&phase.object_state.resource.tries) {
        return Ok(Err(money_of_earlier_try(stage)));
    }
    if let Some(refusal) =
        order_link::refusal(phase.object_state.resource.links.as_ref(), request.link_revision)
    {
        return Ok(Err(refusal));
    }
    if before.is_some()
        && let Some(refusal) = tries::refusal(phase.object_state, phase.ctx)
    {
        return Ok(Err(refusal));
    }
    let payment =
        request.payment(phase.object_state, PaymentId::in_object(phase.object_state.object), phase.ctx);
    let data = json!({
        "amount": payment.amount.get(), "currency": payment.currency, "provider": payment.provider,
        "order_id": payment.order_id, "attempt": payment.attempt,
    });
    let id = payment.id.to_string();
    phase.object_state.resource.payment = Some(payment);
    phase.audit("payment.created", id, data)?;
    Ok(Ok(Some(Point::Reserved)))
}

/// The flow.
pub(crate) fn run(request: &PaymentRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let point = phase.key()?.recovery_point();
    if point != RecoveryPoint::At(Point::Reserved) {
        return Err(Bug(format!("a payment at {}", point.as_str())));
    }
    let attempt = phase.payment()?.attempt;
    let Some(settlement) = phase.settlement(&call_name(attempt))? else {
        return begin_try(request, phase);
    };
    if is_unsent(&call_name(attempt), phase) {
        close::open(phase)?;
        return unsent(request, phase);
    }
    let capture_before_ms = captured_before_ms(&settlement);
    let card = take_personal(&call_name(attempt), phase);
    let refusal = refusal(phase, &call_name(attempt));
    let (provider_payment, state) = match settlement {
        // Nothing was made, and why is known.
        Settlement::NotExecuted if let Some(refusal) = refusal => {
            let (_, state) = outcome(Settlement::Answered(refusal), phase.payment()?.amount)?;
            (None, state)
        }
        settlement => outcome(settlement, phase.payment()?.amount)?,
    };
    let payment = phase.payment()?;
    payment.state = state;
    payment.capture_before_ms = capture_before_ms;
    payment.provider_payment = provider_payment;
    payment.paid_with(card);
    let payment = payment.clone();
    on_transition(phase.object_state, phase.ctx)?;
    match &request.fallback {
        // One that cannot be told the amount is left out: admission has not always asked. So is one that nothing can be sent to.
        Some(fallback)
            if tries_sent(phase) == 1
                && matches!(payment.state, PaymentState::Failed(_))
                && !may_still_hold(&call_name(attempt), phase)
                && fallback.provider.check_amount(request.amount, request.currency).is_ok()
                && are_keys_usable(fallback.provider, fallback.merchant_account.as_deref(), phase.ctx) =>
        {
            try_elsewhere(request, fallback, phase)
        }
        _ => answer(request, &payment, phase),
    }
}

/// Whether the provider has executed a call without saying how, and cannot be asked: its later "no" is not the issuer's last
/// word, which may hold the money all the same. Only a person begins another try then. What was held and is canceled is not.
fn may_still_hold(name: &str, phase: &Phase<'_>) -> bool {
    let is_it = |call: &&ProviderCall| call.key_id == phase.key_id && call.name == name;
    phase.object_state.calls.iter().find(is_it).is_some_and(|call| {
        call.evidence.is_executed && call.evidence.closing.is_none() && !call.provider.answers_questions()
    })
}

/// Whether a call was settled without a send: money was found on an earlier try.
fn is_unsent(name: &str, phase: &Phase<'_>) -> bool {
    let is_it = |call: &&ProviderCall| call.key_id == phase.key_id && call.name == name;
    let call = phase.object_state.calls.iter().find(is_it);
    call.is_some_and(|call| {
        call.first_sent_at_ms.is_none() && call.state == CallState::Settled(Settlement::NotExecuted)
    })
}

/// How many tries this key has sent.
fn tries_sent(phase: &Phase<'_>) -> usize {
    let is_its = |call: &&ProviderCall| call.key_id == phase.key_id && call.kind == CallKind::Authorize;
    phase.object_state.calls.iter().filter(is_its).count()
}

/// Begins the newest try, once nothing of an earlier one can be paid any more.
fn begin_try(request: &PaymentRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    match close::earlier(phase)? {
        Earlier::Closed => {}
        Earlier::Close(call) => return Ok(End::Call(call)),
        Earlier::Lives(attempt, found) => {
            close::adopt(request, attempt, found, phase)?;
            return ended(request, phase);
        }
        Earlier::Open => {
            close::open(phase)?;
            return ended(request, phase);
        }
    }
    let route = match &request.fallback {
        Some(fallback) if tries_sent(phase) > 0 => fallback,
        _ => &request.route,
    };
    authorize(request, route, phase)
}

/// The same payment with the other provider: the first one has failed for good, and its own id and key stay with it.
fn try_elsewhere(request: &PaymentRequest, route: &Route, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let attempt = next_attempt(phase.object_state);
    let payment = phase.payment()?;
    payment.attempt = attempt;
    payment.provider = route.provider;
    payment.merchant_account.clone_from(&route.merchant_account);
    payment.customer.clone_from(&route.customer);
    payment.provider_payment = None;
    payment.ended_at_ms = None;
    payment.captured_by = None;
    payment.card = None;
    payment.state = PaymentState::Authorizing;
    let data = json!({ "provider": payment.provider, "attempt": payment.attempt });
    let id = payment.id.to_string();
    // Its end is none that the API has ever shown.
    add_to_newest(phase.object_state, "payment.failed", "rerouted", true.into());
    phase.audit("payment.rerouted", id, data)?;
    begin_try(request, phase)
}

/// The number of the next try. The payment's own may be that of an earlier one, which was paid after all.
fn next_attempt(object_state: &ObjectState) -> u32 {
    let newest = object_state.resource.tries.iter().map(|row| row.attempt).max().unwrap_or(0);
    let present = object_state.resource.payment.as_ref().map_or(0, |payment| payment.attempt);
    newest.max(present).saturating_add(1)
}

/// The foreign call: authorise, and capture if the payment does so by itself.
fn authorize(request: &PaymentRequest, route: &Route, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let payment = phase.payment()?;
    let attempt = payment.attempt;
    let suffix = if attempt == 1 { String::new() } else { format!("_{attempt}") };
    let provider_key = route.provider.provider_key(&format!("{}_auth{suffix}", payment.id));
    try_rows::begin(phase.object_state, &provider_key);
    let payment = phase.payment()?;
    let id = payment.id.to_string();
    let return_url = request.return_url.as_ref().map(|_| {
        let key = request.return_key.as_ref().map(|key| format!("?k={key}")).unwrap_or_default();
        format!("{}{}/return{key}", request.origin, payment.id.path())
    });
    let payment_url = format!("{}{}", request.origin, payment.id.path());
    let authorization = Authorization {
        amount_minor: request.amount.get(),
        currency: request.currency,
        capture: request.capture,
        payment_method: &route.payment_method,
        customer: route.customer.as_deref(),
        merchant_account: route.merchant_account.as_deref(),
        description: request.description.as_deref(),
        metadata: &request.metadata,
        return_url: return_url.as_deref(),
        payment_url: &payment_url,
        resource: &id,
        provider_key: &provider_key,
    };
    match route.provider.authorize(&authorization) {
        Ok(frozen) => Ok(End::Call(CallSpec {
            name: call_name(attempt),
            kind: CallKind::Authorize,
            provider: route.provider,
            retry_policy: RetryPolicy::IdempotentByKey,
            request: frozen,
            provider_key,
        })),
        // Admitted by a version that did not check it. Nothing was sent.
        Err(_) => cannot_be_sent(request, phase),
    }
}

fn cannot_be_sent(request: &PaymentRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let payment = phase.payment()?;
    payment.state = PaymentState::Failed(Failure {
        declined: false,
        code: "currency_not_supported".to_owned(),
        decline_code: None,
        message: "The payment provider does not take this amount in this currency. Nothing was charged."
            .to_owned(),
    });
    unsent(request, phase)
}

/// The answer of a payment whose newest try was never sent: it is none that counts.
fn unsent(request: &PaymentRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let attempt = phase.payment()?.attempt;
    phase.object_state.resource.tries.retain(|row| row.attempt != attempt);
    ended(request, phase)
}

/// The answer of a payment that has come to a new state.
fn ended(request: &PaymentRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    on_transition(phase.object_state, phase.ctx)?;
    let payment = phase.payment()?.clone();
    answer(request, &payment, phase)
}

/// What the name of a try's call begins with; its number follows.
pub(super) const CALL: &str = "authorize_";

/// The call of a try, in the timeline and among the calls of its key.
fn call_name(attempt: u32) -> String {
    format!("{CALL}{attempt}")
}

/// Until when what was reserved can be captured, if the answer says so.
const fn captured_before_ms(settlement: &Settlement) -> Option<u64> {
    match settlement {
        Settlement::Answered(reply) => match &reply.result {
            ProviderResult::Authorized { capture_before_ms, .. } => *capture_before_ms,
            _ => None,
        },
        _ => None,
    }
}

/// The card that paid and the bank's page move from the answer to the payment: what is personal, or a secret, stands once, where it is
/// erased.
fn take_personal(name: &str, phase: &mut Phase<'_>) -> Option<Card> {
    let key_id = phase.key_id;
    let mut calls = phase.object_state.calls.iter_mut();
    match &mut calls.find(|call| call.key_id == key_id && call.name == name)?.state {
        CallState::Settled(Settlement::Answered(reply)) => {
            reply.result.forget_bank_page();
            reply.result.take_card()
        }
        _ => None,
    }
}

/// What the provider's last word makes of the payment.
fn outcome(settlement: Settlement, amount: AmountMinor) -> Result<(Option<String>, PaymentState), Bug> {
    let failed = |declined, code: String, decline_code, message: String| {
        PaymentState::Failed(Failure { declined, code, decline_code, message })
    };
    Ok(match settlement {
        Settlement::Answered(reply) => match reply.result {
            ProviderResult::Charged { payment, .. } => {
                (Some(payment), PaymentState::Captured { amount_minor: amount.get() })
            }
            ProviderResult::Authorized { payment, .. } => (Some(payment), PaymentState::Authorized),
            ProviderResult::Moved { payment, found } => {
                let state = match found {
                    RemoteState::Captured { amount_minor } => PaymentState::Captured { amount_minor },
                    RemoteState::Voided => PaymentState::Canceled,
                    RemoteState::Expired => PaymentState::Expired,
                    _ => PaymentState::Authorized,
                };
                (Some(payment), state)
            }
            ProviderResult::RequiresAction { payment, url } => {
                (Some(payment), PaymentState::RequiresAction { url })
            }
            ProviderResult::Processing { payment } => (Some(payment), PaymentState::Processing),
            ProviderResult::Declined { payment, code, decline_code, message } => {
                (payment, failed(true, code, decline_code, message))
            }
            ProviderResult::Rejected { payment, code, .. } => {
                let message = match code.as_str() {
                    // Of a payment there is nothing else that could be missing.
                    "resource_missing" => {
                        "The payment provider does not know the payment_method or the customer. Nothing was charged."
                    }
                    _ => "The payment provider refused the payment. Nothing was charged.",
                };
                (payment, failed(false, code, None, message.to_owned()))
            }
            other @ (ProviderResult::Captured { .. }
            | ProviderResult::Voided
            | ProviderResult::Received { .. }
            | ProviderResult::Refunded { .. }
            | ProviderResult::Customer { .. }) => {
                return Err(Bug(format!("an authorisation answered by {}", other.name())));
            }
        },
        Settlement::NotExecuted => {
            let message = "The payment did not go through. Nothing was charged.".to_owned();
            (None, failed(false, "payment_not_completed".to_owned(), None, message))
        }
        Settlement::NeedsReview => return Err(Bug("an authorisation is idempotent by key".into())),
    })
}

fn answer(request: &PaymentRequest, payment: &Payment, phase: &Phase<'_>) -> Result<End, Bug> {
    let (location, page) = (payment.id.path(), request.page.as_deref());
    let shown = payment.to_json(&phase.object_state.resource.refunds, &phase.object_state.resource.tries);
    let (message, code, decline_code) = match &payment.state {
        PaymentState::Failed(failure) => {
            (failure.message.as_str(), failure.code.clone(), &failure.decline_code)
        }
        PaymentState::Canceled => (
            "The reservation was canceled at the payment provider. Nothing was charged.",
            "payment_canceled".to_owned(),
            &None,
        ),
        PaymentState::Expired => (
            "The reservation has lapsed at the payment provider. Nothing was charged.",
            "payment_canceled".to_owned(),
            &None,
        ),
        _ => return respond(phase, 201, &location, page, &shown),
    };
    let body = json!({
        "type": "/problems/payment-failed",
        "title": "The payment failed",
        "status": 402,
        "detail": message,
        "instance": location,
        "code": code,
        "decline_code": decline_code,
        "payment": shown,
    });
    respond(phase, 402, &location, page, &body)
}
