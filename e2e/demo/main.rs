//! `cargo xtask demo`: from a registry to a pod that answers, step by step, on a node of its own.

mod clean;
mod screen;
mod steps;

use berth_e2e::tag::PREFIX;
use screen::Screen;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if !rustix::process::geteuid().is_root() {
        eprintln!("The demo makes namespaces, mounts, cgroups and a bridge: run it as root.");
        return ExitCode::FAILURE;
    }
    if args.iter().any(|arg| arg == "--clean") {
        return clean::run(PREFIX);
    }
    let keep = args.iter().any(|arg| arg == "--keep");
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("starting the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut screen = Screen::new();
    match runtime.block_on(steps::run(&mut screen, keep)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen.failed(&error);
            ExitCode::FAILURE
        }
    }
}
