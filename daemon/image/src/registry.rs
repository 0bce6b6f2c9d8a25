//! The client of registries and their mirrors.
//!
//! Where a registry is found is read per pull from `certs.d` ([`hosts`]); a [`session::Session`] then asks those
//! endpoints in order, proves itself where it may ([`token`]), follows redirects without taking secrets along,
//! repeats what can be repeated, and remembers what each endpoint said, for the error.

pub mod blob;
pub mod connect;
pub mod endpoint;
pub mod error;
pub mod hosts;
pub mod http;
pub mod manifest;
pub mod session;
pub mod tls;
pub mod token;

pub use error::{RegistryError, Tried};
