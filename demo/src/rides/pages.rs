//! What a person sees of a ride: its form, its receipt, and what stands in between.

use askama::Template;
use once::fingerprint::{FieldError, Parameters};
use payments::timestamp;
use web::entries::{email_entry, kept, receipt_email};
use web::pages::{Entry, Notice, ProblemPage, Site, StatusPage, is_late, refresh_s};
use web::test_cards::{TEST_CARDS, TestCard};
use web::unpaid;

use super::ask::View;
use super::entries::COORDINATES;
use super::ride::{FARE_MINOR, Place, Ride, RideState};

/// `GET /rides/new`, and wherever the form is shown again with its entries kept.
#[derive(Template)]
#[template(path = "ride_form.html")]
pub struct RideForm {
    /// See [`Site`].
    pub site: Site,
    /// The signed key, for the hidden input.
    pub key: String,
    /// Why the form is shown (again): a decline, an expired form; `None` at first. Spoken by screen readers at once.
    pub notice: Option<Notice>,
    /// −90 to 90.
    pub origin_lat: Entry,
    /// −180 to 180.
    pub origin_lon: Entry,
    /// −90 to 90.
    pub target_lat: Entry,
    /// −180 to 180.
    pub target_lon: Entry,
    /// Which test card is chosen, and what is wrong with it.
    pub card: Entry,
    /// Where the receipt goes.
    pub email: Entry,
    /// The price with its currency: `$20.00`.
    pub price: String,
}

impl RideForm {
    /// The cards to choose from.
    pub fn cards(&self) -> &'static [TestCard] {
        &TEST_CARDS
    }

    /// Whether any entry is marked as wrong.
    pub fn has_errors(&self) -> bool {
        let Self { origin_lat, origin_lon, target_lat, target_lon, card, email, .. } = self;
        [origin_lat, origin_lon, target_lat, target_lon, card, email]
            .iter()
            .any(|entry| !entry.error.is_empty())
    }
}

/// `GET /rides/{id}` of a paid ride.
#[derive(Template)]
#[template(path = "ride_receipt.html")]
pub struct RideReceipt {
    /// See [`Site`].
    pub site: Site,
    /// Its public id.
    pub id: String,
    /// `$20.00`.
    pub price: String,
    /// `37.7749, -122.4194`
    pub origin: String,
    /// Likewise.
    pub target: String,
    /// The provider's reference, such as `pi_…`.
    pub charge: String,
    /// RFC 3339, for the `time` element.
    pub booked_at: String,
    /// For people: `21 November 2026, 09:30 UTC`.
    pub booked_at_text: String,
    /// Where the receipt goes.
    pub email: Option<String>,
    /// Set when an edited form came again under the used key.
    pub notice: Option<Notice>,
}

/// What a fresh form suggests: from San Francisco to the launch pads of Cape Canaveral.
const SUGGESTED: [&str; 4] = ["37.7749", "-122.4194", "28.5721", "-80.648"];

/// The form: fresh, or with its entries kept and the wrong ones marked.
pub fn form(
    site: Site,
    key: String,
    kept: Option<&Parameters>,
    errors: &[FieldError],
    notice: Option<Notice>,
) -> RideForm {
    let entry = |name: &str, suggested: &str| {
        let value = match kept {
            None => suggested.to_owned(),
            Some(parameters) => parameters.text(name).or_empty().chars().take(64).collect(),
        };
        let error = errors.iter().find(|error| error.field == name);
        Entry { value, error: error.map(|e| e.message.clone()).unwrap_or_default() }
    };
    let [a, b, c, d] = COORDINATES.map(|(name, _)| name);
    let [sa, sb, sc, sd] = SUGGESTED;
    RideForm {
        email: email_entry(&site, kept, errors),
        site,
        key,
        notice,
        origin_lat: entry(a, sa),
        origin_lon: entry(b, sb),
        target_lat: entry(c, sc),
        target_lon: entry(d, sd),
        card: entry("payment_method", TEST_CARDS.first().map_or("", |card| card.payment_method)),
        price: price(),
    }
}

/// What a person sees of a ride.
pub enum RidePage {
    /// Paid.
    Receipt(RideReceipt),
    /// Not paid: the form again, with the reason; its key is still to be minted.
    Again(Notice),
    /// Not paid, and there is no form for whoever looks.
    NotPaid(ProblemPage),
    /// Not known yet.
    Status(StatusPage),
}

/// How somebody comes to a ride's page.
pub struct Visit {
    /// A changed form came under the used key.
    pub edited: bool,
    /// There is a form for a new try.
    pub may_try_again: bool,
    /// See [`StatusPage::is_still`].
    pub is_still: bool,
    /// In ms since the epoch.
    pub now_ms: u64,
}

/// The page for a ride.
pub fn page(site: Site, id: &str, view: &View, visit: &Visit) -> RidePage {
    match view.ride.as_ref().map(|ride| (ride, &ride.state)) {
        Some((ride, RideState::Paid { charge })) if view.is_over => {
            RidePage::Receipt(receipt(site, ride, charge, view, visit.edited))
        }
        Some((_, RideState::Unpaid(why))) => {
            let reason = unpaid::reason(why.decline_code.is_some(), &why.code, why.decline_code.as_deref());
            let notice = unpaid::notice(site.t, reason, visit.edited, false);
            if visit.may_try_again {
                RidePage::Again(notice)
            } else {
                RidePage::NotPaid(not_paid(site, notice))
            }
        }
        _ => RidePage::Status(StatusPage {
            what: "Ride",
            is_private: false,
            id: id.to_owned(),
            path: format!("/rides/{id}"),
            total: price(),
            refresh_s: refresh_s(visit.now_ms.saturating_sub(view.since_ms)),
            is_still: visit.is_still,
            in_doubt: view.in_doubt,
            is_late: is_late(view.since_ms, visit.now_ms),
            back_url: None,
            site,
        }),
    }
}

fn not_paid(site: Site, notice: Notice) -> ProblemPage {
    ProblemPage {
        site,
        status: 402,
        title: notice.title,
        detail: notice.text,
        request_id: String::new(),
        link_href: "/".to_owned(),
        link_text: "Back to the start".to_owned(),
    }
}

fn receipt(site: Site, ride: &Ride, charge: &str, view: &View, edited: bool) -> RideReceipt {
    // What was entered is kept for as long as the key is.
    let entered = view.parameters.as_ref().and_then(kept);
    let email = entered.and_then(|entered| receipt_email(&entered).ok().flatten());
    let notice = edited.then(|| Notice {
        title: "This ride was already booked".to_owned(),
        text: "You changed a form that had been paid. Nothing more was charged, and this is the ride it booked. \
               For another ride, start a new booking."
            .to_owned(),
        tone: "info",
    });
    let place = |place: Place| format!("{}, {}", place.lat.degrees(), place.lon.degrees());
    RideReceipt {
        id: ride.id.to_string(),
        price: price(),
        origin: place(ride.origin),
        target: place(ride.target),
        charge: charge.to_owned(),
        booked_at: timestamp(ride.created_at_ms),
        booked_at_text: web::locale::EN.date(ride.created_at_ms),
        email,
        notice,
        site,
    }
}

/// The fare, in dollars.
fn price() -> String {
    format!("${}.{:02}", FARE_MINOR / 100, FARE_MINOR % 100)
}
