//! What several of these tests begin with.

use once::call::{FrozenRequest, RetryPolicy};
use once::context::Times;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{InstanceId, Owner, RequestId};
use once::key::KeyHash;
use once::record::Channel;
use payments::engine::{CallState, Command, Context, Evidence, Limits, ProviderCall, context};
use payments::payment::operation::Operation;
use payments::payment::result::CallKind;
use payments::providers::{HttpAnswer, Provider};
use web::signing::SigningKeys;

/// Signing keys, each made long enough.
pub fn signing_keys(keys: &[&str]) -> SigningKeys {
    let long: Vec<String> = keys.iter().map(|key| format!("{key:-<32}")).collect();
    SigningKeys::parse(&long.join(" ")).unwrap()
}

pub const NOW_MS: u64 = 1_800_000_000_000;

pub fn at(now_ms: u64) -> Context {
    context(now_ms, 500, Times::default(), Limits::default())
}

pub fn me() -> InstanceId {
    InstanceId("me".into())
}

/// A request of an account.
pub fn command(key: &str, operation: Operation) -> Command {
    let parameters = Canonical(format!("{operation:?}"));
    Command {
        owner: Owner::Account("a".into()),
        key_hash: KeyHash(key.into()),
        fingerprint: Fingerprint::of("POST", "/payments", &parameters),
        parameters,
        operation,
        channel: Channel::Api,
        request_id: RequestId("r".into()),
        may_start: true,
        by: None,
        trace: None,
    }
}

/// A call that was sent once, and of which nobody knows how it ended.
pub fn a_call(provider: Provider, kind: CallKind, request: FrozenRequest) -> ProviderCall {
    ProviderCall {
        call_id: 1,
        key_id: 1,
        name: "a call".into(),
        kind,
        provider,
        retry_policy: RetryPolicy::IdempotentByKey,
        provider_key: "key".into(),
        request,
        state: CallState::Unknown,
        sends: 1,
        failures: 0,
        first_sent_at_ms: Some(NOW_MS),
        last_sent_at_ms: Some(NOW_MS),
        next_try_at_ms: 0,
        maybe_executed: true,
        answer_is_stored: false,
        look_up: None,
        evidence: Evidence::default(),
    }
}

/// A provider's answer without any header.
pub fn answer(status: u16, body: impl ToString) -> HttpAnswer {
    HttpAnswer {
        status,
        should_retry: None,
        retry_after_ms: None,
        replayed: false,
        request_id: None,
        body: body.to_string(),
    }
}

/// The read model, as its migrations make it.
pub fn read_model() -> rusqlite::Connection {
    let model = rusqlite::Connection::open_in_memory().unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        model.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
    model
}

/// How SQLite would answer.
pub fn plan(model: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = model.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![1; statement.parameter_count()];
    let steps = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
    steps.map(Result::unwrap).collect()
}
