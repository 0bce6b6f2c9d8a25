//! From an image reference to layers on disk: reference, registry client, verification, unpacking.
//!
//! [`Puller::pull`] is the whole of it. It asks the registry (or its mirrors) for the manifest, fetches the layers it
//! does not have, lets confined worker processes ([`unpack`]) decode and apply them into the layer store of
//! `berth-snapshot`, syncs once, and writes the image in one transaction of an [`ImageIndex`] that others implement.

pub mod auth;
pub mod config;
pub mod index;
pub mod platform;
pub mod progress;
pub mod pull;
pub mod reference;
pub mod registry;
mod threads;
pub mod unpack;

pub use auth::RegistryAuth;
pub use berth_snapshot::Digest;
pub use config::{ImageConfig, StatusUser};
pub use index::{ImageIndex, ImageRecord, PulledImage, find, lookup};
pub use platform::Platform;
pub use progress::{Event, LayerInfo, Progress};
pub use pull::{Error, ErrorKind, Options, PullRequest, Puller, Spool};
pub use reference::{Reference, ReferenceError};
