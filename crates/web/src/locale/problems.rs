//! What a customer is told of a problem. Only those can come at the pages of an order that are named; any other is of a form that did not
//! come as it was sent.

use super::messages::Messages;
use crate::problem::{BadLink, Kind, Problem};

impl Messages {
    /// A title and a text.
    pub const fn problem(&self, problem: &Problem) -> (&'static str, &'static str) {
        match (problem.kind, problem.bad_link) {
            (Kind::NotFound, Some(BadLink::Broken)) => (self.not_found, self.link_broken),
            (Kind::NotFound, Some(BadLink::ShopGone)) => (self.not_found, self.shop_gone),
            (Kind::NotFound, None) => (self.not_found, self.not_found_text),
            (Kind::LinkExpired, _) => (self.link_expired, self.link_expired_text),
            (Kind::LinkReplaced, _) => (self.link_replaced, self.link_replaced_text),
            (Kind::LinkEnded, _) => (self.link_ended, self.link_ended_text),
            (Kind::LimitReached, _) => (self.tried_too_often, self.tried_too_often_text),
            (Kind::RateLimited | Kind::TryTooSoon, _) => (self.flooded, self.flooded_text),
            (Kind::Forbidden, _) => (self.foreign_form, self.foreign_form_text),
            (Kind::Unreadable, _) => (self.cannot_show, self.cannot_show_text),
            (
                Kind::InProgress
                | Kind::Interrupted
                | Kind::OutcomeUnknown
                | Kind::Unavailable
                | Kind::Misconfigured,
                _,
            ) => (self.not_now, self.not_now_text),
            _ => (self.unreadable_form, self.unreadable_form_text),
        }
    }
}
