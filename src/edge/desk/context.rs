//! Somebody at the desk, and what they ask.

use super::data;
use super::sheets::Frame;
use super::words;
use crate::edge::api::unreadable;
use crate::edge::app::App;
use crate::edge::assets::DESK_STYLE;
use crate::edge::http::Request;
use crate::edge::operator::Operator;
use crate::edge::pages::{Notice, Site};
use crate::edge::problem::Problem;

/// An operator who was let in, with their request.
pub(in crate::edge) struct Desk<'a> {
    pub(super) app: &'a App,
    pub(super) request: &'a Request,
    pub(super) operator: Operator,
}

impl Desk<'_> {
    /// A parameter of the address; empty if it is not there.
    pub(super) fn query(&self, name: &str) -> String {
        let pairs: Vec<(String, String)> =
            serde_urlencoded::from_str(&self.request.query).unwrap_or_default();
        let found = pairs.into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim().chars().take(300).collect()).unwrap_or_default()
    }

    /// See [`Site`].
    pub(super) fn site(&self) -> Site {
        self.app.site(self.request)
    }

    /// What every page needs. `here` is its address in the menu.
    pub(super) async fn frame(&self, here: &'static str) -> Result<Frame, Problem> {
        let waiting = data::waiting(&self.app.env).await.map_err(unreadable)?;
        Ok(Frame {
            style: DESK_STYLE.address,
            operator: self.operator.name.clone(),
            has_session: self.operator.has_session,
            here,
            dead: waiting.dead,
            breaks: waiting.breaks,
            notice: self.notice().await?,
        })
    }

    /// What the button did that has led here.
    async fn notice(&self) -> Result<Option<Notice>, Problem> {
        let Ok(action_id) = self.query("done").parse::<u64>() else { return Ok(None) };
        let action = data::find_action(&self.app.env, action_id).await.map_err(unreadable)?;
        Ok(action.map(|action| {
            let is_refused = ["refused", "failed"].iter().any(|word| action.outcome.starts_with(word));
            Notice {
                title: format!("{}: {}", words::sentence(&action.action), words::short(&action.subject)),
                text: words::sentence(&action.outcome),
                tone: if is_refused { "warning" } else { "info" },
            }
        }))
    }
}
