//! Who pays for what: the payments of a history, and the clients that make, capture, void and refund them.

use once::fingerprint::{Fingerprint, Parameters};
use once::id::{ObjectId, Owner, RequestId, digest};
use once::key::IdempotencyKey;
use once::record::Channel;
use once::trace::TraceContext;
use payments::engine::Command;
use payments::payment::RefundReason;
use payments::payment::customer::{CustomerContent, CustomerRequest, customer_object_name};
use payments::payment::id::PaymentId;
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::natural_key::{NaturalKey, order_object_name};
use payments::payment::operation::{
    CaptureRequest, Operation, PaymentRequest, RefundRequest, Route, VoidRequest,
};
use payments::providers::Provider;
use serde_json::{Value, json};

use super::auditor::currencies;
use crate::faults::{HOUR, MINUTE, SECOND};
use crate::rng::Rng;

/// The price of everything, in minor units.
pub(crate) const PRICE: u64 = 5000;

/// What a client wants.
#[derive(Clone, Debug)]
pub(crate) enum Intention {
    Pay {
        capture: bool,
        card: &'static str,
        fallback: Option<&'static str>,
        amount: u64,
    },
    Capture(Option<u64>),
    Void,
    /// The person at the bank's page gives this try up.
    GiveUp(u32),
    Refund(Option<u64>, RefundReason),
    /// The customer of the place is to have this name.
    Customer(&'static str),
}

/// Under which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The client's own.
    Own(String),
    /// None: the operation makes its own.
    Natural,
}

/// A payment's place: an order, or the key under which it is made.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) object: ObjectId,
    pub(crate) order: Option<String>,
    /// Whose customer it is.
    pub(crate) email: Option<&'static str>,
    /// In which everything is priced there.
    pub(crate) currency: &'static str,
}

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) wish: Intention,
    pub(crate) key: Key,
    /// The object in which its request runs.
    pub(crate) object: ObjectId,
    /// The order that it pays.
    pub(crate) order: Option<String>,
    /// The object that has the key's name, if the operation runs in another one.
    pub(crate) own: Option<ObjectId>,
    pub(crate) stranger: bool,
    pub(crate) command: Command,
    /// What the client calls its key, and what it sends.
    pub(crate) name: String,
    pub(crate) payload: String,
    pub(crate) starts_ms: u64,
    /// How many requests it still makes before it gives up.
    pub(crate) patience: u32,
    /// How long after a definitive answer it asks again, one after the other.
    pub(crate) returns_ms: Vec<u64>,
    /// How long after a definitive answer it has the key forgotten.
    pub(crate) forgets_ms: Option<u64>,
    /// An error asked for once the operation has reserved what it needs, in its first run.
    pub(crate) fails: bool,
    /// The number of its current request.
    pub(crate) request: u32,
    /// Whether its current request is answered or given up.
    pub(crate) settled: bool,
}

/// What the person does who is sent to the bank's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payer {
    Completes { ms: u64, comes_back: bool, slowly: bool },
    Fails { ms: u64 },
    NeverReturns,
}

/// What is played.
pub(crate) struct Scenario {
    pub(crate) places: Vec<Place>,
    pub(crate) clients: Vec<Client>,
    /// When somebody looks at a payment.
    pub(crate) looks_ms: Vec<(usize, u64)>,
    /// When somebody confirms again the first payment that Stripe has declined.
    pub(crate) confirms_ms: Option<u64>,
    pub(crate) payers: Vec<Payer>,
    pub(crate) clocks_differ: bool,
    pub(crate) key_kept_longer_ms: u64,
    pub(crate) page_max: usize,
    /// How long after it was made Stripe's list does not show a payment.
    pub(crate) lists_lag_ms: u64,
    pub(crate) stores_refusals: bool,
}

fn named(name: &str) -> ObjectId {
    ObjectId::from_bytes(digest(&[name.as_bytes()]))
}

pub(crate) fn owner(stranger: bool) -> Owner {
    Owner::Account(if stranger { "acct_other" } else { "acct_one" }.to_owned())
}

impl Place {
    pub(crate) fn order(order: &str) -> Self {
        let object = named(&order_object_name(&owner(false), order));
        Self { object, order: Some(order.to_owned()), email: None, currency: "usd" }
    }

    /// Of a payment without an order: it lives where its key does.
    pub(crate) fn of_key(key: &str) -> Self {
        let hash = IdempotencyKey::parse(key).unwrap().hash(&owner(false));
        Self { object: named(&hash.object_name()), order: None, email: None, currency: "usd" }
    }

