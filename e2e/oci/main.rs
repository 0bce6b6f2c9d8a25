//! The end-to-end tests of the low-level runtime and of its shim under foreign callers. See `cargo xtask test`.

mod cases;
mod cve;
mod forbidden;
mod foreign;
mod matrix;
mod stress;
mod version;
mod vm;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = berth_e2e::filter::heed() {
        return code;
    }
    let tests = [
        cases::tests(),
        cve::tests(),
        forbidden::tests(),
        foreign::tests(),
        matrix::tests(),
        stress::tests(),
        version::tests(),
        vm::tests(),
    ];
    let code = berth_e2e::harness::main(&tests.concat());
    berth_e2e::vm::end();
    code
}
