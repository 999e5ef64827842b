//! An order: it is reserved, paid at a bank that can be asked, sent by a carrier who cannot, and confirmed by a letter that nobody sends twice.

use std::collections::BTreeMap;

use once::begin::Command;
use once::call::{CallSpec, FrozenRequest, RetryPolicy, Settlement};
use once::context::{Bug, Context};
use once::domain::{Answer, Domain, Point, Provider, Settings};
use once::fingerprint::{Canonical, Fingerprint};
use once::flow::{Admission, End, Flow, ObjectLimit, Phase};
use once::id::{Owner, RequestId};
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::outbox;
use once::record::{Channel, RecoveryPoint, StoredResponse};
use once::times::Times;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orders;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    pub cents: u64,
}

/// The shop: what is left of its only article, and how the orders stand, by their keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shop {
    pub left: u32,
    pub orders: BTreeMap<u32, String>,
    pub version: u32,
    /// How often the customer is yet to be asked how it was, and when next, in ms.
    pub questions: u32,
    pub asks_at_ms: u64,
    #[serde(default)]
    pub is_rude: bool,
    /// Not written: see [`Mistake::LosesAField`].
    #[serde(skip)]
    pub lost: u32,
}

impl Default for Shop {
    fn default() -> Self {
        Self {
            left: 5,
            orders: BTreeMap::new(),
            version: 0,
            questions: 0,
            asks_at_ms: 0,
            is_rude: false,
            lost: 0,
        }
    }
}

/// How often a customer is asked, and how long after they have the order, in ms.
const QUESTIONS: u32 = 2;
const ASKS_AFTER_MS: u64 = 3_600_000;

/// What somebody who writes a flow may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// The key for the provider is another object's, too.
    KeyWithoutObject,
    /// The id of a job that only a refusal brings is another object's, too.
    RefusalWithoutObject,
    /// Each job about an order has the same id.
    RepeatsAJob,
    /// A phase stages a job before it asks whether its call was made.
    StagesBeforeACall,
    /// A call has another name, and so another key, in each run.
    NamesRuns,
    /// A member of the resource is not written.
    LosesAField,
    /// It panics where money is given back.
    Panics,
    /// It says that what was refused is done.
    WrongResponse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reached {
    Reserved,
    Paid,
    Sent,
}

impl Point for Reached {
    fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Paid => "paid",
            Self::Sent => "sent",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Reserved, Self::Paid, Self::Sent].into_iter().find(|point| point.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Partner {
    Bank,
    Carrier,
    Post,
}

impl Provider for Partner {
    type Kind = ();

    fn window_ms(self, times: &Times) -> u64 {
        times.provider_window_ms
    }

    fn answers_questions(self) -> bool {
        self == Self::Bank
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    Done,
    Refused,
}

impl Answer for Reply {
    fn name(&self) -> &'static str {
        if self.is_refusal() { "refused" } else { "done" }
    }

    fn is_refusal(&self) -> bool {
        *self == Self::Refused
    }
}

/// What an order may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    pub cents_max: u64,
    pub mistake: Option<Mistake>,
}

impl Settings<Partner> for Limits {}

impl Domain for Orders {
    type Operation = Order;
    type Resource = Shop;
    type Point = Reached;
    type Provider = Partner;
    type Answer = Reply;
    type Refusal = &'static str;
    type JobKind = ();
    type Facts = ();
    type Settings = Limits;
}

