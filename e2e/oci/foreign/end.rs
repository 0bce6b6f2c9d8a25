//! kill -9 of containerd, and of the shim.

use super::World;
use super::tasks::shims;
use anyhow::{Context as _, Result, bail};
use berth_e2e::harness::Context;
use berth_e2e::node::LowLevel;
use berth_e2e::{check, procfs, tests};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

tests![containerd_killed, shim_killed];

/// Waits until something holds.
pub(super) async fn until(mut holds: impl FnMut() -> bool, complaint: &str) -> Result<()> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > Duration::from_secs(20) {
            bail!("{complaint}");
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    Ok(())
}

/// The containers go on, and what happened meanwhile is known afterwards.
async fn containerd_killed(context: Context) -> Result<()> {
    let world = World::new(&context, LowLevel::BerthShim).await?;
    world.sleeper("stays", &[]).await?;
    let script = "while [ ! -e /end ]; do usleep 20000; done; exit 9";
    let said = world.ctr.run(&["-d", &world.image, "ends", "sh", "-c", script], "").await?;
    check!(said.code == 0, "{said:?}");
    let pid = first_of(&world, "ends")?;
    world.bed.node.kill_daemon().await?;
    std::fs::write(format!("/proc/{pid}/root/end"), "")?;
    until(|| !alive(pid), "the program does not end").await?;
    world.bed.node.start_daemon().await?;
    let events = world.ctr.events().await?;
    // What ended meanwhile a containerd removes when it comes back, whatever its shim.
    world.ctr.becomes("ends", None).await?;
    world.ctr.ok(&["container", "delete", "ends"]).await?;
    check!(world.ctr.status("stays").await?.as_deref() == Some("RUNNING"), "it did not survive");
    let said = world.ctr.say(&["task", "exec", "--exec-id", "e", "stays", "echo", "again"]).await?;
    check!((said.code, said.out.trim()) == (0, "again"), "{said:?}");
    world.remove("stays").await?;
    // The shim found the new containerd's socket.
    let topics = events.topics("stays", 5).await?;
    check!(topics == ["exec-added", "exec-started", "exit", "exit", "delete"], "{topics:#?}");
    until(|| shims(&world).is_empty(), "a shim stays").await
}

/// containerd cleans up by `delete`: nothing of the containers stays, and it knows that they are gone.
async fn shim_killed(context: Context) -> Result<()> {
    let world = World::new(&context, LowLevel::BerthShim).await?;
    let events = world.ctr.events().await?;
    world.sleeper("lost", &[]).await?;
    let pid = first_of(&world, "lost")?;
    let shim = shims(&world).first().map(|shim| shim.pid).context("no shim")?;
    kill_process(Pid::from_raw(shim).context("no pid")?, Signal::KILL)?;
    let topics = events.topics("lost", 4).await?;
    check!(topics == ["create", "start", "exit", "delete"], "{topics:#?}");
    until(|| !alive(pid), "the program outlives its shim").await?;
    world.ctr.becomes("lost", None).await?;
    world.gone("lost")?;
    world.ctr.ok(&["container", "delete", "lost"]).await?;
    // The id is free for another one.
    world.sleeper("lost", &[]).await?;
    world.remove("lost").await
}

fn first_of(world: &World, id: &str) -> Result<i32> {
    let inside = format!("/{}/{id}", world.bed.node.tag().name());
    let all = procfs::processes();
    let found = all.iter().find(|process| process.cgroups.contains(&inside));
    found.map(|process| process.pid).with_context(|| format!("no process of {id}"))
}

fn alive(pid: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
