//! What comes to the checkout: a merchant's order, and the form of whoever pays it.

use std::str::FromStr;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Order;
use super::cart::{Cart, Line, at_line, check, count, wrong};
use super::page::Cards;
use crate::edge::fields::visible;
use crate::edge::payment_params::{ORDER_MAX, flag};
use crate::edge::shop_url::address;
use once::fingerprint::{Field, FieldError, Parameters};
use payments::payment::locale::Locale;
use payments::payment::money::Currency;
use payments::payment::order_link::REVISION_MAX;
use payments::timestamp;
use web::entries::{receipt_email, unknown};
use web::image_url::ImageUrl;
use web::locale::{EN, Messages};
use web::test_cards::checkout_cards;

/// What an order is asked for with.
const FIELDS: [&str; 8] =
    ["order_id", "currency", "lines", "return_url", "cancel_url", "revision", "locale", "capture"];

/// The language that is chosen by the browser.
pub const AUTO: &str = "auto";

/// What a merchant's server asks a link for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRequest {
    /// See [`Order::id`].
    pub id: String,
    /// See [`Order::cart`].
    pub cart: Cart,
    /// See [`Order::return_url`].
    pub return_url: Option<String>,
    /// See [`Order::cancel_url`].
    pub cancel_url: Option<String>,
    /// See [`Order::revision`]; without it the links of the order are numbered by its object.
    pub revision: Option<u32>,
    /// See [`Order::locale`].
    pub locale: Option<Locale>,
    /// See [`Order::capture`].
    pub capture: bool,
}

impl OrderRequest {
    /// Reads the parameters, a form's lines as `lines[0][name]`; the errors name every field that is wrong. Order id and
    /// return address are what `POST /payments` takes.
    pub fn parse(parameters: &Parameters, demo: bool) -> Result<Self, Vec<FieldError>> {
        // In JSON the lines stand in a list: a member called like a form's field of a line would silently do nothing.
        let is_form = matches!(parameters, Parameters::Form(_));
        let mut errors =
            unknown(parameters, |name| FIELDS.contains(&name) || is_form && line_field(name).is_some());
        let mut keep = |field: &str, result: Result<Option<String>, String>| match result {
            Ok(value) => value,
            Err(message) => {
                errors.push(wrong(field, message));
                None
            }
        };
        let id = keep("order_id", order_id(parameters));
        let currency = keep("currency", currency(parameters));
        let mut page = |field| keep(field, shop_page(parameters, field, demo));
        let (return_url, cancel_url) = (page("return_url"), page("cancel_url"));
        let revision = match revision(parameters) {
            Ok(revision) => revision,
            Err(message) => {
                errors.push(wrong("revision", message));
                None
            }
        };
        let locale = locale(parameters).unwrap_or_else(|message| {
            errors.push(wrong("locale", message));
            None
        });
        let capture = capture(parameters).unwrap_or_else(|message| {
            errors.push(wrong("capture", message));
            true
        });
        let currency = currency.as_deref().and_then(Currency::parse);
        // Without its currency nothing can be said about the total.
        let cart = match (lines(parameters), currency) {
            (Ok(lines), Some(currency)) => Cart::new(currency, lines).map(Some),
            (Ok(_), None) => Ok(None),
            (Err(errors), _) => Err(errors),
        };
        match (id, cart) {
            (Some(id), Ok(Some(cart))) if errors.is_empty() => {
                Ok(Self { id, cart, return_url, cancel_url, revision, locale, capture })
            }
            (_, cart) => {
                errors.extend(cart.err().into_iter().flatten());
                Err(errors)
            }
        }
    }
}

fn order_id(parameters: &Parameters) -> Result<Option<String>, String> {
    match parameters.text("order_id") {
        Field::Text(text) if !parameters.is_boolean("order_id") => visible(&text, ORDER_MAX).map(Some),
        Field::Missing => Err("is missing: send your own id of the order".to_owned()),
        Field::Text(_) | Field::NotText => Err("must be your own id of the order, once".to_owned()),
    }
}

fn currency(parameters: &Parameters) -> Result<Option<String>, String> {
    match parameters.text("currency") {
        Field::Text(text) => Currency::parse_offered(&text).map(|_| Some(text)),
        Field::Missing => Err("is missing: send a currency's three letters, such as usd".to_owned()),
        Field::NotText => {
            Err("must be the three letters of a currency that can be charged, such as usd".to_owned())
        }
    }
}

