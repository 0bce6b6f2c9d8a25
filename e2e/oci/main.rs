//! The end-to-end tests of the low-level runtime and of its shim under foreign callers. See `cargo xtask test`.

mod cve;
mod matrix;
mod stress;
mod version;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [cve::tests(), matrix::tests(), stress::tests(), version::tests()];
    berth_e2e::harness::main(&tests.concat())
}
