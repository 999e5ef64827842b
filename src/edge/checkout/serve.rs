//! The checkout's requests: a link is asked for and opened, and an order is paid.
//!
//! A payment belongs to the account that sells, so that the merchant sees and refunds it through the API. It runs in the
//! order's object, under the key of the form, which is good in that object alone. Whatever comes of it, the person is led
//! to the order's page: that asks the object, and shows the truth.

use super::Order;
use super::cart::{Cart, Line};
use super::form_key::{FormKey, Place};
use super::limits::{Bucket, buckets};
use super::page::{self, Cards, FormState, OrderState, Visit, last_entries, path};
use super::request::{OrderRequest, Sent, ended_to_json, link_to_json};
use crate::edge::api::{Unreachable, account, invalid_parameters, run, unavailable, unreadable};
use crate::edge::app::{App, ObjectRef};
use crate::edge::assets::CHECKOUT_SCRIPT;
use crate::edge::payment_params::{ORDER_MAX, visible};
use crate::edge::reply::{self, CARD_PAGE_POLICY};
use messages::message::{Ask, Execute, ExecuteResult, OrderView, Shown, View};
use once::fingerprint::{Fingerprint, Parameters};
use once::id::{ObjectId, Owner};
use once::key::{IdempotencyKey, KeyHash};
use once::record::Channel;
use payments::flows::engine::Command;
use payments::flows::order_link::{self, EndedLinks, LinkState, MadeLink, REVISION_MAX, is_through};
use payments::flows::payment::{PaymentRequest, Route};
use payments::flows::tries::NextTry;
use payments::flows::void::VoidRequest;
use payments::flows::{Operation, Refusal};
use payments::payment::id::PaymentId;
use payments::payment::money::{Currency, for_people};
use payments::payment::natural_key::{NaturalKey, order_object_name};
use payments::providers::Provider;
use runtime::random;
use web::entries::foreign_fields;
use web::http::{Answer, Request, percent_decode};
use web::key_source;
use web::origin::from_here;
use web::pages::Notice;
use web::problem::{Kind, Problem};
use web::reply::CSP;

/// What the demo sells: name, price in cents, quantity.
const DEMO_CART: [(&str, u32, u32); 3] = [
    ("Mission patch, embroidered", 800, 2),
    ("Enamel mug “Lift-off”", 1450, 1),
    ("Star map, A2 print", 2400, 1),
];

/// Where a form leads: the order's page, which from there leads on to the bank's if that waits.
const ON_THE_WAY: &str = "continue";

/// `POST /checkout/sessions`: the link to an order. The order's object is told of it, and keeps which one is the newest. It
/// needs no key: to ask for the same link again changes nothing, and every link of an order leads to the same payment.
pub(in crate::edge) async fn make_link(app: &App, request: &Request) -> Result<Answer, Problem> {
    let (owner, _) = account(app, request)?;
    let Owner::Account(account) = owner else {
        return Err(Problem::new(Kind::Unauthorized));
    };
    cards(app, &account)?;
    let OrderRequest { id, cart, return_url, revision } =
        OrderRequest::parse(&request.parameters()?, app.config.demo).map_err(invalid_parameters)?;
    let place = ObjectRef::Named(order_object_name(&Owner::Account(account.clone()), &id));
    let expires_at_ms = expires_at_ms(app, request);
    let mut order = Order { id, account, cart, return_url, expires_at_ms, revision: REVISION_MAX };
    let too_long = || {
        let message = "make the link too long: shorten the names, or return_url";
        invalid_parameters(vec![super::cart::wrong("lines", message)])
    };
    // A link that cannot be made must not replace one that is there.
    order.seal(&app.config.signing_keys).ok_or_else(too_long)?;
    let made = app.ask::<MadeLink>(&place, Ask::MakeLink { revision, content: order.content() }).await;
    order.revision = match made.map_err(unavailable)? {
        MadeLink::Revision(revision) => revision,
        MadeLink::Conflict(newest) => {
            let mut problem = Problem::new(Kind::LinkRevision);
            problem.revision = Some(newest);
            return Err(problem);
        }
    };
    let link = order.seal(&app.config.signing_keys).ok_or_else(too_long)?;
    let url = format!("{}{}", request.origin(), path(&link));
    let body = link_to_json(&order, &url).to_string();
    Ok(Answer::new(201, "application/json", body, "link_made").with("location", url))
}

