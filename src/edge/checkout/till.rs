//! Where one order is paid: the order in a link, its object, and every page that both requests of it, [showing](super::serve) and
//! paying, answer with.

use std::rc::Rc;

use super::Order;
use super::form_key::{FormKey, Place};
use super::page::{self, Cards, FormState, OrderState, Visit, last_entries, path};
use crate::accounts::Seller;
use crate::edge::api::{unavailable, unreadable};
use crate::edge::app::{App, ObjectRef};
use crate::edge::assets::CHECKOUT_SCRIPT;
use crate::edge::reply::{CARD_PAGE_POLICY, GIVING_BACK_AGAIN_S, keys_unusable};
use crate::own_keys::OwnKeys;
use askama::Template;
use messages::account::{Account, Shop};
use messages::message::{ObjectRequest, OrderView, Shown, View};
use once::id::{ObjectId, Owner};
use once::key::IdempotencyKey;
use payments::payment::natural_key::order_object_name;
use payments::payment::order_link::{self, LinkState, is_through};
use payments::payment::tries::{GIVING_BACK, NOT_GIVEN_BACK};
use runtime::random;
use web::http::{Answer, Request};
use web::image_url::ImageUrl;
use web::locale::{EN, Messages};
use web::pages::{Notice, Site};
use web::problem::{BadLink, Kind, Problem};
use web::reply::{CSP, PAGE_POLICY, in_language, with_images};

/// Where one order is paid.
pub(super) struct Till<'a> {
    pub(super) app: &'a App,
    pub(super) request: &'a Request,
    pub(super) link: &'a str,
    pub(super) order: Order,
    /// Who sells: the payment is the account's.
    pub(super) owner: Owner,
    /// The order's object.
    pub(super) object: ObjectId,
    /// What is known of who sells.
    pub(super) account: Rc<Account>,
    /// The account is closed: nothing is begun any more, and what was paid is shown.
    pub(super) is_closed: bool,
    /// The keys that it has of its own.
    own: Option<Rc<OwnKeys>>,
}

impl<'a> Till<'a> {
    pub(super) async fn open(app: &'a App, request: &'a Request, link: &'a str) -> Result<Self, Problem> {
        let order = Order::open(link, &app.config.signing_keys)
            .map_err(|_| not_found(BadLink::Broken, EN.link_broken))?;
        let seller = app.account_of_id(&order.account, request.now_ms).await?;
        let Seller { account, is_closed } = seller.ok_or_else(shop_gone)?;
        let own = app.own_keys(&account).await?;
        // What was paid is shown also while nothing more can be.
        if own.is_none() {
            cards(app, &account, None)?;
        }
        let owner = Owner::Account(order.account.clone());
        let name = order_object_name(&owner, &order.id);
        let object = app.object_id(&ObjectRef::Named(name)).map_err(unavailable)?;
        Ok(Self { app, request, link, order, owner, account, is_closed, own, object })
    }

