//! Answers that are too large for a row: they lie in a bucket (R2), sealed, until their key expires. Only where one is bound.

use std::time::Duration;

use runtime::http_client::within;
use worker::{Env, Error, Result};

/// The largest answer that lies in a row, in bytes: that takes 2 MB, and it is written there in base64.
pub(crate) const ROW_MAX: usize = 512 << 10;

/// The binding.
const ANSWERS: &str = "ANSWERS";
/// How long the bucket has for each.
const TAKES_WITHIN: Duration = Duration::from_secs(10);

/// Whether there is one.
pub(crate) fn is_bound(env: &Env) -> bool {
    env.bucket(ANSWERS).is_ok()
}

/// Where the answer to an operation lies. `name` stands for its key.
fn place(name: &str, number: u32) -> String {
    format!("answers/{name}/{number}")
}

/// Puts one there.
pub(crate) async fn put(env: &Env, name: &str, number: u32, sealed: Vec<u8>) -> Result<()> {
    let bucket = env.bucket(ANSWERS)?;
    let put = bucket.put(place(name, number), sealed).execute();
    within(TAKES_WITHIN, "the bucket", put).await.map(drop)
}

/// Gets it; `None` where it is not there any more.
pub(crate) async fn get(env: &Env, name: &str, number: u32) -> Result<Option<Vec<u8>>> {
    let get = async {
        let object = env.bucket(ANSWERS)?.get(place(name, number)).execute().await?;
        match object.as_ref().and_then(|object| object.body()) {
            Some(body) => body.bytes().await.map(Some),
            None => Ok::<_, Error>(None),
        }
    };
    within(TAKES_WITHIN, "the bucket", get).await
}

/// Deletes it, if it is there.
pub(crate) async fn delete(env: &Env, name: &str, number: u32) -> Result<()> {
    let place = place(name, number);
    let bucket = env.bucket(ANSWERS)?;
    within(TAKES_WITHIN, "the bucket", bucket.delete(&place)).await
}
