//! Every call of the task service by ctr, with both ways of using the product under containerd, and its events.

use super::World;
use anyhow::{Context as _, Result};
use berth_e2e::harness::Context;
use berth_e2e::node::LowLevel;
use berth_e2e::{check, procfs, tests};

tests![shim, oci, out_of_memory, pod_has_one_shim];

async fn shim(context: Context) -> Result<()> {
    walk(&context, LowLevel::BerthShim).await
}

async fn oci(context: Context) -> Result<()> {
    walk(&context, LowLevel::BerthOci).await
}

async fn walk(context: &Context, low_level: LowLevel) -> Result<()> {
    let world = World::new(context, low_level).await?;
    let events = world.ctr.events().await?;
    foreground(&world).await?;
    world.sleeper("walk", &[]).await?;
    check!(world.ctr.status("walk").await?.as_deref() == Some("RUNNING"), "it does not run");
    execs(&world).await?;
    figures(&world).await?;
    pause(&world).await?;
    let busy = world.ctr.say(&["task", "delete", "walk"]).await?;
    check!(busy.code != 0, "a running task was deleted: {}", busy.out);
    world.remove("walk").await?;
    let wanted = [
        "create",
        "start",
        "exec-added",
        "exec-started",
        "exit",
        "exec-added",
        "exec-started",
        "exit",
        "paused",
        "resumed",
        "exit",
        "delete",
    ];
    // containerd's own shim may end before it has told of the last.
    let sure = if low_level == LowLevel::BerthShim { 12 } else { 11 };
    let topics = events.topics("walk", sure).await?;
    check!(wanted.starts_with(&topics.iter().map(String::as_str).collect::<Vec<_>>()), "{topics:#?}");
    Ok(())
}

/// Streams and exit codes of containers that are waited for.
async fn foreground(world: &World) -> Result<()> {
    let (ctr, image) = (&world.ctr, world.image.as_str());
    let script = "echo out; echo err >&2; exit 7";
    let said = ctr.run(&["--rm", image, "front", "sh", "-c", script], "").await?;
    check!((said.code, said.out.trim()) == (7, "out"), "{said:?}");
    check!(said.err.lines().any(|line| line == "err"), "{said:?}");
    // Far more than any pipe holds, in and out; the input's end reaches the program.
    let much: String = (0..200_000).map(|n| format!("{n}\n")).collect();
    let said = ctr.run(&["--rm", image, "cat", "cat"], &much).await?;
    check!(said.code == 0 && said.out == much, "{} of {} bytes, {}", said.out.len(), much.len(), said.err);
    let said = ctr.run(&["--rm", image, "killed", "sh", "-c", "kill -USR1 $$"], "").await?;
    check!(said.code == 0, "the first process of a pid namespace ignores such a signal: {said:?}");
    let said = ctr.run(&["--rm", image, "missing", "/no/such/program"], "").await?;
    check!(said.code != 0 && said.err.contains("/no/such/program"), "{said:?}");
    check!(ctr.status("missing").await?.is_none(), "a task stays that was never started");
    Ok(())
}

async fn execs(world: &World) -> Result<()> {
    let ctr = &world.ctr;
    let said = ctr.say(&["task", "exec", "--exec-id", "one", "walk", "sh", "-c", "echo in; exit 3"]).await?;
    check!((said.code, said.out.trim()) == (3, "in"), "{said:?}");
    let words = ctr.words(&["task", "exec", "--exec-id", "two", "walk", "cat"])?;
    let said = berth_e2e::ctr::said(&words, "through\n").await?;
    check!((said.code, said.out.as_str()) == (0, "through\n"), "{said:?}");
    Ok(())
}

async fn figures(world: &World) -> Result<()> {
    let ctr = &world.ctr;
    let processes = ctr.ok(&["task", "ps", "walk"]).await?;
    let pid = init(world)?.to_string();
    check!(processes.split_whitespace().any(|word| word == pid), "{pid} is not in {processes}");
    let metrics = ctr.ok(&["task", "metrics", "--format", "json", "walk"]).await?;
    let metrics: serde_json::Value = serde_json::from_str(&metrics).context(metrics)?;
    let pids = metrics["pids"]["current"].as_u64();
    check!(pids == Some(1), "{metrics:#}");
    let usage = metrics["memory"]["usage"]["usage"].as_u64().or(metrics["memory"]["usage"].as_u64());
    check!(usage.is_some_and(|bytes| bytes > 0), "{metrics:#}");
    Ok(())
}

fn init(world: &World) -> Result<i32> {
    let inside = format!("/{}/walk", world.bed.node.tag().name());
    let all = procfs::processes();
    let found = all.iter().find(|process| process.cgroups.contains(&inside));
    found.map(|process| process.pid).context("no process of the container")
}

async fn pause(world: &World) -> Result<()> {
    let ctr = &world.ctr;
    ctr.ok(&["task", "pause", "walk"]).await?;
    check!(ctr.status("walk").await?.as_deref() == Some("PAUSED"), "it is not paused");
    ctr.ok(&["task", "resume", "walk"]).await?;
    check!(ctr.status("walk").await?.as_deref() == Some("RUNNING"), "it does not go on");
    Ok(())
}

/// Told once, between start and exit.
async fn out_of_memory(context: Context) -> Result<()> {
    let world = World::new(&context, LowLevel::BerthShim).await?;
    let events = world.ctr.events().await?;
    let args = ["--rm", "--memory-limit", "33554432", world.image.as_str(), "hungry", "tail", "/dev/zero"];
    let said = world.ctr.run(&args, "").await?;
    check!(said.code == 137, "{said:?}");
    let topics = events.topics("hungry", 5).await?;
    check!(topics == ["create", "start", "oom", "exit", "delete"], "{topics:#?}");
    Ok(())
}

/// One shim serves all containers that carry the same sandbox id.
async fn pod_has_one_shim(context: Context) -> Result<()> {
    let world = World::new(&context, LowLevel::BerthShim).await?;
    let pod = ["--annotation", "io.kubernetes.cri.sandbox-id=one-pod"];
    world.sleeper("first", &pod).await?;
    world.sleeper("second", &pod).await?;
    world.sleeper("alone", &[]).await?;
    check!(shims(&world).len() == 2, "{:#?}", shims(&world));
    world.remove("first").await?;
    check!(world.ctr.status("second").await?.as_deref() == Some("RUNNING"), "it went with its neighbour");
    check!(shims(&world).len() == 2, "{:#?}", shims(&world));
    world.remove("second").await?;
    world.remove("alone").await?;
    super::end::until(|| shims(&world).is_empty(), "a shim stays without containers").await
}

/// The shims of a node.
pub(super) fn shims(world: &World) -> Vec<procfs::Process> {
    let socket = world.bed.node.socket().display().to_string();
    let mine = |process: &procfs::Process| {
        process.command.starts_with("containerd-shim-berth-v1") && process.command.contains(&socket)
    };
    procfs::processes().into_iter().filter(mine).collect()
}
