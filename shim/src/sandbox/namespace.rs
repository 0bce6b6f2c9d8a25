//! Namespaces made on a thread that is thrown away: it leaves the pod's, the process stays where it was.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use berth_proto::shim::StartSandboxRequest;
use berth_sys::namespace::{Namespaces, join, unshare};

use super::sysctl;
use crate::error::{CallError, Step};

/// Bytes of stack: nothing deep happens here.
const STACK: usize = 64 << 10;

/// The namespaces that were asked for.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) ipc: Option<OwnedFd>,
    pub(super) uts: Option<OwnedFd>,
}

/// Makes what is asked for, names the host and sets the sysctls, inside. Blocks.
pub(super) fn make(request: StartSandboxRequest) -> Result<Made, CallError> {
    sysctl::check(&request)?;
    let thread = std::thread::Builder::new().name("namespaces".into()).stack_size(STACK);
    let thread = thread.spawn(move || inside(&request)).step(|| "start a thread".to_owned())?;
    thread.join().unwrap_or_else(|_| Err(CallError::Panicked("while making namespaces".into())))
}

fn inside(request: &StartSandboxRequest) -> Result<Made, CallError> {
    let mut kinds = Namespaces::empty();
    if request.new_ipc {
        kinds |= Namespaces::IPC;
    }
    if request.new_uts {
        kinds |= Namespaces::UTS;
    }
    unshare(kinds).step(|| "make namespaces (ipc, uts)".to_owned())?;
    if !request.netns_path.is_empty() {
        let netns = File::open(&request.netns_path).step(|| format!("open netns {}", request.netns_path))?;
        join(netns.as_fd(), Namespaces::NETWORK).step(|| format!("enter netns {}", request.netns_path))?;
    }
    if !request.hostname.is_empty() {
        rustix::system::sethostname(request.hostname.as_bytes())
            .step(|| format!("set hostname {:?}", request.hostname))?;
    }
    for (name, value) in sysctl::sorted(request) {
        sysctl::write(name, value)?;
    }
    let open = |wanted: bool, kind: &str| match wanted {
        true => {
            let path = format!("/proc/thread-self/ns/{kind}");
            File::open(&path).step(|| format!("open {path}")).map(|file| Some(OwnedFd::from(file)))
        }
        false => Ok(None),
    };
    Ok(Made { ipc: open(request.new_ipc, "ipc")?, uts: open(request.new_uts, "uts")? })
}