    /// Of the customer with this address.
    pub(crate) fn customer(email: &'static str) -> Self {
        let object = named(&customer_object_name(&owner(false), None, email));
        Self { object, order: None, email: Some(email), currency: "usd" }
    }

    pub(crate) fn priced_in(self, currency: &'static str) -> Self {
        Self { currency, ..self }
    }
}

fn amount(minor: u64) -> AmountMinor {
    AmountMinor::new(minor).unwrap()
}

/// A card's token says whose it is.
fn route(payment_method: &str) -> Route {
    let provider = if payment_method.starts_with("pm_") { Provider::Stripe } else { Provider::Adyen };
    Route {
        provider,
        payment_method: payment_method.to_owned(),
        customer: Some("shopper".to_owned()),
        merchant_account: (provider == Provider::Adyen).then(|| "Merchant".to_owned()),
    }
}

/// The request as the edge would hand it on: the operation, its path, its parameters.
fn request(wish: &Intention, place: &Place) -> (Operation, String, Value) {
    let path = PaymentId::in_object(place.object).path();
    match wish {
        Intention::Pay { capture, card, fallback, amount: minor } => {
            let request = PaymentRequest {
                amount: amount(*minor),
                currency: Currency::parse(place.currency).unwrap(),
                capture: *capture,
                order_id: place.order.clone(),
                description: None,
                metadata: vec![("basket".to_owned(), "7".to_owned())],
                route: route(card),
                fallback: fallback.map(route),
                return_url: Some("https://shop.example/thanks".to_owned()),
                receipt_email: Some("ada@example.com".to_owned()),
                receipt_content: Default::default(),
                origin: "https://pay.example".to_owned(),
                return_key: None,
                link_revision: None,
                page: None,
            };
            let parameters = json!({
                "amount": minor, "capture": capture, "payment_method": card, "fallback": fallback,
                "order_id": place.order, "currency": place.currency,
            });
            (Operation::Payment(Box::new(request)), "/payments".to_owned(), parameters)
        }
        Intention::Capture(minor) => {
            let operation =
                Operation::Capture(CaptureRequest { amount: minor.map(amount), attempt: None, seen: None });
            (
                operation,
                format!("{path}/capture"),
                minor.map_or(json!({}), |minor| json!({ "amount": minor })),
            )
        }
        Intention::Void => (Operation::Void(VoidRequest::default()), format!("{path}/void"), json!({})),
        Intention::GiveUp(attempt) => {
            let operation = Operation::Void(VoidRequest {
                page: None,
                attempt: Some(*attempt),
                link_revision: Some(1),
                seen: None,
            });
            (operation, format!("{path}/void"), json!({ "attempt": attempt }))
        }
        Intention::Refund(minor, reason) => {
            let operation =
                Operation::Refund(RefundRequest { amount: minor.map(amount), reason: *reason, seen: None });
            let mut parameters = json!({ "reason": reason.as_str() });
            if let Some(minor) = minor {
                parameters["amount"] = json!(minor);
            }
            (operation, format!("{path}/refunds"), parameters)
        }
        Intention::Customer(name) => {
            let content = CustomerContent { name: Some((*name).to_owned()), ..CustomerContent::default() };
            let request = CustomerRequest {
                email: place.email.unwrap_or_default().to_owned(),
                content,
                merchant_account: None,
                id_prefix: None,
                if_match: None,
                number: 0,
            };
            let operation = Operation::Customer(Box::new(request));
            (operation, "/customers/{email}".to_owned(), json!({ "name": name }))
        }
    }
}

impl Client {
    pub(crate) fn new(wish: Intention, key: Key, at: usize, place: &Place, starts_ms: u64) -> Self {
        Self::of(wish, key, at, place, starts_ms, false)
    }

