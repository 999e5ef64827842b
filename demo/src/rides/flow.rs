//! Booking a ride: `started → ride_created → charge_created → finished`.
//!
//! The flow of Brandur Leach's "Implementing Stripe-like Idempotency Keys in Postgres". Outcomes: 201 and a paid ride;
//! 402 and a declined or failed one, which was not charged.

use crate::rides::id::RideId;
use once::call::{CallSpec, RetryPolicy, Settlement};
use once::context::Bug;
use once::domain::Domain;
use once::flow::{Admission, End, Flow, ObjectLimit, Phase};
use once::outbox::job;
use once::record::{Channel, RecoveryPoint, StoredResponse};
use serde_json::{Value, json};

use super::payments_api::{self, Charge, PaymentsApi};
use super::ride::{DegreesE7, Ride, RideRequest, RideState, Unpaid};

/// The flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rides;

/// Its points, in the order in which they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// The ride is written down.
    RideCreated,
    /// It is paid, and we know it.
    ChargeCreated,
}

impl once::domain::Point for Point {
    fn as_str(self) -> &'static str {
        match self {
            Self::RideCreated => "ride_created",
            Self::ChargeCreated => "charge_created",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::RideCreated, Self::ChargeCreated].into_iter().find(|point| point.as_str() == text)
    }
}

impl Domain for Rides {
    type Operation = RideRequest;
    type Resource = Option<Ride>;
    type Point = Point;
    type Provider = PaymentsApi;
    type Answer = Charge;
    type Refusal = String;
    type JobKind = ();
    type Facts = ();
    type Settings = ();
}

const CHARGE: &str = "charge";

impl Flow for Rides {
    fn name(_: &RideRequest) -> &'static str {
        "ride"
    }

    fn admit(_: &RideRequest, _: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug> {
        Ok(Ok(None))
    }

    fn run(request: &RideRequest, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug> {
        match phase.key()?.recovery_point() {
            RecoveryPoint::Started => Ok(create_ride(request, phase)),
            RecoveryPoint::At(Point::RideCreated) => match phase.settlement(CHARGE)? {
                None => charge(request, phase),
                Some(Settlement::Answered(reply)) => match reply.result {
                    Charge::Paid { charge } => charge_created(phase, charge),
                    Charge::Failed(why) => unpaid(phase, why),
                    Charge::Refused => unpaid(phase, not_paid("payment_refused")),
                },
                Some(Settlement::NotExecuted) => unpaid(phase, not_paid("payment_not_completed")),
                Some(Settlement::NeedsReview) => Err(Bug("a payment is made once by its key".into())),
            },
            RecoveryPoint::At(Point::ChargeCreated) => dispatch(phase),
            RecoveryPoint::Finished => Err(Bug("a ride that is finished".into())),
        }
    }

    fn limit_reached(_: ObjectLimit) -> String {
        "A form books one ride.".to_owned()
    }
}

/// Phase 1: the ride.
fn create_ride(request: &RideRequest, phase: &mut Phase<'_, Rides>) -> End<Rides> {
    phase.object_state.resource = Some(Ride {
        id: RideId::in_object(phase.object_state.object),
        origin: request.origin,
        target: request.target,
        state: RideState::Created,
        created_at_ms: phase.ctx.now_ms,
    });
    End::At(Point::RideCreated)
}

/// The foreign call: a payment, under a key made from the ride's own id.
fn charge(request: &RideRequest, phase: &mut Phase<'_, Rides>) -> Result<End<Rides>, Bug> {
    let id = ride(phase)?.id;
    Ok(End::Call(CallSpec {
        name: CHARGE.to_owned(),
        kind: (),
        provider: PaymentsApi,
        retry_policy: RetryPolicy::IdempotentByKey,
        provider_key: format!("{id}_charge"),
        request: payments_api::payment(id, request),
    }))
}

/// Phase 2: it is paid.
fn charge_created(phase: &mut Phase<'_, Rides>, charge: String) -> Result<End<Rides>, Bug> {
    ride(phase)?.state = RideState::Paid { charge };
    Ok(End::At(Point::ChargeCreated))
}

/// Phase 2, the other way: nothing was charged, and the answer says so.
fn unpaid(phase: &mut Phase<'_, Rides>, why: Unpaid) -> Result<End<Rides>, Bug> {
    let ride = ride(phase)?;
    ride.state = RideState::Unpaid(why.clone());
    let body = json!({
        "type": "/problems/payment-failed",
        "title": "The payment failed",
        "status": 402,
        "detail": why.message,
        "instance": ride.id.path(),
        "code": why.code,
        "decline_code": why.decline_code,
        "ride": ride.to_json(),
    });
    let location = ride.id.path();
    respond(phase, 402, location, &body)
}

/// Phase 3: the message to the pilot is staged, the response is stored.
fn dispatch(phase: &mut Phase<'_, Rides>) -> Result<End<Rides>, Bug> {
    let ride = ride(phase)?.clone();
    let place = |degrees: DegreesE7| format!("{:.4}", degrees.degrees());
    let (lat, lon) = (place(ride.origin.lat), place(ride.origin.lon));
    let message =
        json!({ "body": format!("A ride is paid and yours: pick up at {lat}, {lon}. {}", ride.id) });
    phase.object_state.appended.jobs.push(job((), format!("{}_dispatch", ride.id), message, phase.ctx));
    let body = json!({ "message": "Payment accepted. Your pilot is on their way!", "ride": ride.to_json() });
    respond(phase, 201, ride.id.path(), &body)
}

fn ride<'a>(phase: &'a mut Phase<'_, Rides>) -> Result<&'a mut Ride, Bug> {
    phase.object_state.resource.as_mut().ok_or_else(|| Bug("no ride after ride_created".into()))
}

fn not_paid(code: &str) -> Unpaid {
    Unpaid {
        charge: None,
        code: code.to_owned(),
        decline_code: None,
        message: "The payment did not go through. Nothing was charged.".to_owned(),
    }
}

/// The end: JSON for the API, the way to the ride's page for a form.
fn respond(phase: &Phase<'_, Rides>, status: u16, location: String, body: &Value) -> Result<End<Rides>, Bug> {
    let media_type = if status < 400 { "application/json" } else { "application/problem+json" };
    let location = ("location".to_owned(), location);
    Ok(End::Response(match phase.key()?.channel {
        Channel::Api => StoredResponse {
            status,
            headers: vec![("content-type".to_owned(), media_type.to_owned()), location],
            body: body.to_string().into_bytes(),
        },
        Channel::Form => StoredResponse { status: 303, headers: vec![location], body: Vec::new() },
    }))
}