/// A page of the shop. It becomes a link on our page: nothing but an address of the web, and no way to run a script.
fn shop_page(parameters: &Parameters, field: &str, demo: bool) -> Result<Option<String>, String> {
    match parameters.text(field) {
        Field::Missing => Ok(None),
        Field::Text(text) => address(&text, demo).map(Some),
        Field::NotText => address("", demo).map(Some),
    }
}

fn revision(parameters: &Parameters) -> Result<Option<u32>, String> {
    let wrong = || {
        format!("must be a whole number from 1 to {REVISION_MAX}: higher for each newer link of the order")
    };
    match parameters.text("revision") {
        // Who sends it with nothing in it has lost a number: to number the link here would end those that are newer.
        Field::Missing if parameters.empty_names().iter().any(|empty| empty == "revision") => Err(wrong()),
        Field::Missing => Ok(None),
        Field::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => match text.parse() {
            Ok(revision @ 1..=REVISION_MAX) => Ok(Some(revision)),
            _ => Err(wrong()),
        },
        Field::Text(_) | Field::NotText => Err(wrong()),
    }
}

/// The language of the order's page: one of ours, or `auto`, as without it.
fn locale(parameters: &Parameters) -> Result<Option<Locale>, String> {
    let tag = match parameters.text("locale") {
        Field::Missing => return Ok(None),
        Field::Text(tag) => tag,
        Field::NotText => String::new(),
    };
    match Locale::ALL.into_iter().find(|locale| locale.tag() == tag) {
        None if tag == AUTO => Ok(None),
        None => {
            Err("must be auto, which is the browser’s language, or one of en, de, fr, es and ja".to_owned())
        }
        known => Ok(known),
    }
}

/// Whether the order is charged at once.
fn capture(parameters: &Parameters) -> Result<bool, String> {
    match parameters.text("capture") {
        // Who sends it with nothing in it has lost a value: their order may not be charged yet.
        Field::Missing if parameters.empty_names().iter().any(|empty| empty == "capture") => flag(""),
        Field::Missing => Ok(true),
        Field::Text(text) => flag(&text),
        Field::NotText => flag(""),
    }
}

/// The lines as they were sent, each as parameters of its own, with the number by which they were sent.
fn sent_lines(parameters: &Parameters) -> Result<Vec<(usize, Parameters)>, FieldError> {
    let not_lines = || wrong("lines", "must be a list of objects of name, unit_amount and quantity");
    match parameters {
        Parameters::Json(members) => match members.get("lines") {
            None | Some(Value::Null) => Err(wrong("lines", "is missing: send 1 to 20 lines")),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    let members = item.as_object().cloned().ok_or_else(not_lines)?;
                    Ok((index, Parameters::Json(members)))
                })
                .collect(),
            Some(_) => Err(not_lines()),
        },
        Parameters::Form(pairs) => {
            let mut lines: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
            for (name, value) in pairs {
                match line_field(name) {
                    Some((index, field)) => {
                        lines.entry(index).or_default().push((field.to_owned(), value.clone()));
                    }
                    None if name == "lines" => return Err(not_lines()),
                    None => {}
                }
            }
            Ok(lines.into_iter().map(|(index, line)| (index, Parameters::Form(line))).collect())
        }
    }
}

/// `lines[0][name]` in a form.
fn line_field(name: &str) -> Option<(usize, &str)> {
    let (index, field) = name.strip_prefix("lines[")?.strip_suffix(']')?.split_once("][")?;
    Some((index.parse().ok()?, field))
}

fn lines(parameters: &Parameters) -> Result<Vec<Line>, Vec<FieldError>> {
    let sent = sent_lines(parameters).map_err(|error| vec![error])?;
    count(sent.len()).map_err(|message| vec![wrong("lines", message)])?;
    let (mut lines, mut errors) = (Vec::new(), Vec::new());
    for (index, sent) in &sent {
        match line(sent) {
            Ok(line) => lines.push(line),
            Err(wrong) => errors.extend(wrong.into_iter().map(|error| at_line(*index, error))),
        }
    }
    if errors.is_empty() { Ok(lines) } else { Err(errors) }
}

