//! The lab's requests: the page, and the presses of its button. Here also stands the client: it asks up to [`TRIES`] times
//! for each press, waits [`PATIENCE`] for an answer, and knows nothing of keys.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use serde::Deserialize;
use worker::Delay;

use super::bank;
use super::control::{self, Press};
use super::ledger::Side;
use super::page::{self, FormState, Query, Seen};
use super::{ClientOutcome, ExperimentId, InjectedFault, Order, PRICE_MINOR, Presses, TRIES};
use crate::edge::api::{invalid_parameters, run, unavailable, unreadable};
use crate::edge::app::{App, ObjectRef};
use crate::edge::assets::LAB_SCRIPT;
use messages::message::{Ask, Execute, ExecuteResult, Fault, Shown};
use once::fingerprint::{Fingerprint, Parameters};
use once::id::Owner;
use once::record::{Channel, StoredResponse};
use payments::flows::Operation;
use payments::flows::engine::Command;
use payments::flows::payment::{PaymentRequest, Route};
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::natural_key::{NaturalKey, order_object_name};
use payments::providers::Provider;
use runtime::random;
use web::http::{Answer, Request};
use web::origin::from_here;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

/// How long the client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before it asks again.
const PAUSE: Duration = Duration::from_millis(200);

/// `GET /lab`
pub(in crate::edge) async fn begin(app: &App, request: &Request) -> Result<Answer, Problem> {
    only_in_the_demo(app)?;
    let sheet = sheet(app, request, Query::parse(&request.query))?;
    Ok(reply::html(200, &page::page(sheet, None), "lab"))
}

/// `GET /lab/{id}`
pub(in crate::edge) async fn show(
    app: &App,
    request: &Request,
    id: &Parameter<'_, ExperimentId>,
) -> Result<Answer, Problem> {
    only_in_the_demo(app)?;
    let experiment = id.read()?;
    let query = Query::parse(&request.query);
    let ledger = bank::ledger(app, &experiment, query.trouble).await.map_err(unreadable)?;
    let view = protected(app, &experiment).shown().await.map_err(unreadable)?;
    let seen = Seen { experiment, ledger, view, now_ms: request.now_ms };
    Ok(reply::html(200, &page::page(sheet(app, request, query)?, Some(seen)), "lab"))
}

/// `POST /lab/{id}/pay`: presses Pay on both sides, and leads to the experiment's page.
pub(in crate::edge) async fn pay(
    app: &App,
    request: &Request,
    id: &Parameter<'_, ExperimentId>,
) -> Result<Answer, Problem> {
    let experiment = id.read()?;
    let order = Order::parse(&request.parameters()?).map_err(invalid_parameters)?;
    let round = Round { app, request, experiment: &experiment, order: &order };
    let (unprotected, protected) = round.play().await.map_err(unavailable)?;
    let query = Query { trouble: Some(order.trouble), times: Some(order.times), unprotected, protected };
    Ok(Answer::see_other(&format!("{}?{query}#verdict", experiment.path()), "lab_played"))
}

/// Whether the button of an experiment was pressed on our page.
pub(in crate::edge) fn admit(
    app: &App,
    request: &Request,
    id: &Parameter<'_, ExperimentId>,
) -> Result<(), Problem> {
    only_in_the_demo(app)?;
    from_here(request)?;
    id.read().map(drop)
}

fn only_in_the_demo(app: &App) -> Result<(), Problem> {
    let has_a_simulator = app.env.service("STRIPE").is_ok();
    if app.config.demo && has_a_simulator { Ok(()) } else { Err(Problem::new(Kind::NotFound)) }
}

fn fresh_id() -> Result<ExperimentId, Problem> {
    random::uuid().map(ExperimentId::new).map_err(unavailable)
}

fn sheet(app: &App, request: &Request, query: Query) -> Result<FormState, Problem> {
    let (fresh, round) = (fresh_id()?, fresh_id()?);
    Ok(FormState { site: app.site(request), script: LAB_SCRIPT.address, query, fresh, round })
}

/// One round: the same presses on both sides.
struct Round<'a> {
    app: &'a App,
    request: &'a Request,
    experiment: &'a ExperimentId,
    order: &'a Order,
}

