//! The rows of the log of operators, `operator_actions`.

use worker::Env;

use super::action_outcome::ActionOutcome;
use runtime::db::Db;

/// Writes one down, unless it is there already.
pub(super) const WRITE: &str =
    "INSERT INTO operator_actions (action_id, at_ms, operator, action, subject, outcome, status)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (action_id) DO NOTHING";

/// The number of an action, from the beginning of something that no other action has.
pub(super) fn number(unique: &[u8]) -> u64 {
    // D1 takes whole numbers below 2⁵³.
    unique.iter().take(6).fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
}

/// Writes down what is over as it is written, unless that is there already: who did what to what, and how it ended.
pub(super) async fn over(
    env: &Env,
    id: u64,
    (operator, what): (&str, &str),
    subject: &str,
    outcome: &ActionOutcome,
    now_ms: u64,
) -> worker::Result<()> {
    let (text, status) = (outcome.text.as_str(), outcome.status.as_str());
    let values = vec![
        id.into(),
        now_ms.into(),
        operator.into(),
        what.into(),
        subject.into(),
        text.into(),
        status.into(),
    ];
    Db::of(env)?.run(WRITE, values).await.map(drop)
}
