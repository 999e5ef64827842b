//! The order's page in each of its states.

use super::Order;
use super::cart::Line;
use crate::edge::pages::{
    CardElement, CheckoutBank, CheckoutForm, CheckoutReceipt, OrderLine, Refunded, Seller, Wait,
};
use messages::account::Shop;
use messages::message::{KeyStatus, View};
use once::fingerprint::{Field, FieldError, Parameters};
use payments::flows::tries::NextTry;
use payments::payment::card::Card;
use payments::payment::id::reference;
use payments::payment::money::Currency;
use payments::payment::tries::{Stage, not_given_back};
use payments::payment::{InFlight, Payment, PaymentState, Refund, RefundState};
use payments::timestamp;
use web::entries::{email_entry, kept};
use web::http::with_query;
use web::locale::Messages;
use web::pages::{Notice, Site, StatusPage, is_late, refresh_s};
use web::test_cards::checkout_cards;
use web::unpaid::{self, Reason, reason};

/// How the person enters a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cards<'a> {
    /// Chooses one of the demo's.
    Test,
    /// Types it into Stripe's Payment Element: it goes to Stripe, and only its token comes here.
    Element {
        /// `STRIPE_PUBLISHABLE_KEY`, or the account's own.
        publishable_key: &'a str,
        /// The connected account in which what is typed in becomes a payment method.
        stripe_account: Option<&'a str>,
        /// The address of the script that mounts it.
        script: &'static str,
    },
}

/// How the payment of an order stands, as far as a person is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderState {
    /// Nobody has tried to pay yet.
    Open,
    /// The last try failed: nothing was charged.
    Failed {
        /// Why, as far as a person is told.
        reason: Reason,
    },
    /// The last try was given up: nothing was charged.
    Canceled,
    /// The provider has been asked, or is being asked.
    Confirming {
        /// It did not say whether it charged.
        in_doubt: bool,
        /// Since when, in ms since the epoch.
        since_ms: u64,
    },
    /// The bank wants to see the person.
    AtTheBank {
        /// The number of the try.
        attempt: u32,
        /// The bank's page.
        url: String,
    },
    /// An earlier try was paid after it was over, and its money is not given back: nothing else is charged beside it.
    GivingBack {
        /// The provider has refused to give it back.
        is_refused: bool,
    },
    /// Paid, or reserved to be taken later.
    Paid(Paid),
}

impl OrderState {
    /// From what the order's object shows; `None` if nothing was ever written there.
    pub fn of(view: Option<&View>) -> Self {
        let Some((view, payment)) = view.and_then(|view| Some((view, view.payment.as_ref()?))) else {
            return Self::Open;
        };
        let since_ms = view.key.created_at_ms;
        // A try that waits at the bank would be paid beside it.
        let is_unpaid =
            payment.is_over_unpaid() || matches!(payment.state, PaymentState::RequiresAction { .. });
        if let Some(stage) = not_given_back(&view.tries).filter(|_| is_unpaid) {
            return Self::GivingBack { is_refused: stage == Stage::Refused };
        }
        match &payment.state {
            PaymentState::Captured { .. } | PaymentState::CaptureFailed { .. } | PaymentState::Authorized => {
                Self::Paid(Paid::of(payment, &view.refunds))
            }
            PaymentState::RequiresAction { .. } if matches!(payment.pending, Some(InFlight::Void { .. })) => {
                Self::Confirming { in_doubt: true, since_ms }
            }
            // Where the page is was erased.
            PaymentState::RequiresAction { url } if url.is_empty() => {
                Self::Confirming { in_doubt: false, since_ms }
            }
            PaymentState::RequiresAction { url } => {
                Self::AtTheBank { attempt: payment.attempt, url: url.clone() }
            }
            PaymentState::Authorizing | PaymentState::Processing => {
                Self::Confirming { in_doubt: view.key.status == KeyStatus::Unknown, since_ms }
            }
            PaymentState::Failed(failure) => {
                let (code, decline_code) = (failure.code.as_str(), failure.decline_code.as_deref());
                Self::Failed { reason: reason(failure.declined, code, decline_code) }
            }
            PaymentState::Canceled | PaymentState::Expired => Self::Canceled,
        }
    }

    /// Whether the order can be paid now, as far as it alone is concerned.
    pub const fn is_payable(&self) -> bool {
        matches!(self, Self::Open | Self::Failed { .. } | Self::Canceled)
    }
}

