//! The end-to-end tests of the low-level runtime and of its shim under foreign callers. See `cargo xtask test`.

mod foreign;
mod matrix;
mod version;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [foreign::tests(), matrix::tests(), version::tests()];
    berth_e2e::harness::main(&tests.concat())
}