impl Flow for Orders {
    fn name(_: &Order) -> &'static str {
        "order"
    }

    fn admit(order: &Order, phase: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug> {
        if order.cents > phase.ctx.settings.cents_max {
            return Ok(Err("too dear"));
        }
        let Some(left) = phase.object_state.resource.left.checked_sub(1) else { return Ok(Err("sold out")) };
        phase.object_state.resource.left = left;
        phase.object_state.resource.lost += u32::from(makes(phase, Mistake::LosesAField));
        stands(phase, "reserved");
        Ok(Ok(Some(Reached::Reserved)))
    }

    fn run(order: &Order, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug> {
        match phase.key()?.recovery_point() {
            RecoveryPoint::Started | RecoveryPoint::At(Reached::Reserved) => {
                let name = match makes(phase, Mistake::NamesRuns) {
                    true => format!("pay_{}", phase.key()?.attempt),
                    false => "pay".to_owned(),
                };
                let Some(settlement) = phase.settlement(&name)? else {
                    return Ok(call(order, phase, &name, Partner::Bank));
                };
                if is_done(&settlement)? {
                    stands(phase, "paid");
                    return Ok(End::At(Reached::Paid));
                }
                assert!(!makes(phase, Mistake::Panics), "it is not given back");
                phase.object_state.resource.left += 1;
                stands(phase, "not paid");
                Ok(response(if makes(phase, Mistake::WrongResponse) { 200 } else { 402 }))
            }
            RecoveryPoint::At(Reached::Paid) => {
                if makes(phase, Mistake::StagesBeforeACall) {
                    let job_id = format!("{}_{}_pack", phase.object_state.object.to_hex(), phase.key_id);
                    let job = outbox::job((), job_id, serde_json::json!({ "packs": 1 }), phase.ctx);
                    phase.object_state.appended.jobs.push(job);
                }
                let Some(settlement) = phase.settlement("send")? else {
                    return Ok(call(order, phase, "send", Partner::Carrier));
                };
                if is_done(&settlement)? {
                    stands(phase, "sent");
                    return Ok(End::At(Reached::Sent));
                }
                stands(phase, "not sent");
                Ok(response(502))
            }
            RecoveryPoint::At(Reached::Sent) => {
                let Some(settlement) = phase.settlement("confirm")? else {
                    return Ok(call(order, phase, "confirm", Partner::Post));
                };
                let has_letter = settlement != Settlement::NeedsReview && is_done(&settlement)?;
                stands(phase, if has_letter { "confirmed" } else { "perhaps confirmed" });
                let shop = &mut phase.object_state.resource;
                shop.questions += QUESTIONS;
                shop.asks_at_ms = phase.ctx.now_ms + ASKS_AFTER_MS;
                Ok(response(200))
            }
            RecoveryPoint::Finished => Err(Bug("an order that is finished".to_owned())),
        }
    }

    fn limit_reached(_: ObjectLimit) -> &'static str {
        "too many orders"
    }

    fn due_at_ms(state: &ObjectState<Self>, _: &Context<Limits>) -> Option<u64> {
        (state.resource.questions > 0).then_some(state.resource.asks_at_ms)
    }

    /// One question at a time: the next one is due already.
    fn on_alarm(state: &mut ObjectState<Self>, ctx: &Context<Limits>) {
        if Self::due_at_ms(state, ctx).is_some_and(|at_ms| at_ms <= ctx.now_ms) {
            state.resource.questions -= 1;
        }
    }

    /// Whoever shows the orders is told how each stands now: the newest job takes the place of the one before.
    fn on_commit(before: &ObjectState<Self>, after: &mut ObjectState<Self>, ctx: &Context<Limits>) {
        let known = |key_id: &u32| before.resource.orders.get(key_id);
        let orders = after.resource.orders.clone();
        for (key_id, stage) in orders.into_iter().filter(|(key_id, stage)| known(key_id) != Some(stage)) {
            after.jobs.retain(|job| job.payload["order"] != key_id);
            after.resource.version += 1;
            let payload = serde_json::json!({ "order": key_id, "stage": stage });
            let (object, version) = (after.object.to_hex(), after.resource.version);
            let job_id = match ctx.settings.mistake {
                Some(Mistake::RefusalWithoutObject) if stage == "not paid" => format!("{key_id}_refused"),
                Some(Mistake::RepeatsAJob) => format!("{object}_{key_id}"),
                _ => format!("{object}_{key_id}_{version}"),
            };
            let job = outbox::job((), job_id, payload, ctx);
            after.appended.jobs.push(job);
        }
    }
}

fn makes(phase: &Phase<'_, Orders>, mistake: Mistake) -> bool {
    phase.ctx.settings.mistake == Some(mistake)
}

fn stands(phase: &mut Phase<'_, Orders>, stage: &str) {
    phase.object_state.resource.orders.insert(phase.key_id, stage.to_owned());
}

fn is_done(settlement: &Settlement<Reply>) -> Result<bool, Bug> {
    match settlement {
        Settlement::Answered(reply) => Ok(reply.result == Reply::Done),
        Settlement::NotExecuted => Ok(false),
        Settlement::NeedsReview => Err(Bug("it is done once by its key".to_owned())),
    }
}

fn call(order: &Order, phase: &Phase<'_, Orders>, name: &str, provider: Partner) -> End<Orders> {
    let retry_policy = match provider {
        Partner::Bank | Partner::Carrier => RetryPolicy::IdempotentByKey,
        Partner::Post => RetryPolicy::AtMostOnce,
    };
    let object = if makes(phase, Mistake::KeyWithoutObject) {
        String::new()
    } else {
        phase.object_state.object.to_hex()
    };
    End::Call(CallSpec {
        name: name.to_owned(),
        kind: (),
        provider,
        retry_policy,
        provider_key: format!("{object}_{}_{name}", phase.key_id),
        request: FrozenRequest::new(format!("/{provider:?}"), order.cents.to_string()),
    })
}

fn response(status: u16) -> End<Orders> {
    End::Response(StoredResponse { status, headers: Vec::new(), body: Vec::new() })
}

pub fn request(key: &str, cents: u64) -> Command<Orders> {
    let parameters = Canonical(format!("{{\"cents\":{cents}}}"));
    Command {
        owner: Owner::Account("customer".to_owned()),
        key_hash: KeyHash(key.to_owned()),
        fingerprint: Fingerprint::of("POST", "/orders", &parameters),
        parameters,
        operation: Order { cents },
        channel: Channel::Api,
        request_id: RequestId(format!("req_{key}")),
        may_start: true,
        by: None,
        trace: None,
    }
}