/// What was entered for the last try, while it is kept. Of one that was given up for another card, where the receipt goes.
pub fn last_entries(view: &View) -> Option<Parameters> {
    let entered = kept(view.parameters.as_ref()?)?;
    if entered.text("payment_method") != Field::Missing {
        return Some(entered);
    }
    let email = view.payment.as_ref()?.receipt_email.clone();
    Some(Parameters::Form(email.map(|email| ("email".to_owned(), email)).into_iter().collect()))
}

/// What becomes of an amount that is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The shop has not decided yet: nothing was charged.
    Waits,
    /// A capture is under way: whether it was charged is not known.
    BeingCharged,
    /// A void is under way.
    BeingFreed,
    /// A capture has failed after it was accepted.
    NotCharged,
}

impl Reserved {
    const fn of(payment: &Payment) -> Self {
        match (&payment.state, &payment.pending) {
            (_, Some(InFlight::Capture { .. })) => Self::BeingCharged,
            (_, Some(InFlight::Void { .. })) => Self::BeingFreed,
            (PaymentState::CaptureFailed { .. }, _) => Self::NotCharged,
            _ => Self::Waits,
        }
    }

    const fn text(self, t: &Messages) -> &'static str {
        match self {
            Self::Waits => t.nothing_taken,
            Self::BeingCharged => t.being_charged,
            Self::BeingFreed => t.being_freed,
            Self::NotCharged => t.charge_failed,
        }
    }
}

/// What was paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// What was to be paid, in minor units: of the payment, whatever stands in the link.
    pub amount_minor: u64,
    /// What was taken so far, in minor units; 0 while it is only reserved.
    pub captured_minor: u64,
    /// What becomes of what is only reserved.
    pub reserved: Reserved,
    /// What was given back or is on its way, in minor units.
    pub refunded_minor: u64,
    /// Whether a part of that is still on its way.
    pub refund_pending: bool,
    /// When the last of it was asked for, in ms since the epoch, if all of that was here.
    pub refunded_at_ms: Option<u64>,
    /// Its currency.
    pub currency: Currency,
    /// What people call it by.
    pub reference: String,
    /// Its public id.
    pub payment: String,
    /// The provider's id of it.
    pub provider_payment: Option<String>,
    /// The revision of the link through which it was paid.
    pub revision: Option<u32>,
    /// When it was paid, or reserved, in ms since the epoch. Of a payment of before that was noted, when it was first tried.
    pub at_ms: u64,
    /// Where the receipt goes.
    pub email: Option<String>,
    /// The card that paid.
    pub card: Option<Card>,
}

impl Paid {
    fn of(payment: &Payment, refunds: &[Refund]) -> Self {
        let is_on_its_way =
            |refund: &Refund| matches!(refund.state, RefundState::Requested | RefundState::Pending);
        Self {
            amount_minor: payment.amount.get(),
            captured_minor: payment.captured_minor(),
            reserved: Reserved::of(payment),
            refunded_minor: payment.refunded_minor(refunds),
            refund_pending: refunds.iter().any(is_on_its_way),
            refunded_at_ms: refunds
                .iter()
                .filter(|refund| !matches!(refund.state, RefundState::Failed { .. }))
                .map(|refund| refund.created_at_ms)
                .max()
                .filter(|_| payment.refunded_elsewhere_minor == 0),
            currency: payment.currency,
            reference: reference(payment.id),
            payment: payment.id.to_string(),
            provider_payment: payment.provider_payment.clone(),
            revision: payment.link_revision,
            at_ms: payment.paid_at_ms.unwrap_or(payment.created_at_ms),
            email: payment.receipt_email.clone(),
            card: payment.card,
        }
    }
}

/// Somebody before the page.
#[derive(Clone, Debug)]
pub struct Visit<'a> {
    /// See [`Site`].
    pub site: Site,
    /// The order.
    pub order: &'a Order,
    /// Who sells it.
    pub shop: Option<&'a Shop>,
    /// Its link, as it came.
    pub link: &'a str,
    /// In ms since the epoch.
    pub now_ms: u64,
}

/// What stands on a form.
#[derive(Clone, Debug, Default)]
pub struct FormState {
    /// What was entered before: the card, where the receipt goes. Without it the form is fresh.
    pub kept: Option<Parameters>,
    /// What is wrong with it.
    pub errors: Vec<FieldError>,
    /// What to say above the form.
    pub notice: Option<Notice>,
    /// How long the next try must wait, in ms.
    pub wait_ms: u64,
}

