//! What frameworks and shops do alike: the settings of a route where it does not say them itself.

use serde::Deserialize;

use crate::meaning::{Done, FailedIf};

/// What frameworks and shops do alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Preset {
    Django,
    Rails,
    Laravel,
    Wordpress,
    Woocommerce,
}

impl Preset {
    pub(crate) const fn done(self) -> Done {
        match self {
            Self::Django | Self::Rails => Done::Redirect,
            Self::Laravel | Self::Wordpress | Self::Woocommerce => Done::Answer,
        }
    }

    pub(crate) const fn log_in(self) -> &'static [&'static str] {
        match self {
            Self::Django => &["/accounts/login/"],
            Self::Rails => &["/login", "/users/sign_in"],
            Self::Laravel => &["/login"],
            Self::Wordpress | Self::Woocommerce => &["/wp-login.php"],
        }
    }

    pub(crate) fn failed_if(self) -> Option<FailedIf> {
        let failed = || FailedIf { member: "result".to_owned(), equals: "failure".to_owned() };
        matches!(self, Self::Woocommerce).then(failed)
    }
}
