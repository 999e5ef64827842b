//! What is asked of an object that is about payments, beside to run an operation: to show what there is, and to ask the provider.

use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use futures_util::lock::Mutex;
use worker::{Delay, Env};

use super::traces::{Runs, asks};
use crate::config::Config;
use crate::transport::Transport;
use messages::message::{BindVerdict, KeyView, Located, OrderView, Returned, Shown, View, WayOn};
use once::begin::KeyRoute;
use once::context::Bug;
use once::id::{ObjectId, Owner};
use once::key::KeyHash;
use once_object::object::{Host as _, Object};
use once_object::runtime::Runtime;
use once_object::store::Store;
use payments::engine::{Command, KeyRecord, Payments};
use payments::flows::order_link;
use payments::flows::tries::next_try;
use payments::payment::Payment;
use payments::payment::order_link::{EndedLinks, MadeLink};
use payments::transitions::answers::{self, Ended};
use payments::transitions::polling;
use runtime::{metrics, trace};

/// What the objects of this Worker are made with.
pub(super) struct PaymentsHost {
    pub(super) config: Rc<Config>,
    pub(super) transport: Transport,
    pub(super) env: Env,
    pub(super) runs: Runs,
    /// Held while the provider is asked how something stands: an answer that overtakes a newer one would undo what only that one tells.
    pub(super) asking: Mutex<()>,
}

/// An object of the engine, with what is asked of one that is about payments.
#[derive(Clone)]
pub(super) struct Drive(Rc<Object<PaymentsHost>>);

impl Deref for Drive {
    type Target = Rc<Object<PaymentsHost>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drive {
    pub(super) fn new(env: &Env, store: Store<Payments, Runtime>, config: Rc<Config>) -> Result<Self, Bug> {
        let transport = Transport::new(env, &config);
        Object::new(
            store,
            PaymentsHost {
                config,
                transport,
                env: env.clone(),
                runs: Runs::default(),
                asking: Mutex::default(),
            },
        )
        .map(Self)
    }

    pub(super) const fn of(object: Rc<Object<PaymentsHost>>) -> Self {
        Self(object)
    }

    /// Binds a key to the object in which its operation runs.
    pub(super) fn bind_to(&self, command: &Command, object: &str) -> Result<BindVerdict, Bug> {
        let object = ObjectId::from_hex(object).ok_or_else(|| Bug("not an object's id".into()))?;
        Ok(match self.bind(command, object)? {
            KeyRoute::To(object) => BindVerdict::To(object.to_hex()),
            KeyRoute::Mismatch { fields } => {
                metrics::mismatch();
                BindVerdict::Mismatch { fields }
            }
        })
    }

    /// Asks the provider about what is open there. `looking` is somebody who waits. Nothing comes of a failure but that it
    /// is asked again later.
    pub(super) async fn check(&self, looking: bool) {
        if let Err(bug) = self.ask_provider(looking).await {
            self.log("error", "check_failed", &[("error", bug.0.as_str().into())]);
        }
    }

    /// Somebody has come back from the bank's page. What was heard of the payment before that is old, so this waits until it
    /// may be asked again.
    pub(super) async fn check_after_return(&self) -> Result<(), Bug> {
        let ctx = self.context();
        let check = self.store().read()?.and_then(|rows| rows.resource.payment.as_ref()?.check);
        match check.map(|check| polling::look_wait_ms(&check, &ctx)) {
            Some(0) | None => {}
            Some(wait_ms) => Delay::from(Duration::from_millis(wait_ms)).await,
        }
        self.check(true).await;
        Ok(())
    }

    async fn ask_provider(&self, looking: bool) -> Result<(), Bug> {
        let ctx = self.context();
        let is_due = |payment: &Payment| {
            payment.check.is_some() || polling::due_at_ms(payment).is_some_and(|at_ms| at_ms <= ctx.now_ms)
        };
        let state = self.store().known()?;
        if !state.as_ref().is_some_and(|rows| rows.resource.payment.as_ref().is_some_and(is_due)) {
            return Ok(());
        }
        self.host().prepare(state.as_deref(), None).await;
        // Whoever asked before may have heard what is open here: `begin` looks again.
        let asking = self.host().asking.lock().await;
        let ctx = self.context();
        let questions =
            self.store().transaction(&ctx, |rows| Ok::<_, Bug>(polling::begin(rows, looking, &ctx)))?;
        for question in questions {
            let mut next = Some(question);
            while let Some(question) = next {
                let state = self.store().known()?.ok_or_else(|| Bug("no payment".into()))?;
                let (mut span, before) = (asks(Some(&state), &question), Ended::of(&state));
                let truth = self.host().transport.ask(&question, &mut span).await;
                trace::end(span);
                let ctx = self.context();
                next = self.store().transaction(&ctx, |rows| {
                    answers::take_unless_moved(rows, &question, before, truth, &ctx)
                })?;
            }
        }
        drop(asking);
        self.drain().await;
        Ok(())
    }

    /// The resource and its key, for their owner.
    pub(super) fn show(&self, owner: &Owner, key_hash: Option<&KeyHash>) -> Result<Shown, Bug> {
        let Some(rows) = self.store().read()? else {
            return Ok(None);
        };
        let wanted = |key: &&KeyRecord| key_hash.is_none_or(|hash| key.key_hash == *hash);
        let Some(key) = rows.keys.iter().rfind(wanted).filter(|key| key.owner == *owner) else {
            return Ok(None);
        };
        Ok(Some(View {
            payment: rows.resource.payment.clone(),
            refunds: rows.resource.refunds.clone(),
            tries: rows.resource.tries.clone(),
            customer: rows.resource.customer.clone(),
            parameters: key.parameters.clone(),
            next_try: next_try(&rows, &self.context()),
            key: KeyView::of(&rows, key, self.store().timeline()?, self.context().now_ms),
        }))
    }

    /// Where the operation of a key runs that was bound here.
    pub(super) fn locate(&self, owner: &Owner, key_hash: &KeyHash) -> Result<Located, Bug> {
        let Some(rows) = self.store().read()? else { return Ok(None) };
        let mine = rows.bindings.iter().find(|bound| bound.key_hash == *key_hash && bound.owner == *owner);
        Ok(mine.map(|bound| bound.object.to_hex()))
    }

    /// Where the person goes who has come back from the bank's page.
    pub(super) fn return_address(&self) -> Result<Returned, Bug> {
        let Some(payment) = self.store().read()?.and_then(|rows| rows.resource.payment.clone()) else {
            return Ok(None);
        };
        let (amount_minor, currency) = (payment.amount.get(), payment.currency);
        Ok(payment.return_url.map(|return_url| WayOn { return_url, amount_minor, currency }))
    }

    /// An order and its links, for its owner.
    pub(super) fn order(&self, owner: &Owner) -> Result<OrderView, Bug> {
        let links = self.store().read()?.and_then(|rows| rows.resource.links.clone());
        Ok(OrderView { view: self.show(owner, None)?, links })
    }

    /// A link to the order is made.
    pub(super) fn make_link(
        &self,
        revision: Option<u32>,
        content: &str,
        key: Option<KeyHash>,
    ) -> Result<MadeLink, Bug> {
        let ctx = self.context();
        self.store().transaction(&ctx, |rows| Ok(order_link::make(rows, revision, content, key)))
    }

    /// All links to the order are ended.
    pub(super) fn end_links(&self) -> Result<EndedLinks, Bug> {
        let ctx = self.context();
        self.store().transaction(&ctx, |rows| Ok(order_link::end(rows)))
    }
}
