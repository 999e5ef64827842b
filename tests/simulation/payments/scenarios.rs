//! The scenarios: each operation of payments, and each way in which two of them meet. Every single fault is tried at every
//! boundary of each.

use payments::payment::RefundReason::{Duplicate, RequestedByCustomer};

use super::scenario::{Client, Intention, Key, Payer, Place, Scenario};
use crate::faults::{HOUR, MINUTE, SECOND};

/// Their names, for `SIM_PAYMENTS_SCENARIO`.
pub(crate) const SCENARIOS: [&str; 23] = [
    "pay",
    "list-lags",
    "capture",
    "refund",
    "hold",
    "void",
    "rivals",
    "bank",
    "bank-void",
    "order",
    "confirmed-late",
    "confirmed-early",
    "fallback",
    "fallback-moves",
    "fallback-rupiah",
    "pesos",
    "late",
    "refunds",
    "ten-refunds",
    "news",
    "news-late",
    "customer",
    "customer-changes",
];

/// Those of customers.
pub(crate) const CUSTOMERS: [&str; 2] = ["customer", "customer-changes"];

/// Those in which the providers tell what happens.
pub(crate) const WITH_WEBHOOKS: [&str; 5] =
    ["news", "news-late", "fallback-moves", "fallback-rupiah", "pesos"];

const VISA: &str = "pm_card_visa";
const DECLINED: &str = "pm_card_visa_chargeDeclined";
const BANK: &str = "pm_card_threeDSecure2Required";

const fn pay(card: &'static str, capture: bool) -> Intention {
    Intention::Pay { capture, card, fallback: None, amount: super::scenario::PRICE }
}

const fn pay_or(card: &'static str, fallback: &'static str, capture: bool) -> Intention {
    Intention::Pay { capture, card, fallback: Some(fallback), amount: super::scenario::PRICE }
}

fn own(key: &str) -> Key {
    Key::Own(key.to_owned())
}

