//! The order's page: what it shows, and what its forms do.
//!
//! A payment belongs to the account that sells, so that the merchant sees and refunds it through the API. It runs in the
//! order's object, under the key of the form, which is good in that object alone. Whatever comes of it, the person is led
//! to the order's page: that asks the object, and shows the truth.

use super::cart::Line;
use super::form_key::FormKey;
use super::limits::{Bucket, buckets};
use super::page::{self, FormState, OrderState, last_entries, path};
use super::request::Sent;
use super::till::Till;
use crate::edge::app::{App, ObjectRef};
use crate::edge::ask::{Unreachable, run};
use crate::edge::reply;
use messages::message::{Execute, ExecuteResult};
use once::fingerprint::{Field, Fingerprint, Parameters};
use once::key::{IdempotencyKey, KeyHash};
use once::record::Channel;
use payments::engine::Command;
use payments::flows::tries::NextTry;
use payments::payment::natural_key::NaturalKey;
use payments::payment::operation::{Operation, PaymentRequest, Refusal, Route, VoidRequest};
use payments::payment::receipt_content::{ReceiptContent, ReceiptLine};
use payments::providers::Provider;
use web::entries::foreign_fields;
use web::http::{Answer, Request};
use web::key_source;
use web::origin::from_here;
use web::pages::{Notice, STILL};
use web::problem::{Kind, Problem};

/// Where a form leads: the order's page, which from there leads on to the bank's if that waits.
const ON_THE_WAY: &str = "continue";
/// Where a form leads that was changed after it was sent: its card was not used.
const EDITED: &str = "edited";
/// Where a form leads whose card was not used, because an earlier payment of the order is under way.
const OTHER_CARD: &str = "other_card";
/// Where the button for another card leads that could not do it.
const NOT_GIVEN_UP: &str = "not_given_up";

/// `GET /checkout/{link}`
pub(in crate::edge) async fn show_order(app: &App, request: &Request, link: &str) -> Result<Answer, Problem> {
    let till = Till::open(app, request, link).await?;
    Ok(till.answer(show(&till).await))
}

async fn show(till: &Till<'_>) -> Result<Answer, Problem> {
    let (request, link) = (till.request, till.link);
    let shown = match till.shown().await? {
        Ok(shown) => shown,
        Err(closed) => return Ok(closed),
    };
    let standing = OrderState::of(shown.as_ref());
    let [on_the_way, edited, other_card, not_given_up] =
        [ON_THE_WAY, EDITED, OTHER_CARD, NOT_GIVEN_UP].map(|name| request.has_query(name));
    match standing {
        OrderState::AtTheBank { attempt, url } => {
            // Where nothing else can pay the order, what waits at the bank goes on there.
            let key = till.may_begin().then(|| till.form_key()).transpose()?;
            let total = till.total(shown.as_ref());
            let t = till.t();
            let not_done = if not_given_up {
                Some(t.not_given_up)
            } else {
                (edited || other_card).then_some(t.card_not_used)
            };
            let page = page::bank(till.visit(), key, (attempt, url), total, on_the_way, not_done);
            Ok(till.page(200, &page, "bank"))
        }
        // The address of an order is one: what stands there can be reloaded and kept.
        _ if on_the_way || not_given_up || other_card || request.has_query("payment") => {
            Ok(Answer::see_other(&path(link), "shown"))
        }
        OrderState::Paid(_) if !request.query.is_empty() => Ok(Answer::see_other(&path(link), "shown")),
        OrderState::Paid(paid) => Ok(till.page(200, &page::receipt(till.visit(), &paid), "receipt")),
        OrderState::Confirming { in_doubt, since_ms } => Ok(till.page(
            200,
            &page::status(
                till.visit(),
                in_doubt,
                since_ms,
                till.total(shown.as_ref()),
                request.has_query(STILL),
            ),
            "status",
        )),
        OrderState::GivingBack { is_refused } => Ok(till.giving_back(is_refused)),
        OrderState::Open | OrderState::Failed { .. } | OrderState::Canceled => {
            let next_try = shown.as_ref().map(|view| view.next_try).unwrap_or_default();
            if till.is_expired()
                && !till.is_closed
                && let Some(notice) = page::notice(till.t(), &standing, false, page::LATER)
            {
                return Ok(till.expired_after(&notice));
            }
            if next_try == NextTry::Never && !till.is_expired() && !till.is_closed {
                return Ok(till.tried_too_often());
            }
            let wait_ms = page::wait_ms(next_try, request.now_ms);
            let notice = page::notice(till.t(), &standing, edited, wait_ms);
            let kept = shown.as_ref().and_then(last_entries);
            till.form(200, FormState { kept, notice, wait_ms, ..FormState::default() })
        }
    }
}

