//! The parameters of a ride: what the browser's form and the API client have in common.

use once::fingerprint::{Field, FieldError, Parameters};
use web::entries::{receipt_email, without_unknown};
use web::test_cards::TEST_CARDS;

use super::Account;
use super::ride::{DegreesE7, Place, RideRequest};

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
pub fn api_request(parameters: &Parameters, account: Account) -> Result<RideRequest, Vec<FieldError>> {
    let known = |name: &str| COORDINATES.iter().any(|(known, _)| *known == name);
    let (origin, target) = without_unknown(parameters, known, places(parameters))?;
    Ok(RideRequest {
        origin,
        target,
        payment_method: account.payment_method.to_owned(),
        receipt_email: account.email.map(str::to_owned),
    })
}

/// Reads the parameters of the form.
pub fn form_request(parameters: &Parameters) -> Result<RideRequest, Vec<FieldError>> {
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
    match (without_unknown(parameters, known, places(parameters)), card, email) {
        (Ok((origin, target)), Ok(payment_method), Ok(receipt_email)) => {
            Ok(RideRequest { origin, target, payment_method, receipt_email })
        }
        (places, card, email) => {
            Err(places.err().into_iter().flatten().chain(card.err()).chain(email.err()).collect())
        }
    }
}
