//! What the two sides of a break say, as text: written for the table here, and read from there to be shown.
//!
//! By its stored text a break is known to say the same as before, and stays accepted. So that text is never changed, and has its amounts in minor
//! units; a page shows them as people write them.

use std::fmt;

use crate::format::money;

/// What one side says of money. Whatever else a side says has no amounts, and is shown as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// How a payment stands.
    Payment(PaymentSums),
    /// One amount, with the status of what it belongs to.
    Amount {
        /// The status.
        status: String,
        /// How much.
        amount: Amount,
        /// What was done with it, where that is said.
        done: Option<Done>,
    },
    /// What the lines of reports add up to.
    Reported(Vec<Total>),
    /// A movement in a provider's balance.
    Movement {
        /// The provider's type of it.
        kind: String,
        /// Whether it takes away from the balance.
        is_debit: bool,
        /// How much it adds or takes away.
        settled: Amount,
        /// What it comes from: its id, the provider's id of the payment, and how much that is for the customer.
        source: Option<(String, Option<String>, Amount)>,
    },
}

/// How a payment stands, in our records or the provider's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentSums {
    /// The status.
    pub status: String,
    /// What was captured, in minor units.
    pub captured_minor: u64,
    /// Of how much.
    pub amount: Amount,
    /// What was refunded, in minor units.
    pub refunded_minor: u64,
    /// Refunds that are still pending, in minor units.
    pub refunding_minor: u64,
}

/// An amount of a currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// In minor units.
    pub minor: u64,
    /// In lower case.
    pub currency: String,
}

/// Lines of reports, added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// The sum.
    pub amount: Amount,
    /// What was done with it.
    pub done: Done,
    /// What of it came back, in minor units.
    pub back_minor: u64,
    /// Lines in several currencies cannot be added up.
    pub is_mixed: bool,
}

/// What was done with an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was captured.
    Captured,
    /// It stands in a payout.
    Settled,
    /// The customer got it back from us.
    Refunded,
    /// The customer got it back from the bank.
    ChargedBack,
}

/// Of a movement whose details are missing.
const NO_SOURCE: &str = "its source is not said";

impl Done {
    const ALL: [Self; 4] = [Self::Captured, Self::Settled, Self::Refunded, Self::ChargedBack];

    /// As it is stored.
    const fn stored(self) -> &'static str {
        match self {
            Self::Captured => "taken",
            Self::Settled => "settled",
            Self::Refunded => "refunded",
            Self::ChargedBack => "charged back",
        }
    }

    const fn shown(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            other => other.stored(),
        }
    }

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|done| done.stored() == text)
    }
}

impl Amount {
    fn shown(&self) -> String {
        self.shown_minor(self.minor)
    }

    /// Another amount of the same currency.
    fn shown_minor(&self, minor: u64) -> String {
        money(minor, &self.currency)
    }

    fn read(text: &str) -> Option<Self> {
        let (minor, currency) = text.split_once(' ')?;
        let is_code = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_lowercase());
        is_code.then_some(Self { minor: number(minor)?, currency: currency.to_owned() })
    }
}

/// A whole number, as it is written here: the parser of numbers takes a sign, too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.minor, self.currency)
    }
}

/// As it is stored.
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payment(PaymentSums {
                status,
                captured_minor,
                amount,
                refunded_minor,
                refunding_minor,
            }) => {
                write!(f, "{status}: {captured_minor} of {amount} taken, {refunded_minor}")?;
                match refunding_minor {
                    0 => {}
                    more => write!(f, " (and {more} under way)")?,
                }
                f.write_str(" refunded")
            }
            Self::Amount { status, amount, done: None } => write!(f, "{status}: {amount}"),
            Self::Amount { status, amount, done: Some(done) } => {
                write!(f, "{status}: {amount} {}", done.stored())
            }
            Self::Reported(totals) => {
                f.write_str(&totals.iter().map(Total::to_string).collect::<Vec<_>>().join("; "))
            }
            Self::Movement { kind, is_debit, settled, source } => {
                let sign = if *is_debit { "-" } else { "" };
                write!(f, "{kind}: {sign}{settled} in the balance (")?;
                match source {
                    Some((id, Some(payment), amount)) => write!(f, "{id} of {payment}, {amount})"),
                    Some((id, None, amount)) => write!(f, "{id}, {amount})"),
                    None => write!(f, "{NO_SOURCE})"),
                }
            }
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.done.stored())?;
        match self.back_minor {
            0 => {}
            back => write!(f, ", {back} of it came back")?,
        }
        f.write_str(if self.is_mixed { ", in several currencies" } else { "" })
    }
}