/// `POST /checkout/sessions/{order}/expire`: ends all links of an order that were made so far.
pub(in crate::edge) async fn expire_links(
    app: &App,
    request: &Request,
    order: &str,
) -> Result<Answer, Problem> {
    let (owner, _) = account(app, request)?;
    let id = percent_decode(order).filter(|id| visible(id, ORDER_MAX).is_ok());
    let id = id.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let place = ObjectRef::Named(order_object_name(&owner, &id));
    match app.ask::<EndedLinks>(&place, Ask::EndLinks).await.map_err(unavailable)? {
        EndedLinks::Through(revision) => {
            Ok(Answer::new(200, "application/json", ended_to_json(&id, revision).to_string(), "links_ended"))
        }
        EndedLinks::Paid(state) => {
            let detail =
                "The order is paid: there is nothing left to end. Void or refund the payment instead.";
            let mut problem = Problem::because(Kind::PaymentState, detail);
            problem.resource = app.object_id(&place).ok().map(|object| PaymentId::in_object(object).path());
            problem.state = Some(state);
            Err(problem)
        }
    }
}

/// `GET /checkout`: in the demo, a small cart to pay.
pub(in crate::edge) async fn demo_order(app: &App, request: &Request) -> Result<Answer, Problem> {
    if !app.config.demo {
        return Err(Problem::because(
            Kind::NotFound,
            "An order is paid at its own address: the link that the shop gave you. Shops ask for one with \
             `POST /checkout/sessions`.",
        ));
    }
    let lines =
        DEMO_CART.map(|(name, unit_minor, quantity)| Line { name: name.to_owned(), unit_minor, quantity });
    let cart = Cart::new(Currency::USD, lines.to_vec()).map_err(invalid_parameters)?;
    let order = Order {
        id: format!("order_{}", random::uuid().map_err(unavailable)?),
        account: app.config.checkout_account.clone(),
        cart,
        return_url: None,
        expires_at_ms: expires_at_ms(app, request),
        // Whoever looks at the demo's cart stores nothing.
        revision: 0,
    };
    let link = order.seal(&app.config.signing_keys).unwrap_or_default();
    Ok(Answer::see_other(&path(&link), "order_made"))
}

/// `GET /checkout/{link}`
pub(in crate::edge) async fn show_order(app: &App, request: &Request, link: &str) -> Result<Answer, Problem> {
    let till = Till::open(app, request, link)?;
    let shown = match till.shown().await? {
        Ok(shown) => shown,
        Err(closed) => return Ok(closed),
    };
    let standing = OrderState::of(shown.as_ref());
    let on_the_way = request.has_query(ON_THE_WAY);
    match standing {
        OrderState::AtTheBank { attempt, url } => {
            let key = till.form_key()?;
            Ok(web::reply::html(
                200,
                &page::bank(till.visit(), key, attempt, url, on_the_way, till.total(shown.as_ref())),
                "bank",
            ))
        }
        // The address of an order is one: what stands there can be reloaded and kept.
        _ if on_the_way || request.has_query("payment") => Ok(Answer::see_other(&path(link), "shown")),
        OrderState::Paid(_) if !request.query.is_empty() => Ok(Answer::see_other(&path(link), "shown")),
        OrderState::Paid(paid) => Ok(web::reply::html(200, &page::receipt(till.visit(), &paid), "receipt")),
        OrderState::Confirming { in_doubt, since_ms } => Ok(web::reply::html(
            200,
            &page::status(till.visit(), in_doubt, since_ms, till.total(shown.as_ref())),
            "status",
        )),
        OrderState::Open | OrderState::Failed { .. } | OrderState::Canceled => {
            let next_try = shown.as_ref().map(|view| view.next_try).unwrap_or_default();
            if next_try == NextTry::Never && !till.is_expired() {
                return Ok(till.tried_too_often());
            }
            let wait_ms = page::wait_ms(next_try, request.now_ms);
            let notice = page::notice(&standing, request.has_query("edited"), wait_ms);
            let kept = shown.as_ref().and_then(last_entries);
            till.form(200, FormState { kept, notice, ..FormState::default() })
        }
    }
}

/// Whether a form of an order comes from our pages, with a link that we made.
pub(in crate::edge) fn admit(app: &App, request: &Request, link: &str) -> Result<(), Problem> {
    from_here(request)?;
    Till::open(app, request, link).map(drop)
}

