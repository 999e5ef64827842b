//! A form, as it is passed on.

use once::begin::Command;
use once::context::Context;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{InstanceId, Owner, RequestId};
use once::key::KeyHash;
use once::record::Channel;
use paid_once_gate::domain::{Again, PassOn, Place, Submission};
use paid_once_gate::waits::Waits;

pub const WAITS: Waits = Waits {
    wait_ms: 10_000,
    keep_ms: 86_400_000,
    timeout_ms: 60_000,
    replay_ms: 3_600_000,
    quiet_ms: 120_000,
};

pub fn at(now_ms: u64) -> Context<()> {
    Context { now_ms, jitter_permille: 0, times: WAITS.times(), keys_max: 100, settings: () }
}

pub fn me() -> InstanceId {
    InstanceId("incarnation".into())
}

pub fn command(again: Again) -> Command<PassOn> {
    Command {
        owner: Owner::Session("visitor".into()),
        key_hash: KeyHash("form.1".into()),
        fingerprint: Fingerprint("gate1:1".into()),
        parameters: Canonical(String::new()),
        operation: Submission {
            place: Place { host: "shop.example".into(), route: "POST /checkout".into() },
            waits: WAITS,
            is_told: true,
            again,
            origin_key: "gate_1".into(),
        },
        channel: Channel::Form,
        request_id: RequestId("req_1".into()),
        may_start: true,
        by: None,
        trace: None,
    }
}
