//! Output by URI: to a file, and to a program.

use super::World;
use super::end::until;
use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::node::LowLevel;
use berth_e2e::{check, tests};
use std::os::unix::fs::PermissionsExt;

tests![file, program];

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
    std::fs::write(&logger, script)?;
    std::fs::set_permissions(&logger, std::fs::Permissions::from_mode(0o755))?;
    run(&world, &format!("binary://{}?to={}&odd=a%26b", logger.display(), log.display())).await?;
    let wanted = format!("to odd speaks {}\nout\nerr\nend\n", world.bed.node.tag().name());
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    until(|| read() == wanted, "the log is not as it should be").await.map_err(|e| e.context(read()))?;
    Ok(())
}

async fn run(world: &World, uri: &str) -> Result<()> {
    let args = ["-d", "--log-uri", uri, &world.image, "speaks", "sh", "-c", "echo out; echo err >&2"];
    let said = world.ctr.run(&args, "").await?;
    check!(said.code == 0, "{said:?}");
    world.ctr.becomes("speaks", Some("STOPPED")).await?;
    world.ctr.ok(&["task", "delete", "speaks"]).await?;
    world.ctr.ok(&["container", "delete", "speaks"]).await.map(drop)
}
