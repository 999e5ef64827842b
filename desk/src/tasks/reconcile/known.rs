//! What we have of payments of which Stripe tells, and what their objects say of them.

use futures_util::future::join_all;
use serde::Deserialize;
use worker::{Env, Error, Result};

use super::places::Objects;
use crate::tasks::compare::LocalRecords;
use crate::tasks::movements::{LocalRefund, Refunds};
use crate::tasks::place_stores::Halt;
use crate::tasks::placed::Found;
use crate::tasks::run_limits::AT_ONCE;
use messages::job::JobPayment;
use messages::message::ObjectRequest;
use once::id::ObjectId;
use payments::providers::Provider;
use runtime::client;

/// What we have of some payments of which Stripe tells.
#[derive(Default)]
pub(super) struct Known {
    pub(super) records: LocalRecords,
    pub(super) refunds: Refunds,
    /// Where they stand; `None` where all is in D1.
    pub(super) found: Option<Found>,
}

impl Known {
    /// Whether it may be in a place that was not asked (Stripe's id).
    pub(super) fn is_left(&self, payment: &str) -> bool {
        self.found.as_ref().is_some_and(|found| found.left.contains(payment))
    }

    pub(super) fn of(found: Found) -> Self {
        let (records, refunds) = found.records(Provider::Stripe.as_str());
        let refunds = refunds.into_iter().filter_map(|refund| {
            Some(LocalRefund {
                provider_refund: refund.provider_refund?,
                status: refund.status,
                amount_minor: refund.amount_minor,
                currency: refund.currency,
            })
        });
        Self {
            records: LocalRecords::new(records),
            refunds: Refunds::new(refunds.collect()),
            found: Some(found),
        }
    }
}

/// The objects of payments, as they are bound.
pub(super) struct BoundObjects(pub(super) Env);

impl Objects for BoundObjects {
    async fn payments_of(&self, objects: &[ObjectId]) -> Vec<Option<JobPayment>> {
        #[derive(Deserialize)]
        struct Inspected {
            snapshot: Snapshot,
        }
        #[derive(Deserialize)]
        struct Snapshot {
            owner: String,
            payment: Option<Payment>,
        }
        #[derive(Deserialize)]
        struct Payment {
            created_at_ms: u64,
        }
        let ask = async |object: &ObjectId| -> Option<JobPayment> {
            let asked: Result<Option<Inspected>> =
                client::ask(&self.0, *object, &ObjectRequest::Inspect).await;
            let Snapshot { owner, payment } = asked.ok()??.snapshot;
            Some(JobPayment { owner, made_at_ms: payment?.created_at_ms })
        };
        let mut told = Vec::new();
        for objects in objects.chunks(AT_ONCE) {
            told.extend(join_all(objects.iter().map(&ask)).await);
        }
        told
    }
}

/// Why a list is read no further.
pub(super) fn stopped(halt: Halt) -> Error {
    match halt {
        Halt::Waits(why) => Error::RustError(why),
        Halt::Failed(error) => error,
    }
}
