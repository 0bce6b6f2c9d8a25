//! What shims report: taken in, applied by the pod's actor, saved, and only then acknowledged.

mod intake;

pub(crate) use intake::{Report, from_wire, intake};
