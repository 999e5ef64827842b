//! The lab at `/lab`: a visitor breaks a payment and sees what becomes of it, with and without protection.
//!
//! An experiment has an id, which stands in its address, and nothing of it is stored for the lab: the protected side (`api`) is the
//! payment of one order, which the payments Worker knows, and the unprotected one (`control`) is known to the bank's ledger alone. What
//! the person saw stands in the address.

mod api;
mod bank;
mod control;
pub mod ledger;
pub mod page;
pub mod payment;
pub(crate) mod run;

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use once::fingerprint::{FieldError, Parameters};
use web::assets::Asset;
use web::route::FromPath;

/// What shows an experiment live.
pub(crate) const LAB_SCRIPT: Asset = Asset {
    name: "lab.js",
    address: concat!("/assets/lab.js?v=", env!("LAB_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../../static/lab.js"),
};

/// The address of the lab's style, with its version.
pub(crate) const LAB_STYLE_ADDRESS: &str = concat!("/assets/lab.css?v=", env!("LAB_STYLE_VERSION"));

/// The style of the lab, and of the small one on the home page.
pub(crate) const LAB_STYLE: Asset = Asset {
    name: "lab.css",
    address: LAB_STYLE_ADDRESS,
    media_type: "text/css; charset=utf-8",
    bytes: include_bytes!("../../../static/lab.css"),
};

/// What each payment of the lab is about, in cents.
pub const PRICE_MINOR: u64 = 2000;
/// How often "many times" is.
pub const MANY: u32 = 5;
/// How often a client asks for one press: people and HTTP libraries give up some time.
pub const TRIES: u32 = 3;
/// The pause before it asks again.
pub const PAUSE: Duration = Duration::from_millis(200);

/// The id of an experiment: a UUID. Older ones have 24 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentId(String);

impl ExperimentId {
    /// A new one.
    pub fn new(id: Uuid) -> Self {
        Self(id.to_string())
    }

    /// From an address; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let is_old = text.len() == 24 && text.bytes().all(is_digit);
        // A UUID has several spellings; this one alone is an address.
        let is_uuid = Uuid::try_parse(text).is_ok_and(|id| id.to_string() == text);
        (is_old || is_uuid).then(|| Self(text.to_owned()))
    }

    /// The order that its protected side pays, and the idempotency key of that.
    pub fn order(&self) -> String {
        format!("lab-{self}")
    }

    /// Its page.
    pub fn path(&self) -> String {
        format!("/lab/{self}")
    }
}

impl FromPath for ExperimentId {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for ExperimentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The bank charges, and its answer is lost.
    AnswerLost,
    /// The request never gets to the bank.
    RequestLost,
    /// The bank's answer takes longer than anybody waits.
    Slow,
    /// The bank charges, and says that it failed.
    ServerError,
    /// The server dies when the bank has charged.
    Crash,
    /// The card is declined.
    Declined,
    /// The bank wants to see the person.
    BankPage,
    /// Nothing: only the presses.
    None,
}

impl InjectedFault {
    /// All of them, as they are offered.
    pub const ALL: [Self; 8] = [
        Self::AnswerLost,
        Self::RequestLost,
        Self::Slow,
        Self::ServerError,
        Self::Crash,
        Self::Declined,
        Self::BankPage,
        Self::None,
    ];

    /// Its word in forms and addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AnswerLost => "answer_lost",
            Self::RequestLost => "request_lost",
            Self::Slow => "slow",
            Self::ServerError => "server_error",
            Self::Crash => "crash",
            Self::Declined => "declined",
            Self::BankPage => "bank_page",
            Self::None => "none",
        }
    }

    /// From its word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == text)
    }

    /// What it is called.
    pub const fn label(self) -> &'static str {
        match self {
            Self::AnswerLost => "The answer is lost",
            Self::RequestLost => "The request is lost",
            Self::Slow => "The bank is slow",
            Self::ServerError => "The bank fails",
            Self::Crash => "The server crashes",
            Self::Declined => "The bank says no",
            Self::BankPage => "3-D Secure",
            Self::None => "Nothing",
        }
    }

    /// What that means.
    pub const fn effect(self) -> &'static str {
        match self {
            Self::AnswerLost => "after the charge",
            Self::RequestLost => "before the charge",
            Self::Slow => "and you lose patience",
            Self::ServerError => "500, after the charge",
            Self::Crash => "right after the charge",
            Self::Declined => "the card is declined",
            Self::BankPage => "the bank asks back",
            Self::None => "you only press often",
        }
    }

    /// Stripe's test card that pays.
    pub const fn card(self) -> &'static str {
        match self {
            Self::Declined => "pm_card_visa_chargeDeclined",
            Self::BankPage => "pm_card_authenticationRequired",
            _ => "pm_card_visa",
        }
    }

    /// The simulator's fault, and how long it takes, in ms.
    pub const fn at_the_bank(self) -> Option<(&'static str, u32)> {
        match self {
            Self::AnswerLost => Some(("response_lost", 600)),
            Self::RequestLost => Some(("request_lost", 600)),
            Self::Slow => Some(("slow_response", 3000)),
            Self::ServerError => Some(("error_after", 0)),
            Self::Crash | Self::Declined | Self::BankPage | Self::None => None,
        }
    }

    /// What happened and why, in three sentences.
    pub const fn explanation(self) -> [&'static str; 3] {
        match self {
            Self::AnswerLost => [
                "The bank charged the card, and its answer got lost.",
                "Without a key, whoever asks again is charged again.",
                "Paid Once asked again under the same key, and the bank answered from memory.",
            ],
            Self::RequestLost => [
                "The first request never reached the bank, which looks just like a lost answer.",
                "Without a key nobody can know whether asking again is safe: once it is, five times it is not.",
                "Paid Once asks again under the same key: one charge, whichever of the two was lost.",
            ],
            Self::Slow => [
                "The bank took three seconds, and you waited two.",
                "Without a key your next try is another charge, and the first one goes through as well.",
                "With Paid Once every try joined the payment that was already under way.",
            ],
            Self::ServerError => [
                "The bank charged the card, and then answered 500.",
                "Without a key, the retry that follows an error charges again.",
                "Paid Once does not take an error for a no: it looked into the bank’s list, and found the charge.",
            ],
            Self::Crash => [
                "The server died when the bank had charged, and before that was written down.",
                "Without a record the next try starts from nothing, and charges again.",
                "Paid Once had written down what it was about to send: a new process sent the same again, and the bank answered from memory.",
            ],
            Self::Declined => [
                "The bank said no, and that is an answer.",
                "Without a key every press asks again, and banks block cards that are tried too often.",
                "Paid Once asked once, kept the answer, and gives it to every press.",
            ],
            Self::BankPage => [
                "The bank wants to be sure that it is you: nothing is charged before you confirm.",
                "Without a key every press opens a payment of its own, and each one that you confirm is charged.",
                "Paid Once opened one payment: confirm it, and it is charged once.",
            ],
            Self::None => [
                "Nothing went wrong: each press was a request to pay.",
                "Without a key each request is a charge.",
                "Paid Once ran the first one, and gave its answer to all others.",
            ],
        }
    }
}

