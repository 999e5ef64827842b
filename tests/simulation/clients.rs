//! Who asks: clients that insist, vanish, come back after a day, or send something else under the same key.

use once::fingerprint::{Fingerprint, Parameters};
use once::id::{ObjectId, Owner, RequestId};
use once::key::IdempotencyKey;
use once::record::Channel;
use paid_once::edge::ride::places;
use payments::flows::Operation;
use payments::flows::Point;
use payments::flows::engine::{Command, RecoveryPoint};
use payments::flows::ride::RideRequest;

use crate::faults::{HOUR, MINUTE, SECOND};
use crate::rng::Dice;

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Asks again with the same key and payload until it has a definitive answer.
    Faithful,
    /// Asks once and is never seen again.
    Vanishing,
    /// Uses the key for another payload.
    OtherPayload,
    /// Somebody else with the same key.
    Other,
    /// Comes with a form whose token has expired.
    ExpiredForm,
}

/// A client.
pub(crate) struct Client {
    pub(crate) role: Role,
    pub(crate) starts_ms: u64,
    pub(crate) command: Command,
    /// Which payload it sends.
    pub(crate) payload: u32,
    /// How many requests it still makes before it gives up.
    pub(crate) patience: u32,
    /// How long after a definitive answer it asks again, one after the other.
    pub(crate) returns_ms: Vec<u64>,
    /// An error asked for after this recovery point, in its first request.
    pub(crate) fail_at: Option<RecoveryPoint>,
    /// The number of its current request.
    pub(crate) request: u32,
    /// Whether its current request is answered or given up.
    pub(crate) settled: bool,
}

/// Where the clients meet: one key of one object.
pub(crate) struct Place {
    pub(crate) object: ObjectId,
    pub(crate) channel: Channel,
}

impl Client {
    pub(crate) fn new(place: &Place, role: Role, starts_ms: u64) -> Self {
        let payload = u32::from(role == Role::OtherPayload);
        Self {
            role,
            starts_ms,
            command: command(place, role, payload),
            payload,
            patience: if role == Role::Vanishing { 1 } else { 8 },
            returns_ms: Vec::new(),
            fail_at: None,
            request: 0,
            settled: true,
        }
    }

    /// A client of a random history.
    pub(crate) fn random(place: &Place, first: bool, dice: &mut Dice) -> Self {
        let role = match dice.between(0, if first { 3 } else { 9 }) {
            0..=2 => Role::Faithful,
            3 => Role::Vanishing,
            4 | 5 => Role::OtherPayload,
            6 => Role::Other,
            7 => Role::ExpiredForm,
            _ => Role::Faithful,
        };
        let starts_ms = match dice.between(0, 5) {
            0..=2 => dice.between(0, 2 * SECOND),
            3 => dice.between(0, 2 * MINUTE),
            4 => dice.between(0, 2 * HOUR),
            _ => dice.between(0, 50 * HOUR),
        };
        let mut client = Self::new(place, role, if first { 0 } else { starts_ms });
        client.patience = if role == Role::Vanishing { 1 } else { dice.pick(&[1, 3, 8, 12]) };
        let late = dice.pick(&[3 * SECOND, MINUTE, HOUR, 24 * HOUR, 26 * HOUR, 49 * HOUR]);
        if role == Role::Faithful && dice.permille(500) {
            client.returns_ms = vec![late, dice.between(SECOND, 30 * HOUR)];
        }
        if role != Role::Other && dice.permille(100) {
            client.fail_at = Some(dice.pick(&[
                RecoveryPoint::Started,
                RecoveryPoint::At(Point::RideCreated),
                RecoveryPoint::At(Point::ChargeCreated),
            ]));
        }
        client
    }

    /// How long it waits before it asks again.
    pub(crate) fn pause_ms(&self, dice: &mut Dice) -> u64 {
        let most = (SECOND << self.request.min(9)).min(10 * MINUTE);
        dice.between(most / 2, most)
    }

    /// Its next request, under an id of its own.
    pub(crate) fn ask(&self, number: u64) -> Command {
        Command { request_id: RequestId(format!("req_{number}")), ..self.command.clone() }
    }
}

/// The request as the edge would hand it on.
fn command(place: &Place, role: Role, payload: u32) -> Command {
    let stranger = role == Role::Other;
    let (owner, key) = match place.channel {
        Channel::Api => {
            let account = if stranger { "acct_other" } else { "acct_one" };
            (Owner::Account(account.to_owned()), "4bf1f9a2-0d3e-4bb0-9d36-5f0a4c1d7c11".to_owned())
        }
        Channel::Form => {
            let cookie = if stranger { "another cookie" } else { "a cookie" };
            (Owner::session(cookie), place.object.to_hex())
        }
    };
    let fields = [
        ("origin_lat", "37.7749"),
        ("origin_lon", "-122.4194"),
        ("target_lat", if payload == 0 { "37.8044" } else { "40.7128" }),
        ("target_lon", "-122.2712"),
    ];
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let parameters = match place.channel {
        Channel::Form => Parameters::Form(fields.map(pair).to_vec()),
        Channel::Api => Parameters::Json(fields.map(pair).map(|(n, v)| (n, v.into())).into_iter().collect()),
    };
    let (origin, target) = places(&parameters).unwrap();
    let canonical = parameters.canonical();
    Command {
        key_hash: IdempotencyKey::parse(&key).unwrap().hash(&owner),
        owner,
        fingerprint: Fingerprint::of("POST", "/rides", &canonical),
        parameters: canonical,
        operation: Operation::Ride(RideRequest {
            origin,
            target,
            payment_method: "pm_card_visa".to_owned(),
            customer: None,
            stripe_account: None,
            receipt_email: Some("ada@example.com".into()),
        }),
        channel: place.channel,
        request_id: RequestId("req_0".to_owned()),
        may_start: role != Role::ExpiredForm,
        by: None,
    }
}
