//! What is asked of an object that is about payments, beside to run an operation: to show what there is, and to ask the provider.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use futures_util::lock::Mutex;
use worker::{Delay, Env};

use super::traces::{Runs, asks};
use crate::config::Config;
use crate::transport::Transport;
use messages::message::{BindResult, KeyView, Located, OrderView, Returned, Shown, View, WayOn};
use once::begin::KeyRoute;
use once::context::Bug;
use once::id::{ObjectId, Owner};
use once::key::KeyHash;
use once_object::object::{Host as _, Object};
use once_object::runtime::Runtime;
use once_object::store::Store;
use once_object::wait_at_most;
use payments::engine::{Command, KeyRecord, Payments};
use payments::flows::order_link;
use payments::flows::tries::next_try;
use payments::payment::Payment;
use payments::payment::order_link::{EndedLinks, MadeLink};
use payments::transitions::answers::{self, Ended};
use payments::transitions::polling::{self, Asker};
use runtime::{metrics, trace};

/// What the objects of this Worker are made with.
pub(super) struct PaymentsHost {
    pub(super) config: Rc<Config>,
    pub(super) transport: Transport,
    pub(super) env: Env,
    pub(super) runs: Runs,
    pub(super) asking: Asking,
}

/// Who asks the provider how something stands.
#[derive(Default)]
pub(super) struct Asking {
    /// Held meanwhile: an answer that overtakes a newer one would undo what only that one tells.
    turn: Mutex<()>,
    /// How often somebody has begun to ask.
    begun: Cell<u64>,
}

/// How long somebody who looks waits for the provider: then they are shown what is known.
const LOOKS_FOR: Duration = Duration::from_secs(5);

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
                asking: Asking::default(),
            },
        )
        .map(Self)
    }

    pub(super) const fn of(object: Rc<Object<PaymentsHost>>) -> Self {
        Self(object)
    }

    /// Binds a key to the object in which its operation runs.
    pub(super) async fn bind_to(
        &self,
        command: &Command,
        object: &str,
        is_counted: bool,
    ) -> Result<BindResult, Bug> {
        let object = ObjectId::from_hex(object).ok_or_else(|| Bug("not an object's id".into()))?;
        let Some((route, was_counted)) = self.bind(command, object, is_counted).await? else {
            return Ok(BindResult::RateLimited);
        };
        Ok(match route {
            KeyRoute::To(object) if was_counted => BindResult::Counted(object.to_hex()),
            KeyRoute::To(object) => BindResult::To(object.to_hex()),
            KeyRoute::Mismatch { fields } => {
                metrics::mismatch();
                BindResult::Mismatch { fields }
            }
        })
    }

    /// Somebody looks, and waits for the provider, but not for ever: what it says later is taken in all the same.
    pub(super) async fn check_for_looker(&self) {
        if matches!(self.is_due(Asker::Waiting), Ok(false)) {
            return;
        }
        let drive = self.clone();
        wait_at_most(LOOKS_FOR, async move { drive.check(Asker::Waiting).await }).await;
    }

    /// Asks the provider about what is open there. Nothing comes of a failure but that it
    /// is asked again later.
    pub(super) async fn check(&self, asker: Asker) {
        if let Err(bug) = self.ask_provider(asker).await {
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
        self.check_for_looker().await;
        Ok(())
    }

    /// Whether there may be something to ask: [`polling::begin`] says what.
    fn is_due(&self, asker: Asker) -> Result<bool, Bug> {
        let now_ms = self.context().now_ms;
        let is_due = |payment: &Payment| {
            (asker == Asker::Waiting && payment.check.is_some())
                || polling::due_at_ms(payment).is_some_and(|at_ms| at_ms <= now_ms)
        };
        Ok(self.store().known()?.is_some_and(|rows| rows.resource.payment.as_ref().is_some_and(is_due)))
    }

    async fn ask_provider(&self, asker: Asker) -> Result<(), Bug> {
        if !self.is_due(asker)? {
            return Ok(());
        }
        let (ctx, state) = (self.context(), self.store().known()?);
        let asking = &self.host().asking;
        let begun_before = asking.begun.get();
        self.host().prepare(state.as_deref(), None).await;
        let turn = match asking.turn.try_lock() {
            Some(turn) => turn,
            None if asker == Asker::Waiting => asking.turn.lock().await,
            // It may be the alarm: while one waits no other one rings.
            None => {
                return self.store().transaction(&ctx, |rows| {
                    polling::put_off(rows, &ctx);
                    Ok(())
                });
            }
        };
        // Whoever has begun to ask meanwhile has heard all that there was when this one came.
        if asking.begun.get() == begun_before {
            self.ask_all(asker).await?;
        }
        drop(turn);
        self.drain().await;
        Ok(())
    }

    async fn ask_all(&self, asker: Asker) -> Result<(), Bug> {
        let ctx = self.context();
        let questions =
            self.store().transaction(&ctx, |rows| Ok::<_, Bug>(polling::begin(rows, asker, &ctx)))?;
        if !questions.is_empty() {
            let begun = &self.host().asking.begun;
            begun.set(begun.get().saturating_add(1));
        }
        for question in questions {
            let mut next = Some(question);
            while let Some(question) = next {
                let state = self.store().known()?.ok_or_else(|| Bug("no payment".into()))?;
                let (mut span, before) = (asks(Some(&state), &question), Ended::of(&state));
                let status_reply = self.host().transport.ask(&question, &mut span).await;
                trace::end(span);
                let ctx = self.context();
                next = self.store().transaction(&ctx, |rows| {
                    answers::take_unless_moved(rows, &question, before, status_reply, &ctx)
                })?;
            }
        }
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

    /// A link to the order is made. The first one of an order is kept for good, and is limited where it is said whose it is.
    pub(super) async fn make_link(
        &self,
        revision: Option<u32>,
        content: &str,
        key: Option<KeyHash>,
        owner: Option<Owner>,
    ) -> Result<MadeLink, Bug> {
        let is_first =
            self.store().read()?.is_none_or(|state| state.keys.is_empty() && state.resource.links.is_none());
        if let Some(owner) = owner.filter(|_| is_first)
            && !self.host().may_make_link(&owner).await
        {
            return Ok(MadeLink::RateLimited);
        }
        let ctx = self.context();
        self.store().transaction(&ctx, |rows| Ok(order_link::make(rows, revision, content, key)))
    }

    /// All links to the order are ended.
    pub(super) fn end_links(&self, key: Option<KeyHash>) -> Result<EndedLinks, Bug> {
        let ctx = self.context();
        self.store().transaction(&ctx, |rows| Ok(order_link::end(rows, key)))
    }
}