/// `POST /checkout/{link}`
pub(in crate::edge) async fn pay_order(app: &App, request: &Request, link: &str) -> Result<Answer, Problem> {
    let till = Till::open(app, request, link)?;
    for Bucket { binding, key } in buckets(till.object, request.header("cf-connecting-ip")) {
        if !app.has_room(binding, key).await {
            return Ok(till.flooded());
        }
    }
    let body = request.parameters()?;
    let key = key_source::form_key(&body)?;
    let entries = body.without(&["idempotency_key"]);
    match Sent::parse(&entries, &till.cards) {
        Ok(Sent::Pay { payment_method, email }) => till.pay(key, payment_method, email, &entries).await,
        Ok(Sent::AnotherCard { attempt }) => till.give_up(key, attempt, &entries).await,
        Err(errors) => {
            let notice = foreign_fields(&errors, &["email"]);
            till.again(422, FormState { kept: Some(entries), errors, notice }).await
        }
    }
}

/// Where one order is paid.
struct Till<'a> {
    app: &'a App,
    request: &'a Request,
    link: &'a str,
    order: Order,
    /// Who sells: the payment is the account's.
    owner: Owner,
    /// The order's object.
    object: ObjectId,
    cards: Cards<'a>,
}

impl<'a> Till<'a> {
    fn open(app: &'a App, request: &'a Request, link: &'a str) -> Result<Self, Problem> {
        let not_found = |detail| Problem::because(Kind::NotFound, detail);
        let order = Order::open(link, &app.config.signing_keys).map_err(|_| {
            not_found(
                "This link to an order is not complete, or it was changed. Open it again just as the shop gave it to \
                 you. Nothing was charged by this.",
            )
        })?;
        if !app.config.accounts.contains_key(&order.account) {
            return Err(not_found("The shop that made this link does not take payments here any more."));
        }
        let owner = Owner::Account(order.account.clone());
        let name = order_object_name(&owner, &order.id);
        let object = app.object_id(&ObjectRef::Named(name)).map_err(unavailable)?;
        Ok(Self { app, request, link, cards: cards(app, &order.account)?, order, owner, object })
    }

