//! berth-shim: the per-pod monitor, the runtime's child (init), the OCI command line and containerd's shim in one
//! binary.

mod args;
mod background;
mod blocking;
mod container;
mod error;
mod io;
mod journal;
mod oci;
mod oom;
mod phase;
mod pod;
mod reaper;
mod regular;
mod sandbox;
mod say;
mod serve;
mod service;
mod shutdown;
mod signals;
mod slots;
mod task;
mod tree;
mod v2;

use std::process::ExitCode;

use args::Command;

/// Version and commit of this binary.
const BUILD: &str = match option_env!("BERTH_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// The descriptor on which the daemon is told that the socket listens.
const READY_FD: i32 = 3;

fn main() -> ExitCode {
    match args::parse(std::env::args_os()) {
        Ok(Command::Init) => berth_runtime::init::main(),
        Ok(Command::Holder) => sandbox::holder_main(),
        Ok(Command::Oci(args)) => oci::main(args),
        Ok(Command::V2(args)) => v2::main(args),
        Ok(Command::Serve(args)) => serve::serve(args, berth_sys::inherited::take(READY_FD).ok()),
        Ok(Command::Version) => {
            println!("berth-shim {BUILD}");
            ExitCode::SUCCESS
        }
        Ok(Command::Help) => {
            println!("{}", args::USAGE);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("berth-shim: {error}");
            ExitCode::from(2)
        }
    }
}
