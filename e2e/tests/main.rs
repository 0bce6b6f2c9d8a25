//! The end-to-end tests: the built product on private nodes. See `cargo xtask test`.

mod bad_images;
mod bad_requests;
mod crictl;
mod daemon;
mod restart;
mod slice;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        slice::tests(),
        crictl::tests(),
        bad_images::tests(),
        bad_requests::tests(),
        daemon::tests(),
        restart::tests(),
    ];
    berth_e2e::harness::main(&tests.concat())
}
