//! The container's own process, from its first instruction to execve: started by the parent as `init`, single-threaded, with a
//! channel to it.

use std::convert::Infallible;

use crate::channel::Channel;
use crate::error::{At, Failure};
use crate::wire::{Order, Report};

mod bind;
mod build;
mod cgroupfs;
mod console;
mod copy_up;
mod credentials;
mod devices;
mod enter;
mod filesystem;
pub mod given;
mod join;
mod label;
mod mask;
mod mounts;
mod oom;
mod overlay;
mod process;
mod program;
mod rootfs;
mod schedule;
mod sysctl;
mod user;

/// What `berth-shim init` runs; never returns. To be called before anything else in main: no thread may exist, no descriptor
/// may have been opened.
pub fn main() -> ! {
    if std::env::args().nth(2).as_deref() == Some("hold") {
        hold();
    }
    let number = std::env::args().nth(2).and_then(|text| text.parse().ok());
    let Some(Ok(fd)) = number.map(berth_sys::inherited::take) else {
        eprintln!("init is started by the runtime itself, with the number of its channel's descriptor");
        berth_sys::process::exit_now(125);
    };
    let channel = Channel::new(fd);
    let Err(failure) = run(&channel);
    // Nobody may be left to read it; then the exit code is all there is.
    let _ = channel.send(&Report::Failed(failure));
    berth_sys::process::exit_now(125)
}

/// Keeps the namespaces it was started in until its standard input ends.
fn hold() -> ! {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    berth_sys::process::exit_now(0)
}

fn run(channel: &Channel) -> Result<Infallible, Failure> {
    // Before anything of the container is near: none of its processes may look into this one (CVE-2016-9962).
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .step("make the process not dumpable")?;
    // Asked now, while this process may still do everything.
    let _all_found_at_once = berth_sys::lacks(berth_sys::Call::OpenAt2);
    let Some((order, _)) = channel.receive::<Order>().step("receive the order")? else { gone() };
    let Some((filter, _)) = channel.receive_bytes().step("receive the seccomp filter")? else { gone() };
    match order {
        Order::Create(order) => build::run(channel, *order, &filter),
        Order::Exec(order) => join::run(channel, *order, &filter),
    }
}

/// The parent has ended: so does this half container.
pub(crate) fn gone() -> ! {
    berth_sys::process::exit_now(125)
}

pub(crate) use label::{apparmor_enabled, selinux_enabled};
pub(crate) use sysctl::path_of as sysctl_path;
