//! Randomness, from the runtime: the core gets it as `Context`, and ids get it as bytes.

use uuid::{Builder, Uuid};

/// Random bytes.
pub fn bytes<const N: usize>() -> worker::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| worker::Error::RustError(error.to_string()))?;
    Ok(bytes)
}

/// A UUID that nobody can guess (version 4).
pub fn uuid() -> worker::Result<Uuid> {
    Ok(Builder::from_random_bytes(bytes()?).into_uuid())
}

/// From 0 to 1000, to spread retries. Without randomness they all fall together, which is still correct.
pub fn permille() -> u16 {
    bytes().map_or(500, |bytes| (u32::from_be_bytes(bytes) % 1001) as u16)
}
