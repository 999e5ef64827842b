//! What became of a payment, in sentences, and where its money is: for whoever opens its page without knowing its states.

use super::format::money;
use messages::snapshot::{KeyRow, PaymentRow, RefundRow};

/// The width of the bar, in its own units.
const WIDTH: u64 = 1000;

/// A part of the money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// `kept`, `refunded`, `reserved` or `free`.
    pub class: &'static str,
    /// `$44.50 left`
    pub label: String,
    /// Where it begins on the bar.
    pub x: u64,
    /// How wide it is there.
    pub width: u64,
}

/// Of which of a payment's amounts nobody knows yet what they are: something was sent, and what became of it was not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InDoubt {
    /// What was captured.
    pub captured: bool,
    /// What was refunded.
    pub refunded: bool,
}

impl InDoubt {
    /// By what was asked for under the keys of a payment.
    pub fn of(keys: &[KeyRow]) -> Self {
        let in_doubt = keys.iter().filter(|key| key.in_doubt == 1 && key.status == "open");
        in_doubt.fold(Self::default(), |doubt, key| match key.operation.as_deref() {
            Some("refund") => Self { refunded: true, ..doubt },
            Some("payment" | "capture" | "void") => Self { captured: true, ..doubt },
            _ => doubt,
        })
    }
}

/// What became of it.
pub fn sentences(
    payment: &PaymentRow,
    refunds: &[RefundRow],
    account: &str,
    in_doubt: InDoubt,
) -> Vec<String> {
    let sum = |minor: u64| money(minor, &payment.currency);
    let provider = name(&payment.provider);
    let order = payment.order_id.as_ref().map(|order| format!(" for order {order}")).unwrap_or_default();
    let mut said = vec![format!("{account} asked for {}{order}.", sum(payment.amount_minor))];
    if payment.attempt > 1 {
        said.push(format!("This is attempt {}.", payment.attempt));
    }
    let why = payment.failure_code.as_ref().map(|code| format!(": {}", code.replace('_', " ")));
    let why = why.unwrap_or_default();
    let unknown =
        || format!("Nobody knows yet whether {provider} captured it: {provider} is asked until it says so.");
    said.push(match payment.status.as_str() {
        "succeeded" | "disputed" if payment.captured_minor < payment.amount_minor => {
            format!("{provider} captured {} of it; the rest was released.", sum(payment.captured_minor))
        }
        "succeeded" | "disputed" => format!("Captured by {provider}."),
        "requires_capture" if in_doubt.captured => unknown(),
        "requires_capture" => "Authorized: it can be captured or voided.".to_owned(),
        "requires_action" => {
            "The person who pays was sent to the bank’s page, and no answer came back yet.".to_owned()
        }
        _ if in_doubt.captured => unknown(),
        "processing" => format!("{provider} has not decided yet."),
        "declined" => format!("The bank declined it{why}. Nothing was charged."),
        "canceled" => "It was canceled. Nothing was charged.".to_owned(),
        "expired" => "The reservation has lapsed. Nothing was charged.".to_owned(),
        "capture_failed" => {
            format!("{provider} took the capture back, and may repeat it by itself: it counts as captured.")
        }
        _ => format!("It was refused{why}. Nothing was charged."),
    });
    if payment.status == "disputed" {
        said.push("The bank wants money back.".to_owned());
    }
    said.extend(refunded(payment, refunds));
    if in_doubt.refunded {
        said.push(format!("Nobody knows yet whether {provider} has made a refund of it."));
    }
    said
}

/// What was given back, what is on its way, and what is left.
fn refunded(payment: &PaymentRow, refunds: &[RefundRow]) -> Option<String> {
    let sum = |minor: u64| money(minor, &payment.currency);
    let pending = refunds.iter().filter(|refund| matches!(refund.status.as_str(), "pending" | "processing"));
    let pending = pending.fold(0, |sum: u64, refund| sum.saturating_add(refund.amount_minor));
    let pending = pending.min(payment.refunded_minor);
    let given = payment.refunded_minor.saturating_sub(pending);
    let left = payment.captured_minor.saturating_sub(payment.refunded_minor);
    let moved = match (given, pending) {
        (0, 0) => return None,
        (_, 0) if left == 0 => return Some("All of it was refunded.".to_owned()),
        (given, 0) => format!("{} was refunded", sum(given)),
        (0, _) if left == 0 => return Some("All of it is being refunded.".to_owned()),
        (0, pending) => format!("{} is being refunded", sum(pending)),
        (given, pending) => format!("{} was refunded, {} is being refunded", sum(given), sum(pending)),
    };
    Some(format!("{moved}; {} is left.", sum(left)))
}

/// Where its money is; empty if none was ever taken or held.
pub fn shares(payment: &PaymentRow) -> Vec<Share> {
    let sum = |minor: u64| money(minor, &payment.currency);
    let is_held = payment.status == "requires_capture";
    if payment.amount_minor == 0 || (payment.captured_minor == 0 && !is_held) {
        return Vec::new();
    }
    let refunded = payment.refunded_minor.min(payment.captured_minor);
    let kept = payment.captured_minor.saturating_sub(refunded);
    let open = payment.amount_minor.saturating_sub(payment.captured_minor);
    let (class, what) = if is_held { ("reserved", "reserved") } else { ("free", "not captured") };
    let parts = [("kept", "left", kept), ("refunded", "refunded", refunded), (class, what, open)];
    let mut x = 0;
    let shares = parts.into_iter().filter(|(_, _, minor)| *minor > 0).map(|(class, what, minor)| {
        let width = minor * WIDTH / payment.amount_minor.max(payment.captured_minor);
        let share = Share { class, label: format!("{} {what}", sum(minor)), x, width };
        x += width;
        share
    });
    shares.collect()
}