/// One line; its errors by the names of its fields.
fn line(sent: &Parameters) -> Result<Line, Vec<FieldError>> {
    let unknown = unknown(sent, |name| matches!(name, "name" | "unit_amount" | "quantity" | "image_url"));
    let name = text(sent, "name", "what the item is called");
    let unit_amount = whole(sent, "unit_amount", "a whole number of minor units, such as 2500 for $25.00");
    let quantity = whole(sent, "quantity", "a whole number, such as 1");
    let image = image(sent);
    // What cannot be read is in order for the limits, so that all that is wrong is named at once.
    let line = Line {
        name: name.as_ref().map_or("?", |name| name.trim()).to_owned(),
        unit_minor: *unit_amount.as_ref().unwrap_or(&0),
        quantity: *quantity.as_ref().unwrap_or(&1),
        image: image.clone().unwrap_or_default(),
    };
    let unread = [name.err(), unit_amount.err(), quantity.err(), image.err()].into_iter().flatten();
    let errors: Vec<FieldError> = unread.chain(check(&line)).chain(unknown).collect();
    if errors.is_empty() { Ok(line) } else { Err(errors) }
}

/// The item's picture, if it has one.
fn image(sent: &Parameters) -> Result<Option<ImageUrl>, FieldError> {
    let address = match sent.text("image_url") {
        Field::Missing => return Ok(None),
        Field::Text(address) => address,
        Field::NotText => String::new(),
    };
    ImageUrl::parse(&address).map(Some).map_err(|message| wrong("image_url", message))
}

fn text(sent: &Parameters, field: &str, what: &str) -> Result<String, FieldError> {
    match sent.text(field) {
        Field::Text(text) if !sent.is_boolean(field) => Ok(text),
        Field::Missing => Err(wrong(field, format!("is missing: send {what}"))),
        Field::Text(_) | Field::NotText => Err(wrong(field, format!("must be {what}, once"))),
    }
}

fn whole<T: FromStr>(sent: &Parameters, field: &str, what: &str) -> Result<T, FieldError> {
    let text = text(sent, field, what)?;
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| wrong(field, format!("must be {what}")))
}

/// The answer to who asked for a link.
pub fn link_to_json(order: &Order, url: &str) -> Value {
    json!({
        "object": "checkout_session",
        "url": url,
        "order_id": order.id,
        "amount": order.cart.total().get(),
        "currency": order.cart.currency().as_str(),
        "revision": order.revision,
        "locale": order.locale.map_or(AUTO, Locale::tag),
        "capture": order.capture,
        "expires_at": timestamp(order.expires_at_ms),
    })
}

/// The answer to who ended an order's links: up to which revision.
pub fn ended_to_json(order_id: &str, revision: u32) -> Value {
    json!({ "object": "checkout_session", "order_id": order_id, "status": "expired", "revision": revision })
}

/// What a person sent from the order's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Pay, with this card.
    Pay {
        /// The provider's token of it.
        payment_method: String,
        /// Where the receipt goes.
        email: Option<String>,
    },
    /// Give up the try that waits for the bank, to pay with another card.
    AnotherCard {
        /// The number of that try: a page of yesterday must not give up a newer one.
        attempt: u32,
    },
}

impl Sent {
    /// Reads the form's fields; the key is no part of them any more.
    pub fn parse(parameters: &Parameters, cards: &Cards<'_>) -> Result<Self, Vec<FieldError>> {
        let mut errors =
            unknown(parameters, |name| matches!(name, "payment_method" | "another_card" | "email"));
        if !errors.is_empty() {
            return Err(errors);
        }
        let email = receipt_email(parameters);
        match (parameters.text("payment_method"), parameters.text("another_card"), email) {
            (Field::Missing, Field::Text(attempt), _) => match attempt.parse() {
                Ok(attempt) => Ok(Self::AnotherCard { attempt }),
                Err(_) => Err(vec![wrong("another_card", "is the number of a try")]),
            },
            (Field::Text(text), Field::Missing, email) if cards.take(&text) => {
                let email = email.map_err(|error| vec![error])?;
                Ok(Self::Pay { payment_method: text, email })
            }
            (_, _, email) => {
                errors.push(wrong("payment_method", cards.advice(&EN)));
                errors.extend(email.err());
                Err(errors)
            }
        }
    }
}

impl Cards<'_> {
    /// Whether a form of this kind can have sent this payment method.
    fn take(&self, payment_method: &str) -> bool {
        match self {
            Self::Test => checkout_cards().any(|card| card.payment_method == payment_method),
            Self::Element { .. } => payment_method.strip_prefix("pm_").is_some_and(|id| {
                (1..=250).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            }),
        }
    }

    /// What to do where no card was sent.
    pub(super) const fn advice(&self, t: &Messages) -> &'static str {
        match self {
            Self::Test => t.choose_card,
            Self::Element { .. } => t.enter_card,
        }
    }
}
