//! The life of a shim under containerd: serve until the last container has been deleted and containerd says so.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_cgroup::Hierarchies;
use berth_core::Timestamp;
use berth_proto::containerd::{Dispatch, TASK_V2, TASK_V3, Time};
use berth_proto::ttrpc::Server;

use super::events::Events;
use super::flags::Flags;
use super::shim::Shim;
use super::task::Tasks;
use super::{About, V2Error};
use crate::serve::{event_loop, prepare_process};
use crate::signals::Signals;

/// The descriptor on which the socket already listens.
const LISTENER_FD: i32 = 3;

/// Every container and exec is waited for by a call of its own.
const IN_FLIGHT_MAX: usize = 1 << 16;

/// A shim that containerd never speaks to ends after this.
const UNCLAIMED_MAX: Duration = Duration::from_secs(60);

/// At the end, the last events have so long to be told.
const EVENTS_MAX: Duration = Duration::from_secs(2);

/// Serves until told to end.
pub(super) fn main(flags: &Flags) -> Result<(), V2Error> {
    // First, before anything else opens descriptors.
    let listener = berth_sys::inherited::take(LISTENER_FD)
        .about(|| "take the listening socket; this program is started by containerd".to_owned())?;
    berth_sys::malloc::single_arena();
    prepare_process();
    let runtime = event_loop().about(|| "start the event loop".to_owned())?;
    let result = runtime.block_on(run(flags, listener.into()));
    // Work that hangs in the kernel does not keep the shim.
    runtime.shutdown_background();
    result
}

/// A time as containerd writes it.
pub(super) fn time(at: Timestamp) -> Time {
    let nanos = at.nanos();
    Time {
        seconds: nanos.div_euclid(1_000_000_000),
        nanos: i32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or_default(),
    }
}

async fn run(flags: &Flags, listener: UnixListener) -> Result<(), V2Error> {
    let step = || "listen".to_owned();
    listener.set_nonblocking(true).about(step)?;
    let listener = tokio::net::UnixListener::from_std(listener).about(step)?;
    let exe = berth_sys::sealed_self().about(|| "seal the shim's own binary".to_owned())?;
    let hierarchies = Hierarchies::discover().map_err(berth_runtime::Error::from)?;
    let events = Events::new(flags.namespace.clone(), std::env::var_os(super::start::TTRPC_ADDRESS));
    let events = Arc::new(events);
    let shim = Arc::new(Shim::new(flags.namespace.clone(), exe, hierarchies, events.clone()));
    let tasks = Arc::new(Dispatch::new(Arc::new(Tasks { shim: shim.clone() })));
    let server = Server::new()
        .only_uid(0)
        .in_flight_max(IN_FLIGHT_MAX)
        .service(TASK_V2, tasks.clone())
        .service(TASK_V3, tasks);
    let delivery = crate::background::spawn(events.clone().deliver());
    let signals = Signals::new().about(|| "watch signals".to_owned())?;
    let asked = shim.clone();
    crate::background::spawn(signals.heed(shim.reaper.clone(), async move || _ = asked.end_if_empty()));
    crate::background::spawn(end_if_unclaimed(shim.clone()));
    let mut ending = shim.ending.subscribe();
    let stop = async move {
        drop(ending.wait_for(|ending| *ending).await);
        // Nobody is to reach a shim that takes no more containers: the next one starts its own.
        remove(flags.socket.as_deref());
    };
    server.serve(&listener, stop).await;
    events.told(EVENTS_MAX).await;
    delivery.abort();
    Ok(())
}

fn remove(socket: Option<&Path>) {
    if let Some(socket) = socket {
        let _removed_already = std::fs::remove_file(socket);
    }
}

async fn end_if_unclaimed(shim: Arc<Shim>) {
    tokio::time::sleep(UNCLAIMED_MAX).await;
    if !shim.claimed.load(Ordering::Relaxed) && shim.end_if_empty() {
        crate::say!("containerd never spoke to this shim: ending");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_keep_positive_nanoseconds() {
        assert_eq!(time(Timestamp(1_500_000_000)), Time { seconds: 1, nanos: 500_000_000 });
        assert_eq!(time(Timestamp(-1)), Time { seconds: -1, nanos: 999_999_999 });
    }
}