/// A scenario by its name.
pub(crate) fn named(name: &str) -> Scenario {
    match name {
        // An API client that returns later, and once more after its key has expired; somebody else tries its key.
        "pay" => {
            let mut scenario = at_key(pay(VISA, true), vec![]);
            scenario.clients[0].returns_ms = vec![MINUTE, 27 * HOUR];
            scenario
        }
        // Stripe's list shows the payment only long after it was made.
        "list-lags" => Scenario { lists_lag_ms: 14 * MINUTE, ..at_key(pay(VISA, true), vec![]) },
        // Reserved, captured in part, given back in two parts.
        "hold" => at_key(
            pay(VISA, false),
            vec![
                (5 * SECOND, Key::Natural, Intention::Capture(Some(4000))),
                (10 * SECOND, own("refund-1"), Intention::Refund(Some(1000), RequestedByCustomer)),
                (15 * SECOND, Key::Natural, Intention::Refund(None, RequestedByCustomer)),
            ],
        ),
        // Two clicks on "cancel".
        "void" => at_key(
            pay(VISA, false),
            vec![
                (5 * SECOND, Key::Natural, Intention::Void),
                (5 * SECOND + 200, Key::Natural, Intention::Void),
            ],
        ),
        // Captured and voided at once, each from another place.
        "rivals" => at_key(
            pay(VISA, false),
            vec![
                (5 * SECOND, own("capture"), Intention::Capture(None)),
                (5 * SECOND + 30, own("void"), Intention::Void),
                (5 * SECOND + 60, own("capture-2"), Intention::Capture(Some(1000))),
            ],
        ),
        // The person goes to the bank's page and comes back; then it is given back.
        "bank" => {
            at_key(pay(BANK, true), vec![(2 * MINUTE, Key::Natural, Intention::Refund(None, Duplicate))])
        }
        // Nobody comes back from the bank's page: the try is given up, and the order paid with another card. (`bank-void,20:1` showed that
        // the second try could begin while the void's answer was still to come.)
        "bank-void" => {
            let place = Place::order("order-7");
            let clients = vec![
                Client::new(pay(BANK, true), own("first"), 0, &place, 0),
                Client::new(Intention::GiveUp(1), Key::Natural, 0, &place, 8 * SECOND),
                Client::new(pay(VISA, true), own("second"), 0, &place, 12 * SECOND),
            ];
            let mut scenario = Scenario::of(vec![place], clients);
            scenario.payers = vec![Payer::Completes { ms: 20 * SECOND, comes_back: true, slowly: true }];
            scenario.looks_ms = vec![(0, 10 * SECOND)];
            scenario
        }
        // Three tries to pay one order: declined, paid, refused. Its first key comes back.
        "order" => {
            let place = Place::order("order-7");
            let mut clients = vec![
                Client::new(pay(DECLINED, true), Key::Natural, 0, &place, 0),
                Client::new(pay(VISA, true), own("second"), 0, &place, 5 * SECOND),
                Client::new(pay(VISA, true), own("third"), 0, &place, 5 * SECOND + 20),
            ];
            clients[0].returns_ms = vec![MINUTE];
            Scenario::of(vec![place], clients)
        }
        // Declined, then paid with another card. Somebody confirms the declined one once more.
        "confirmed-late" => declined_then_paid(MINUTE),
        // The same, before another card is tried: the order is paid, and nothing else is sent.
        "confirmed-early" => declined_then_paid(3 * SECOND),
        // Declined, and nobody tries again. Somebody confirms it once more, and no webhook tells of it.
        "confirmed-unheard" => {
            Scenario { confirms_ms: Some(3 * HOUR), ..at_key(pay(DECLINED, true), vec![]) }
        }
        // The same; and a day later, when that money was found, another card is tried.
        "confirmed-kept" => {
            let place = Place::order("order-7");
            let clients = vec![
                Client::new(pay(DECLINED, true), own("first"), 0, &place, 0),
                Client::new(pay(VISA, true), own("second"), 0, &place, 26 * HOUR),
            ];
            Scenario { confirms_ms: Some(3 * HOUR), ..Scenario::of(vec![place], clients) }
        }
        // Declined by the first provider, taken by the second.
        "fallback" => at_key(pay_or(DECLINED, "stored-card", true), vec![]),
        // The same, reserved; then captured in part, and given back, where it was paid.
        "fallback-moves" => at_key(
            pay_or(DECLINED, "stored-card", false),
            vec![
                (5 * SECOND, own("capture"), Intention::Capture(Some(3000))),
                (3 * MINUTE, own("refund"), Intention::Refund(Some(2000), RequestedByCustomer)),
            ],
        ),
        // In a currency that the second provider counts in whole units only: what it cannot be told is refused before.
        "fallback-rupiah" => in_currency(
            "idr",
            pay_or(DECLINED, "stored-card", false),
            vec![
                (5 * SECOND, own("capture"), Intention::Capture(Some(3000))),
                (3 * MINUTE, own("refund-1"), Intention::Refund(Some(1999), RequestedByCustomer)),
                (3 * MINUTE, own("refund-2"), Intention::Refund(Some(2000), RequestedByCustomer)),
            ],
        ),
        // In one that it counts in hundredths, of which there are none; and it tells what happens.
        "pesos" => in_currency(
            "clp",
            pay("stored-card", false),
            vec![
                (5 * SECOND, own("capture"), Intention::Capture(Some(3000))),
                (3 * MINUTE, own("refund"), Intention::Refund(Some(1999), RequestedByCustomer)),
            ],
        ),
        // At the provider that can't be asked: reserved, captured in part, given back.
        "news" => at_key(
            pay("stored-card", false),
            vec![
                (5 * SECOND, own("capture"), Intention::Capture(Some(3000))),
                (3 * MINUTE, own("refund"), Intention::Refund(Some(2000), RequestedByCustomer)),
            ],
        ),
        // There as well, decided hours later; and then given back.
        "news-late" => at_key(
            pay("pending", true),
            vec![(4 * HOUR, own("refund"), Intention::Refund(Some(1000), Duplicate))],
        ),
        // Decided by the provider hours later.
        "late" => {
            let mut scenario = at_key(
                pay("pm_card_processing", false),
                vec![
                    (4 * HOUR, Key::Natural, Intention::Capture(None)),
                    (10 * SECOND, own("void"), Intention::Capture(None)),
                ],
            );
            scenario.looks_ms = vec![(0, HOUR), (0, 3 * HOUR + 10 * SECOND)];
            scenario
        }
        // A refund that stays pending for hours and fails, and the next one.
        "refunds" => at_key(
            pay("pm_card_refundFail", true),
            vec![
                (5 * SECOND, own("refund-1"), Intention::Refund(Some(3000), RequestedByCustomer)),
                (10 * SECOND, own("refund-2"), Intention::Refund(Some(3000), RequestedByCustomer)),
                (4 * HOUR, own("refund-3"), Intention::Refund(None, RequestedByCustomer)),
            ],
        ),
        // Ten refunds at once, of which five fit.
        "ten-refunds" => {
            let refunds = (0..10).map(|number| {
                let key = own(&format!("refund-{number}"));
                (5 * SECOND + number * 7, key, Intention::Refund(Some(1000), RequestedByCustomer))
            });
            let mut scenario = at_key(pay(VISA, true), refunds.collect());
            // One more try for each, once the faults are over.
            scenario.clients.iter_mut().skip(1).for_each(|client| client.patience = 3);
            scenario
        }
        // One move that makes its own key, so that all happens in one object.
        "capture" => {
            at_key(pay(VISA, false), vec![(5 * SECOND, Key::Natural, Intention::Capture(Some(4000)))])
        }
        "refund" => {
            at_key(pay(VISA, true), vec![(5 * SECOND, Key::Natural, Intention::Refund(None, Duplicate))])
        }
        // Three at once make a customer, and one comes back when all is long over; a stranger tries, too.
        "customer" => {
            let mut scenario = customers(&[
                (0, "Ada", false),
                (20, "Ada", false),
                (40, "Ada", false),
                (SECOND, "Ada", true),
            ]);
            scenario.clients[0].returns_ms = vec![MINUTE, 27 * HOUR];
            scenario
        }
        // Made, and changed by two who differ; whoever made it comes again with what was.
        "customer-changes" => {
            let mut scenario =
                customers(&[(0, "Ada", false), (5 * SECOND, "Bob", false), (5 * SECOND + 20, "Cleo", false)]);
            scenario.clients[0].returns_ms = vec![10 * MINUTE];
            scenario
        }
        _ => unreachable!("no scenario has this name"),
    }
}

