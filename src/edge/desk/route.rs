//! The desk's addresses, all below `/admin`.

use crate::edge::http::percent_decode;

/// A page of the desk, or a button on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskRoute {
    /// `/admin`
    Overview,
    /// `/admin/login`
    Login,
    /// `/admin/logout`
    Logout,
    /// `/admin/payments`
    Payments,
    /// `/admin/payments/{id}`
    Payment(String),
    /// `/admin/payments/{id}/calls/{number}`: a call, to be settled by hand.
    Call(String, u32),
    /// `/admin/payments/{id}/calls/{number}/review`: what would be settled, before it is.
    Review(String, u32),
    /// `/admin/keys`
    Keys,
    /// `/admin/keys/{object}/{key_id}`
    Key(String, u32),
    /// `/admin/dead-letters`
    DeadLetters,
    /// `/admin/dead-letters/{job}`
    DeadLetter(String),
    /// `/admin/breaks`
    Breaks,
    /// `/admin/reports`: Adyen's, and the form that sends one.
    Reports,
    /// `/admin/audit`
    Audit,
    /// A button: what it does, and to what.
    Act(Act, Subject),
}

/// What a button does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Takes up what waits.
    Resume,
    /// Asks the provider about all that is open.
    Settle,
    /// Takes what is reserved, or a part.
    Capture,
    /// Gives up what is reserved.
    Void,
    /// Gives money back.
    Refund,
    /// Settles a call as an operator says.
    SettleByHand,
    /// Sends nothing more of a call for a while.
    Hold,
    /// Sends a dead job again.
    Requeue,
    /// Sends all dead jobs again.
    RequeueAll,
    /// Drops a dead job.
    Purge,
    /// Lets an object find out what is true, and tell the read model.
    Repair,
    /// Leaves a break as it is.
    Accept,
}

/// What a button is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A payment or a ride, by its id.
    Payment(String),
    /// A call of a payment or a ride, by that's id and its number.
    Call(String, u32),
    /// A key of an object.
    Key(String, u32),
    /// A job, by its id.
    Job(String),
    /// All dead jobs.
    Jobs,
    /// A break, by its id.
    Break(String),
}

impl Act {
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
        }
    }

    fn of_payment(word: &str) -> Option<Self> {
        [Self::Resume, Self::Settle, Self::Capture, Self::Void, Self::Refund]
            .into_iter()
            .find(|act| act.as_str() == word)
    }
}

impl Subject {
    /// Its page.
    pub fn path(&self) -> String {
        match self {
            Self::Payment(id) => format!("/admin/payments/{id}"),
            Self::Call(id, number) => format!("/admin/payments/{id}/calls/{number}"),
            Self::Key(object, key_id) => format!("/admin/keys/{object}/{key_id}"),
            Self::Job(_) | Self::Jobs => "/admin/dead-letters".to_owned(),
            Self::Break(_) => "/admin/breaks".to_owned(),
        }
    }

    /// As the audit log names it.
    pub fn name(&self) -> String {
        match self {
            Self::Payment(id) | Self::Call(id, _) | Self::Job(id) | Self::Break(id) => id.clone(),
            Self::Key(object, key_id) => format!("{object}/{key_id}"),
            Self::Jobs => "all dead letters".to_owned(),
        }
    }
}

