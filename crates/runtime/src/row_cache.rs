//! The way to objects that read D1 for all isolates: of each name the rows of one statement, at most once in a while (`src/accounts/cache_object.mjs`).
//!
//! An object that does not answer costs its time once: for a while this isolate asks D1 itself. So does a D1 that does not: for a while nobody asks it,
//! and whoever knows what it said last goes by that.

use std::cell::RefCell;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::json;
use worker::js_sys::{Array, JSON};
use worker::wasm_bindgen::JsCast;
use worker::{Env, Error, Result};

use crate::db::Db;
use crate::http_client::{TOO_LONG, within};
use crate::log::log;
use crate::shard::{Outcome, member};
use crate::{client, now_ms};
use once::id::digest;

/// How long an object may take, or D1 without one. The object says itself after two seconds that D1 does not answer.
const ANSWERS: Duration = Duration::from_secs(3);
/// For how long an object is not asked that has not answered, or D1, in ms.
const PAUSE_MS: u64 = 5_000;
/// Stands for D1 among the numbers of objects.
const D1: u32 = u32::MAX;

thread_local! {
    static PAUSES: RefCell<Pauses> = const { RefCell::new(Pauses(Vec::new())) };
}

/// Such objects, all of one binding.
#[derive(Clone, Copy, Debug)]
pub struct RowCache {
    /// The binding. Without it D1 is asked.
    pub binding: &'static str,
    /// Over how many objects the names are spread.
    pub objects: u32,
    /// How old an answer may be, in ms; 0 to ask D1 itself.
    pub lasts_ms: u64,
}

/// What was found of a name.
pub struct Found<T> {
    /// Its rows.
    pub rows: Vec<T>,
    /// How long ago they were read, in ms: they may be older, and not newer.
    pub age_ms: u64,
}

impl RowCache {
    /// The rows of a statement with one value, by the object of the value, or by D1 if that does not answer.
    pub async fn rows<T: DeserializeOwned>(&self, env: &Env, sql: &str, value: &str) -> Result<Found<T>> {
        let (rows, age_ms) = self.ask(env, sql, value).await?;
        Ok(Found { rows: rows.rows()?, age_ms })
    }

    async fn ask(&self, env: &Env, sql: &str, value: &str) -> Result<(Outcome, u64)> {
        let number = number_of(value, self.objects);
        let is_asked = self.lasts_ms > 0
            && env.durable_object(self.binding).is_ok()
            && PAUSES.with_borrow(|pauses| pauses.may_ask(number, now_ms()));
        if is_asked {
            match within(ANSWERS, "the object", self.ask_object(env, number, sql, value)).await {
                Ok(answer) => return answer.map_err(Error::RustError),
                Err(error) => {
                    PAUSES.with_borrow_mut(|pauses| pauses.begin(number, now_ms()));
                    let error = error.to_string().into();
                    log(
                        "warn",
                        &[("event", "row_cache_silent".into()), ("object", number.into()), ("error", error)],
                    );
                }
            }
        }
        Ok((ask_d1(env, sql, value).await?, 0))
    }

    /// What the object says: rows, or why D1 gave none. An error is an object that has not answered.
    async fn ask_object(
        &self,
        env: &Env,
        number: u32,
        sql: &str,
        value: &str,
    ) -> Result<std::result::Result<(Outcome, u64), String>> {
        let name = format!("cache {number}");
        let stub = env.durable_object(self.binding)?.id_from_name(&name)?.get_stub()?;
        let question = json!({ "sql": sql, "value": value, "lasts_ms": self.lasts_ms }).to_string();
        let answer = JSON::parse(&client::ask_text(stub, &question).await?)?;
        if let Some(why) = member(&answer, "unreadable")?.as_string() {
            return Ok(Err(why));
        }
        let rows: Array = member(&answer, "rows")?.dyn_into()?;
        let age_ms = member(&answer, "age_ms")?.as_f64();
        let age_ms = age_ms.ok_or_else(|| Error::RustError("the object told no age".to_owned()))?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Ok((Outcome::read_only(rows), age_ms as u64)))
    }
}

async fn ask_d1(env: &Env, sql: &str, value: &str) -> Result<Outcome> {
    if !PAUSES.with_borrow(|pauses| pauses.may_ask(D1, now_ms())) {
        return Err(Error::RustError("D1 did not answer a moment ago".to_owned()));
    }
    let answer = within(ANSWERS, "D1", Db::of(env)?.ask(sql, vec![value.into()])).await;
    if answer.as_ref().is_err_and(|error| error.to_string().contains(TOO_LONG)) {
        PAUSES.with_borrow_mut(|pauses| pauses.begin(D1, now_ms()));
    }
    answer
}

/// Which of so many objects knows of a name: the same one for all isolates.
pub fn number_of(name: &str, objects: u32) -> u32 {
    let [a, b, c, d, ..] = digest(&[name.as_bytes()]);
    u32::from_be_bytes([a, b, c, d]) % objects.max(1)
}

/// The objects that have not answered, and when.
struct Pauses(Vec<(u32, u64)>);

impl Pauses {
    fn may_ask(&self, number: u32, now_ms: u64) -> bool {
        !self.0.iter().any(|(of, since_ms)| *of == number && now_ms.saturating_sub(*since_ms) < PAUSE_MS)
    }

    fn begin(&mut self, number: u32, now_ms: u64) {
        self.0.retain(|(of, _)| *of != number);
        self.0.push((number, now_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spread_over_all_objects_and_each_has_one() {
        let mut names = [0_u32; 16];
        for number in 0..1_600 {
            let name = format!("shop-{number}");
            let of = number_of(&name, 16);
            assert_eq!(of, number_of(&name, 16));
            names[of as usize] += 1;
        }
        assert!(names.iter().all(|names| (60..140).contains(names)), "{names:?}");
        assert_eq!(number_of("shop", 1), 0);
    }

    #[test]
    fn an_object_that_has_not_answered_is_left_alone_for_a_while_and_the_others_are_not() {
        let mut pauses = Pauses(Vec::new());
        assert!(pauses.may_ask(1, 1_000));
        pauses.begin(1, 1_000);
        pauses.begin(1, 2_000);
        assert!(!pauses.may_ask(1, 2_000 + PAUSE_MS - 1));
        assert!(pauses.may_ask(2, 2_000));
        assert!(pauses.may_ask(1, 2_000 + PAUSE_MS));
        assert_eq!(pauses.0.len(), 1);
    }
}