/// The form, under a fresh key.
pub fn form(visit: Visit<'_>, key: String, cards: &Cards<'_>, form_state: FormState) -> CheckoutForm {
    let t = visit.site.t;
    let (cart, currency) = (&visit.order.cart, visit.order.cart.currency());
    let element = match cards {
        Cards::Test => None,
        Cards::Element { publishable_key, stripe_account, script } => Some(CardElement {
            publishable_key: (*publishable_key).to_owned(),
            stripe_account: stripe_account.map(str::to_owned),
            amount_minor: cart.total().get(),
            currency: currency.as_str().to_owned(),
            script,
        }),
    };
    // Who is asked to choose a card finds none chosen.
    let error = form_state.errors.iter().find(|error| error.field == "payment_method");
    let chosen = match (error, form_state.kept.as_ref().map(|kept| kept.text("payment_method"))) {
        (Some(_), _) => String::new(),
        (None, Some(Field::Text(card))) => card,
        (None, _) => checkout_cards().next().map_or("", |card| card.payment_method).to_owned(),
    };
    CheckoutForm {
        shop: visit.shop.map(seller),
        key,
        path: path(visit.link),
        cancel_url: visit.order.cancel_url.clone(),
        order_id: visit.order.id.clone(),
        lines: lines(t, cart.lines(), currency),
        total: t.money(cart.total().get(), currency),
        capture: visit.order.capture,
        element,
        chosen,
        error: error.map_or("", |_| cards.advice(t)),
        email: email_entry(&visit.site, form_state.kept.as_ref(), &form_state.errors),
        notice: form_state.notice,
        wait: Some(form_state.wait_ms)
            .filter(|&wait_ms| wait_ms > 0)
            .map(|wait_ms| Wait { wait_ms, text: t.try_card_later(&in_words(t, wait_ms)) }),
        site: visit.site,
    }
}

/// Before the bank's page of the try of that number, or on the way to it; `not_done` says what was asked for meanwhile and not done.
pub fn bank(
    visit: Visit<'_>,
    key: Option<String>,
    (attempt, url): (u32, String),
    total: String,
    on_the_way: bool,
    not_done: Option<&str>,
) -> CheckoutBank {
    let t = visit.site.t;
    // Another card is spoken of only where there is a button for it.
    let and = |text, of_another_card| t.sentences(&[text, if key.is_some() { of_another_card } else { "" }]);
    CheckoutBank {
        hint: and(t.nothing_before, t.given_up_first),
        notice: not_done
            .map(|title| Notice::new("warning", title, and(t.card_not_used_text, t.or_another_card))),
        key,
        path: path(visit.link),
        back_url: visit.order.back_url().map(str::to_owned),
        order_id: visit.order.id.clone(),
        total,
        attempt,
        url,
        on_the_way,
        site: visit.site,
    }
}

/// While the outcome is not known.
pub fn status(visit: Visit<'_>, in_doubt: bool, since_ms: u64, total: String, is_still: bool) -> StatusPage {
    StatusPage {
        what: visit.site.t.order,
        is_private: true,
        path: path(visit.link),
        id: visit.order.id.clone(),
        total,
        refresh_s: refresh_s(visit.now_ms.saturating_sub(since_ms)),
        is_still,
        in_doubt,
        is_late: is_late(since_ms, visit.now_ms),
        back_url: visit.order.back_url().map(str::to_owned),
        site: visit.site,
    }
}

/// The shop's page, with what it has to compare before it delivers. It is not signed: the shop asks the API for the payment.
fn back_to_the_shop(return_url: &str, order_id: &str, paid: &Paid) -> String {
    let (amount, revision) =
        (paid.amount_minor.to_string(), paid.revision.map(|revision| revision.to_string()));
    let mut told = vec![
        ("payment", paid.payment.as_str()),
        ("order_id", order_id),
        ("amount", amount.as_str()),
        ("currency", paid.currency.as_str()),
    ];
    told.extend(revision.as_deref().map(|revision| ("revision", revision)));
    with_query(return_url, &serde_urlencoded::to_string(told).unwrap_or_default())
}