impl DeskRoute {
    /// The route of what follows `/admin` in a path.
    pub fn find(rest: &str) -> Option<Self> {
        let segments: Vec<&str> = match rest {
            "" => return Some(Self::Overview),
            _ => rest.strip_prefix('/')?.split('/').collect(),
        };
        let act = |act, subject| Some(Self::Act(act, subject));
        match segments.as_slice() {
            ["login"] => Some(Self::Login),
            ["logout"] => Some(Self::Logout),
            ["payments"] => Some(Self::Payments),
            ["payments", id] if !id.is_empty() => Some(Self::Payment((*id).to_owned())),
            ["payments", id, word] => act(Act::of_payment(word)?, Subject::Payment((*id).to_owned())),
            ["payments", id, "calls", number] => Some(Self::Call((*id).to_owned(), number.parse().ok()?)),
            ["payments", id, "calls", number, "review"] => {
                Some(Self::Review((*id).to_owned(), number.parse().ok()?))
            }
            ["payments", id, "calls", number, word @ ("settle-by-hand" | "hold")] => {
                let does = if *word == "hold" { Act::Hold } else { Act::SettleByHand };
                act(does, Subject::Call((*id).to_owned(), number.parse().ok()?))
            }
            ["keys"] => Some(Self::Keys),
            ["keys", object, key_id] => Some(Self::Key((*object).to_owned(), key_id.parse().ok()?)),
            ["keys", object, key_id, word @ ("resume" | "settle")] => {
                act(Act::of_payment(word)?, Subject::Key((*object).to_owned(), key_id.parse().ok()?))
            }
            ["dead-letters"] => Some(Self::DeadLetters),
            ["dead-letters", "requeue-all"] => act(Act::RequeueAll, Subject::Jobs),
            ["dead-letters", job] if !job.is_empty() => Some(Self::DeadLetter(percent_decode(job)?)),
            ["dead-letters", job, "requeue"] => act(Act::Requeue, Subject::Job(percent_decode(job)?)),
            ["dead-letters", job, "purge"] => act(Act::Purge, Subject::Job(percent_decode(job)?)),
            ["breaks"] => Some(Self::Breaks),
            ["breaks", id, "repair"] => act(Act::Repair, Subject::Break(percent_decode(id)?)),
            ["breaks", id, "accept"] => act(Act::Accept, Subject::Break(percent_decode(id)?)),
            ["reports"] => Some(Self::Reports),
            ["audit"] => Some(Self::Audit),
            _ => None,
        }
    }

    /// The methods that it answers, as the `Allow` header lists them.
    pub const fn allow(&self) -> &'static str {
        match self {
            Self::Login | Self::Reports => "GET, HEAD, POST, OPTIONS",
            Self::Logout | Self::Review(..) | Self::Act(..) => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// Its name in the log, without anything from the request.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Overview => "/admin",
            Self::Login => "/admin/login",
            Self::Logout => "/admin/logout",
            Self::Payments => "/admin/payments",
            Self::Payment(_) => "/admin/payments/{id}",
            Self::Call(..) => "/admin/payments/{id}/calls/{number}",
            Self::Review(..) => "/admin/payments/{id}/calls/{number}/review",
            Self::Keys => "/admin/keys",
            Self::Key(..) => "/admin/keys/{object}/{key}",
            Self::DeadLetters => "/admin/dead-letters",
            Self::DeadLetter(_) => "/admin/dead-letters/{job}",
            Self::Breaks => "/admin/breaks",
            Self::Reports => "/admin/reports",
            Self::Audit => "/admin/audit",
            Self::Act(_, Subject::Payment(_)) => "/admin/payments/{id}/{action}",
            Self::Act(_, Subject::Call(..)) => "/admin/payments/{id}/calls/{number}/{action}",
            Self::Act(_, Subject::Key(..)) => "/admin/keys/{object}/{key}/{action}",
            Self::Act(_, Subject::Job(_) | Subject::Jobs) => "/admin/dead-letters/{job}/{action}",
            Self::Act(_, Subject::Break(_)) => "/admin/breaks/{id}/{action}",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_and_button_has_one_address() {
        let found = |rest: &str| DeskRoute::find(rest);
        assert_eq!(found(""), Some(DeskRoute::Overview));
        assert_eq!(found("/keys/ab/2"), Some(DeskRoute::Key("ab".into(), 2)));
        assert_eq!(
            found("/payments/pay_x/refund"),
            Some(DeskRoute::Act(Act::Refund, Subject::Payment("pay_x".into())))
        );
        assert_eq!(
            found("/breaks/adyen%3A1/accept"),
            Some(DeskRoute::Act(Act::Accept, Subject::Break("adyen:1".into())))
        );
        let of_call = |act| Some(DeskRoute::Act(act, Subject::Call("pay_x".into(), 3)));
        assert_eq!(found("/payments/pay_x/calls/3"), Some(DeskRoute::Call("pay_x".into(), 3)));
        assert_eq!(found("/payments/pay_x/calls/3/review"), Some(DeskRoute::Review("pay_x".into(), 3)));
        assert_eq!(found("/payments/pay_x/calls/3/settle-by-hand"), of_call(Act::SettleByHand));
        assert_eq!(found("/payments/pay_x/calls/3/hold"), of_call(Act::Hold));
        for nothing in [
            "/payments/a/calls/x",
            "/payments/a/calls/1/void",
            "/",
            "/x",
            "/payments/",
            "/payments/a/requeue",
            "/keys/ab",
            "/keys/ab/x",
            "istrator",
        ] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_button_is_pressed_with_post_only() {
        let button = DeskRoute::find("/payments/pay_x/void").unwrap();
        assert_eq!(button.allow(), "POST, OPTIONS");
    }
}