/// Requests about one customer: when, by what name, and whether a stranger makes them.
fn customers(requests: &[(u64, &'static str, bool)]) -> Scenario {
    let place = Place::customer("ada@shop.example");
    let client = |(at_ms, name, stranger): &(u64, &'static str, bool)| {
        Client::of(Intention::Customer(name), Key::Natural, 0, &place, *at_ms, *stranger)
    };
    let clients = requests.iter().map(client).collect();
    Scenario::of(vec![place], clients)
}

fn declined_then_paid(confirms_ms: u64) -> Scenario {
    let place = Place::order("order-7");
    let clients = vec![
        Client::new(pay(DECLINED, true), own("first"), 0, &place, 0),
        Client::new(pay(VISA, true), own("second"), 0, &place, 5 * SECOND),
    ];
    Scenario { confirms_ms: Some(confirms_ms), ..Scenario::of(vec![place], clients) }
}

/// A payment that lives where its key does, and what is done with it afterwards.
fn at_key(wish: Intention, moves: Vec<(u64, Key, Intention)>) -> Scenario {
    in_currency("usd", wish, moves)
}

fn in_currency(currency: &'static str, wish: Intention, moves: Vec<(u64, Key, Intention)>) -> Scenario {
    let place = Place::of_key("payment").priced_in(currency);
    let mut clients = vec![Client::new(wish, own("payment"), 0, &place, 0)];
    clients.extend(moves.into_iter().map(|(at_ms, key, wish)| Client::new(wish, key, 0, &place, at_ms)));
    Scenario::of(vec![place], clients)
}
