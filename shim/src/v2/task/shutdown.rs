//! Shutdown: called after every container; means something after the last.

use crate::v2::shim::Shim;

/// Ends the shim unless it still has containers.
pub(super) fn shutdown(shim: &Shim) {
    shim.end_if_empty();
}
