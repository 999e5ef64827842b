//! Every route on one page.
//!
//! | address | methods | who | what |
//! |---|---|---|---|
//! | `/` | GET | anyone | what this is |
//! | `/healthz` | GET | anyone | is it set up |
//! | `/assets/{file}` | GET | anyone | style sheet, script, icon |
//! | `/problems/{kind}` | GET | anyone | what a problem type means |
//! | `/rides/new` | GET | anyone | the form, with this browser's open key or a fresh one; what it booked, if it was used |
//! | `/rides` | POST | form or API | book and pay |
//! | `/rides/{id}` | GET | its owner | the ride: page or JSON |
//! | `/idempotency-keys/{key}` | GET | its owner | where the key stands: JSON |
//!
//! HEAD works wherever GET does.

/// An address that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/`
    Home,
    /// `/healthz`
    Health,
    /// `/assets/{file}`
    Asset(String),
    /// `/problems/{kind}`
    Problem(String),
    /// `/rides/new`
    RideForm,
    /// `/rides`
    Rides,
    /// `/rides/{id}`
    Ride(String),
    /// `/idempotency-keys/{key}`, still percent-encoded
    Key(String),
}

impl Route {
    /// The route of a path, if there is one.
    pub fn find(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.splitn(3, '/');
        Some(match (segments.next()?, segments.next(), segments.next()) {
            ("", None, None) => Self::Home,
            ("healthz", None, None) => Self::Health,
            ("assets", Some(file), None) => Self::Asset(file.to_owned()),
            ("problems", Some(kind), None) => Self::Problem(kind.to_owned()),
            ("rides", None, None) => Self::Rides,
            ("rides", Some("new"), None) => Self::RideForm,
            ("rides", Some(id), None) if !id.is_empty() => Self::Ride(id.to_owned()),
            ("idempotency-keys", Some(key), None) if !key.is_empty() => Self::Key(key.to_owned()),
            _ => return None,
        })
    }

    /// The methods that it answers, as the `Allow` header lists them.
    pub const fn allow(&self) -> &'static str {
        match self {
            Self::Rides => "POST",
            _ => "GET, HEAD",
        }
    }

    /// Whether it answers this method.
    pub fn allows(&self, method: &str) -> bool {
        self.allow().split(", ").any(|allowed| allowed == method)
    }

    /// Its name in the log, without anything from the request.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Home => "/",
            Self::Health => "/healthz",
            Self::Asset(_) => "/assets/{file}",
            Self::Problem(_) => "/problems/{kind}",
            Self::RideForm => "/rides/new",
            Self::Rides => "/rides",
            Self::Ride(_) => "/rides/{id}",
            Self::Key(_) => "/idempotency-keys/{key}",
        }
    }
}
