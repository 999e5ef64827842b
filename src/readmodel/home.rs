//! Where the rows of an object's payment stand in the read model.

use worker::{Env, Result};

use messages::job::JobPayment;
use payments::engine::ObjectState;
use runtime::places::{self, Home};

/// What says it: whose the payment is, and when it was made. `None` without a payment.
pub fn about(state: &ObjectState) -> Option<JobPayment> {
    let made_at_ms = state.resource.payment.as_ref()?.created_at_ms;
    let owner = state.keys.first().map(|key| key.owner.to_text()).unwrap_or_default();
    Some(JobPayment { owner, made_at_ms })
}

/// Where they stand.
pub async fn home_of(env: &Env, state: &ObjectState) -> Result<Home> {
    places::home(env, about(state).as_ref(), &state.object.to_hex()).await
}
