//! Terminals: of a container and of an exec, through a real one of ours.

use super::World;
use anyhow::Result;
use berth_e2e::ctr::{Said, said};
use berth_e2e::harness::Context;
use berth_e2e::node::LowLevel;
use berth_e2e::{check, tests};

tests![shim, oci];

async fn shim(context: Context) -> Result<()> {
    both(&context, LowLevel::BerthShim).await
}

async fn oci(context: Context) -> Result<()> {
    both(&context, LowLevel::BerthOci).await
}

async fn both(context: &Context, low_level: LowLevel) -> Result<()> {
    let world = World::new(context, low_level).await?;
    let run = world.ctr.run_words(&["--rm", "-t", &world.image, "front", "sh", "-c", SCRIPT])?;
    expect(&in_terminal(&run).await?)?;
    world.sleeper("inside", &[]).await?;
    let exec = world.ctr.words(&["task", "exec", "-t", "--exec-id", "e", "inside", "sh", "-c", SCRIPT])?;
    expect(&in_terminal(&exec).await?)?;
    world.remove("inside").await
}

/// The size that ctr has copied from ours, a line that is typed, and a code.
const SCRIPT: &str = "test -t 0 && test -t 1 && test -t 2 || exit 1; sleep 1; busybox stty size; \
                      read line; echo got-$line; exit 5";

fn expect(said: &Said) -> Result<()> {
    check!(said.code == 5, "{said:?}");
    for wanted in ["33 101", "got-typed"] {
        check!(said.out.contains(wanted), "no {wanted:?} in {said:?}");
    }
    Ok(())
}

/// Runs a command in a terminal of 33 lines with 101 columns, with a line typed into it.
async fn in_terminal(words: &[String]) -> Result<Said> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let line = format!("stty rows 33 cols 101; exec {}", quoted.join(" "));
    let script = ["script", "-qec", &line, "/dev/null"].map(str::to_owned);
    said(&script, "typed\n").await
}
