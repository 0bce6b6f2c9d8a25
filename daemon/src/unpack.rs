//! Entry of the unpack worker.

use std::process::ExitCode;

/// Becomes the worker: no runtime, no threads, no log before this.
#[must_use]
pub fn main() -> ExitCode {
    berth_image::unpack::worker::main()
}