    pub(crate) fn of(
        wish: Intention,
        key: Key,
        at: usize,
        place: &Place,
        starts_ms: u64,
        stranger: bool,
    ) -> Self {
        let owner = owner(stranger);
        let (operation, path, parameters) = request(&wish, place);
        let Value::Object(members) = parameters else { unreachable!() };
        let canonical = Parameters::Json(members).canonical().unwrap();
        let natural = match &wish {
            Intention::Pay { .. } => NaturalKey::order(place.order.as_deref().unwrap_or_default()),
            Intention::Capture(_) => NaturalKey::capture(1),
            Intention::Void => NaturalKey::void(1),
            Intention::GiveUp(attempt) => NaturalKey::give_up(*attempt),
            Intention::Refund(minor, reason) => NaturalKey::refund(reason.as_str(), *minor),
            // The object gives it the number that it has.
            Intention::Customer(_) => NaturalKey::customer(0),
        };
        let (key_hash, own) = match &key {
            Key::Own(text) => {
                let hash = IdempotencyKey::parse(text).unwrap().hash(&owner);
                let own = named(&hash.object_name());
                let is_elsewhere = place.order.is_some() || !matches!(wish, Intention::Pay { .. });
                (hash, is_elsewhere.then_some(own))
            }
            Key::Natural => (natural.hash(&owner), None),
        };
        let name = match &key {
            Key::Own(text) => format!("{text} of {}", owner.to_text()),
            Key::Natural => format!("{natural:?} of {at} and {}", owner.to_text()),
        };
        let payload = format!("{path} {}", canonical.0);
        let order = place.order.clone().filter(|_| matches!(wish, Intention::Pay { .. }));
        Self {
            wish,
            key,
            object: place.object,
            order,
            own,
            stranger,
            command: Command {
                key_hash,
                owner,
                fingerprint: Fingerprint::of("POST", &path, &canonical),
                parameters: canonical,
                operation,
                channel: Channel::Api,
                request_id: RequestId("req_0".to_owned()),
                may_start: true,
                by: None,
                trace: TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            },
            name,
            payload,
            starts_ms,
            patience: 8,
            returns_ms: Vec::new(),
            forgets_ms: None,
            fails: false,
            request: 0,
            settled: true,
        }
    }

    /// How long it waits before it asks again.
    pub(crate) fn pause_ms(&self, rng: &mut Rng) -> u64 {
        let most = (SECOND << self.request.min(9)).min(10 * MINUTE);
        rng.between(most / 2, most)
    }

    /// Its next request, under an id of its own.
    pub(crate) fn ask(&self, number: u64) -> Command {
        Command { request_id: RequestId(format!("req_{number}")), ..self.command.clone() }
    }
}

const CARDS: [&str; 10] = [
    "pm_card_visa",
    "pm_card_visa",
    "pm_card_visa",
    "pm_card_visa_chargeDeclined",
    "pm_card_threeDSecure2Required",
    "pm_card_threeDSecure2Required",
    "pm_card_threeDSecure2Required",
    "pm_card_processing",
    "pm_card_pendingRefund",
    "pm_card_refundFail",
];

impl Scenario {
    /// A scenario in which nothing but what its clients do happens.
    pub(crate) fn of(places: Vec<Place>, clients: Vec<Client>) -> Self {
        Self {
            places,
            clients,
            looks_ms: Vec::new(),
            confirms_ms: None,
            payers: vec![Payer::Completes { ms: 30 * SECOND, comes_back: true, slowly: false }],
            clocks_differ: false,
            key_kept_longer_ms: 0,
            page_max: 2,
            lists_lag_ms: 0,
            stores_refusals: true,
        }
    }

    /// Each try to pay an order runs in the object of its key.
    pub(crate) fn without_orders_objects(&mut self) {
        for client in self.clients.iter_mut().filter(|client| client.order.is_some()) {
            client.object = client.own.take().unwrap_or(client.object);
        }
    }

    /// Each request about a customer runs in an object of its own.
    pub(crate) fn without_customers_objects(&mut self) {
        let of_customers = |client: &&mut Client| matches!(client.wish, Intention::Customer(_));
        for (number, client) in self.clients.iter_mut().filter(of_customers).enumerate() {
            client.object = named(&format!("customer {number}"));
        }
    }