impl Round<'_> {
    async fn play(&self) -> worker::Result<(Presses, Presses)> {
        if self.order.trouble == InjectedFault::Crash {
            // The crash takes this request down as well: what the control does must be over by then.
            return Ok((self.without_protection().await?, self.with_protection().await?));
        }
        let (unprotected, protected) = join(self.without_protection(), self.with_protection()).await;
        Ok((unprotected?, protected?))
    }

    async fn without_protection(&self) -> worker::Result<Presses> {
        let Order { trouble, times, round } = self.order;
        if self.came_before().await? {
            // The form comes again: its presses were all made, and this is what each of them came to.
            return Ok(vec![vec![ClientOutcome::Crashed, ClientOutcome::Paid]; *times as usize]);
        }
        bank::arm(self.app, self.experiment, Side::Unprotected, *trouble, *times).await?;
        let presses = (1..=*times).map(|number| async move {
            let id = format!("{}-{round}-{number}", self.request.id.0);
            let press = Press { experiment: self.experiment, order: self.order, id };
            let press = &press;
            insist(|attempt| async move {
                let saw = control::pay(self.app, self.request, press).await;
                // Its server dies when the bank has charged. Nothing was written down, so there is nothing else to show of it.
                if *trouble == InjectedFault::Crash && attempt == 1 { ClientOutcome::Crashed } else { saw }
            })
            .await
        });
        Ok(join_all(presses).await)
    }

    async fn with_protection(&self) -> worker::Result<Presses> {
        let Order { trouble, times, .. } = self.order;
        let protected = protected(self.app, self.experiment);
        let is_first = protected.shown().await?.is_none();
        let crashes = *trouble == InjectedFault::Crash && is_first;
        let died = *trouble == InjectedFault::Crash && !is_first && self.came_before().await?;
        if is_first {
            // All presses are one call to the bank: one is lost.
            bank::arm(self.app, self.experiment, Side::Protected, *trouble, 1).await?;
        }
        let protected = &protected;
        let presses = (1..=*times).map(|number| async move {
            let tries = insist(|attempt| {
                let fault = (crashes && number == 1 && attempt == 1).then_some(Fault::CrashAfterCall);
                protected.pay(self.request, *trouble, fault)
            })
            .await;
            if died { [vec![ClientOutcome::Crashed], tries].concat() } else { tries }
        });
        Ok(join_all(presses).await)
    }

    /// Whether this form was sent before: the server died over it, and it comes again.
    async fn came_before(&self) -> worker::Result<bool> {
        if self.order.trouble != InjectedFault::Crash {
            return Ok(false);
        }
        let ledger = bank::ledger(self.app, self.experiment, None).await?;
        Ok(ledger.knows(&self.order.round.to_string()))
    }
}

/// The client: asks until it is answered, for as long as it has patience.
async fn insist<F: Future<Output = ClientOutcome>>(mut ask: impl FnMut(u32) -> F) -> Vec<ClientOutcome> {
    let mut tries = Vec::new();
    for attempt in 1..=TRIES {
        let saw = match select(Box::pin(ask(attempt)), Delay::from(PATIENCE)).await {
            Either::Left((saw, _)) => saw,
            Either::Right(_) => ClientOutcome::NoAnswer,
        };
        tries.push(saw);
        if saw.is_an_answer() {
            break;
        }
        Delay::from(PAUSE).await;
    }
    tries
}

/// The protected side: the payment of one order, as any other.
struct Protected<'a> {
    app: &'a App,
    experiment: &'a ExperimentId,
    owner: Owner,
    place: ObjectRef,
}

fn protected<'a>(app: &'a App, experiment: &'a ExperimentId) -> Protected<'a> {
    let owner = Owner::Account(app.config.checkout_account.clone());
    let place = ObjectRef::Named(order_object_name(&owner, &experiment.order()));
    Protected { app, experiment, owner, place }
}

impl Protected<'_> {
    async fn shown(&self) -> worker::Result<Shown> {
        let ask = Ask::Show { owner: self.owner.clone(), key_hash: None, refresh: true };
        self.app.ask(&self.place, ask).await
    }

    /// One request to pay, under the order's own key, as `POST /payments` with an `order_id` has it.
    async fn pay(&self, request: &Request, trouble: InjectedFault, fault: Option<Fault>) -> ClientOutcome {
        let Some(operation) = self.payment(request, trouble) else {
            return ClientOutcome::Failed;
        };
        let order = self.experiment.order();
        let fields = [("order_id", order.as_str()), ("payment_method", trouble.card())];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let canonical = Parameters::Form(fields.to_vec()).canonical();
        let command = Command {
            owner: self.owner.clone(),
            key_hash: NaturalKey::order(&order).hash(&self.owner),
            fingerprint: Fingerprint::of("POST", "/payments", &canonical),
            parameters: canonical,
            operation,
            channel: Channel::Api,
            request_id: request.id.clone(),
            may_start: true,
            by: None,
        };
        let wait_ms = self.app.config.times.wait_ms;
        let ask = Execute { command, wait_ms, fault, is_counted: false };
        match run(self.app, &self.place, ask).await {
            Ok(ExecuteResult::Finished { response, replayed, .. }) => saw(&response, replayed),
            Ok(_) => ClientOutcome::Failed,
            Err(_) => ClientOutcome::NoAnswer,
        }
    }

    fn payment(&self, request: &Request, trouble: InjectedFault) -> Option<Operation> {
        let origin = request.origin();
        let marks = [("lab", self.experiment.to_string()), ("side", Side::Protected.as_str().to_owned())];
        Some(Operation::Payment(Box::new(PaymentRequest {
            amount: AmountMinor::new(PRICE_MINOR)?,
            currency: Currency::USD,
            capture: true,
            order_id: Some(self.experiment.order()),
            description: Some("An experiment in the lab".to_owned()),
            metadata: marks.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            route: Route {
                provider: Provider::Stripe,
                payment_method: trouble.card().to_owned(),
                customer: None,
                merchant_account: None,
            },
            fallback: None,
            return_url: Some(page::back(&origin, self.experiment, trouble)),
            receipt_email: None,
            origin,
            return_key: None,
            page: None,
            link_revision: None,
        })))
    }
}

/// What a client makes of a complete answer.
fn saw(response: &StoredResponse, replayed: bool) -> ClientOutcome {
    #[derive(Deserialize)]
    struct Payment {
        status: String,
    }
    if response.status == 402 {
        return ClientOutcome::Declined;
    }
    let status = serde_json::from_slice(&response.body).map(|Payment { status }| status).unwrap_or_default();
    match status.as_str() {
        "succeeded" if replayed => ClientOutcome::Replayed,
        "succeeded" => ClientOutcome::Paid,
        "requires_action" => ClientOutcome::BankPage,
        _ => ClientOutcome::Failed,
    }
}
