//! The receipt email: its text, and its form for Resend. <https://resend.com/docs/api-reference/emails/send-email>

use askama::Template;
use serde_json::{Value, json};

use messages::account::Shop;
use payments::payment::receipt_content::ReceiptLine;
use payments::transitions::receipt::{About, Receipt};
use web::locale::Messages;

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
    t: &'static Messages,
    /// Who sells, or else the sender's name.
    shop: String,
    /// The address of its logo, which stands in the place of the name.
    logo: Option<String>,
    subject: String,
    lead: &'static str,
    amount: String,
    /// What happened to the amount, and when.
    what: String,
    /// The amount's label in the details.
    total: &'static str,
    /// What was bought.
    items: Vec<Item>,
    /// To whom it went, and what it is kept for.
    sent_to: String,
}

/// `2 × Enamel mug` and what they cost.
struct Item {
    name: String,
    amount: String,
}

fn text(receipt: &Receipt, from: &str, seller: Option<&Shop>) -> ReceiptText {
    let t = Messages::of(receipt.content.locale);
    let amount = t.money(receipt.amount_minor, receipt.currency);
    let date = t.date(receipt.at_ms);
    let (subject, what, lead, total) = match receipt.about {
        About::Paid => (t.subject_paid(&amount), t.mail_paid_on(&date), t.mail_paid, t.receipt_total),
        About::Refunded => {
            (t.subject_refunded(&amount), t.mail_refunded_on(&date), t.mail_refunded, t.receipt_refund)
        }
        About::Voided => {
            (t.subject_voided(&amount), t.mail_voided_on(&date), t.mail_voided, t.receipt_not_charged)
        }
    };
    let item = |line: &ReceiptLine| Item {
        name: format!("{} × {}", line.quantity, line.name),
        amount: t.money(line.total_minor, receipt.currency),
    };
    ReceiptText {
        t,
        shop: seller.map_or_else(|| shop(from), |seller| seller.name.clone()),
        // One of our own files has no address in an email.
        logo: seller
            .and_then(Shop::logo)
            .filter(|logo| logo.origin().is_some())
            .map(|logo| logo.as_str().to_owned()),
        subject,
        lead,
        amount,
        what,
        total,
        items: receipt.content.lines.iter().map(item).collect(),
        sent_to: t.sent_to(&receipt.to),
    }
}

/// The name of `Name <address>`; of a bare address its domain.
fn shop(from: &str) -> String {
    let (name, address) = from.split_once('<').unwrap_or(("", from));
    let name = name.trim().trim_matches('"');
    let domain = address.trim_end_matches('>').rsplit('@').next().unwrap_or_default();
    if name.is_empty() { domain.trim().to_owned() } else { name.to_owned() }
}

