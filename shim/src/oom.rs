//! Kills for lack of memory: counted while the container lives, and once more when its first process has been
//! reaped, since the notice may come later than the exit.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_cgroup::OomWatch;
use berth_core::Timestamp;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::container::Container;
use crate::io::watched::watched;
use crate::journal::Fact;
use crate::pod::Pod;

/// How many kills have been told of.
#[derive(Debug, Default)]
pub(crate) struct OomCounter(AtomicU64);

impl OomCounter {
    /// Reads the kernel's counter; tells of kills that were not told of yet. Returns the count.
    pub(crate) fn look(&self, pod: &Pod, container: &Container) -> u64 {
        // A start that hangs holds what was built; its group's counter is read at the next look.
        let Ok(built) = container.built.try_read() else { return self.0.load(Ordering::Relaxed) };
        let kills = built.cgroup.oom_kills().unwrap_or(0);
        if self.0.fetch_max(kills, Ordering::Relaxed) < kills {
            pod.journal.record(&container.id, Timestamp::now(), Fact::Oom(kills));
        }
        kills.max(self.0.load(Ordering::Relaxed))
    }
}

struct Watched(OomWatch);

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Looks at the counter whenever the kernel says that it may have risen, until the container has ended.
pub(crate) async fn watch(pod: &Arc<Pod>, container: &Arc<Container>) {
    let watch = container.built.read().await.cgroup.oom_watch();
    let watch = match watch {
        Ok(Some(watch)) => watch,
        Ok(None) => return,
        Err(error) => {
            crate::say!(
                "container {}: kills for lack of memory are told at its end only: {error}",
                container.id
            );
            return;
        }
    };
    let (at_end, looking) = (container.clone(), (pod.clone(), container.clone()));
    let look = move || {
        looking.1.oom.look(&looking.0, &looking.1);
    };
    if let Err(error) = follow(watch, look, async move { at_end.stopped().await }) {
        crate::say!("container {}: watch its memory: {error}", container.id);
    }
}

/// Calls `look` whenever the kernel says that the counter may have risen, until `end` comes.
pub(crate) fn follow(
    watch: OomWatch,
    look: impl Fn() + Send + 'static,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let interest = if watch.is_priority() { Interest::PRIORITY } else { Interest::READABLE };
    let watch = watched(Watched(watch), interest)?;
    crate::background::spawn(async move {
        tokio::select! {
            () = look_when_told(watch, interest, look) => {}
            () = end => {}
        }
    });
    Ok(())
}

async fn look_when_told(watch: AsyncFd<Watched>, interest: Interest, look: impl Fn()) {
    loop {
        let Ok(mut ready) = watch.ready(interest).await else { return };
        if watch.get_ref().0.acknowledge().is_err() {
            return;
        }
        ready.clear_ready();
        look();
    }
}
