//! What is remembered of a PaymentIntent and its object does not show.

use serde::{Deserialize, Serialize};

use crate::provider::{Call, Links};
use crate::stripe::errors::Outcome;
use crate::stripe::kinds::Kind;
use crate::stripe::objects::Objects;

/// It.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Unshown {
    /// The payment method whose card holder was authenticated last.
    pub authenticated: Option<String>,
    /// What is being captured, until the bank has decided.
    pub capturing: Option<i64>,
}

/// What is remembered of a PaymentIntent.
pub fn of(call: &Call, intent: &str) -> Outcome<Unshown> {
    match call.find(Kind::Unshown, &id_of(intent))? {
        Some(row) => Ok(serde_json::from_str(&row.body)?),
        None => Ok(Unshown::default()),
    }
}

/// Changes it.
pub fn change(call: &mut Call, intent: &str, change: impl FnOnce(&mut Unshown)) -> Outcome<()> {
    let id = id_of(intent);
    let mut unshown = of(call, intent)?;
    change(&mut unshown);
    match call.find(Kind::Unshown, &id)? {
        Some(_) => call.save(Kind::Unshown, &id, &unshown, None)?,
        None => call.insert(Kind::Unshown, &id, &unshown, Links::default())?,
    }
    Ok(())
}

fn id_of(intent: &str) -> String {
    format!("{}{intent}", Kind::Unshown.prefix())
}
