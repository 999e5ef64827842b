//! What people would say that an amount is: the auditor's own measure, in which amounts of both providers and of the objects can be
//! compared. Written by hand from the providers' tables of currencies, and from nothing in the program.

/// The currencies of the histories, with the decimals of the minor unit: as clients and Stripe count, and as Adyen does.
const DECIMALS: [(&str, u32, u32); 6] =
    [("usd", 2, 2), ("clp", 0, 2), ("idr", 2, 0), ("isk", 2, 2), ("jpy", 0, 0), ("kwd", 3, 3)];

/// An amount in thousandths of the currency's major unit.
pub(crate) fn thousandths(minor: u64, currency: &str, provider: &str) -> u64 {
    let currency = currency.to_ascii_lowercase();
    let (_, clients, adyen) =
        DECIMALS.into_iter().find(|(known, ..)| *known == currency).expect("a currency of the histories");
    let decimals = if provider == "adyen" { adyen } else { clients };
    minor * [1000, 100, 10, 1][decimals as usize]
}

/// Their codes.
pub(crate) fn currencies() -> [&'static str; 6] {
    DECIMALS.map(|(code, ..)| code)
}
