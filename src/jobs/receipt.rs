//! The email about money that has moved: what it says, and how Resend wants it. <https://resend.com/docs/api-reference/emails/send-email>

use askama::Template;
use serde_json::{Value, json};

use crate::date_for_people;
use crate::flows::receipt::{About, Receipt};
use crate::payment::money::for_people;

#[derive(Template)]
#[template(path = "email_receipt.html")]
struct Html<'a> {
    words: &'a Words,
    receipt: &'a Receipt,
}

#[derive(Template)]
#[template(path = "email_receipt.txt")]
struct Text<'a> {
    words: &'a Words,
    receipt: &'a Receipt,
}

struct Words {
    subject: String,
    lead: String,
    amount: String,
    date: String,
}

fn words(receipt: &Receipt) -> Words {
    let amount = for_people(receipt.amount_minor, receipt.currency);
    let (subject, lead) = match receipt.about {
        About::Paid => (format!("Your receipt: {amount}"), "Thank you. Your payment went through, once."),
        About::Refunded => (
            format!("Your refund: {amount}"),
            "We have given this amount back. It can take a few days until your bank shows it.",
        ),
        About::Voided => (
            format!("Not charged: {amount}"),
            "The payment was called off. Nothing was taken, and the amount that your bank had set aside is free again.",
        ),
    };
    Words { subject, lead: lead.to_owned(), amount, date: date_for_people(receipt.at_ms) }
}

/// The body of `POST /emails`. It is kept with the job's first try: under one key it must never change, not even with a
/// new release.
pub fn email(receipt: &Receipt, from: &str) -> Result<Value, askama::Error> {
    let words = words(receipt);
    let html = Html { words: &words, receipt }.render()?;
    let text = Text { words: &words, receipt }.render()?;
    Ok(json!({ "from": from, "to": [receipt.to], "subject": words.subject, "html": html, "text": text }))
}

/// Whether it can be an address for email: the provider checks the rest.
pub fn is_address(text: &str) -> bool {
    let plain = |b: u8| {
        b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'"' | b'(' | b')' | b',' | b';' | b':' | b'\\')
    };
    match text.rsplit_once('@') {
        Some((local, domain)) => {
            text.len() <= 254
                && text.bytes().all(plain)
                && !local.is_empty()
                && !local.contains('@')
                && domain.split('.').count() >= 2
                && domain.split('.').all(|label| !label.is_empty())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payment::money::Currency;

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
        };
        let email = email(&receipt, "Shop <shop@example.com>").unwrap();
        assert_eq!(email["to"], json!(["ada@example.com"]));
        let (html, text) = (email["html"].as_str().unwrap(), email["text"].as_str().unwrap());
        for part in [html, text] {
            assert!(part.contains("12.50") && part.contains("pay_1"), "{part}");
        }
        assert!(html.contains("&#60;b&#62;7") && !html.contains("<b>7"), "{html}");
        assert!(text.contains("<b>7</b>"), "{text}");
        assert_eq!(super::email(&receipt, "x").unwrap()["html"], email["html"], "the same at every try");
    }

    #[test]
    fn addresses() {
        for good in ["a@b.example", "user+tag@mail.example.com"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "a@b",
            "@b.example",
            "a@b..example",
            "a b@c.example",
            "a@b@c.example",
            "a@b.example\r\nBcc: x@y.z",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
