//! The receipt email: its text, and its form for Resend. <https://resend.com/docs/api-reference/emails/send-email>

use askama::Template;
use serde_json::{Value, json};

use payments::date_for_people;
use payments::payment::money::for_people;
use payments::transitions::receipt::{About, Receipt};

#[derive(Template)]
#[template(path = "email_receipt.html")]
struct Html<'a> {
    text: &'a ReceiptText,
    receipt: &'a Receipt,
}

#[derive(Template)]
#[template(path = "email_receipt.txt")]
struct Text<'a> {
    text: &'a ReceiptText,
    receipt: &'a Receipt,
}

struct ReceiptText {
    /// The sender's name.
    shop: String,
    subject: String,
    /// What happened to the amount.
    what: &'static str,
    lead: &'static str,
    amount: String,
    date: String,
    /// The amount's label in the details.
    total: &'static str,
}

fn text(receipt: &Receipt, from: &str) -> ReceiptText {
    let amount = for_people(receipt.amount_minor, receipt.currency);
    let (subject, what, lead, total) = match receipt.about {
        About::Paid => (
            format!("Your receipt: {amount}"),
            "Paid",
            "Thank you. Your payment went through, once.",
            "Total",
        ),
        About::Refunded => (
            format!("Your refund: {amount}"),
            "Refunded",
            "We have given this amount back. It can take a few days until your bank shows it.",
            "Refund",
        ),
        About::Voided => (
            format!("Not charged: {amount}"),
            "Called off",
            "Nothing was taken. What your bank has set aside is free again; it can take a few days until it shows that.",
            "Not charged",
        ),
    };
    let date = date_for_people(receipt.at_ms);
    ReceiptText { shop: shop(from), subject, what, lead, amount, date, total }
}

/// The name of `Name <address>`; of a bare address its domain.
fn shop(from: &str) -> String {
    let (name, address) = from.split_once('<').unwrap_or(("", from));
    let name = name.trim().trim_matches('"');
    let domain = address.trim_end_matches('>').rsplit('@').next().unwrap_or_default();
    if name.is_empty() { domain.trim().to_owned() } else { name.to_owned() }
}

/// The body of `POST /emails`. The job's first attempt stores it: under one key it must never change, not even with a new release.
pub fn email(receipt: &Receipt, from: &str) -> Result<Value, askama::Error> {
    let text = text(receipt, from);
    let html = Html { text: &text, receipt }.render()?;
    let plain = Text { text: &text, receipt }.render()?;
    Ok(json!({ "from": from, "to": [receipt.to], "subject": text.subject, "html": html, "text": plain }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use payments::payment::card::Card;
    use payments::payment::money::Currency;

    #[test]
    fn an_email_says_what_moved_in_both_forms_and_escapes_what_others_wrote() {
        let receipt = Receipt {
            about: About::Paid,
            to: "ada@example.com".to_owned(),
            resource: "pay_1".to_owned(),
            amount_minor: 1250,
            currency: Currency::USD,
            order_id: Some("<b>7</b>".to_owned()),
            at_ms: 1_790_000_000_000,
            reference: "7K3M-9QXD".to_owned(),
            card: Card::of_stripe("visa", "4242"),
        };
        let email = email(&receipt, "Shop <shop@example.com>").unwrap();
        assert_eq!(email["to"], json!(["ada@example.com"]));
        let (html, text) = (email["html"].as_str().unwrap(), email["text"].as_str().unwrap());
        for part in [html, text] {
            for word in ["Shop", "12.50", "pay_1", "7K3M-9QXD", "Visa ending in 4242", "ada@example.com"] {
                assert!(part.contains(word), "{word}: {part}");
            }
        }
        let without = super::email(&Receipt { card: None, ..receipt.clone() }, "shop@example.com").unwrap();
        assert!(!without.to_string().contains("Card"), "{without}");
        assert!(html.contains("&#60;b&#62;7") && !html.contains("<b>7"), "{html}");
        assert!(text.contains("<b>7</b>"), "{text}");
        assert_eq!(
            super::email(&receipt, "Shop <shop@example.com>").unwrap()["html"],
            email["html"],
            "the same at every try"
        );
    }

    #[test]
    fn the_sender_is_called_by_name_or_by_domain() {
        assert_eq!(shop("Shop <shop@example.com>"), "Shop");
        assert_eq!(shop("\"The Shop\" <shop@example.com>"), "The Shop");
        assert_eq!(
            (shop("shop@example.com"), shop("<shop@example.com>")),
            ("example.com".into(), "example.com".into())
        );
    }
}
