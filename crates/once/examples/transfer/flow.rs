//! A transfer by a bank's API: two phases, one call, one job.

use once::begin::Command;
use once::call::{CallSpec, FrozenRequest, ProviderReply, RetryPolicy, Settlement};
use once::context::{Bug, Context};
use once::domain::{Answer, Domain, NoPoint, Provider};
use once::fingerprint::{Canonical, Fingerprint, Parameters};
use once::flow::{Admission, End, Flow, ObjectLimit, Phase};
use once::id::{Owner, RequestId};
use once::key::KeyHash;
use once::outbox;
use once::record::{Channel, StoredResponse};
use once::times::Times;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Transfers;

/// The operation: what a request asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    pub(crate) to: String,
    pub(crate) cents: u64,
    /// What the payee is told with it, for the bank to read: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remittance: Option<Value>,
}

/// The flow's half of an object's state: an account of the shop, and what left it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    pub(crate) balance_cents: u64,
    pub(crate) sent: Vec<String>,
}

impl Default for Account {
    fn default() -> Self {
        Self { balance_cents: 10_000, sent: Vec::new() }
    }
}

/// Where calls go: a bank that executes each key once and can be asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Bank;

impl Provider for Bank {
    type Kind = ();

    fn window_ms(self, times: &Times) -> u64 {
        times.provider_window_ms
    }

    fn answers_questions(self) -> bool {
        true
    }
}

/// What the bank's answers mean, as it is kept. What the bank says is read into a type of its own, which takes what this one refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Receipt {
    Booked { reference: String },
    Rejected { reason: String },
}

impl Answer for Receipt {
    fn name(&self) -> &'static str {
        if self.is_refusal() { "rejected" } else { "booked" }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }
}

impl Domain for Transfers {
    type Operation = Transfer;
    type Resource = Account;
    type Point = NoPoint;
    type Provider = Bank;
    type Answer = Receipt;
    type Refusal = String;
    type JobKind = ();
    type Facts = ();
    type Settings = ();
}

impl Flow for Transfers {
    fn name(_: &Transfer) -> &'static str {
        "transfer"
    }

    /// Phase 1, in the transaction that makes the key: the money leaves the account, or nothing is written.
    fn admit(transfer: &Transfer, phase: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug> {
        let account = &mut phase.object_state.resource;
        let Some(left) = account.balance_cents.checked_sub(transfer.cents) else {
            return Ok(Err(format!("only {} cents are left", account.balance_cents)));
        };
        account.balance_cents = left;
        Ok(Ok(None))
    }

    /// The call; and phase 2, once the bank has answered.
    fn run(transfer: &Transfer, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug> {
        let id = format!("{}_{}", phase.object_state.object.to_hex(), phase.key_id);
        let failed = match phase.settlement("send")? {
            None => {
                return Ok(End::Call(CallSpec {
                    name: "send".into(),
                    kind: (),
                    provider: Bank,
                    retry_policy: RetryPolicy::IdempotentByKey,
                    provider_key: id,
                    request: FrozenRequest::new("/transfers".into(), serde_json::json!(transfer).to_string()),
                }));
            }
            Some(Settlement::Answered(ProviderReply { result: Receipt::Booked { reference }, .. })) => {
                phase.object_state.resource.sent.push(reference);
                let job = outbox::job((), format!("{id}_notify"), serde_json::json!(transfer), phase.ctx);
                phase.object_state.appended.jobs.push(job);
                None
            }
            Some(Settlement::Answered(ProviderReply { result: Receipt::Rejected { reason }, .. })) => {
                Some(("The bank has rejected the transfer", reason))
            }
            Some(Settlement::NotExecuted) => Some((
                "The bank was not reached",
                "Nothing was sent. It can be tried again under another key.".into(),
            )),
            Some(Settlement::NeedsReview) => return Err(Bug("the bank executes a key once".into())),
        };
        let Some((title, detail)) = failed else {
            return Ok(End::Response(response(200, "text/plain; charset=utf-8", "sent".to_owned())));
        };
        phase.object_state.resource.balance_cents += transfer.cents;
        // Not a status at which a client would ask again with the same key: this is the end.
        let problem = serde_json::json!({ "title": title, "status": 402, "detail": detail });
        Ok(End::Response(response(402, "application/problem+json", problem.to_string())))
    }

    /// A month later no client has the key any more: without this an account would make as many transfers as it may hold, and then none.
    fn forgets_after_ms(_: &Context<()>) -> Option<u64> {
        Some(30 * 86_400_000)
    }

    fn limit_reached(limit: ObjectLimit) -> String {
        match limit {
            ObjectLimit::Keys(_) | ObjectLimit::Bytes => {
                "there are as many transfers as there may be".to_owned()
            }
            ObjectLimit::Unreadable => "the remittance is nested too deep".to_owned(),
        }
    }
}

fn response(status: u16, content_type: &str, body: String) -> StoredResponse {
    let headers = vec![("content-type".to_owned(), content_type.to_owned())];
    StoredResponse { status, headers, body: body.into_bytes() }
}

/// What a body asks for, and the canonical text by which a retry of it is known: that of the object that came, not of what this release makes of it.
/// One whose `Transfer` has another member has begun nothing else with the same body.
pub(crate) fn parse(body: &[u8]) -> Result<(Transfer, Canonical), Box<dyn std::error::Error>> {
    let members: Map<String, Value> = serde_json::from_slice(body)?;
    let transfer = serde_json::from_value(Value::Object(members.clone()))?;
    Ok((transfer, Parameters::Json(members).canonical()?))
}

/// A request of the account's owner under a key.
pub(crate) fn request(key: &str, body: &str) -> Result<Command<Transfers>, Box<dyn std::error::Error>> {
    let (operation, parameters) = parse(body.as_bytes())?;
    Ok(Command {
        owner: Owner::Account("shop".into()),
        key_hash: KeyHash(key.into()), // of a client's key: IdempotencyKey::parse(header)?.hash(&owner)
        fingerprint: Fingerprint::of("POST", "/transfers", &parameters),
        parameters,
        operation,
        channel: Channel::Api,
        request_id: RequestId(format!("req_{key}")),
        may_start: true,
        by: None,
        trace: None,
    })
}