/// What was paid, to keep and to print.
pub fn receipt(visit: Visit<'_>, paid: &Paid) -> CheckoutReceipt {
    let t = visit.site.t;
    let money = |minor: u64| t.money(minor, paid.currency);
    let cart = &visit.order.cart;
    // The payment is the truth: a link with other lines was not what this person paid.
    let is_this_cart = paid.revision.is_none_or(|revision| revision == visit.order.revision)
        && cart.total().get() == paid.amount_minor
        && cart.currency() == paid.currency;
    let reserved = paid.captured_minor == 0;
    let all_back = !reserved && paid.refunded_minor >= paid.captured_minor;
    let (title, amount, amount_note) = match (reserved, all_back) {
        (true, _) => (t.order_placed, money(paid.amount_minor), t.reserved),
        (_, true) if paid.refund_pending => (t.refund_under_way, money(paid.refunded_minor), t.goes_back),
        (_, true) => (t.was_refunded, money(paid.refunded_minor), t.went_back),
        _ => (t.thank_you, money(paid.captured_minor), t.paid),
    };
    CheckoutReceipt {
        shop: visit.shop.map(seller),
        support: visit.shop.and_then(|shop| Some((shop.support.clone()?, shop.support_href()?))),
        title,
        amount,
        amount_note,
        reserved: reserved.then(|| paid.reserved.text(t)),
        order_id: visit.order.id.clone(),
        lines: if is_this_cart { lines(t, cart.lines(), paid.currency) } else { Vec::new() },
        total: money(paid.amount_minor),
        taken: (!reserved && paid.captured_minor < paid.amount_minor).then(|| money(paid.captured_minor)),
        refunded: (paid.refunded_minor > 0).then(|| Refunded {
            amount: money(paid.refunded_minor),
            pending: paid.refund_pending,
            note: refund_note(t, paid, all_back),
            rest: money(paid.captured_minor.saturating_sub(paid.refunded_minor)),
        }),
        paid_at: timestamp(paid.at_ms),
        paid_at_text: t.date(paid.at_ms),
        card: paid.card.map(|card| card.to_string()),
        reference: paid.reference.clone(),
        provider_payment: paid.provider_payment.clone(),
        payment: paid.payment.clone(),
        return_url: visit.order.return_url.as_deref().map(|url| back_to_the_shop(url, &visit.order.id, paid)),
        // Of a payment that is only reserved, none goes out yet.
        email: paid.email.clone().filter(|_| visit.site.sends_receipts && !reserved),
        site: visit.site,
    }
}

/// That money was given back, as a sentence.
fn refund_note(t: &Messages, paid: &Paid, in_full: bool) -> String {
    let amount = t.money(paid.refunded_minor, paid.currency);
    let on = paid.refunded_at_ms.map(|at_ms| t.refund_on(&t.date(at_ms))).unwrap_or_default();
    let pending = if paid.refund_pending { t.refund_pending } else { "" };
    if in_full {
        t.refunded_in_full(&amount, &on, pending)
    } else {
        t.refunded_in_part(&amount, &on, pending)
    }
}

/// What to say above the form after a try that came to nothing; `edited` if a changed form came under its key. After many
/// of them the next one must wait for `wait_ms`, which the form says itself.
pub fn notice(t: &Messages, standing: &OrderState, edited: bool, wait_ms: u64) -> Option<Notice> {
    match standing {
        OrderState::Failed { reason } => Some(unpaid::notice(t, *reason, edited, wait_ms > 0)),
        OrderState::Canceled if wait_ms > 0 => Some(Notice::new("info", t.given_up, t.nothing_charged)),
        OrderState::Canceled => Some(Notice::new("info", t.given_up, t.pay_below)),
        OrderState::Open
        | OrderState::Confirming { .. }
        | OrderState::AtTheBank { .. }
        | OrderState::GivingBack { .. }
        | OrderState::Paid(_) => None,
    }
}

/// A wait of a try that no page offers.
pub const LATER: u64 = u64::MAX;

/// How long the next try must wait, in ms.
pub const fn wait_ms(next_try: NextTry, now_ms: u64) -> u64 {
    match next_try {
        NextTry::At(at_ms) => at_ms.saturating_sub(now_ms),
        NextTry::Now | NextTry::Never => 0,
    }
}

/// `in 25 seconds`, `in 4 minutes`: rounded up, so that whoever waits has waited long enough.
pub fn in_words(t: &Messages, wait_ms: u64) -> String {
    match wait_ms.div_ceil(1000) {
        0 | 1 => t.in_a_second.to_owned(),
        seconds @ 2..=90 => t.in_seconds(&seconds.to_string()),
        seconds => t.in_minutes(&seconds.div_ceil(60).to_string()),
    }
}

/// The address of an order's page.
pub fn path(link: &str) -> String {
    format!("/checkout/{link}")
}

fn seller(shop: &Shop) -> Seller {
    Seller { name: shop.name.clone(), logo: shop.logo().map(|logo| logo.as_str().to_owned()) }
}

fn lines(t: &Messages, lines: &[Line], currency: Currency) -> Vec<OrderLine> {
    let line = |line: &Line| OrderLine {
        name: line.name.clone(),
        image: line.image.as_ref().map(|image| image.as_str().to_owned()),
        quantity: line.quantity,
        unit_price: t.money(line.unit_minor, currency),
        // A cart's lines were added up before.
        total: t.money(line.total_minor().unwrap_or_default(), currency),
    };
    lines.iter().map(line).collect()
}