    /// The scenario of a seed.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let number = if rng.permille(800) { 1 } else { 2 };
        let mut places = Vec::new();
        let mut clients: Vec<Client> = Vec::new();
        for at in 0..number {
            let has_order = rng.permille(600);
            let key = format!("pay-{at}");
            let place = if has_order { Place::order(&format!("order-{at}")) } else { Place::of_key(&key) };
            // Half of them in a currency that some provider counts in a way of its own.
            let currency = if rng.permille(500) { "usd" } else { rng.pick(&currencies()) };
            let place = place.priced_in(currency);
            let key = if has_order && rng.permille(300) { Key::Natural } else { Key::Own(key) };
            let first = pay(rng, PRICE);
            let mut client = Client::new(first, key, at, &place, 0);
            client.insists(rng);
            clients.push(client);
            if has_order && rng.permille(600) {
                for again in 0..rng.between(1, 2) {
                    let price = if rng.permille(800) { PRICE } else { 7000 };
                    let wish = pay(rng, price);
                    let starts_ms = moment(rng);
                    let mut client =
                        Client::new(wish, Key::Own(format!("again-{at}-{again}")), at, &place, starts_ms);
                    client.insists(rng);
                    clients.push(client);
                }
            }
            places.push(place);
        }
        let moves = match rng.between(0, 19) {
            0 => 12,
            1..=3 => 0,
            _ => rng.between(1, 5),
        };
        for number in 0..moves {
            let at = usize::try_from(rng.between(0, places.len() as u64 - 1)).unwrap_or(0);
            let wish = a_move(rng, moves == 12);
            // Now and then a key that stands for another request already.
            let key = match rng.between(0, 9) {
                0..=2 => Key::Natural,
                3 => Key::Own(format!("move-{}", rng.between(0, 3))),
                4 => Key::Own("pay-0".to_owned()),
                _ => Key::Own(format!("move-{number}")),
            };
            let starts_ms = if moves == 12 { rng.between(0, 3 * SECOND) } else { moment(rng) };
            let stranger = rng.permille(40);
            let mut client = Client::of(wish, key, at, &places[at], starts_ms, stranger);
            client.insists(rng);
            clients.push(client);
        }
        let looks = rng.between(0, 3);
        let payer = |rng: &mut Rng| {
            let ms = rng.pick(&[2 * SECOND, 40 * SECOND, 10 * MINUTE, 2 * HOUR, 20 * HOUR]);
            let ms = rng.between(ms / 2, ms);
            match rng.between(0, 5) {
                0 => Payer::NeverReturns,
                1 => Payer::Fails { ms },
                n => Payer::Completes { ms, comes_back: n > 2, slowly: n == 5 },
            }
        };
        Self {
            looks_ms: (0..looks).map(|_| (0, moment(rng))).collect(),
            confirms_ms: None,
            payers: (0..3).map(|_| payer(rng)).collect(),
            clocks_differ: rng.permille(500),
            key_kept_longer_ms: rng.pick(&[0, 0, HOUR, 24 * HOUR]),
            page_max: rng.pick(&[1, 2, 100]),
            lists_lag_ms: 0,
            stores_refusals: rng.permille(500),
            places,
            clients,
        }
    }
}

/// With one provider; or with both, and then the first one often fails.
fn pay(rng: &mut Rng, amount: u64) -> Intention {
    const ADYEN: [&str; 4] = ["stored-card", "stored-card", "declined", "pending"];
    let capture = rng.permille(500);
    let (stripe, adyen) = (rng.pick(&CARDS), rng.pick(&ADYEN));
    let (card, fallback) = match rng.between(0, 9) {
        0..=4 => (stripe, None),
        5 => (stripe, Some(adyen)),
        6 => ("pm_card_visa_chargeDeclined", Some(adyen)),
        7 => (adyen, None),
        8 => (adyen, Some(stripe)),
        _ => ("declined", Some(stripe)),
    };
    Intention::Pay { capture, card, fallback, amount }
}

fn a_move(rng: &mut Rng, only_refunds: bool) -> Intention {
    let reason = rng.pick(&[RefundReason::RequestedByCustomer, RefundReason::Duplicate]);
    let part = rng.pick(&[500, 1000, 2500, 4999]);
    match rng.between(0, 9) {
        _ if only_refunds => Intention::Refund(Some(rng.pick(&[500, 1000])), reason),
        0..=3 => Intention::Capture(rng.pick(&[None, None, Some(part), Some(PRICE + 1)])),
        4 => Intention::Void,
        5 => Intention::GiveUp(1),
        _ => Intention::Refund(rng.pick(&[None, Some(part), Some(part), Some(PRICE + 1)]), reason),
    }
}

/// When somebody does something: mostly soon.
fn moment(rng: &mut Rng) -> u64 {
    let most = rng.pick(&[5 * SECOND, 5 * SECOND, 2 * MINUTE, 2 * MINUTE, 2 * HOUR, 30 * HOUR]);
    rng.between(0, most)
}

impl Client {
    fn insists(&mut self, rng: &mut Rng) {
        self.patience = rng.pick(&[1, 4, 8, 12]);
        if rng.permille(300) {
            self.returns_ms = vec![rng.pick(&[3 * SECOND, MINUTE, HOUR, 24 * HOUR, 26 * HOUR])];
        }
        if rng.permille(80) {
            self.forgets_ms = Some(rng.pick(&[SECOND, MINUTE, 25 * HOUR]));
        }
        self.fails = rng.permille(60);
    }
}
