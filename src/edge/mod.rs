//! HTTP in and out. [`routes`] lists every address; `api` and `checkout` turn what comes into one request to the object;
//! [`reply`] turns the verdict into a status. Everything that only parses or renders is pure.

pub mod checkout;
pub mod cors;
// The build makes the document on its own machine: no word of it is part of the Worker.
#[cfg(not(target_arch = "wasm32"))]
pub mod openapi;
pub mod pages;
pub mod payment_params;
pub mod reply;
pub mod return_key;
pub mod route;
pub mod routes;

#[cfg(target_arch = "wasm32")]
mod admission;
#[cfg(target_arch = "wasm32")]
mod api;
#[cfg(target_arch = "wasm32")]
mod app;
#[cfg(target_arch = "wasm32")]
mod assets;
#[cfg(target_arch = "wasm32")]
mod copies;
#[cfg(target_arch = "wasm32")]
mod desk;
#[cfg(target_arch = "wasm32")]
mod docs;
#[cfg(target_arch = "wasm32")]
mod handle;
#[cfg(target_arch = "wasm32")]
mod info;
#[cfg(target_arch = "wasm32")]
mod keys;
#[cfg(target_arch = "wasm32")]
mod payments;
#[cfg(target_arch = "wasm32")]
mod webhooks;

#[cfg(target_arch = "wasm32")]
pub use handle::handle;
