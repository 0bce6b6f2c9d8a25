//! The verbs, one file each. They take plain values and know nothing of the wire.

pub mod container;
pub mod image;
pub mod node;
pub mod sandbox;
