//! HTTP in and out. [`routes`] lists every address; `api` and `checkout` turn what comes into one request to the object;
//! [`reply`] turns the result into a status. Everything that only parses or renders is pure.

pub mod checkout;
pub mod cors;
pub mod customer_params;
pub mod endpoint_url;
pub mod fields;
// The build makes the document on its own machine: no word of it is part of the Worker.
pub mod openapi;
pub mod pages;
pub mod payment_params;
pub mod reply;
pub mod return_key;
pub mod route;
pub mod routes;
pub mod shop_url;
pub mod verbatim;
pub mod webhook_endpoint;

mod admission;
mod api;
mod app;
mod ask;
mod assets;
mod copies;
mod customers;
mod desk;
mod docs;
mod guide;
mod handle;
mod info;
mod keyed;
mod keys;
mod payments;
mod webhooks;

pub use handle::handle;
