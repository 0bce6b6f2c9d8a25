//! The OCI command line: what calls runc can call us.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs one command; `args` are those after `oci`.
pub fn main(args: Vec<OsString>) -> ExitCode {
    eprintln!("oci: {} arguments, no command is there yet", args.len());
    ExitCode::FAILURE
}
