//! The ride's form and its parameters: what the browser and the API client have in common, and the pages.

use super::pages::{RideForm, RideReceipt};
use messages::message::{KeyStatus, View};
use once::fingerprint::{Field, FieldError, Parameters};
use payments::flows::Operation;
use payments::flows::ride::{DegreesE7, FARE_MINOR, Place, Ride, RideRequest, RideState};
use payments::timestamp;
use web::entries::{email_entry, kept, receipt_email, unpaid, without_unknown};
use web::pages::{Entry, Notice, ProblemPage, Site, StatusPage, is_late, refresh_s};
use web::test_cards::TEST_CARDS;

/// What a fresh form suggests: from San Francisco to the launch pads of Cape Canaveral.
const SUGGESTED: [&str; 4] = ["37.7749", "-122.4194", "28.5721", "-80.648"];

/// The four coordinates, by field name, with the largest absolute value in degrees.
pub const COORDINATES: [(&str, i32); 4] =
    [("origin_lat", 90), ("origin_lon", 180), ("target_lat", 90), ("target_lon", 180)];

/// Reads origin and target; the error names every field that is wrong.
pub fn places(parameters: &Parameters) -> Result<(Place, Place), Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut coordinate = |(name, limit): (&str, i32)| {
        let message = match parameters.text(name) {
            Field::Text(text) => match DegreesE7::parse(text.trim(), limit) {
                Some(degrees) => return degrees,
                None => format!("must be decimal degrees from -{limit} to {limit}, such as 37.7749"),
            },
            Field::Missing => format!("is missing: send decimal degrees from -{limit} to {limit}"),
            Field::NotText => "must be given once, as one number".to_owned(),
        };
        errors.push(FieldError { field: name.to_owned(), message });
        DegreesE7(0)
    };
    let [a, b, c, d] = COORDINATES.map(&mut coordinate);
    let places = (Place { lat: a, lon: b }, Place { lat: c, lon: d });
    if errors.is_empty() { Ok(places) } else { Err(errors) }
}

/// Reads the parameters of an API client, who pays with the account's payment method.
pub fn api_request(
    parameters: &Parameters,
    payment_method: &str,
    customer: Option<&str>,
    stripe_account: Option<&str>,
    email: Option<&str>,
) -> Result<Operation, Vec<FieldError>> {
    let known = |name: &str| COORDINATES.iter().any(|(known, _)| *known == name);
    let (origin, target) = without_unknown(parameters, known, places(parameters))?;
    Ok(Operation::Ride(RideRequest {
        origin,
        target,
        payment_method: payment_method.to_owned(),
        customer: customer.map(str::to_owned),
        stripe_account: stripe_account.map(str::to_owned),
        receipt_email: email.map(str::to_owned),
    }))
}

/// Reads the parameters of the form.
pub fn form_request(parameters: &Parameters) -> Result<Operation, Vec<FieldError>> {
    let known = |name: &str| {
        ["payment_method", "email"].contains(&name) || COORDINATES.iter().any(|(known, _)| *known == name)
    };
    let card = match parameters.text("payment_method") {
        Field::Text(text) if TEST_CARDS.iter().any(|card| card.payment_method == text) => Ok(text),
        _ => Err(FieldError {
            field: "payment_method".to_owned(),
            message: "choose one of the cards".to_owned(),
        }),
    };
    let email = receipt_email(parameters);
    let places = without_unknown(parameters, known, places(parameters));
    match (places, card, email) {
        (Ok((origin, target)), Ok(payment_method), Ok(receipt_email)) => Ok(Operation::Ride(RideRequest {
            origin,
            target,
            payment_method,
            customer: None,
            stripe_account: None,
            receipt_email,
        })),
        (places, card, email) => {
            Err(places.err().into_iter().flatten().chain(card.err()).chain(email.err()).collect())
        }
    }
}

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
        price: price(FARE_MINOR),
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
    /// In ms since the epoch.
    pub now_ms: u64,
}

/// The page for a ride.
pub fn page(site: Site, id: &str, view: &View, visit: &Visit) -> RidePage {
    match view.ride.as_ref().map(|ride| (ride, &ride.state)) {
        Some((ride, RideState::Paid { charge })) if view.key.status != KeyStatus::Processing => {
            RidePage::Receipt(receipt(site, ride, charge, view, visit.edited))
        }
        Some((_, RideState::Unpaid { decline_code, message, .. })) => {
            let notice = unpaid(decline_code.is_some(), message, visit.edited);
            if visit.may_try_again {
                RidePage::Again(notice)
            } else {
                RidePage::NotPaid(not_paid(site, notice))
            }
        }
        _ => RidePage::Status(StatusPage {
            site,
            what: "Ride",
            id: id.to_owned(),
            path: format!("/rides/{id}"),
            total: price(FARE_MINOR),
            refresh_s: refresh_s(visit.now_ms.saturating_sub(view.key.created_at_ms)),
            in_doubt: view.key.status == KeyStatus::Unknown,
            is_late: is_late(view.key.created_at_ms, visit.now_ms),
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
    RideReceipt {
        id: ride.id.to_string(),
        price: price(ride.amount_minor),
        origin: place(ride, ride.origin),
        target: place(ride, ride.target),
        charge: charge.to_owned(),
        booked_at: timestamp(ride.created_at_ms),
        booked_at_text: payments::date_for_people(ride.created_at_ms),
        email: email.filter(|_| site.sends_receipts),
        notice,
        site,
    }
}

fn place(ride: &Ride, place: Place) -> String {
    if ride.erased_at_ms.is_some() {
        return "not kept any more".to_owned();
    }
    format!("{}, {}", place.lat.degrees(), place.lon.degrees())
}

/// An amount of the fare's currency, which has cents.
fn price(amount_minor: u32) -> String {
    format!("${}.{:02}", amount_minor / 100, amount_minor % 100)
}
