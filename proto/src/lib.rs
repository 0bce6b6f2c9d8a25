//! Every wire word of Berth, one feature per wire.

#[cfg(feature = "containerd")]
pub mod containerd;
#[cfg(feature = "cri")]
pub mod cri;
#[cfg(feature = "shim")]
pub mod shim;
#[cfg(feature = "shim")]
pub mod ttrpc;
