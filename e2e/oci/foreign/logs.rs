//! Output by URI: to a file, and to a program.

use super::World;
use super::end::until;
use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::node::LowLevel;
use berth_e2e::{check, tests};
use std::os::unix::fs::PermissionsExt;

tests![file, program, nothing_to_log];

async fn file(context: Context) -> Result<()> {
    let world = World::new(&context, LowLevel::BerthShim).await?;
    let log = world.bed.node.dir().join("new/folder/log");
    run(&world, &format!("file://{}", log.display())).await?;
    let text = std::fs::read_to_string(&log)?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    check!(lines == ["err", "out"], "{text:?}");
    Ok(())
}

/// It gets both streams, its arguments and the names of the container, and is asked to end.
async fn program(context: Context) -> Result<()> {
    let world = World::new(&context, LowLevel::BerthShim).await?;
    let (logger, log) = (world.bed.node.dir().join("logger"), world.bed.node.dir().join("log"));
    let script = "#!/bin/sh -e\nexec >$2\necho $1 $3 $CONTAINER_ID $CONTAINER_NAMESPACE\n\
                  exec 5>&-\ncat <&3\ncat <&4\necho end\n";
    write(&logger, script)?;
    run(&world, &format!("binary://{}?to={}&odd=a%26b", logger.display(), log.display())).await?;
    let wanted = format!("to odd speaks {}\nout\nerr\nend\n", world.bed.node.tag().name());
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    until(|| read() == wanted, "the log is not as it should be").await.map_err(|e| e.context(read()))?;
    Ok(())
}

/// A container that cannot be built leaves no logger behind, dead or alive.
async fn nothing_to_log(context: Context) -> Result<()> {
    let world = World::new(&context, LowLevel::BerthShim).await?;
    let (logger, ran) = (world.bed.node.dir().join("logger"), world.bed.node.dir().join("ran"));
    write(&logger, "#!/bin/sh -e\necho $$ >$2\nexec 5>&-\ncat <&3\ncat <&4\n")?;
    let uri = format!("binary://{}?to={}", logger.display(), ran.display());
    // A neighbour in the same pod keeps the shim, so that whatever stays of the logger stays to be seen.
    let pod = ["--annotation", "io.kubernetes.cri.sandbox-id=one-pod"];
    world.sleeper("neighbour", &pod).await?;
    let pods =
        [pod.as_slice(), &["-d", "--log-uri", &uri, &world.image, "never", "/no/such/program"]].concat();
    let said = world.ctr.run(&pods, "").await?;
    check!(said.code != 0 && said.err.contains("/no/such/program"), "{said:?}");
    let pid = std::fs::read_to_string(&ran)?.trim().to_owned();
    until(|| !std::path::Path::new("/proc").join(&pid).exists(), "the logger stays").await?;
    world.remove("neighbour").await
}

fn write(path: &std::path::Path, script: &str) -> Result<()> {
    std::fs::write(path, script)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

async fn run(world: &World, uri: &str) -> Result<()> {
    let args = ["-d", "--log-uri", uri, &world.image, "speaks", "sh", "-c", "echo out; echo err >&2"];
    let said = world.ctr.run(&args, "").await?;
    check!(said.code == 0, "{said:?}");
    world.ctr.becomes("speaks", Some("STOPPED")).await?;
    world.ctr.ok(&["task", "delete", "speaks"]).await?;
    world.ctr.ok(&["container", "delete", "speaks"]).await.map(drop)
}