impl Side {
    /// Reads what is stored. `None` if it says nothing of money, or is of a newer release.
    pub fn read(text: &str) -> Option<Self> {
        let read = Self::read_movement(text)
            .or_else(|| PaymentSums::read(text).map(Self::Payment))
            .or_else(|| text.split("; ").map(Total::read).collect::<Option<_>>().map(Self::Reported))
            .or_else(|| Self::read_amount(text))?;
        // What would be stored otherwise was not written here: nothing of it is to be lost.
        (read.to_string() == text).then_some(read)
    }

    fn read_movement(text: &str) -> Option<Self> {
        let (head, source) = text.strip_suffix(')')?.split_once(" in the balance (")?;
        let (kind, settled) = head.rsplit_once(": ")?;
        let source = match source {
            NO_SOURCE => None,
            said => {
                let (of, amount) = said.rsplit_once(", ")?;
                let (id, payment) = of.split_once(" of ").map_or((of, None), |(id, of)| (id, Some(of)));
                Some((id.to_owned(), payment.map(str::to_owned), Amount::read(amount)?))
            }
        };
        let (is_debit, settled) =
            settled.strip_prefix('-').map_or((false, settled), |settled| (true, settled));
        Some(Self::Movement { kind: kind.to_owned(), is_debit, settled: Amount::read(settled)?, source })
    }

    fn read_amount(text: &str) -> Option<Self> {
        let (status, said) = text.split_once(": ")?;
        let without = |done: Done| said.strip_suffix(done.stored())?.strip_suffix(' ');
        let known = Done::ALL.into_iter().find_map(|done| Some((without(done)?, Some(done))));
        let (amount, done) = known.unwrap_or((said, None));
        Some(Self::Amount { status: status.to_owned(), amount: Amount::read(amount)?, done })
    }

    /// As a person reads it.
    pub fn shown(&self) -> String {
        match self {
            Self::Payment(sums) => sums.shown(),
            Self::Amount { status, amount, done } => {
                let done = done.map(|done| format!(" {}", done.shown())).unwrap_or_default();
                format!("{}: {}{done}", status.replace('_', " "), amount.shown())
            }
            Self::Reported(totals) => totals.iter().map(Total::shown).collect::<Vec<_>>().join("; "),
            Self::Movement { kind, is_debit, settled, source } => {
                let sign = if *is_debit { "-" } else { "" };
                let source = source.as_ref().map_or_else(
                    || NO_SOURCE.to_owned(),
                    |(id, payment, amount)| {
                        let of = payment.as_ref().map(|payment| format!(" of {payment}")).unwrap_or_default();
                        format!("{id}{of}, {}", amount.shown())
                    },
                );
                format!("{kind}: {sign}{} in the balance ({source})", settled.shown())
            }
        }
    }
}

impl PaymentSums {
    fn read(text: &str) -> Option<Self> {
        let (status, said) = text.split_once(": ")?;
        let (captured, refunded) = said.strip_suffix(" refunded")?.split_once(" taken, ")?;
        let (captured, amount) = captured.split_once(" of ")?;
        let (refunded, refunding) = match refunded.split_once(" (and ") {
            Some((refunded, more)) => (refunded, number(more.strip_suffix(" under way)")?)?),
            None => (refunded, 0),
        };
        Some(Self {
            status: status.to_owned(),
            captured_minor: number(captured)?,
            amount: Amount::read(amount)?,
            refunded_minor: number(refunded)?,
            refunding_minor: refunding,
        })
    }

    fn shown(&self) -> String {
        let sum = |minor: u64| self.amount.shown_minor(minor);
        let refunding = match self.refunding_minor {
            0 => String::new(),
            more => format!(" (and {} under way)", sum(more)),
        };
        format!(
            "{}: {} of {} captured, {}{refunding} refunded",
            self.status.replace('_', " "),
            sum(self.captured_minor),
            self.amount.shown(),
            sum(self.refunded_minor)
        )
    }
}

impl Total {
    fn read(text: &str) -> Option<Self> {
        let (text, is_mixed) =
            text.strip_suffix(", in several currencies").map_or((text, false), |text| (text, true));
        let (text, back_minor) = match text.strip_suffix(" of it came back") {
            Some(text) => {
                let (text, back) = text.rsplit_once(", ")?;
                (text, number(back)?)
            }
            None => (text, 0),
        };
        let (minor, said) = text.split_once(' ')?;
        let (currency, done) = said.split_once(' ')?;
        let amount = Amount::read(&format!("{minor} {currency}"))?;
        Some(Self { amount, done: Done::read(done)?, back_minor, is_mixed })
    }

