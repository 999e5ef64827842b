//! Booking a ride: `started → ride_created → charge_created → finished`.
//!
//! The flow of Brandur Leach's "Implementing Stripe-like Idempotency Keys in Postgres". Outcomes: 201 and a paid ride;
//! 402 and a declined or failed one, which was not charged.
//!
//! Nothing begins one any more: this finishes and shows what a release before has begun. The rides of today are the demo's own (`demo/src/rides`).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::engine::{CallSpec, End, Phase, RecoveryPoint, Settlement};
use super::{PhaseExt, Point, receipt, respond};
use crate::payment::id::RideId;
use crate::payment::records::JobKind;
use crate::providers::result::{CallKind, ProviderResult};
use crate::providers::{Provider, stripe};
use crate::timestamp;
use once::call::RetryPolicy;
use once::context::Bug;

/// What a ride costs: 2000 cents, $20.00.
pub const FARE_MINOR: u32 = 2000;
/// The currency of the fare, as Stripe writes it.
pub const FARE_CURRENCY: &str = "usd";

/// Degrees of latitude or longitude, in units of 10⁻⁷ degree (about a centimetre).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DegreesE7(pub i32);

impl DegreesE7 {
    /// In degrees.
    pub fn degrees(self) -> f64 {
        f64::from(self.0) / 1e7
    }
}

/// A place on Earth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Latitude, −90 to 90 degrees.
    pub lat: DegreesE7,
    /// Longitude, −180 to 180 degrees.
    pub lon: DegreesE7,
}

impl Place {
    fn to_json(self) -> Value {
        json!({ "lat": self.lat.degrees(), "lon": self.lon.degrees() })
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RideRequest {
    /// From where.
    pub origin: Place,
    /// To where.
    pub target: Place,
    /// Who pays: the provider's token, from the form or from the account.
    pub payment_method: String,
    /// The provider's customer, if the account has one.
    pub customer: Option<String>,
    /// The connected account at Stripe in which it is charged, if the account has one.
    #[serde(default)]
    pub stripe_account: Option<String>,
    /// To whom the receipt goes.
    #[serde(default)]
    pub receipt_email: Option<String>,
}

/// How a ride stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RideState {
    /// Booked, not paid yet.
    Created,
    /// Paid: exactly one charge exists.
    Paid {
        /// The provider's id of the payment.
        charge: String,
    },
    /// Not paid: no charge exists and none will.
    Unpaid {
        /// The provider's id of the payment, if it made one.
        charge: Option<String>,
        /// `card_declined`, `provider_rejected`, …
        code: String,
        /// The issuer's reason.
        decline_code: Option<String>,
        /// For the person who wanted to pay.
        message: String,
    },
}

/// A ride.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ride {
    /// Its public id.
    pub id: RideId,
    /// From where.
    pub origin: Place,
    /// To where.
    pub target: Place,
    /// Its price, in minor units of [`FARE_CURRENCY`].
    pub amount_minor: u32,
    /// How it stands.
    pub state: RideState,
    /// When it was booked, in ms since the epoch.
    pub created_at_ms: u64,
    /// When its places were erased, in ms since the epoch: then they are nowhere.
    #[serde(default)]
    pub erased_at_ms: Option<u64>,
}

impl Ride {
    /// One word for the state.
    pub const fn status(&self) -> &'static str {
        match self.state {
            RideState::Created => "pending",
            RideState::Paid { .. } => "paid",
            RideState::Unpaid { .. } => "unpaid",
        }
    }

    fn place(&self, place: Place) -> Option<Value> {
        self.erased_at_ms.is_none().then(|| place.to_json())
    }

    /// As the API shows it.
    pub fn to_json(&self) -> Value {
        let charge = match &self.state {
            RideState::Created => None,
            RideState::Paid { charge } => Some(charge),
            RideState::Unpaid { charge, .. } => charge.as_ref(),
        };
        json!({
            "id": self.id.to_string(),
            "object": "ride",
            "status": self.status(),
            "amount": self.amount_minor,
            "currency": FARE_CURRENCY,
            "origin": self.place(self.origin),
            "target": self.place(self.target),
            "charge": charge,
            "created_at": timestamp(self.created_at_ms),
        })
    }
}

const CHARGE: &str = "charge";

/// The flow.
pub(crate) fn run(request: &RideRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    match phase.key()?.recovery_point() {
        RecoveryPoint::Started => create_ride(request, phase),
        RecoveryPoint::At(Point::RideCreated) => match phase.settlement(CHARGE)? {
            None => Ok(End::Call(charge(request, phase)?)),
            Some(Settlement::Answered(reply)) => match reply.result {
                ProviderResult::Charged { payment } => charge_created(phase, payment),
                ProviderResult::Declined { payment, code, decline_code, message } => {
                    unpaid(phase, RideState::Unpaid { charge: payment, code, decline_code, message })
                }
                ProviderResult::Rejected { payment, code, .. } => unpaid(phase, rejected(payment, &code)),
                other => Err(Bug(format!("a charge was answered by {other:?}"))),
            },
            Some(Settlement::NotExecuted) => unpaid(phase, not_executed()),
            Some(Settlement::NeedsReview) => Err(Bug("a charge is idempotent by key".into())),
        },
        RecoveryPoint::At(Point::ChargeCreated) => dispatch(request, phase),
        RecoveryPoint::At(Point::Reserved) | RecoveryPoint::Finished => {
            Err(Bug("a ride that is reserved or finished".into()))
        }
    }
}