    /// See [`cards`].
    pub(super) fn cards(&self) -> Result<Cards<'_>, Problem> {
        cards(self.app, &self.account, self.own.as_deref())
    }

    /// What is said in the order's language, or else in the browser's.
    pub(super) fn t(&self) -> &'static Messages {
        self.order.locale.map_or_else(|| self.request.messages(), Messages::of)
    }

    fn site(&self) -> Site {
        Site { t: self.t(), ..self.app.site(self.request) }
    }

    /// One of the order's pages.
    pub(super) fn page(&self, status: u16, page: &impl Template, outcome: &'static str) -> Answer {
        self.page_under(PAGE_POLICY, status, page, outcome)
    }

    fn page_under(&self, policy: &str, status: u16, page: &impl Template, outcome: &'static str) -> Answer {
        let logo = self.account.shop.as_ref().and_then(Shop::logo);
        let mut origins = self.order.cart.image_origins();
        origins.extend(logo.as_ref().and_then(ImageUrl::origin));
        let policy = with_images(policy, origins);
        in_language(web::reply::html(status, page, outcome), self.t()).with(CSP, policy)
    }

    /// The answer, or the problem in the order's language.
    pub(super) fn answer(&self, answer: Result<Answer, Problem>) -> Answer {
        answer.unwrap_or_else(|problem| {
            let path = path(self.link);
            let way_on = way_on(&problem, &self.order, &path, self.t());
            runtime::serve::refuse_customer(problem, self.request, self.site(), way_on)
        })
    }

    pub(super) fn visit(&self) -> Visit<'_> {
        let (site, now_ms) = (self.site(), self.request.now_ms);
        Visit { site, order: &self.order, shop: self.account.shop.as_ref(), link: self.link, now_ms }
    }

    const fn place(&self) -> Place<'_> {
        Place { object: self.object, link: self.link }
    }

    pub(super) const fn is_expired(&self) -> bool {
        self.request.now_ms >= self.order.expires_at_ms
    }

    /// Whether the account may charge this, by its settings of now: its link may be older.
    pub(super) fn is_allowed(&self) -> bool {
        let cart = &self.order.cart;
        !self.is_closed && self.account.may_charge(cart.total(), cart.currency()).is_ok()
    }

    /// Whether anything may be begun through this link now.
    pub(super) fn may_begin(&self) -> bool {
        !self.is_expired() && self.is_allowed()
    }

    /// What the order's object has, by the provider's latest word; or the page of a link that was replaced or ended. Such a
    /// link still shows the payment that was made through it, while that is under way or paid.
    pub(super) async fn shown(&self) -> Result<Result<Shown, Answer>, Problem> {
        let ask = ObjectRequest::Order { owner: self.owner.clone() };
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
    pub(super) fn total(&self, shown: Option<&View>) -> String {
        let payment = shown.and_then(|view| view.payment.as_ref());
        let (amount, currency) = match payment {
            Some(payment) => (payment.amount, payment.currency),
            None => (self.order.cart.total(), self.order.cart.currency()),
        };
        self.t().money(amount.get(), currency)
    }

    /// The order's page.
    pub(super) fn see(&self, outcome: &'static str) -> Answer {
        Answer::see_other(&path(self.link), outcome)
    }

    /// The form under a fresh key, while the link may be paid.
    pub(super) fn form(&self, status: u16, form: FormState) -> Result<Answer, Problem> {
        if self.is_closed {
            return Err(shop_gone());
        }
        if self.is_expired() {
            return Ok(self.expired());
        }
        if !self.is_allowed() {
            return Ok(self.closed(Kind::LinkEnded));
        }
        self.form_with(self.form_key()?, status, form)
    }

    /// A fresh key for a form of this page.
    pub(super) fn form_key(&self) -> Result<String, Problem> {
        let expires_at_ms = self.request.now_ms.saturating_add(self.app.config.form_ttl_ms);
        let key = FormKey {
            nonce: random::uuid().map_err(unavailable)?,
            // A form is not good for longer than its link.
            expires_at_ms: expires_at_ms.min(self.order.expires_at_ms),
        };
        Ok(key.seal(self.place(), &self.app.config.signing_keys))
    }

    /// The key of a form of this page, if it is one.
    pub(super) fn opened<'k>(
        &self,
        key: Option<&'k IdempotencyKey>,
    ) -> Option<(&'k IdempotencyKey, FormKey)> {
        let key = key?;
        let opened = FormKey::open(key.as_str(), self.place(), &self.app.config.signing_keys);
        opened.ok().map(|form_key| (key, form_key))
    }

    pub(super) fn form_with(&self, key: String, status: u16, form: FormState) -> Result<Answer, Problem> {
        let outcome = if status == 200 { "form" } else { "form_again" };
        let cards = self.cards()?;
        let form = page::form(self.visit(), key, &cards, form);
        Ok(match cards {
            Cards::Test => self.page_under(PAGE_POLICY, status, &form, outcome),
            // A wallet asks the person in a window of its own.
            Cards::Element { .. } => self
                .page_under(CARD_PAGE_POLICY, status, &form, outcome)
                .with("cross-origin-opener-policy", "same-origin-allow-popups"),
        })
    }

    fn expired(&self) -> Answer {
        self.closed(Kind::LinkExpired)
    }

    /// The same after a try that came to nothing, which the customer is told of first: the order may have been placed in time.
    pub(super) fn expired_after(&self, notice: &Notice) -> Answer {
        let text = self.t().sentences(&[&notice.text, self.t().link_over]);
        self.worded((&notice.title, &text), &Problem::new(Kind::LinkExpired), self.way_back())
    }

    /// With this link the order cannot be paid any more.
    pub(super) fn closed(&self, why: Kind) -> Answer {
        self.refuse(&Problem::new(why))
    }

    /// No more cards are taken for this order.
    pub(super) fn tried_too_often(&self) -> Answer {
        self.refuse(&Problem::because(Kind::LimitReached, EN.tried_too_often_text))
    }

    /// An earlier payment of this order is being given back, or could not be: no card is taken beside it.
    pub(super) fn giving_back(&self, is_refused: bool) -> Answer {
        let (t, path) = (self.t(), path(self.link));
        let words = |t: &Messages| match is_refused {
            true => (t.not_given_back, t.not_given_back_text),
            false => (t.giving_back, t.giving_back_text),
        };
        let problem = Problem {
            state: Some(if is_refused { NOT_GIVEN_BACK } else { GIVING_BACK }.to_owned()),
            retry_after_s: (!is_refused).then_some(GIVING_BACK_AGAIN_S),
            resource: Some(path.clone()),
            ..Problem::because(Kind::PaymentState, words(&EN).1)
        };
        let link = if is_refused { self.way_back() } else { (path.as_str(), t.show_order) };
        self.worded(words(t), &problem, link)
    }

    /// A page that leads back to the shop; for programs the problem.
    fn refuse(&self, problem: &Problem) -> Answer {
        self.problem(problem, self.way_back())
    }

    fn way_back(&self) -> (&str, &'static str) {
        way_back(&self.order, self.t())
    }

    /// A problem in the order's language; for programs as ever.
    fn problem(&self, problem: &Problem, link: (&str, &str)) -> Answer {
        self.worded(self.t().problem(problem), problem, link)
    }

    /// The same with a title and a text of its own.
    fn worded(&self, words: (&str, &str), problem: &Problem, link: (&str, &str)) -> Answer {
        if !self.request.wants_html() {
            return web::reply::problem(problem, self.request);
        }
        in_language(web::reply::worded_page(words, problem, self.request, self.site(), link), self.t())
    }

    /// The page that says so where there is no form to show.
    pub(super) fn sent_too_often(&self) -> Answer {
        let mut problem = web::reply::rate_limited();
        problem.detail = EN.flooded_text.to_owned();
        self.problem(&problem, (&path(self.link), self.t().show_order))
    }

    /// The form once more, with the reason; or the order's page, if there is nothing to pay: "nothing was charged" may be
    /// wrong then.
    pub(super) async fn again(&self, status: u16, form: FormState) -> Result<Answer, Problem> {
        let shown = match self.shown().await? {
            Ok(shown) => shown,
            Err(closed) => return Ok(closed),
        };
        if !OrderState::of(shown.as_ref()).is_payable() {
            return Ok(self.see("used"));
        }
        let kept = form.kept.or_else(|| shown.as_ref().and_then(last_entries));
        self.form(status, FormState { kept, ..form })
    }
}

