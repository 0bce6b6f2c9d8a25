//! The end-to-end tests: the built product on private nodes. See `cargo xtask test`.

mod slice;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [slice::tests()].concat();
    berth_e2e::harness::main(&tests)
}