/// Phase 1: the ride and its audit record.
fn create_ride(request: &RideRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let id = RideId::in_object(phase.rows.object);
    phase.rows.resource.ride = Some(Ride {
        id,
        origin: request.origin,
        target: request.target,
        amount_minor: FARE_MINOR,
        state: RideState::Created,
        created_at_ms: phase.ctx.now_ms,
        erased_at_ms: None,
    });
    phase.audit(
        "ride.created",
        id.to_string(),
        json!({ "amount": FARE_MINOR, "currency": FARE_CURRENCY }),
    )?;
    Ok(End::At(Point::RideCreated))
}

/// The foreign call: a PaymentIntent, created and confirmed at once, under a key made from the ride's own id.
fn charge(request: &RideRequest, phase: &Phase<'_>) -> Result<CallSpec, Bug> {
    let id = ride(phase)?.id;
    let derived_key = format!("{id}_auth");
    Ok(CallSpec {
        name: CHARGE.to_owned(),
        kind: CallKind::Charge,
        provider: Provider::Stripe,
        retry_policy: RetryPolicy::IdempotentByKey,
        request: stripe::charge(&stripe::Charge {
            amount_minor: FARE_MINOR,
            currency: FARE_CURRENCY,
            payment_method: &request.payment_method,
            customer: request.customer.as_deref(),
            account: request.stripe_account.as_deref(),
            description: "Rocket ride",
            resource: &id.to_string(),
            derived_key: &derived_key,
        }),
        derived_key,
    })
}

/// Phase 2: the charge is there.
fn charge_created(phase: &mut Phase<'_>, payment: String) -> Result<End, Bug> {
    let data = json!({ "charge": payment, "amount": FARE_MINOR, "currency": FARE_CURRENCY });
    let id = settle(phase, RideState::Paid { charge: payment })?;
    phase.audit("ride.charged", id.to_string(), data)?;
    Ok(End::At(Point::ChargeCreated))
}

/// Phase 2, the other way: nothing was charged, and the answer says so.
fn unpaid(phase: &mut Phase<'_>, state: RideState) -> Result<End, Bug> {
    let RideState::Unpaid { code, decline_code, message, .. } = state.clone() else {
        return Err(Bug(format!("an unpaid ride in state {state:?}")));
    };
    let id = settle(phase, state)?;
    phase.audit("ride.not_charged", id.to_string(), json!({ "code": code, "decline_code": decline_code }))?;
    let body = json!({
        "type": "/problems/payment-failed",
        "title": "The payment failed",
        "status": 402,
        "detail": message,
        "instance": id.path(),
        "code": code,
        "decline_code": decline_code,
        "ride": ride(phase)?.to_json(),
    });
    respond(phase, 402, &id.path(), None, &body)
}

/// Phase 3: the receipt and the message to the pilot are staged, the response is stored.
fn dispatch(request: &RideRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let ride = ride(phase)?.clone();
    if receipt::of_ride(phase.rows, &ride, request.receipt_email.as_ref(), phase.ctx) {
        phase.audit("receipt.staged", ride.id.to_string(), json!({}))?;
    }
    let place = |degrees: DegreesE7| format!("{:.4}", degrees.degrees());
    let (lat, lon) = (place(ride.origin.lat), place(ride.origin.lon));
    let message =
        json!({ "body": format!("A ride is paid and yours: pick up at {lat}, {lon}. {}", ride.id) });
    phase.audit("dispatch.staged", ride.id.to_string(), json!({}))?;
    phase.stage(JobKind::Retired, format!("{}_dispatch", ride.id), message);
    let body = json!({ "message": "Payment accepted. Your pilot is on their way!", "ride": ride.to_json() });
    respond(phase, 201, &ride.id.path(), None, &body)
}

fn settle(phase: &mut Phase<'_>, state: RideState) -> Result<RideId, Bug> {
    let ride = phase.rows.resource.ride.as_mut().ok_or_else(|| Bug("no ride at ride_created".into()))?;
    ride.state = state;
    Ok(ride.id)
}

fn ride<'a>(phase: &'a Phase<'_>) -> Result<&'a Ride, Bug> {
    phase.rows.resource.ride.as_ref().ok_or_else(|| Bug("no ride after ride_created".into()))
}

fn rejected(charge: Option<String>, code: &str) -> RideState {
    RideState::Unpaid {
        charge,
        code: code.to_owned(),
        decline_code: None,
        message: "The payment provider refused the payment. Nothing was charged.".to_owned(),
    }
}

fn not_executed() -> RideState {
    RideState::Unpaid {
        charge: None,
        code: "payment_not_completed".to_owned(),
        decline_code: None,
        message: "The payment did not go through. Nothing was charged.".to_owned(),
    }
}