    fn shown(&self) -> String {
        let back = match self.back_minor {
            0 => String::new(),
            back => format!(", {} of it came back", self.amount.shown_minor(back)),
        };
        let mixed = if self.is_mixed { ", in several currencies" } else { "" };
        format!("{} {}{back}{mixed}", self.amount.shown(), self.done.shown())
    }
}

/// The SQL of a [`Side::Amount`], of columns that have its status, the minor units and the currency.
pub(super) fn amount_sql(status: &str, minor: &str, currency: &str, done: Option<Done>) -> String {
    let done = done.map(|done| format!(" || ' {}'", done.stored())).unwrap_or_default();
    format!("{status} || ': ' || {minor} || ' ' || {currency}{done}")
}

/// What a side says, as a person reads it.
pub fn shown(text: &str) -> String {
    Side::read(text).map_or_else(|| text.to_owned(), |side| side.shown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::simulation::Rng;

    fn amount(minor: u64, currency: &str) -> Amount {
        Amount { minor, currency: currency.to_owned() }
    }

    fn any(rng: &Rng) -> Side {
        let minor = || if rng.roll(4) == 0 { 0 } else { rng.roll(1_000_000) };
        let currency = ["usd", "jpy", "kwd", "xxx"][rng.roll(4) as usize];
        let any_amount = || amount(minor(), currency);
        let done = || Done::ALL[rng.roll(4) as usize];
        match rng.roll(4) {
            0 => Side::Payment(PaymentSums {
                status: "requires_capture".to_owned(),
                captured_minor: minor(),
                amount: any_amount(),
                refunded_minor: minor(),
                refunding_minor: minor(),
            }),
            1 => Side::Amount {
                status: "succeeded".to_owned(),
                amount: any_amount(),
                done: (rng.roll(3) > 0).then(done),
            },
            2 => {
                let total = || Total {
                    amount: any_amount(),
                    done: done(),
                    back_minor: minor(),
                    is_mixed: rng.roll(2) == 0,
                };
                Side::Reported((0..=rng.roll(3)).map(|_| total()).collect())
            }
            _ => Side::Movement {
                kind: "payment refund".to_owned(),
                is_debit: rng.roll(2) == 0,
                settled: any_amount(),
                source: (rng.roll(3) > 0).then(|| {
                    ("re_1".to_owned(), (rng.roll(2) == 0).then(|| "pi_1".to_owned()), any_amount())
                }),
            },
        }
    }

    #[test]
    fn what_is_stored_is_read_as_it_was_written() {
        let rng = Rng::new(7);
        for _ in 0..2_000 {
            let side = any(&rng);
            assert_eq!(Side::read(&side.to_string()).as_ref(), Some(&side), "{side}");
        }
    }

    /// The texts of earlier releases: who has accepted one of these has accepted what is found again.
    #[test]
    fn the_stored_texts_are_those_of_before_and_are_shown_with_money() {
        for (stored, as_shown) in [
            (
                "succeeded: 2000 of 2000 usd taken, 0 refunded",
                "succeeded: $20.00 of $20.00 captured, $0.00 refunded",
            ),
            (
                "requires_capture: 0 of 500 jpy taken, 7 (and 3 under way) refunded",
                "requires capture: ¥0 of ¥500 captured, ¥7 (and ¥3 under way) refunded",
            ),
            (
                "refund: -2500 eur in the balance (re_1 of pi_1, 2000 usd)",
                "refund: -€25.00 in the balance (re_1 of pi_1, $20.00)",
            ),
            (
                "charge: 2500 eur in the balance (its source is not said)",
                "charge: €25.00 in the balance (its source is not said)",
            ),
            (
                "2500 eur settled; 500 eur refunded, 100 of it came back",
                "€25.00 settled; €5.00 refunded, €1.00 of it came back",
            ),
            ("900 eur charged back, in several currencies", "€9.00 charged back, in several currencies"),
            ("failed: 500 eur refunded", "failed: €5.00 refunded"),
            ("succeeded: 900 eur taken", "succeeded: €9.00 captured"),
            ("rejected: 2500 usd", "rejected: $25.00"),
        ] {
            let side = Side::read(stored).unwrap();
            assert_eq!((side.to_string().as_str(), side.shown().as_str()), (stored, as_shown));
        }
    }

    #[test]
    fn what_says_nothing_of_money_is_shown_as_it_is() {
        for text in [
            "the dispute du_1 is lost",
            "pending refunds: re_1, re_2",
            "a payment in another merchant account",
            "12 movements",
            "report.csv: line 3: 20 columns",
            "report.csv: 20 columns",
            "no answer that can be used of pi_1: HTTP 500",
            "succeeded: +5 of 5 usd taken, 0 refunded",
            "",
        ] {
            assert_eq!(shown(text), text);
        }
    }
}