fn name(provider: &str) -> &str {
    match provider {
        "stripe" => "Stripe",
        "adyen" => "Adyen",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payment(status: &str, captured_minor: u64, refunded_minor: u64) -> PaymentRow {
        PaymentRow {
            payment_id: "pay_1".to_owned(),
            status: status.to_owned(),
            amount_minor: 5450,
            captured_minor,
            refunded_minor,
            refunded_elsewhere_minor: 0,
            currency: "usd".to_owned(),
            provider: "stripe".to_owned(),
            provider_payment: None,
            stripe_account: None,
            merchant_account: None,
            order_id: Some("1001".to_owned()),
            failure_code: (status == "declined").then(|| "insufficient_funds".to_owned()),
            attempt: 1,
            pending_operation: None,
            wake_at_ms: None,
            shown: String::new(),
            created_at_ms: 0,
        }
    }

    fn refund(status: &str, amount_minor: u64) -> RefundRow {
        RefundRow {
            refund_id: "re_1".to_owned(),
            payment_id: "pay_1".to_owned(),
            status: status.to_owned(),
            amount_minor,
            currency: "usd".to_owned(),
            reason: "requested_by_customer".to_owned(),
            provider: "stripe".to_owned(),
            provider_refund: None,
            created_at_ms: 0,
        }
    }

    #[test]
    fn a_refund_of_a_part_says_what_is_left() {
        let paid = payment("succeeded", 5450, 450);
        let asked = "shop asked for $54.50 for order 1001. Captured by Stripe.";
        for (refunds, expected) in [
            (vec![refund("succeeded", 450)], "$4.50 was refunded; $50.00 is left."),
            (vec![refund("pending", 450)], "$4.50 is being refunded; $50.00 is left."),
            (
                vec![refund("succeeded", 200), refund("pending", 250), refund("failed", 900)],
                "$2.00 was refunded, $2.50 is being refunded; $50.00 is left.",
            ),
        ] {
            assert_eq!(
                sentences(&paid, &refunds, "shop", InDoubt::default()).join(" "),
                format!("{asked} {expected}")
            );
        }
        let all = sentences(&payment("succeeded", 5450, 5450), &[], "shop", InDoubt::default()).join(" ");
        assert_eq!(all, format!("{asked} All of it was refunded."));
        let shares: Vec<_> = shares(&paid).into_iter().map(|share| (share.class, share.label)).collect();
        assert_eq!(shares, [("kept", "$50.00 left".to_owned()), ("refunded", "$4.50 refunded".to_owned())]);
    }

    #[test]
    fn the_bar_is_never_longer_than_the_money() {
        for (captured, refunded) in [(5450, 0), (2000, 700), (5450, 5450), (6000, 1), (1, 1)] {
            let end =
                shares(&payment("succeeded", captured, refunded)).last().map(|last| last.x + last.width);
            assert!(end.is_some_and(|end| end <= WIDTH), "{captured} {refunded}: {end:?}");
        }
    }

    const CAPTURE: InDoubt = InDoubt { captured: true, refunded: false };

    #[test]
    fn a_refund_in_doubt_leaves_what_was_captured_known() {
        let of = |operation: &str, in_doubt: u8, status: &str| {
            InDoubt::of(&[KeyRow {
                operation: Some(operation.to_owned()),
                in_doubt,
                status: status.to_owned(),
                ..KeyRow::default()
            }])
        };
        let refund = InDoubt { captured: false, refunded: true };
        assert_eq!(["payment", "capture", "void"].map(|operation| of(operation, 1, "open")), [CAPTURE; 3]);
        assert_eq!((of("refund", 1, "open"), of("customer", 1, "open")), (refund, InDoubt::default()));
        assert_eq!(
            (of("capture", 0, "open"), of("capture", 1, "finished")),
            (InDoubt::default(), InDoubt::default())
        );
        let said =
            |status: &str, in_doubt| sentences(&payment(status, 0, 0), &[], "shop", in_doubt).join(" ");
        let nobody = "Nobody knows yet whether Stripe captured it";
        assert!(said("requires_capture", CAPTURE).contains(nobody));
        assert!(!said("requires_capture", InDoubt::default()).contains("Nobody"));
        let refunding = said("succeeded", refund);
        assert!(!refunding.contains(nobody) && refunding.contains("Stripe captured"), "{refunding}");
        assert!(
            refunding.ends_with("Nobody knows yet whether Stripe has made a refund of it."),
            "{refunding}"
        );
    }

    #[test]
    fn what_nobody_knows_is_not_said_to_be_taken_or_not() {
        let said = sentences(&payment("processing", 0, 0), &[], "shop", CAPTURE).join(" ");
        assert!(said.contains("Nobody knows yet") && !said.contains("Nothing was charged"), "{said}");
        assert!(shares(&payment("processing", 0, 0)).is_empty());
        let declined = sentences(&payment("declined", 0, 0), &[], "shop", InDoubt::default()).join(" ");
        assert!(
            declined.ends_with("The bank declined it: insufficient funds. Nothing was charged."),
            "{declined}"
        );
    }
}
