//! What of tries that are over can still change at a provider that can be asked, and what is asked about them.

use crate::engine::ObjectState;
use crate::payment::status_query::StatusQuery;
use crate::payment::tries::Try;
use crate::payment::{Payment, Watched};
use crate::transitions::{late_money, left_open};

/// What of the tries can still change at a provider that can be asked: one can be confirmed again, what gave its money back can
/// fail, and a person can give back what was refused.
pub(crate) fn watched(state: &ObjectState) -> Option<Watched> {
    let attempt = state.resource.payment.as_ref()?.attempt;
    let given_back = u32::try_from(with_money(state).count()).unwrap_or(u32::MAX);
    let is_any = given_back > 0 || left_open::left_open(state).next().is_some();
    is_any.then_some(Watched::Tries { attempt, given_back })
}

fn with_money(state: &ObjectState) -> impl Iterator<Item = &Try> {
    state.resource.tries.iter().filter(|row| {
        let is_asked = row.provider.answers_questions() && row.provider_payment.is_some();
        is_asked && late_money::is_left_to_others(state, row)
    })
}

/// Nobody has told of anything, and that is asked for all the same.
pub(crate) fn doubt_watched(state: &mut ObjectState, event_id: &str) {
    let asked: Vec<u32> =
        left_open::left_open(state).chain(with_money(state)).map(|row| row.attempt).collect();
    for row in state.resource.tries.iter_mut().filter(|row| asked.contains(&row.attempt)) {
        row.asked_for.get_or_insert_with(|| event_id.to_owned());
    }
}

/// What is doubted about a payment is asked of its newest try, once that has failed.
pub(crate) fn doubt_failed(payment: &Payment, tries: &mut [Try]) {
    let is_it = |row: &&mut Try| row.attempt == payment.attempt && row.provider_payment.is_some();
    let Some((event, row)) = payment.doubt(None).zip(tries.iter_mut().find(is_it)) else { return };
    row.asked_for = Some(event.to_owned());
}

/// What to ask about tries that are over: how they stand. What was given back of their money is asked for then.
pub(crate) fn asked_for(state: &ObjectState) -> impl Iterator<Item = StatusQuery> {
    state.resource.tries.iter().filter_map(|row| {
        let (provider, doubt) = (row.provider, Some(row.asked_for.clone()?));
        let (account, id) = (row.merchant_account.clone(), row.provider_payment.clone()?);
        Some(StatusQuery::Payment { provider, account, id, doubt })
    })
}

/// The event about a try is answered.
pub(crate) fn answered(state: &mut ObjectState, provider_payment: &str, event_id: Option<&str>) {
    let is_it = |row: &&mut Try| {
        row.provider_payment.as_deref() == Some(provider_payment) && row.asked_for.as_deref() == event_id
    };
    if let Some(row) = state.resource.tries.iter_mut().find(is_it) {
        row.asked_for = None;
    }
}
