//! A request of an operator to the desk.

use std::cell::OnceCell;

use super::action_outcome::Status;
use super::button::Button;
use super::format;
use super::kept_counts::{self, Waiting};
use super::queries::{self, PAGE};
use super::route::{ACCOUNT, OperatorAction, Target};
use super::view_models::{PageChrome, Select};
use crate::app::App;
use crate::operator::{Operator, form_key};
use crate::pages::{DESK_SCRIPT, DESK_STYLE};
use crate::tasks::counts::Scope;
use crate::tasks::history::BUCKET;
use runtime::serve::unreadable;
use web::http::Request;
use web::pages::{Notice, Site};
use web::problem::Problem;

/// An operator who has passed [`admit`](crate::operator::admit), with their request.
pub(crate) struct Desk<'a> {
    pub(super) app: &'a App,
    pub(super) request: &'a Request,
    pub(super) operator: Operator,
    waiting: OnceCell<Waiting>,
}

/// In the address of a list, and beside its buttons: before when what it shows was made, in ms since the epoch. It goes on behind what was looked through.
pub(super) const MADE_BEFORE: &str = "made_before";
/// How many pages back a list can be read.
const PAGES_MAX: usize = 1000;

impl<'a> Desk<'a> {
    pub(crate) const fn new(app: &'a App, request: &'a Request, operator: Operator) -> Self {
        Self { app, request, operator, waiting: OnceCell::new() }
    }

    /// A parameter of the address; empty if it is not there.
    pub(super) fn query(&self, name: &str) -> String {
        let found = self.pairs().into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim().chars().take(300).collect()).unwrap_or_default()
    }

    fn pairs(&self) -> Vec<(String, String)> {
        serde_urlencoded::from_str(&self.request.query).unwrap_or_default()
    }

    /// See [`Site`].
    pub(super) fn site(&self) -> Site {
        self.app.site(self.request)
    }

    /// The chrome of a page. `here` is its address in the menu.
    pub(super) async fn chrome(&self, here: &'static str) -> Result<PageChrome, Problem> {
        // What the page itself has comes before the numbers of the menu.
        let of_page = self.app.model.missing();
        let waiting = self.waiting(Scope::Menu).await?;
        Ok(PageChrome {
            style: DESK_STYLE.address,
            script: DESK_SCRIPT.address,
            operator: self.operator.name.clone(),
            has_session: self.operator.has_session(),
            here,
            dead: waiting.counts.dead,
            breaks: waiting.counts.breaks,
            gate: self.app.gate.as_ref().map(|_| waiting.counts.gate),
            has_history: self.app.env.bucket(BUCKET).is_ok(),
            notice: self.notice().await?,
            missing: of_page
                .or_else(|| self.looked_to())
                .or_else(|| self.app.model.missing())
                .or_else(|| waiting.missing()),
        })
    }

    /// Since when the newest list has looked, for a person; `None` if that was all.
    pub(super) fn looked_to(&self) -> Option<String> {
        let since = payments::timestamp(self.app.model.looked_to_ms()?);
        Some(format!("Only what belongs to payments since {since} was looked through: go on with Older."))
    }

    /// What waits in all places: read once. Who needs more than the menu asks before that.
    pub(super) async fn waiting(&self, scope: Scope) -> Result<&Waiting, Problem> {
        if let Some(known) = self.waiting.get() {
            return Ok(known);
        }
        let (app, now_ms) = (self.app, self.request.now_ms);
        let read = kept_counts::waiting(&app.env, &app.model, scope, now_ms).await.map_err(unreadable)?;
        Ok(self.waiting.get_or_init(|| read))
    }

    /// The result of the action that redirected here.
    async fn notice(&self) -> Result<Option<Notice>, Problem> {
        let Ok(action_id) = self.query("done").parse::<u64>() else { return Ok(None) };
        let action = queries::find_action(&self.app.env, action_id).await.map_err(unreadable)?;
        Ok(action.map(|action| Notice {
            title: title(&action.action, &action.subject),
            text: format::sentence(&action.outcome),
            tone: Status::read(action.status.as_deref(), &action.outcome).tone(),
        }))
    }

    /// A button with its one-time key.
    pub(super) fn button(
        &self,
        act: OperatorAction,
        subject: &Target,
        label: &str,
    ) -> Result<Button, Problem> {
        let button = Button::asking(act, subject, label);
        let key = form_key(self.app, &self.operator, &button.path, self.request.now_ms)?;
        Ok(Button { key, ..button })
    }

    pub(super) fn page_number(&self) -> usize {
        self.query("page").parse().unwrap_or(0).min(PAGES_MAX)
    }

    /// The addresses of the pages before and after this one. Cuts what was read beyond the page. Behind the last one follows what nobody has looked
    /// for yet, where the list has not looked in all shards.
    pub(super) fn around<T>(&self, rows: &mut Vec<T>) -> (String, String) {
        let (number, has_more) = (self.page_number(), rows.len() > PAGE);
        rows.truncate(PAGE);
        let address = |number: usize| self.address_with(&self.request.path, "page", &number.to_string());
        let newer = number.checked_sub(1).map(address).unwrap_or_default();
        let looked_to_ms = self.app.model.looked_to_ms().filter(|_| !has_more);
        let on = looked_to_ms
            .map(|at_ms| self.address_with(&self.request.path, MADE_BEFORE, &at_ms.to_string()))
            .unwrap_or_default();
        (newer, if has_more { address(number + 1) } else { on })
    }

    /// A path with the query of this request, but for its page: with this entry instead, unless it is empty.
    pub(super) fn address_with(&self, path: &str, name: &str, value: &str) -> String {
        let is_kept = |known: &str| !["page", "done", name].contains(&known);
        let kept = self.pairs().into_iter().filter(|(known, _)| is_kept(known));
        let entry = (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()));
        let pairs: Vec<_> = kept.chain(entry).collect();
        match serde_urlencoded::to_string(pairs).unwrap_or_default() {
            query if query.is_empty() => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    /// A choice with what is chosen now.
    pub(super) fn select(
        &self,
        name: &'static str,
        label: &'static str,
        options: &[(&'static str, &'static str)],
    ) -> Select {
        let chosen = self.query(name);
        let options = options.iter().map(|(value, text)| (*value, *text, *value == chosen)).collect();
        Select { name, label, options }
    }
}

/// What was done, to what. An account's action says that it is about an account.
fn title(action: &str, subject: &str) -> String {
    match subject.strip_prefix(ACCOUNT) {
        Some(id) => format!("{}: {id}", format::sentence(action)),
        None => format!("{}: {}", format::sentence(action), format::short(subject)),
    }
}
