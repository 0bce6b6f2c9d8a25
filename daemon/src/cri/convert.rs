//! Wire words to plain values and back. Nothing beyond this folder sees protobuf.

pub mod container;
pub mod image;
pub mod node;
pub mod sandbox;
