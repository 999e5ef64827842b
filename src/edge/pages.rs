//! The pages, as data. Each struct is one askama template in `templates/`; nothing here decides anything.
//!
//! askama escapes every value. No page has an inline script or style: the content security policy forbids them.

use askama::Template;

use web::pages::{Entry, Notice, Site};
use web::test_cards::{TestCard, checkout_cards};

/// `GET /`
#[derive(Template)]
#[template(path = "home.html")]
pub struct Home {
    /// See [`Site`].
    pub site: Site,
}

/// A line of an order.
#[derive(Clone, Debug)]
pub struct OrderLine {
    /// What it is.
    pub name: String,
    /// The address of its picture.
    pub image: Option<String>,
    /// How many.
    pub quantity: u32,
    /// The price of one: `$8.00`.
    pub unit_price: String,
    /// The price of all of them.
    pub total: String,
}

/// Who sells.
#[derive(Clone, Debug)]
pub struct Seller {
    /// As people know it.
    pub name: String,
    /// The address of its logo, which stands in the place of the name.
    pub logo: Option<String>,
}

/// What the script needs to mount Stripe's Payment Element.
#[derive(Clone, Debug)]
pub struct CardElement {
    /// `pk_…`
    pub publishable_key: String,
    /// `acct_…`, if the card is for a connected account.
    pub stripe_account: Option<String>,
    /// What will be charged, in minor units: Stripe chooses by it what to ask for.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
    /// The address of the script, with its version.
    pub script: &'static str,
}

/// `GET /checkout/{link}` of an order that can be paid.
#[derive(Template)]
#[template(path = "checkout_form.html")]
pub struct CheckoutForm {
    /// See [`Site`].
    pub site: Site,
    /// Who sells, if the shop has told its name.
    pub shop: Option<Seller>,
    /// The signed key, for the hidden input.
    pub key: String,
    /// The page's own address, the form's target.
    pub path: String,
    /// The shop's page for who does not pay.
    pub cancel_url: Option<String>,
    /// The merchant's id of the order.
    pub order_id: String,
    /// What is bought.
    pub lines: Vec<OrderLine>,
    /// `$54.50`
    pub total: String,
    /// Whether it is charged at once, or reserved.
    pub capture: bool,
    /// Where a card is typed; without it one of the demo's is chosen.
    pub element: Option<CardElement>,
    /// The demo's card that is chosen.
    pub chosen: String,
    /// What to do about the card; empty if nothing.
    pub error: &'static str,
    /// Where the receipt goes.
    pub email: Entry,
    /// What became of the last try.
    pub notice: Option<Notice>,
    /// Until when the next one must wait.
    pub wait: Option<Wait>,
}

/// A try that must wait.
pub struct Wait {
    /// How long, in ms.
    pub wait_ms: u64,
    /// The same as a sentence.
    pub text: String,
}

impl CheckoutForm {
    /// The cards to choose from.
    pub fn cards(&self) -> impl Iterator<Item = TestCard> {
        checkout_cards()
    }

    /// What the form does, on its button: a person learns of the charge before it is pressed.
    pub fn button(&self) -> String {
        match self.capture {
            true => self.site.t.pay(&self.total),
            false => self.site.t.place_order(&self.total),
        }
    }

    /// Whether any entry is marked as wrong.
    pub fn has_errors(&self) -> bool {
        !self.error.is_empty() || !self.email.error.is_empty()
    }
}

/// `GET /checkout/{link}` while the bank waits for the person.
#[derive(Template)]
#[template(path = "checkout_bank.html")]
pub struct CheckoutBank {
    /// See [`Site`].
    pub site: Site,
    /// The signed key, for the hidden input: without it nothing is given up, and no button for that is there.
    pub key: Option<String>,
    /// The page's own address.
    pub path: String,
    /// The shop's page for who does not pay.
    pub back_url: Option<String>,
    /// The merchant's id of the order.
    pub order_id: String,
    /// `$54.50`
    pub total: String,
    /// The number of the try, which can be given up.
    pub attempt: u32,
    /// The bank's page.
    pub url: String,
    /// What to say above it: that another card was sent and not used, or could not be.
    pub notice: Option<Notice>,
    /// When something is charged.
    pub hint: String,
    /// Leads there by itself. Not by a redirect: `form-action` would stop it after a form, and a script could not follow it.
    pub on_the_way: bool,
}

/// What was given back.
#[derive(Clone, Debug)]
pub struct Refunded {
    /// `$10.00`
    pub amount: String,
    /// A part of it is still on its way.
    pub pending: bool,
    /// The same as a sentence, with the day on which the last of it was asked for.
    pub note: String,
    /// What stays paid.
    pub rest: String,
}

/// `GET /checkout/{link}` of an order that is paid.
#[derive(Template)]
#[template(path = "checkout_receipt.html")]
pub struct CheckoutReceipt {
    /// See [`Site`].
    pub site: Site,
    /// Who sells, if the shop has told its name.
    pub shop: Option<Seller>,
    /// Where the shop answers questions, as text and as an address.
    pub support: Option<(String, String)>,
    /// A few words.
    pub title: &'static str,
    /// The large amount: `$54.50`
    pub amount: String,
    /// What it is: `paid`.
    pub amount_note: &'static str,
    /// What becomes of the amount, while nothing was taken yet.
    pub reserved: Option<&'static str>,
    /// The merchant's id of the order.
    pub order_id: String,
    /// What was bought; empty if the link is not the one that was paid.
    pub lines: Vec<OrderLine>,
    /// What was to be paid.
    pub total: String,
    /// What was taken, if that was less.
    pub taken: Option<String>,
    /// What was given back, if anything was.
    pub refunded: Option<Refunded>,
    /// RFC 3339, for the `time` element.
    pub paid_at: String,
    /// For people: `21 November 2026, 09:30 UTC`.
    pub paid_at_text: String,
    /// `Visa ···· 4242`, if the provider has said so.
    pub card: Option<String>,
    /// What people call the payment by, such as `7K3M-9QXD`.
    pub reference: String,
    /// Its id, `pay_…`.
    pub payment: String,
    /// The provider's, such as `pi_…`, if it has one.
    pub provider_payment: Option<String>,
    /// Where the receipt goes.
    pub email: Option<String>,
    /// The shop's page.
    pub return_url: Option<String>,
}

/// `GET /payments/{id}/return` without its signature: it says nothing about the payment, not even whether there is one.
#[derive(Template)]
#[template(path = "returning.html")]
pub struct Returning {
    /// See [`Site`].
    pub site: Site,
}