/// The body of `POST /emails`. An attempt that fails stores it: under one key it must never change, not even with a new release. One whose invocation
/// broke off has stored nothing; Resend tells it by its key then.
pub fn email(receipt: &Receipt, from: &str, seller: Option<&Shop>) -> Result<Value, askama::Error> {
    let text = text(receipt, from, seller);
    let html = Html { text: &text, receipt }.render()?;
    let plain = Text { text: &text, receipt }.render()?;
    Ok(json!({ "from": from, "to": [receipt.to], "subject": text.subject, "html": html, "text": plain }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use payments::payment::card::Card;
    use payments::payment::locale::Locale;
    use payments::payment::money::Currency;
    use payments::payment::receipt_content::ReceiptContent;

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
            provider_payment: Some("pi_7".to_owned()),
            account: None,
            card: Card::of_stripe("visa", "4242"),
            content: ReceiptContent::default(),
        };
        let email = email(&receipt, "Shop <shop@example.com>", None).unwrap();
        assert_eq!(email["to"], json!(["ada@example.com"]));
        let (html, text) = (email["html"].as_str().unwrap(), email["text"].as_str().unwrap());
        for part in [html, text] {
            for word in ["Shop", "12.50", "pay_1", "pi_7", "7K3M-9QXD", "Visa ···· 4242", "ada@example.com"]
            {
                assert!(part.contains(word), "{word}: {part}");
            }
        }
        let french = ReceiptContent { locale: Locale::Fr, ..ReceiptContent::default() };
        let french =
            super::email(&Receipt { content: french, ..receipt.clone() }, "Shop <s@a.example>", None)
                .unwrap();
        let french = french["text"].as_str().unwrap();
        assert!(
            french.contains("Total\u{a0}: 12,50") && french.contains("Référence\u{a0}: 7K3M"),
            "{french}"
        );
        assert!(html.contains("<bdi>Shop</bdi>"), "a name can be of another direction: {html}");
        let without =
            super::email(&Receipt { card: None, ..receipt.clone() }, "shop@example.com", None).unwrap();
        assert!(!without.to_string().contains("Card"), "{without}");
        assert!(html.contains("&#60;b&#62;7") && !html.contains("<b>7"), "{html}");
        assert!(text.contains("<b>7</b>"), "{text}");
        assert_eq!(
            super::email(&receipt, "Shop <shop@example.com>", None).unwrap()["html"],
            email["html"],
            "the same at every try"
        );
    }

    #[test]
    fn an_email_shows_the_logo_of_who_sells_and_names_it() {
        let seller = |logo: Option<&str>| Shop {
            name: "Ada & Co".to_owned(),
            support: None,
            logo: logo.map(str::to_owned),
        };
        let receipt: Receipt = serde_json::from_value(json!({ "about": "paid", "to": "ada@example.com",
            "resource": "pay_1", "amount_minor": 1250, "currency": "usd", "order_id": null, "at_ms": 0 }))
        .unwrap();
        let html = |logo| {
            let email = super::email(&receipt, "Shop <shop@example.com>", Some(&seller(logo))).unwrap();
            assert!(email["text"].as_str().unwrap().starts_with("Ada & Co\n"), "{email}");
            email["html"].as_str().unwrap().to_owned()
        };
        let with = html(Some("https://cdn.shop.example/logo.png"));
        assert!(
            with.contains(r#"src="https://cdn.shop.example/logo.png" height="40" alt="Ada &#38; Co""#),
            "{with}"
        );
        for without in [html(None), html(Some("/assets/lift-off.svg"))] {
            assert!(without.contains(">Ada &#38; Co</bdi></p>") && !without.contains("<img"), "{without}");
        }
    }

    #[test]
    fn an_email_is_in_the_language_of_its_payment_and_lists_what_was_bought() {
        let line =
            |name: &str, quantity, total_minor| ReceiptLine { name: name.into(), quantity, total_minor };
        let mut receipt = Receipt {
            about: About::Paid,
            to: "ada@example.com".to_owned(),
            resource: "pay_1".to_owned(),
            amount_minor: 123_450,
            currency: Currency::parse("eur").unwrap(),
            order_id: Some("7".to_owned()),
            at_ms: 1_772_355_900_000,
            reference: "7K3M-9QXD".to_owned(),
            provider_payment: Some("pi_7".to_owned()),
            account: None,
            card: None,
            content: ReceiptContent {
                locale: Locale::De,
                lines: vec![line("Tasse <blau>", 2, 2900), line("Rad", 1, 120_550)],
            },
        };
        let email = super::email(&receipt, "Shop <shop@example.com>", None).unwrap();
        assert_eq!(email["subject"], "Ihr Beleg: 1.234,50\u{a0}€");
        let (html, text) = (email["html"].as_str().unwrap(), email["text"].as_str().unwrap());
        assert!(html.contains(r#"<html lang="de">"#) && html.contains("2 × Tasse &#60;blau&#62;"), "{html}");
        for part in [html, text] {
            for word in [
                "29,00\u{a0}€",
                "1 × Rad",
                "1.205,50\u{a0}€",
                "Bezahlt am 1. März 2026, 09:05 UTC",
                "Referenz",
            ] {
                assert!(part.contains(word), "{word}: {part}");
            }
        }
        for locale in Locale::ALL {
            for about in [About::Paid, About::Refunded, About::Voided] {
                receipt.about = about;
                receipt.content.locale = locale;
                let email = super::email(&receipt, "shop@example.com", None).unwrap();
                let html = email["html"].as_str().unwrap();
                assert!(html.contains(&format!("lang=\"{}\"", locale.tag())), "{html}");
                let is_english = html.contains("Keep this receipt") && html.contains(">Order<");
                assert_eq!(is_english, locale == Locale::En, "{html}");
            }
        }
    }

    #[test]
    fn a_job_of_an_older_release_is_in_english_and_one_of_a_newer_one_can_be_read() {
        let old = json!({ "about": "paid", "to": "ada@example.com", "resource": "pay_1", "amount_minor": 1250,
            "currency": "usd", "order_id": null, "at_ms": 0 });
        let receipt: Receipt = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(receipt.content, ReceiptContent::default());
        assert!(
            email(&receipt, "shop@example.com", None).unwrap()["html"]
                .as_str()
                .unwrap()
                .contains("lang=\"en\"")
        );
        let mut newer = old;
        newer["locale"] = json!("it");
        let receipt: Receipt = serde_json::from_value(newer).unwrap();
        assert_eq!(receipt.content.locale, Locale::En);
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