/// Whether a form of an order comes from our pages, with a link that we made.
pub(in crate::edge) async fn admit(app: &App, request: &Request, link: &str) -> Result<(), Problem> {
    from_here(request)?;
    Till::open(app, request, link).await.map(drop)
}

/// `POST /checkout/{link}`
pub(in crate::edge) async fn pay_order(app: &App, request: &Request, link: &str) -> Result<Answer, Problem> {
    let till = Till::open(app, request, link).await?;
    Ok(till.answer(take(&till).await))
}

async fn take(till: &Till<'_>) -> Result<Answer, Problem> {
    let (app, request) = (till.app, till.request);
    let body = request.parameters();
    for Bucket { binding, key } in buckets(till.object, request.header("cf-connecting-ip")) {
        if !app.has_room(binding, key).await {
            return till.flooded(body.ok());
        }
    }
    let body = body?;
    let key = key_source::form_key(&body)?;
    let entries = body.without(&[key_source::FIELD]);
    match Sent::parse(&entries, &till.cards()?) {
        Ok(Sent::Pay { payment_method, email }) => till.pay(key, payment_method, email, &entries).await,
        Ok(Sent::AnotherCard { attempt }) => till.give_up(key, attempt, &entries).await,
        Err(errors) => {
            let notice = foreign_fields(till.t(), &errors, &["email"]);
            till.again(422, FormState { kept: Some(entries), errors, notice, wait_ms: 0 }).await
        }
    }
}

