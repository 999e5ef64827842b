//! The pages of the registry: the list, an account, and the form of its settings.

use super::credentials::{self, Entered, ShownRow};
use super::entries::Wrong;
use super::store::{self, AccountRow, TOKENS_SHOWN, Tokens};
use super::view::{AccountForm, AccountPage, Keys, Made, TokenLine};
use super::{PATH, configured, entries, tokens, webhook};
use crate::action_outcome::ActionOutcome;
use crate::button::Button;
use crate::confirm::Question;
use crate::context::Desk;
use crate::detail::acts_on;
use crate::detail_tables::{fact, optional};
use crate::format;
use crate::operator::{form_key, is_form_key};
use crate::operator_log::{self, Action};
use crate::queries::PAGE;
use crate::route::{CloseAction, OperatorAction, Target};
use crate::status::Entity;
use crate::view_models::{Cell, Fact, List, Row};
use messages::account::{Account, is_id};
use messages::credentials::CredentialKind;
use once::fingerprint::Parameters;
use payments::providers::Provider;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::{Decoded, Parameter};

/// Where a new one is entered.
const NEW_PATH: &str = "/admin/accounts/new";

/// `GET /admin/accounts`
pub(crate) async fn list(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let (search, number, now_ms) = (desk.query("q"), desk.page_number(), desk.request.now_ms);
    let mut found = store::list(&desk.app.env, &search, number).await.map_err(unreadable)?;
    let (newer, older) = desk.around(&mut found);
    let mut rows = Vec::new();
    if number == 0 {
        let known = configured(desk.app).await?;
        let named = known.into_iter().filter(|id| id.starts_with(&search)).take(PAGE);
        rows.extend(named.map(|id| {
            let path = Target::Account(id.clone()).path();
            let state = Entity::Account.chip("configured");
            let empty = || Cell::text("");
            Row { cells: vec![Cell::link(id, path), empty(), state, empty(), empty()], buttons: Vec::new() }
        }));
    }
    rows.extend(found.iter().map(|row| {
        let path = Target::Account(row.id.clone()).path();
        let (shop, pays_with) = match row.account() {
            Ok(account) => (
                account.shop.map(|shop| shop.name).unwrap_or_default(),
                Cell { class: "id", ..Cell::text(format::short(&account.payment_method)) }
                    .with(account.stripe_account.unwrap_or_default()),
            ),
            Err(_) => (String::new(), Cell::text("set by a newer release")),
        };
        let changed = Cell::moment(row.changed_at_ms).with(format::from_now(row.changed_at_ms, now_ms));
        let cells = vec![
            Cell::link(row.id.clone(), path),
            Cell::text(shop),
            Entity::Account.chip(&row.state),
            pays_with,
            changed,
        ];
        Row { cells, buttons: Vec::new() }
    }));
    let page = List {
        title: "Accounts",
        intro: "The clients of the API: whose tokens are good, what each pays with, who sells, and what it may charge.",
        search: Some(search),
        day: None,
        hint: "The beginning of an account’s id",
        selects: Vec::new(),
        columns: &["Account", "Shop", "State", "Pays with", "Changed (UTC)"],
        rows,
        empty_text: "No account begins like that.",
        buttons: vec![Button {
            label: "New account".to_owned(),
            path: NEW_PATH.to_owned(),
            ..Button::default()
        }],
        download: String::new(),
        upload: None,
        newer,
        older,
        site: desk.site(),
        legend: Entity::Account.legend(),
        chrome: desk.chrome(PATH).await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// An account: of the registry, or of `API_ACCOUNTS`, or both.
struct Known {
    id: String,
    row: Option<AccountRow>,
    is_configured: bool,
}

impl Known {
    async fn find(desk: &Desk<'_>, id: &str) -> Result<Self, Problem> {
        let row = store::find(&desk.app.env, id).await.map_err(unreadable)?;
        let is_configured = configured(desk.app).await?.iter().any(|known| known == id);
        if row.is_none() && !is_configured {
            return Err(Problem::new(Kind::NotFound));
        }
        Ok(Self { id: id.to_owned(), row, is_configured })
    }
}

/// `GET /admin/accounts/{id}`
pub(crate) async fn account(desk: &Desk<'_>, id: &Parameter<'_, Decoded>) -> Result<Answer, Problem> {
    let Decoded(id) = &id.read()?;
    show(desk, Known::find(desk, id).await?, Beside::default()).await
}

/// `POST /admin/accounts/{id}/credentials`
pub(crate) async fn set_credentials(desk: &Desk<'_>, id: &Parameter<'_, Decoded>) -> Result<Answer, Problem> {
    let Decoded(id) = &id.read()?;
    let known = Known::find(desk, id).await?;
    let sent = desk.request.parameters()?;
    // A form of before has keys of Stripe's alone.
    let provider = Provider::parse(&sent.text("provider").or_empty()).unwrap_or(Provider::Stripe);
    match Entered::read(provider, |name| sent.text(name).or_empty()) {
        Ok(entered) => credentials::set(desk, id, &sent.text("form").or_empty(), entered).await,
        Err(error) => {
            let keys_error = Some((provider, error));
            show(desk, known, Beside { status: 422, keys_error, ..Beside::default() }).await
        }
    }
}

/// `POST /admin/accounts/{id}/tokens`
pub(crate) async fn make_token(desk: &Desk<'_>, id: &Parameter<'_, Decoded>) -> Result<Answer, Problem> {
    let Decoded(id) = &id.read()?;
    let known = Known::find(desk, id).await?;
    let made = tokens::make(desk, id).await?;
    show(desk, known, Beside { made: Some(made), ..Beside::default() }).await
}

/// What an account's page shows beside the account.
struct Beside {
    status: u16,
    /// A token that was just made, which is shown this once.
    made: Option<Made>,
    /// Why keys of a provider's were not set.
    keys_error: Option<(Provider, String)>,
}

impl Default for Beside {
    fn default() -> Self {
        Self { status: 200, made: None, keys_error: None }
    }
}

/// An account's page.
async fn show(desk: &Desk<'_>, known: Known, beside: Beside) -> Result<Answer, Problem> {
    let subject = Target::Account(known.id.clone());
    let now_ms = desk.request.now_ms;
    let Tokens { rows, has_more } =
        store::tokens(&desk.app.env, &known.id, now_ms).await.map_err(unreadable)?;
    let lines = rows.into_iter().map(|row| tokens::line(desk, row)).collect::<Result<Vec<TokenLine>, _>>()?;
    let (mut facts, mut buttons) = (Vec::new(), Vec::new());
    let mut edit = String::new();
    if known.is_configured {
        let from = Cell::text("the secret API_ACCOUNTS").with(match known.row {
            Some(_) => "What is entered here counts once it is not there any more.",
            None => "Its settings are changed there. Tokens can be made here, too.",
        });
        facts.push(fact("Set by", from));
    }
    if let Some(row) = &known.row {
        match row.account() {
            Ok(account) => {
                facts.extend(of_account(&account));
                edit = format!("{}/edit", subject.path());
            }
            Err(_) => {
                facts.push(fact("Settings", Cell::text("of a newer release: this one cannot read them")))
            }
        }
        facts.push(fact("Made", Cell::moment(row.created_at_ms)));
        let changed = Cell::moment(row.changed_at_ms).with(format::from_now(row.changed_at_ms, now_ms));
        facts.push(fact("Changed", changed));
        buttons.push(if row.state == "closed" {
            desk.button(OperatorAction::Reopen, &subject, "Reopen")?
        } else {
            Button::dangerous(OperatorAction::Close, &subject, "Close the account")
        });
    }
    facts.extend(webhook::endpoint(&desk.app.env, &known.id).await.map_err(unreadable)?);
    let state = match (&known.row, known.is_configured) {
        (_, true) | (None, _) => "configured",
        (Some(row), false) => row.state.as_str(),
    };
    let page = AccountPage {
        status: Entity::Account.chip(state),
        facts,
        edit,
        buttons,
        tokens: lines,
        tokens_shown: has_more.then_some(TOKENS_SHOWN),
        made: beside.made,
        keys: keys(desk, &known, beside.keys_error.as_ref()).await?,
        token_path: tokens::path(&known.id),
        token_key: form_key(desk.app, &desk.operator, &tokens::path(&known.id), now_ms)?,
        acts: acts_on(desk, &subject.name()).await?,
        id: known.id,
        site: desk.site(),
        chrome: desk.chrome(PATH).await?,
    };
    Ok(reply::html(beside.status, &page, "desk"))
}

/// The keys of its own that an account of the registry has, and can have: at Adyen for a merchant account that it names.
async fn keys(
    desk: &Desk<'_>,
    known: &Known,
    error: Option<&(Provider, String)>,
) -> Result<Vec<Keys>, Problem> {
    let Some(row) = known.row.as_ref().filter(|_| !known.is_configured) else { return Ok(Vec::new()) };
    let set = credentials::of(&desk.app.env, &known.id).await.map_err(unreadable)?;
    let account = row.account().ok();
    let path = credentials::path(&known.id);
    let mut keys = Vec::new();
    for provider in Provider::ALL {
        let lines = credentials::lines(desk, &known.id, provider, &set)?;
        let is_named = account.as_ref().is_some_and(|account| account.adyen_account.is_some());
        if provider == Provider::Adyen && !is_named && lines.is_empty() {
            continue;
        }
        keys.push(Keys {
            lines,
            provider,
            warning: account.as_ref().map(|account| warning(provider, account, &set)).unwrap_or_default(),
            webhook: format!("/webhooks/{}/{}", provider.as_str(), known.id),
            key: form_key(desk.app, &desk.operator, &path, desk.request.now_ms)?,
            path: path.clone(),
            entries: credentials::entries(provider),
            error: error
                .filter(|(of, _)| *of == provider)
                .map(|(_, error)| error.clone())
                .unwrap_or_default(),
        });
    }
    Ok(keys)
}

/// What is wrong with an account's own keys at a provider; empty if nothing is.
fn warning(provider: Provider, account: &Account, set: &[ShownRow]) -> String {
    let (uses_them, kind, name) = match provider {
        Provider::Stripe => (account.own_stripe_keys, CredentialKind::StripeSecretKey, "secret key"),
        Provider::Adyen => (account.own_adyen_keys, CredentialKind::AdyenApiKey, "API key"),
    };
    let key = set.iter().find(|row| row.is(kind));
    let named = account.adyen_account.as_ref().map(|merchant| merchant.merchant_account.as_str());
    let of = key.and_then(ShownRow::merchant_account);
    match (uses_them, key) {
        (true, None) => {
            format!("It is charged with its own {name}, and none is set: its payments are refused.")
        }
        (true, Some(_)) if provider == Provider::Adyen && of != named => format!(
            "Its API key is of the merchant account {}, and it is charged in {}: its payments are refused. Edit the account, or remove the \
             key and enter one of {1}.",
            of.unwrap_or_default(),
            named.unwrap_or_default()
        ),
        (false, Some(_)) => format!(
            "They are not used for new payments: “{}” is off. Edit the account to turn it on.",
            entries::own_keys_label(provider)
        ),
        _ => String::new(),
    }
}

fn of_account(account: &Account) -> Vec<Fact> {
    let mut facts = vec![
        fact("Payment method", Cell { class: "id", ..Cell::text(account.payment_method.clone()) }),
        fact("Customer", optional(account.customer.as_ref())),
    ];
    let own = [
        account.own_stripe_keys.then_some("its own keys at Stripe"),
        account.own_adyen_keys.then_some("its own key at Adyen"),
    ];
    let own: Vec<&str> = own.into_iter().flatten().collect();
    if !own.is_empty() {
        facts.push(fact("Charged with", Cell::text(own.join(" and "))));
    }
    let mut more = |name, text: Option<&String>| {
        if let Some(text) = text {
            facts.push(fact(name, Cell { class: "id", ..Cell::text(text.clone()) }));
        }
    };
    more("Customers begin with", account.customer_prefix.as_ref());
    more("Connected account", account.stripe_account.as_ref());
    more("Receipts go to", account.email.as_ref());
    more("At Adyen", account.adyen.as_ref().map(|wallet| &wallet.payment_method));
    more("Shopper at Adyen", account.adyen.as_ref().map(|wallet| &wallet.customer));
    let merchant = account.adyen_account.as_ref();
    more("Merchant account at Adyen", merchant.map(|merchant| &merchant.merchant_account));
    more("Live prefix at Adyen", merchant.and_then(|merchant| merchant.live_prefix.as_ref()));
    let may_charge = match &account.currencies {
        Some(currencies) => entries::may_charge(currencies),
        None => "all currencies, without limit".to_owned(),
    };
    facts.push(fact("May charge", Cell::text(may_charge)));
    if let Some(shop) = &account.shop {
        facts
            .push(fact("Shop", Cell::text(shop.name.clone()).with(shop.support.clone().unwrap_or_default())));
        facts.extend(shop.logo.clone().map(|logo| fact("Logo", Cell { class: "id", ..Cell::text(logo) })));
    }
    facts
}

/// `GET /admin/accounts/new`
pub(crate) async fn new(desk: &Desk<'_>) -> Result<Answer, Problem> {
    form(desk, None, 200, None).await
}

/// `GET /admin/accounts/{id}/edit`
pub(crate) async fn edit(desk: &Desk<'_>, id: &Parameter<'_, Decoded>) -> Result<Answer, Problem> {
    let Decoded(id) = &id.read()?;
    let row = store::find(&desk.app.env, id).await.map_err(unreadable)?;
    form(desk, Some(row.ok_or_else(|| Problem::new(Kind::NotFound))?), 200, None).await
}

/// The form: of what is stored or, if that was refused, of what was entered.
async fn form(
    desk: &Desk<'_>,
    row: Option<AccountRow>,
    status: u16,
    refused: Option<(&Parameters, Wrong)>,
) -> Result<Answer, Problem> {
    let account = row.as_ref().map(AccountRow::account).transpose().map_err(unreadable)?;
    let entered = |name: &str| refused.as_ref().map(|(entries, _)| entries.text(name).or_empty());
    let stored = |name: &str| account.as_ref().map(|account| entries::of(account, name)).unwrap_or_default();
    let groups = entries::fields(|name| entered(name).unwrap_or_else(|| stored(name)));
    let path = desk.request.path.clone();
    let version = row.as_ref().map(|row| row.version.to_string()).unwrap_or_default();
    let page = AccountForm {
        title: if row.is_some() { "Edit account" } else { "New account" },
        key: form_key(desk.app, &desk.operator, &path, desk.request.now_ms)?,
        path,
        new_id: row.is_none().then(|| entered("id").unwrap_or_default()),
        // What is entered was entered over this version.
        version: entered("version").unwrap_or(version),
        back: row.map_or_else(|| PATH.to_owned(), |row| Target::Account(row.id).path()),
        groups,
        wrong: refused.as_ref().map(|(_, wrong)| wrong.entry).unwrap_or_default(),
        error: refused.map(|(_, wrong)| wrong.message).unwrap_or_default(),
        site: desk.site(),
        chrome: desk.chrome(PATH).await?,
    };
    Ok(reply::html(status, &page, "desk"))
}

/// Whether a form was made in the operator's session.
fn is_of_session(desk: &Desk<'_>, sent: &Parameters) -> bool {
    let key = sent.text("form").or_empty();
    is_form_key(desk.app, &desk.operator, &desk.request.path, &key, desk.request.now_ms)
}

/// `POST /admin/accounts/new`
pub(crate) async fn create(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let sent = desk.request.parameters()?;
    if !is_of_session(desk, &sent) {
        return form(desk, None, 409, Some((&sent, Wrong::session()))).await;
    }
    let id = sent.text("id").or_empty().trim().to_owned();
    if !is_id(&id) || id == "new" {
        let error = "The id needs 1 to 64 letters, digits, dots, hyphens, underscores or @, and is not “new”: it stands in addresses and logs.";
        return form(desk, None, 422, Some((&sent, Wrong::at("id", error)))).await;
    }
    let account = match entries::read(&sent) {
        Ok(account) => account,
        Err(wrong) => return form(desk, None, 422, Some((&sent, wrong))).await,
    };
    let env = &desk.app.env;
    if let Some(known) = store::find(env, &id).await.map_err(unreadable)?
        && known.account().map_err(unreadable)? != account
    {
        let error = format!("There is an account {id} already, with other settings. Nothing was changed.");
        return form(desk, None, 409, Some((&sent, Wrong::at("id", error)))).await;
    }
    let work = async {
        Ok(match store::create(env, &id, &account, desk.request.now_ms).await? {
            true => ActionOutcome::done("made: it has no token yet"),
            false => ActionOutcome::done("it was there already"),
        })
    };
    save(desk, &sent, &id, "make the account", work).await
}

/// `POST /admin/accounts/{id}/edit`
pub(crate) async fn change(desk: &Desk<'_>, id: &Parameter<'_, Decoded>) -> Result<Answer, Problem> {
    let Decoded(id) = &id.read()?;
    let sent = desk.request.parameters()?;
    let env = &desk.app.env;
    let row = store::find(env, id).await.map_err(unreadable)?.ok_or_else(|| Problem::new(Kind::NotFound))?;
    if !is_of_session(desk, &sent) {
        return form(desk, Some(row), 409, Some((&sent, Wrong::session()))).await;
    }
    let account = match entries::read(&sent) {
        Ok(account) => account,
        Err(wrong) => return form(desk, Some(row), 422, Some((&sent, wrong))).await,
    };
    let keys = credentials::of(env, id).await.map_err(unreadable)?;
    if let Err(error) = credentials::keeps_endpoint(&keys, &row.account().map_err(unreadable)?, &account) {
        return form(desk, Some(row), 422, Some((&sent, Wrong::at("", error)))).await;
    }
    let version = sent.text("version").or_empty().parse().unwrap_or(0);
    let is_same = row.account().map_err(unreadable)? == account;
    if !is_same && row.version != version {
        let error = "The account was changed since this page was loaded. Nothing of yours was kept: load the page again.";
        return form(desk, Some(row), 409, Some((&sent, Wrong::at("", error)))).await;
    }
    let work = async {
        if is_same {
            return Ok(ActionOutcome::done("nothing was different"));
        }
        Ok(match store::change(env, id, &account, version, desk.request.now_ms).await? {
            true => ActionOutcome::done("changed: it counts everywhere within a minute"),
            false => ActionOutcome::refused("it was changed by another at the same time"),
        })
    };
    save(desk, &sent, id, "change the account", work).await
}

/// Does what a form asks for, once, between its entries in the log.
async fn save(
    desk: &Desk<'_>,
    sent: &Parameters,
    id: &str,
    what: &str,
    work: impl Future<Output = worker::Result<ActionOutcome>>,
) -> Result<Answer, Problem> {
    let key = sent.text("form").or_empty();
    let subject = Target::Account(id.to_owned());
    let name = subject.name();
    let action = Action { operator: &desk.operator, what, subject: &name };
    let begun = operator_log::begin_once(&desk.app.env, &key, &action, desk.request.now_ms).await?;
    if begun.is_new || begun.is_unfinished {
        let outcome = work.await.unwrap_or_else(ActionOutcome::failed);
        operator_log::end(&desk.app.env, begun.id, &action, &outcome).await.map_err(unreadable)?;
    }
    Ok(Answer::see_other(&format!("{}?done={}", subject.path(), begun.id), "acted"))
}

/// `GET /admin/accounts/{id}/{action}`
pub(crate) async fn close(
    desk: &Desk<'_>,
    id: &Parameter<'_, Decoded>,
    action: &Parameter<'_, CloseAction>,
) -> Result<Answer, Problem> {
    let (CloseAction(act), Decoded(id)) = (action.read()?, id.read()?);
    let (env, now_ms) = (&desk.app.env, desk.request.now_ms);
    let row = store::find(env, &id).await.map_err(unreadable)?.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let subject = Target::Account(id);
    if row.state == "closed" {
        return Ok(Answer::see_other(&subject.path(), "found"));
    }
    let Tokens { rows, has_more } = store::tokens(env, &row.id, now_ms).await.map_err(unreadable)?;
    let good = rows.iter().filter(|token| !token.has_ended(now_ms)).count();
    let or_more = if has_more && good == TOKENS_SHOWN { " or more" } else { "" };
    let shop = row.account().ok().and_then(|account| account.shop).map(|shop| shop.name);
    let question = Question {
        act,
        subject: &subject,
        title: format!("Close the account {}?", row.id),
        sentence: "Its tokens are refused, and its links cannot be paid.".to_owned(),
        risk: "What it has charged stays, and can be captured and refunded here. Webhooks to its shop wait. It can be opened again."
            .to_owned(),
        facts: vec![
            fact("Account", Cell { class: "id", ..Cell::text(row.id.clone()) }),
            fact("Shop", Cell::text(shop.unwrap_or_else(|| "–".to_owned()))),
            fact("Tokens that are good", Cell::text(format!("{good}{or_more}"))),
        ],
        label: "Close the account".to_owned(),
        entries: Vec::new(),
        here: PATH,
    };
    question.page(desk).await
}

/// Closes an account, or opens it again.
pub(crate) async fn set_state(desk: &Desk<'_>, id: &str, is_open: bool) -> worker::Result<ActionOutcome> {
    let (env, now_ms) = (&desk.app.env, desk.request.now_ms);
    let state = if is_open { "active" } else { "closed" };
    Ok(match store::set_state(env, id, state, now_ms).await? {
        true if is_open => ActionOutcome::done("open: its tokens are good again within a minute"),
        true => ActionOutcome::done("closed: its tokens are refused everywhere within a minute"),
        false => match store::find(env, id).await? {
            Some(row) => ActionOutcome::done(format!("it is {} already", row.state)),
            None => ActionOutcome::refused("there is no such account"),
        },
    })
}
