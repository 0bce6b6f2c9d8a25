//! The program: flags in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    berthd::run::main()
}