impl Till<'_> {
    /// Too many forms of this order, or from this address. Nothing is asked, so nothing is known about the order: the form that was sent is shown
    /// once more, under its key, and where none can be shown a page that leads to the order.
    fn flooded(&self, sent: Option<Parameters>) -> Result<Answer, Problem> {
        let key = sent.as_ref().and_then(|sent| key_source::form_key(sent).ok()?);
        let is_shown = |sent: &Parameters| {
            self.request.wants_html() && sent.text("another_card") == Field::Missing && self.may_begin()
        };
        let (Some((key, _)), Some(sent)) = (self.opened(key.as_ref()), sent.filter(is_shown)) else {
            return Ok(self.sent_too_often());
        };
        let t = self.t();
        let notice = Notice::new("warning", t.flooded, t.too_often_text);
        let kept = Some(sent.without(&[key_source::FIELD]));
        self.in_a_minute(key, FormState { kept, notice: Some(notice), ..FormState::default() })
    }

    /// The form once more, under the key that it was sent under, to be sent when the rate has room again.
    fn in_a_minute(&self, key: &IdempotencyKey, form_state: FormState) -> Result<Answer, Problem> {
        let answer = self.form_with(key.as_str().to_owned(), 429, form_state)?;
        Ok(answer.with("retry-after", web::reply::RATE_PERIOD_S.to_string()))
    }

    async fn pay(
        &self,
        key: Option<IdempotencyKey>,
        payment_method: String,
        email: Option<String>,
        entries: &Parameters,
    ) -> Result<Answer, Problem> {
        let t = self.t();
        let form_state = |title: &str, text: &str| {
            let notice = Notice::new("warning", title, text);
            FormState { kept: Some(entries.clone()), notice: Some(notice), ..FormState::default() }
        };
        let Some((key, form_key)) = self.opened(key.as_ref()) else {
            return self.again(409, form_state(t.form_not_here, t.form_not_here_text)).await;
        };
        let operation = Operation::Payment(Box::new(self.payment(payment_method, email)));
        let may_start = self.is_fresh(&form_key);
        let key_hash = key.hash(&self.owner);
        let command = self.command(key_hash.clone(), operation, entries, may_start)?;
        let answer = match self.run(command).await {
            Err(Unreachable) => {
                let key = key.as_str().to_owned();
                self.form_with(key, 503, form_state(t.unreachable, t.unreachable_text))?
                    .with("retry-after", "1")
            }
            Ok(ExecuteResult::RateLimited) => {
                self.in_a_minute(key, form_state(t.shop_busy, t.shop_busy_text))?
            }
            Ok(ExecuteResult::NotStarted) => {
                self.again(409, form_state(t.form_expired, t.form_expired_text)).await?
            }
            Ok(ExecuteResult::Refused(Refusal::TooSoon { retry_at_ms })) => {
                let problem = reply::too_soon(retry_at_ms, self.request.now_ms);
                let wait_ms = page::wait_ms(NextTry::At(retry_at_ms), self.request.now_ms);
                let key = key.as_str().to_owned();
                let told = FormState { wait_ms, ..form_state(t.wait_first, t.tries_failed) };
                let answer = self.form_with(key, 429, told)?;
                answer.with("retry-after", problem.retry_after_s.unwrap_or(1).to_string())
            }
            Ok(ExecuteResult::Refused(Refusal::LimitReached { .. })) => self.tried_too_often(),
            Ok(ExecuteResult::Refused(Refusal::LinkReplaced)) => self.closed(Kind::LinkReplaced),
            Ok(ExecuteResult::Refused(Refusal::LinkEnded)) => self.closed(Kind::LinkEnded),
            Ok(ExecuteResult::Refused(Refusal::State { .. })) if self.request.wants_html() => {
                Answer::see_other(&format!("{}?{OTHER_CARD}", path(self.link)), OTHER_CARD)
            }
            Ok(result) => reply::execute_result(
                result,
                Channel::Form,
                self.request,
                &path(self.link),
                web::reply::ResponseOptions::default(),
            ),
        };
        Ok(answer.under(&self.owner, &key_hash))
    }

    /// Gives up the try that waits for the bank; the object decides whether it still does.
    async fn give_up(
        &self,
        key: Option<IdempotencyKey>,
        attempt: u32,
        entries: &Parameters,
    ) -> Result<Answer, Problem> {
        // Whoever was shown the button has its key. One that has expired begins nothing: `is_fresh`, below.
        let Some((_, form_key)) = self.opened(key.as_ref()) else {
            return Ok(self.not_given_up());
        };
        let void = VoidRequest {
            page: Some(path(self.link)),
            attempt: Some(attempt),
            link_revision: Some(self.order.revision),
            seen: None,
        };
        let key_hash = NaturalKey::give_up(attempt).hash(&self.owner);
        let command =
            self.command(key_hash.clone(), Operation::Void(void), entries, self.is_fresh(&form_key))?;
        match self.run(command).await {
            // What is under way the page shows by itself.
            Ok(
                ExecuteResult::Finished { .. }
                | ExecuteResult::InProgress { .. }
                | ExecuteResult::Pending { .. }
                | ExecuteResult::Interrupted { .. },
            ) => Ok(self.see("given_up").under(&self.owner, &key_hash)),
            Err(Unreachable) | Ok(_) => Ok(self.not_given_up().under(&self.owner, &key_hash)),
        }
    }

    /// The order's page, which says so if the try waits for the bank still.
    fn not_given_up(&self) -> Answer {
        Answer::see_other(&format!("{}?{NOT_GIVEN_UP}", path(self.link)), NOT_GIVEN_UP)
    }

    /// Whether a form may begin something. What was begun goes on all the same.
    fn is_fresh(&self, form_key: &FormKey) -> bool {
        self.request.now_ms < form_key.expires_at_ms && self.may_begin()
    }

    async fn run(&self, command: Command) -> Result<ExecuteResult, Unreachable> {
        let wait_ms = key_source::wait_ms(self.request, self.app.config.times.wait_ms);
        let ask = Execute { command, wait_ms, fault: None, is_counted: false };
        run(self.app, &ObjectRef::Id(self.object), ask).await
    }

    fn command(
        &self,
        key_hash: KeyHash,
        operation: Operation,
        entries: &Parameters,
        may_start: bool,
    ) -> Result<Command, Problem> {
        let canonical = entries.canonical()?;
        Ok(Command {
            owner: self.owner.clone(),
            key_hash,
            fingerprint: Fingerprint::of(&self.request.method, &self.request.path, &canonical),
            parameters: canonical,
            operation,
            channel: Channel::Form,
            request_id: self.request.id.clone(),
            may_start,
            by: None,
            trace: None,
        })
    }

    /// What is paid is the link's: nothing of it comes from the form but the card, and where the receipt goes.
    fn payment(&self, payment_method: String, receipt_email: Option<String>) -> PaymentRequest {
        let page = path(self.link);
        let origin = self.request.origin();
        PaymentRequest {
            amount: self.order.cart.total(),
            currency: self.order.cart.currency(),
            capture: self.order.capture,
            order_id: Some(self.order.id.clone()),
            description: Some(format!("Order {}", self.order.id)),
            metadata: Vec::new(),
            // The cards of a page are Stripe's, whoever else takes the account's money.
            route: Route {
                provider: Provider::Stripe,
                payment_method,
                customer: None,
                merchant_account: self.account.at_stripe().map(str::to_owned),
            },
            fallback: None,
            return_url: Some(format!("{origin}{page}")),
            receipt_email,
            receipt_content: ReceiptContent {
                locale: self.t().locale,
                lines: self.order.cart.lines().iter().map(receipt_line).collect(),
            },
            origin,
            return_key: None,
            page: Some(format!("{page}?{ON_THE_WAY}")),
            link_revision: Some(self.order.revision),
        }
    }
}

fn receipt_line(line: &Line) -> ReceiptLine {
    ReceiptLine {
        name: line.name.clone(),
        quantity: line.quantity,
        // A cart's lines were added up before.
        total_minor: line.total_minor().unwrap_or_default(),
    }
}
