//! Layers and writable trees on disk: staging, commit, removal, overlay plans, usage.
//!
//! Everything here is blocking and knows only directories; what a layer means, and who refers to it, is written in
//! an index that others keep ([`LayerIndex`]).
//!
//! ```text
//! <root>/layers/<key>/fs          the tree of one layer, in overlay's on-disk format
//! <root>/layers/<key>/layer.json  what the plan must know of it (LayerMeta)
//! <root>/containers/<id>/upper    a container's writable tree
//! <root>/containers/<id>/work     overlay's work directory
//! <root>/staging/…                layers being made and trees being removed; emptied at open
//! ```

pub mod digest;
pub mod error;
pub mod index;
pub mod key;
pub mod layers;
pub mod meta;
pub mod overlay;
pub mod remove;
pub mod usage;

pub use digest::Digest;
pub use error::Error;
pub use index::{LayerIndex, LayerRecord};
pub use key::LayerKey;
pub use layers::{Snapshots, Staging};
pub use meta::{LayerMeta, RootAttributes};
pub use overlay::OverlayPlan;
pub use usage::Usage;