fn way_back<'a>(order: &'a Order, t: &Messages) -> (&'a str, &'static str) {
    match order.back_url() {
        Some(url) => (url, t.back_to_shop),
        None => ("/", t.back_to_start),
    }
}

/// Where the page of a problem leads: to the order, which shows how it stands; where nothing is shown of it, back to the shop.
pub(in crate::edge) fn way_on<'a>(
    problem: &Problem,
    order: &'a Order,
    path: &'a str,
    t: &Messages,
) -> (&'a str, &'static str) {
    match problem.kind {
        Kind::NotFound => way_back(order, t),
        _ => (path, t.show_order),
    }
}

fn not_found(why: BadLink, detail: &str) -> Problem {
    Problem { bad_link: Some(why), ..Problem::because(Kind::NotFound, detail) }
}

fn shop_gone() -> Problem {
    not_found(BadLink::ShopGone, EN.shop_gone)
}

/// How cards are entered here.
pub(super) fn cards<'a>(
    app: &'a App,
    account: &'a Account,
    own: Option<&'a OwnKeys>,
) -> Result<Cards<'a>, Problem> {
    if own.is_some_and(|own| own.credential().is_none()) {
        return Err(keys_unusable());
    }
    let publishable_key = match own {
        Some(own) => own.publishable_key(),
        None => app.config.publishable_key.as_deref(),
    };
    match publishable_key {
        Some(publishable_key) => Ok(Cards::Element {
            publishable_key,
            stripe_account: account.stripe_account.as_deref(),
            script: CHECKOUT_SCRIPT.address,
        }),
        None if app.config.demo => Ok(Cards::Test),
        None if own.is_some() => Err(Problem::of_setting(
            Kind::Misconfigured,
            "Payments by form are not set up for this account: its own stripe_publishable_key is not set. Nothing was charged.",
        )),
        None => Err(Problem::of_setting(
            Kind::Misconfigured,
            "Payments by form are not set up here: STRIPE_PUBLISHABLE_KEY is not set. Nothing was charged.",
        )),
    }
}
