//! What the desk's buttons do, and to what.

use super::break_kinds::BreakKind;
use messages::credentials::CredentialKind;
use web::route::FromPath;

/// How the audit log names an API account, before its id.
pub const ACCOUNT: &str = "account ";

/// What a button does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorAction {
    /// Resumes an open key.
    Resume,
    /// Asks the provider about all that is open.
    Settle,
    /// Captures the authorized amount, or a part.
    Capture,
    /// Voids the authorization.
    Void,
    /// Refunds money.
    Refund,
    /// Settles a call by hand.
    SettleByHand,
    /// Stops sending a call for a while.
    Hold,
    /// Requeues a dead job.
    Requeue,
    /// Requeues all dead letters, or those of a kind.
    RequeueAll,
    /// Purges a dead job.
    Purge,
    /// Lets an object check with its provider, and update the read model.
    Repair,
    /// Leaves a break as it is.
    Accept,
    /// Leaves all breaks of a kind as they are that a page has shown.
    AcceptAll,
    /// Says that what the gate has passed on was done.
    Done,
    /// Says that it was not.
    NotDone,
    /// Closes an API account.
    Close,
    /// Opens it again.
    Reopen,
    /// Ends a token in a day.
    Retire,
    /// Ends a token now.
    Revoke,
    /// Removes a key of an account's own.
    Remove,
    /// Runs the scheduled tasks now.
    Run,
}

/// A kind of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadKind {
    /// Emails.
    Receipt,
    /// Updates of the lists.
    Project,
    /// What a provider has told.
    Webhook,
    /// What a shop is told.
    Delivery,
}

impl DeadKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Receipt, Self::Project, Self::Webhook, Self::Delivery];

    /// As addresses and the read model have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Receipt => "send_receipt",
            Self::Project => "project",
            Self::Webhook => "webhook",
            Self::Delivery => "deliver_webhook",
        }
    }

    /// One of them, and several.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Receipt => ("send receipt job", "send receipt jobs"),
            Self::Project => ("project job", "project jobs"),
            Self::Webhook => ("webhook", "webhooks"),
            Self::Delivery => ("deliver webhook job", "deliver webhook jobs"),
        }
    }

    /// From the text of an address.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl FromPath for DeadKind {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn fits(text: &str) -> bool {
        Self::parse(text).is_some()
    }
}

/// What a button is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A payment, by its id.
    Payment(String),
    /// A call of a payment, by that's id and its number.
    Call(String, u32),
    /// A key of an object.
    Key(String, u32),
    /// What the gate has passed on, by what stands for its key, and its number.
    Gate(String, u32),
    /// A job, by its id.
    Job(String),
    /// All dead letters, or those of a kind.
    Jobs(Option<DeadKind>),
    /// A break, by its id.
    Break(String),
    /// Breaks of a kind.
    Breaks(BreakKind),
    /// An API account, by its id.
    Account(String),
    /// A token of one, by that's id and the token's SHA-256.
    Token(String, String),
    /// A key that one has of its own, by that's id.
    Credential(String, CredentialKind),
    /// The scheduled tasks.
    Tasks,
}

impl OperatorAction {
    /// As the address and the audit log have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Settle => "settle",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::SettleByHand => "settle-by-hand",
            Self::Hold => "hold",
            Self::Requeue => "requeue",
            Self::RequeueAll => "requeue-all",
            Self::Purge => "purge",
            Self::Repair => "repair",
            Self::Accept => "accept",
            Self::AcceptAll => "accept-all",
            Self::Done => "done",
            Self::NotDone => "not-done",
            Self::Close => "close",
            Self::Reopen => "reopen",
            Self::Retire => "retire",
            Self::Revoke => "revoke",
            Self::Remove => "remove",
            Self::Run => "run",
        }
    }
}

/// Makes the types of the last part of a button's address: what can be done to one kind of subject.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident($($act:ident),*);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub OperatorAction);

        impl FromPath for $name {
            fn from_path(text: &str) -> Option<Self> {
                [$(OperatorAction::$act),*].into_iter().find(|act| act.as_str() == text).map(Self)
            }

            fn fits(text: &str) -> bool {
                Self::from_path(text).is_some()
            }
        }
    )*};
}

actions! {
    /// Of a payment.
    PaymentAction(Resume, Settle, Capture, Void, Refund);
    /// Of a payment, if it moves money: it is asked once more.
    MoneyAction(Capture, Void, Refund);
    /// Of a call.
    CallAction(SettleByHand, Hold);
    /// Of a key.
    KeyAction(Resume, Settle);
    /// Of what the gate has passed on.
    GateAction(Done, NotDone);
    /// Of an API account.
    AccountAction(Close, Reopen);
    /// Of a token of one.
    TokenAction(Retire, Revoke);
    /// Of a key of one's own.
    CredentialAction(Remove);
    /// Of a dead job.
    JobAction(Requeue, Purge);
    /// Of a dead job, if it is lost by it: it is asked once more. So are the following.
    PurgeAction(Purge);
    /// Of an API account, if it stops it.
    CloseAction(Close);
    /// Of a token of one, if it stops at once who uses it.
    RevokeAction(Revoke);
    /// Of a break.
    BreakAction(Repair, Accept);
}

impl Target {
    /// Its page.
    pub fn path(&self) -> String {
        match self {
            Self::Payment(id) => format!("/admin/payments/{id}"),
            Self::Call(id, number) => format!("/admin/payments/{id}/calls/{number}"),
            Self::Key(object, key_id) => format!("/admin/keys/{object}/{key_id}"),
            Self::Gate(key, number) => format!("/admin/gate/{key}/{number}"),
            Self::Jobs(Some(kind)) => format!("/admin/dead-letters?kind={}", kind.as_str()),
            Self::Job(_) | Self::Jobs(None) => "/admin/dead-letters".to_owned(),
            Self::Break(_) => "/admin/breaks".to_owned(),
            Self::Breaks(kind) => format!("/admin/breaks?kind={}", kind.as_str()),
            Self::Account(id) | Self::Token(id, _) | Self::Credential(id, _) => {
                format!("/admin/accounts/{id}")
            }
            Self::Tasks => "/admin".to_owned(),
        }
    }

    /// As the audit log names it.
    pub fn name(&self) -> String {
        match self {
            Self::Payment(id) | Self::Call(id, _) | Self::Job(id) | Self::Break(id) => id.clone(),
            Self::Key(object, number) | Self::Gate(object, number) => format!("{object}/{number}"),
            Self::Account(id) | Self::Token(id, _) | Self::Credential(id, _) => format!("{ACCOUNT}{id}"),
            Self::Jobs(None) => "all dead letters".to_owned(),
            Self::Jobs(Some(kind)) => format!("all dead letters: {}", kind.as_str()),
            Self::Breaks(kind) => format!("breaks: {}", kind.as_str()),
            Self::Tasks => "scheduled tasks".to_owned(),
        }
    }
}
