//! What the Workers share of HTTP: a request and its answer as plain data, problem details, signed tokens and the keys that sign them,
//! sessions, routes, forms, and the chrome of pages. Pure: time and randomness come in as arguments.

pub mod assets;
pub mod credentials;
pub mod entries;
pub mod hkdf;
pub mod http;
pub mod image_url;
pub mod json;
pub mod key_source;
pub mod locale;
pub mod origin;
pub mod pages;
pub mod problem;
pub mod query;
pub mod reply;
pub mod route;
pub mod session;
pub mod signing;
pub mod standard_webhooks;
pub mod test_cards;
pub mod token;
pub mod trace;
pub mod unpaid;
pub mod url;