    fn visit(&self) -> Visit<'_> {
        let (site, now_ms) = (self.app.site(self.request), self.request.now_ms);
        Visit { site, order: &self.order, link: self.link, now_ms }
    }

    const fn place(&self) -> Place<'_> {
        Place { object: self.object, link: self.link }
    }

    const fn is_expired(&self) -> bool {
        self.request.now_ms >= self.order.expires_at_ms
    }

    /// What the order's object has, by the provider's latest word; or the page of a link that was replaced or ended. Such a
    /// link still shows the payment that was made through it, while that is under way or paid.
    async fn shown(&self) -> Result<Result<Shown, Answer>, Problem> {
        let ask = Ask::Order { owner: self.owner.clone() };
        let order = self.app.ask::<OrderView>(&ObjectRef::Id(self.object), ask).await.map_err(unreadable)?;
        let OrderView { view, links } = order;
        let state = order_link::state(links.as_ref(), self.order.revision);
        let payment = view.as_ref().and_then(|view| view.payment.as_ref());
        let is_its_own = payment.is_some_and(|payment| is_through(payment, self.order.revision));
        let is_payable = OrderState::of(view.as_ref()).is_payable();
        Ok(match state {
            LinkState::Replaced if is_payable || !is_its_own => Err(self.closed(Kind::LinkReplaced)),
            LinkState::Ended if is_payable || !is_its_own => Err(self.closed(Kind::LinkEnded)),
            LinkState::Live | LinkState::Replaced | LinkState::Ended => Ok(view),
        })
    }

    /// What is being paid: of the payment, whatever stands in the link.
    fn total(&self, shown: Option<&View>) -> String {
        let payment = shown.and_then(|view| view.payment.as_ref());
        let (amount, currency) = match payment {
            Some(payment) => (payment.amount, payment.currency),
            None => (self.order.cart.total(), self.order.cart.currency()),
        };
        for_people(amount.get(), currency)
    }

    /// The order's page.
    fn see(&self, outcome: &'static str) -> Answer {
        Answer::see_other(&path(self.link), outcome)
    }

    /// The form under a fresh key, while the link may be paid.
    fn form(&self, status: u16, sheet: FormState) -> Result<Answer, Problem> {
        if self.is_expired() {
            return Ok(self.expired());
        }
        Ok(self.form_with(self.form_key()?, status, sheet))
    }

    /// A fresh key for a form of this page.
    fn form_key(&self) -> Result<String, Problem> {
        let expires_at_ms = self.request.now_ms.saturating_add(self.app.config.form_ttl_ms);
        let key = FormKey {
            nonce: random::uuid().map_err(unavailable)?,
            // A form is not good for longer than its link.
            expires_at_ms: expires_at_ms.min(self.order.expires_at_ms),
        };
        Ok(key.seal(self.place(), &self.app.config.signing_keys))
    }

    /// The key of a form of this page, if it is one.
    fn opened<'k>(&self, key: Option<&'k IdempotencyKey>) -> Option<(&'k IdempotencyKey, FormKey)> {
        let key = key?;
        let opened = FormKey::open(key.as_str(), self.place(), &self.app.config.signing_keys);
        opened.ok().map(|form_key| (key, form_key))
    }

    fn form_with(&self, key: String, status: u16, sheet: FormState) -> Answer {
        let outcome = if status == 200 { "form" } else { "form_again" };
        let answer = web::reply::html(status, &page::form(self.visit(), key, &self.cards, sheet), outcome);
        match self.cards {
            Cards::Test => answer,
            Cards::Element { .. } => answer.with(CSP, CARD_PAGE_POLICY),
        }
    }

    fn expired(&self) -> Answer {
        self.closed(Kind::LinkExpired)
    }

    /// With this link the order cannot be paid any more.
    fn closed(&self, why: Kind) -> Answer {
        self.refuse(why.title(), &Problem::new(why))
    }

    /// No more cards are taken for this order.
    fn tried_too_often(&self) -> Answer {
        let detail = "It was tried too often without success, so no more cards are taken for it. Nothing was charged. Please \
                      contact the shop: it can make a new order for you, with a link of its own.";
        self.refuse("This order cannot be paid here any more", &Problem::because(Kind::LimitReached, detail))
    }

    /// A page that leads back to the shop; for programs the problem.
    fn refuse(&self, title: &str, problem: &Problem) -> Answer {
        if !self.request.wants_html() {
            return web::reply::problem(problem, self.request);
        }
        let link = match &self.order.return_url {
            Some(url) => (url.as_str(), "Back to the shop"),
            None => ("/", "Back to the start"),
        };
        web::reply::titled_page(title, problem, self.request, self.app.site(self.request), link)
    }

    /// Too many forms of this order, or from this address. Nothing was asked, so nothing is known about the order.
    fn flooded(&self) -> Answer {
        let mut problem = web::reply::rate_limited();
        problem.detail = "This was sent too often in a short time, and it was not run this time. Wait a minute, then look at \
                          your order: its page shows whether it is paid."
            .to_owned();
        if !self.request.wants_html() {
            return web::reply::problem(&problem, self.request);
        }
        let (site, path) = (self.app.site(self.request), path(self.link));
        web::reply::titled_page("One moment, please", &problem, self.request, site, (&path, "Show my order"))
    }

    /// The form once more, with the reason; or the order's page, if there is nothing to pay: "nothing was charged" may be
    /// wrong then.
    async fn again(&self, status: u16, sheet: FormState) -> Result<Answer, Problem> {
        let shown = match self.shown().await? {
            Ok(shown) => shown,
            Err(closed) => return Ok(closed),
        };
        if !OrderState::of(shown.as_ref()).is_payable() {
            return Ok(self.see("used"));
        }
        let kept = sheet.kept.or_else(|| shown.as_ref().and_then(last_entries));
        self.form(status, FormState { kept, ..sheet })
    }

    async fn pay(
        &self,
        key: Option<IdempotencyKey>,
        payment_method: String,
        email: Option<String>,
        entries: &Parameters,
    ) -> Result<Answer, Problem> {
        let sheet = |title: &str, text: &str| {
            let notice = Notice { title: title.to_owned(), text: text.to_owned(), tone: "warning" };
            FormState { kept: Some(entries.clone()), notice: Some(notice), errors: Vec::new() }
        };
        let Some((key, form_key)) = self.opened(key.as_ref()) else {
            let text = "It was made for another order, or it was not complete. Nothing was charged. Please pay below.";
            return self.again(409, sheet("This form cannot be used here", text)).await;
        };
        let operation = Operation::Payment(Box::new(self.payment(payment_method, email)));
        let may_start = self.request.now_ms < form_key.expires_at_ms && !self.is_expired();
        let key_hash = key.hash(&self.owner);
        let command = self.command(key_hash.clone(), operation, entries, may_start);
        let answer = match self.run(command).await {
            Err(Unreachable) => {
                let text = "Press Pay again: this order is paid once, however often the form is sent.";
                let key = key.as_str().to_owned();
                self.form_with(key, 503, sheet("We could not get through", text)).with("retry-after", "1")
            }
            Ok(ExecuteResult::RateLimited) => {
                let text = "The shop takes too many payments at the moment. Nothing was charged. Press Pay again in a minute.";
                let key = key.as_str().to_owned();
                let answer = self.form_with(key, 429, sheet("One moment, please", text));
                answer.with("retry-after", web::reply::RATE_PERIOD_S.to_string())
            }
            Ok(ExecuteResult::NotStarted) => {
                let text = "It was open for too long. Nothing was charged. Please pay below.";
                self.again(409, sheet("This form has expired", text)).await?
            }
            Ok(ExecuteResult::Refused(Refusal::TooSoon { retry_at_ms })) => {
                let problem = reply::too_soon(retry_at_ms, self.request.now_ms);
                let wait_ms = page::wait_ms(NextTry::At(retry_at_ms), self.request.now_ms);
                let text = format!(
                    "Several cards were declined for this order. Nothing was charged. You can try another one{}.",
                    page::in_words(wait_ms)
                );
                let key = key.as_str().to_owned();
                let answer = self.form_with(key, 429, sheet("Please wait before the next try", &text));
                answer.with("retry-after", problem.retry_after_s.unwrap_or(1).to_string())
            }
            Ok(ExecuteResult::Refused(Refusal::LimitReached { .. })) => self.tried_too_often(),
            Ok(ExecuteResult::Refused(Refusal::LinkReplaced)) => self.closed(Kind::LinkReplaced),
            Ok(ExecuteResult::Refused(Refusal::LinkEnded)) => self.closed(Kind::LinkEnded),
            Ok(verdict) => reply::verdict(
                verdict,
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
        // Whoever was shown the button has its key; it may be old, and then nothing waits for the bank any more.
        if self.opened(key.as_ref()).is_none() {
            return Ok(self.see("not_given_up"));
        }
        let void = VoidRequest {
            page: Some(path(self.link)),
            attempt: Some(attempt),
            link_revision: Some(self.order.revision),
        };
        let key_hash = NaturalKey::give_up(attempt).hash(&self.owner);
        let command = self.command(key_hash.clone(), Operation::Void(void), entries, true);
        match self.run(command).await {
            // The page shows whether it was given up; if not, it can be asked for once more.
            Err(Unreachable) | Ok(_) => Ok(self.see("given_up").under(&self.owner, &key_hash)),
        }
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
    ) -> Command {
        let canonical = entries.canonical();
        Command {
            owner: self.owner.clone(),
            key_hash,
            fingerprint: Fingerprint::of(&self.request.method, &self.request.path, &canonical),
            parameters: canonical,
            operation,
            channel: Channel::Form,
            request_id: self.request.id.clone(),
            may_start,
            by: None,
        }
    }

    /// What is paid is the link's: nothing of it comes from the form but the card, and where the receipt goes.
    fn payment(&self, payment_method: String, receipt_email: Option<String>) -> PaymentRequest {
        let page = path(self.link);
        let origin = self.request.origin();
        PaymentRequest {
            amount: self.order.cart.total(),
            currency: self.order.cart.currency(),
            capture: true,
            order_id: Some(self.order.id.clone()),
            description: Some(format!("Order {}", self.order.id)),
            metadata: Vec::new(),
            // The cards of a page are Stripe's, whoever else takes the account's money.
            route: Route {
                provider: Provider::Stripe,
                payment_method,
                customer: None,
                merchant_account: self.app.config.stripe_account(&self.order.account).map(str::to_owned),
            },
            fallback: None,
            return_url: Some(format!("{origin}{page}")),
            receipt_email,
            origin,
            return_key: None,
            page: Some(format!("{page}?{ON_THE_WAY}")),
            link_revision: Some(self.order.revision),
        }
    }
}

fn expires_at_ms(app: &App, request: &Request) -> u64 {
    request.now_ms.saturating_add(app.config.checkout_ttl_ms)
}

/// How cards are entered here.
fn cards<'a>(app: &'a App, account: &str) -> Result<Cards<'a>, Problem> {
    match &app.config.publishable_key {
        Some(publishable_key) => Ok(Cards::Element {
            publishable_key,
            stripe_account: app.config.stripe_account(account),
            script: CHECKOUT_SCRIPT.address,
        }),
        None if app.config.demo => Ok(Cards::Test),
        None => Err(Problem::of_setting(
            Kind::Misconfigured,
            "Payments by form are not set up here: STRIPE_PUBLISHABLE_KEY is not set. Nothing was charged.",
        )),
    }
}
