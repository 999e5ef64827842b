//! All that there is to say.

use crate::say::Say;

/// What the gate's pages say in one language.
#[derive(Debug)]
pub struct Texts {
    /// Title and text. What only a client of an API is told stays English.
    pub page: fn(Say) -> (&'static str, &'static str),
    /// What to do where no form of the page sends it again.
    pub closing: &'static str,
    /// Before what is quoted to the site's staff.
    pub reference: &'static str,
    /// The link to what was answered.
    pub see_answer: &'static str,
    /// While the site may be at work on it; `{when}` is one of the three below.
    pub(super) quiet: &'static str,
    pub(super) in_a_second: &'static str,
    /// Of at least two.
    pub(super) in_seconds: &'static str,
    /// Of at least two.
    pub(super) in_minutes: &'static str,
    /// On the button that asks what has become of it.
    pub look_again: &'static str,
    /// On the one that sends it as something new.
    pub send_as_new: &'static str,
    /// The same, where it is not known whether it arrived.
    pub send_not_arrived: &'static str,
    /// On the one that sends the same again.
    pub send: &'static str,
}
