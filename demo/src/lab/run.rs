//! The lab's requests: the page, and the presses of its button. Here also stands the client: it asks up to [`TRIES`] times
//! for each press, waits [`PATIENCE`] for an answer, and knows nothing of keys.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use worker::Delay;

use super::api::Api;
use super::bank;
use super::control::{self, Press};
use super::ledger::Side;
use super::page::{self, FormState, Query, Seen};
use super::{ClientOutcome, ExperimentId, InjectedFault, LAB_SCRIPT, Order, PAUSE, Presses, TRIES};
use crate::app::{App, site};
use runtime::random;
use runtime::serve::{unavailable, unreadable};
use web::http::{Answer, Request};
use web::problem::{Problem, invalid_parameters};
use web::reply;
use web::route::Parameter;

/// How long the client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /lab`
pub(crate) async fn begin(_app: &App, request: &Request) -> Result<Answer, Problem> {
    let form_state = form_state(request, Query::parse(&request.query))?;
    Ok(reply::html(200, &page::page(form_state, None), "lab"))
}

/// `GET /lab/{id}`
pub(crate) async fn show(
    app: &App,
    request: &Request,
    id: &Parameter<'_, ExperimentId>,
) -> Result<Answer, Problem> {
    let experiment = id.read()?;
    let query = Query::parse(&request.query);
    let ledger = bank::ledger(app, &experiment, query.fault).await.map_err(unreadable)?;
    let view = Api { app, request, experiment: &experiment }.view().await.map_err(unreadable)?;
    let seen = Seen { experiment, ledger, view, now_ms: request.now_ms };
    Ok(reply::html(200, &page::page(form_state(request, query)?, Some(seen)), "lab"))
}

/// `POST /lab/{id}/pay`: presses Pay on both sides, and leads to the experiment's page.
pub(crate) async fn pay(
    app: &App,
    request: &Request,
    id: &Parameter<'_, ExperimentId>,
) -> Result<Answer, Problem> {
    let experiment = id.read()?;
    let order = Order::parse(&request.parameters()?).map_err(invalid_parameters)?;
    let round = Round { app, request, experiment: &experiment, order: &order };
    let (unprotected, protected) = round.play().await.map_err(unavailable)?;
    let query = Query { fault: Some(order.fault), times: Some(order.times), unprotected, protected };
    Ok(Answer::see_other(&format!("{}?{query}#verdict", experiment.path()), "lab_played"))
}

fn form_state(request: &Request, query: Query) -> Result<FormState, Problem> {
    let fresh = random::uuid().map(ExperimentId::new).map_err(unavailable)?;
    Ok(FormState { site: site(request), script: LAB_SCRIPT.address, query, fresh })
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
        let (unprotected, protected) = join(self.without_protection(), self.with_protection()).await;
        Ok((unprotected?, protected?))
    }

    async fn without_protection(&self) -> worker::Result<Presses> {
        let Order { fault, times } = self.order;
        bank::arm(self.app, self.experiment, Side::Unprotected, *fault, *times).await?;
        let presses = (1..=*times).map(|number| async move {
            let id = format!("{}-{number}", self.request.id.0);
            let press = Press { experiment: self.experiment, order: self.order, id };
            let press = &press;
            insist(|attempt| async move {
                let saw = control::pay(self.app, self.request, press).await;
                // Its server dies when the bank has charged. Nothing was written down, so there is nothing else to show of it.
                if *fault == InjectedFault::Crash && attempt == 1 { ClientOutcome::Crashed } else { saw }
            })
            .await
        });
        Ok(join_all(presses).await)
    }

    async fn with_protection(&self) -> worker::Result<Presses> {
        let Self { app, request, experiment, order: Order { fault, times } } = self;
        let api = Api { app, request, experiment };
        let is_first = api.view().await?.is_none();
        if is_first {
            // All presses are one call to the bank: one is lost.
            bank::arm(app, experiment, Side::Protected, *fault, 1).await?;
        }
        let crashes = *fault == InjectedFault::Crash && is_first;
        // Whichever press comes first takes the server down, and all others that wait for the same.
        let presses = (1..=*times).map(|_| insist(|attempt| api.pay(*fault, crashes && attempt == 1)));
        Ok(join_all(presses).await)
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