/// What a client saw of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientOutcome {
    /// Paid.
    Paid,
    /// Paid: the answer to another request, once more.
    Replayed,
    /// The card was declined.
    Declined,
    /// The way to the bank's page.
    BankPage,
    /// Nothing: the connection broke, or it took too long.
    NoAnswer,
    /// An error that says nothing about the payment.
    Failed,
    /// The server died.
    Crashed,
}

impl ClientOutcome {
    const ALL: [Self; 7] = [
        Self::Paid,
        Self::Replayed,
        Self::Declined,
        Self::BankPage,
        Self::NoAnswer,
        Self::Failed,
        Self::Crashed,
    ];

    const fn letter(self) -> char {
        match self {
            Self::Paid => 'p',
            Self::Replayed => 'r',
            Self::Declined => 'd',
            Self::BankPage => 'b',
            Self::NoAnswer => 'n',
            Self::Failed => 'f',
            Self::Crashed => 'c',
        }
    }

    /// Whether the client is content with it.
    pub const fn is_an_answer(self) -> bool {
        matches!(self, Self::Paid | Self::Replayed | Self::Declined | Self::BankPage)
    }

    /// As it is shown.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::Replayed => "paid, the same payment",
            Self::Declined => "declined",
            Self::BankPage => "go to your bank",
            Self::NoAnswer => "no answer",
            Self::Failed => "error",
            Self::Crashed => "the server died",
        }
    }
}

/// What the client saw: of each press, its tries.
pub type Presses = Vec<Vec<ClientOutcome>>;

/// Presses as an address carries them: `np-nnp`.
pub fn write(presses: &Presses) -> String {
    let press = |tries: &Vec<ClientOutcome>| tries.iter().map(|saw| saw.letter()).collect::<String>();
    presses.iter().map(press).collect::<Vec<_>>().join("-")
}

/// Presses from an address. What was made up is left out.
pub fn read(text: &str) -> Presses {
    let saw = |letter| ClientOutcome::ALL.into_iter().find(|saw| saw.letter() == letter);
    let press = |tries: &str| tries.chars().filter_map(saw).take(TRIES as usize).collect::<Vec<_>>();
    text.split('-').map(press).filter(|tries| !tries.is_empty()).take(MANY as usize).collect()
}

/// What the form says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What goes wrong.
    pub fault: InjectedFault,
    /// How often Pay is pressed, all at once.
    pub times: u32,
}

impl Order {
    /// Reads it; the errors name the fields.
    pub fn parse(parameters: &Parameters) -> Result<Self, Vec<FieldError>> {
        let field = |name: &str| parameters.text(name).or_empty();
        let times = match field("times").as_str() {
            "1" => Some(1),
            "5" => Some(MANY),
            _ => None,
        };
        match (InjectedFault::parse(&field("fault")), times) {
            (Some(fault), Some(times)) => Ok(Self { fault, times }),
            (fault, times) => {
                let wrong = |name: &str, message: &str, is_good: bool| {
                    (!is_good).then(|| FieldError { field: name.to_owned(), message: message.to_owned() })
                };
                let errors = [
                    wrong("fault", "must be one of the lab’s", fault.is_some()),
                    wrong("times", "must be 1 or 5", times.is_some()),
                ];
                Err(errors.into_iter().flatten().collect())
            }
        }
    }
}
