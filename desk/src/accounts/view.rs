//! The view models of the registry's pages.

use askama::Template;

use crate::button::Button;
use crate::view_models::{Cell, Fact, PageChrome, Table};
use payments::providers::Provider;
use web::pages::Site;

/// A token of an account, with what can be done with it.
pub(super) struct TokenLine {
    /// What there is to know of it.
    pub(super) cells: Vec<Cell>,
    /// See [`Button`].
    pub(super) buttons: Vec<Button>,
}

/// A key of an account's own, with what can be done with it.
pub(super) struct KeyLine {
    /// What there is to know of it.
    pub(super) cells: Vec<Cell>,
    /// See [`Button`].
    pub(super) buttons: Vec<Button>,
}

/// The name of an entry in the form of keys, its label, and what is said below.
pub(super) type Entry = (&'static str, &'static str, &'static str);

/// The keys of an account's own.
pub(super) struct Keys {
    /// Those that are set.
    pub(super) lines: Vec<KeyLine>,
    /// At which provider.
    pub(super) provider: Provider,
    /// What is wrong with them, so that nothing is charged; may be empty.
    pub(super) warning: String,
    /// Where the provider sends the account's events.
    pub(super) webhook: String,
    /// Where the form is sent.
    pub(super) path: String,
    /// Its one-time key.
    pub(super) key: String,
    /// Its entries.
    pub(super) entries: &'static [Entry],
    /// Why nothing was set; may be empty.
    pub(super) error: String,
}

impl Keys {
    /// A column's name, for narrow screens.
    fn column(&self, index: &usize) -> &'static str {
        ["Key", "Begins and ends", "Mode", "Set (UTC)"].get(*index).copied().unwrap_or_default()
    }

    /// How the provider is called.
    const fn name(&self) -> &'static str {
        match self.provider {
            Provider::Stripe => "Stripe",
            Provider::Adyen => "Adyen",
        }
    }
}

/// A token that was just made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// It.
    pub(super) token: String,
    /// What became of the others; may be empty.
    pub(super) others: String,
}

/// `GET /admin/accounts/{id}`
#[derive(Template)]
#[template(path = "account.html")]
pub(super) struct AccountPage {
    pub(super) site: Site,
    pub(super) chrome: PageChrome,
    pub(super) id: String,
    pub(super) status: Cell,
    pub(super) facts: Vec<Fact>,
    /// Where its settings are changed; empty where they cannot be.
    pub(super) edit: String,
    pub(super) buttons: Vec<Button>,
    pub(super) tokens: Vec<TokenLine>,
    /// How many of them are shown, where there are more.
    pub(super) tokens_shown: Option<usize>,
    /// The token that was just made.
    pub(super) made: Option<Made>,
    /// Where the form of a new token is sent.
    pub(super) token_path: String,
    /// Its one-time key.
    pub(super) token_key: String,
    /// Its keys, at each provider; none where it can have none.
    pub(super) keys: Vec<Keys>,
    /// What operators did to it; `None` if nothing.
    pub(super) acts: Option<Table>,
}

impl AccountPage {
    /// A column's name, for narrow screens.
    fn column(&self, index: &usize) -> &'static str {
        ["Token", "State", "Made (UTC)"].get(*index).copied().unwrap_or_default()
    }
}

/// An entry of a form.
pub(super) struct FormField {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    /// What is said below it.
    pub(super) hint: &'static str,
    pub(super) value: String,
    pub(super) is_required: bool,
    /// It is a box, checked if it has a value.
    pub(super) is_check: bool,
}

/// The form of an account's settings.
#[derive(Template)]
#[template(path = "account_form.html")]
pub(super) struct AccountForm {
    pub(super) site: Site,
    pub(super) chrome: PageChrome,
    pub(super) title: &'static str,
    /// Where it is sent.
    pub(super) path: String,
    /// Its one-time key.
    pub(super) key: String,
    /// The id of a new account, as it was entered; `None` for one that there is.
    pub(super) new_id: Option<String>,
    /// The version over which the settings are entered.
    pub(super) version: String,
    /// The settings, in groups.
    pub(super) groups: Vec<(&'static str, Vec<FormField>)>,
    /// The entry that is wrong, if it is one.
    pub(super) wrong: &'static str,
    /// Why it was not saved; may be empty.
    pub(super) error: String,
    /// Where one goes to change nothing.
    pub(super) back: String,
}
