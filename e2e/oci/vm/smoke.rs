//! The machine itself: it is what the other tests take it for, and nothing of one test reaches the next.

use berth_e2e::harness::Context;
use berth_e2e::vm::{self, BIN, Mode};
use berth_e2e::{check, tests};

tests![; long [unified, hybrid, legacy]];

async fn unified(_context: Context) -> anyhow::Result<()> {
    let mut guest = world(Mode::Unified).await?;
    let controllers = guest.ok("cat /sys/fs/cgroup/cgroup.controllers", 20).await?;
    for name in ["cpuset", "cpu", "io", "memory", "hugetlb", "pids"] {
        check!(controllers.split_whitespace().any(|have| have == name), "no {name} in {controllers}");
    }
    guest.ok("touch /root/mark /run/mark", 20).await?;
    drop(guest);
    let mut guest = vm::guest(Mode::Unified).await?;
    guest.ok("! ls /root/mark && ! ls /run/mark", 20).await?;
    let output = guest.run("echo words; echo complaint >&2; exit 7", 20).await?;
    check!((output.code, output.out.trim(), output.err.trim()) == (7, "words", "complaint"), "{output:?}");
    check!(guest.run("sleep 60", 1).await?.code == 124, "a script outlived its time");
    Ok(())
}

async fn hybrid(_context: Context) -> anyhow::Result<()> {
    let mut guest = world(Mode::Hybrid).await?;
    guest
        .ok(
            "ls -d /sys/fs/cgroup/unified/init.scope /sys/fs/cgroup/systemd/init.scope /sys/fs/cgroup/memory",
            20,
        )
        .await?;
    Ok(())
}

async fn legacy(_context: Context) -> anyhow::Result<()> {
    let mut guest = world(Mode::Legacy).await?;
    guest
        .ok(
            "ls -d /sys/fs/cgroup/systemd/init.scope /sys/fs/cgroup/memory && ! ls -d /sys/fs/cgroup/unified",
            20,
        )
        .await?;
    Ok(())
}

/// systemd 252 as process 1 of a 6.1 kernel, and a product that runs.
async fn world(mode: Mode) -> anyhow::Result<vm::Guest> {
    let mut guest = vm::guest(mode).await?;
    let told = guest.ok(&format!("cat /proc/1/comm; uname -r; {BIN}/berth-oci --version"), 20).await?;
    check!(told.starts_with("systemd\n6.1.") && told.contains("spec: 1."), "{told}");
    Ok(guest)
}
