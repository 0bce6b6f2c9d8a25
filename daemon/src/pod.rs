//! Pods: one actor each, which decides and never waits, and the handle through which everybody asks them.
//!
//! A request goes into an actor's mailbox; the [`machine`] inside turns it into a changed state and effects; effects
//! are tasks whose end is mail again. Lists and statuses read a [`view`] that is replaced before an answer is sent,
//! so that a caller reads its own writes and a slow stop delays nobody.

mod actor;
mod cancel;
mod clock;
mod deps;
mod effects;
mod error;
pub mod faults;
pub mod machine;
mod recorder;
mod registry;
mod view;

pub use cancel::{Cancel, Canceller};
pub use deps::{Deps, ImageForContainer, Images};
pub(crate) use deps::{Ground, PodPaths};
pub use error::Error;
pub(crate) use error::Noun;
pub(crate) use recorder::{Recorder, Row};
pub use registry::Pods;
pub(crate) use registry::Restored;
pub(crate) use registry::stamp;
pub use view::{PodView, Views};
