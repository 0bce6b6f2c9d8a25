//! The fault points of a node's daemon, which must have been started with `--allow-faults`.

use crate::node::Node;
use crate::paths;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Arms points: `run.netns=hold`, `a=1*fail,b=note`.
pub fn arm(node: &Node, text: &str) -> anyhow::Result<()> {
    match ask(node, text)?.trim() {
        "ok" => Ok(()),
        said => bail!("arming {text:?}: {said}"),
    }
}

/// How often each point acted since it was last armed.
pub fn hits(node: &Node) -> anyhow::Result<BTreeMap<String, u32>> {
    let said = ask(node, "hits")?;
    let pairs = said.lines().filter_map(|line| line.split_once('\t'));
    pairs.map(|(name, count)| Ok((name.to_owned(), count.parse()?))).collect()
}

/// Waits until a point has acted; whether it did in time.
pub async fn reached(node: &Node, point: &str, limit: Duration) -> anyhow::Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if hits(node)?.get(point).is_some_and(|count| *count > 0) {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    Ok(false)
}

/// Every point that the product has.
pub fn inventory() -> anyhow::Result<Vec<String>> {
    let output = std::process::Command::new(paths::product("berthd")?).arg("faults").output()?;
    let said = String::from_utf8(output.stdout)?;
    Ok(said.lines().filter_map(|line| line.split_once('\t')).map(|(name, _)| name.to_owned()).collect())
}

fn ask(node: &Node, line: &str) -> anyhow::Result<String> {
    let path = node.dir().join("state/faults.sock");
    let mut stream = UnixStream::connect(&path).with_context(|| path.display().to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    writeln!(stream, "{line}")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}
