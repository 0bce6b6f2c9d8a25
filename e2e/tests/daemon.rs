//! The daemon itself: its configuration, its socket, its lock, its privileges, several of it side by side.

use anyhow::{Context as _, Result};
use berth_e2e::harness::Context;
use berth_e2e::node::{Node, Settings};
use berth_e2e::{check, paths, tests};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

tests![
    unknown_config_key,
    default_config_is_valid,
    stale_socket,
    second_daemon_on_one_root,
    second_daemon_on_one_bridge,
    other_signals,
    log_names_what_calls_are_about,
    config_check,
    two_daemons_side_by_side,
    not_root,
    socket_mode,
    stable_status,
];

/// Runs the daemon by hand until it ends by itself.
async fn ends(node: &Node, extra: &[&str], through: &[&str]) -> Result<Output> {
    let mut words: Vec<std::ffi::OsString> = through.iter().map(Into::into).collect();
    words.extend(node.command_line()?);
    words.extend(extra.iter().map(Into::into));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, command.output()).await.context("it did not end")?.map_err(Into::into)
}

fn words(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

async fn unknown_config_key(context: Context) -> Result<()> {
    let node = context.prepared(Settings::default())?;
    let good = std::fs::read_to_string(node.config_path())?;
    let text = "[network]\nmode = \"none\"\n\n[network.builtin]\nbridgee = \"x\"\n";
    std::fs::write(node.config_path(), text)?;
    let output = ends(&node, &[], &[]).await?;
    let said = words(&output);
    check!(!output.status.success(), "it started: {said}");
    check!(said.contains("bridgee"), "the key is not named: {said}");
    check!(said.contains("did you mean `") && said.contains("bridge`?"), "no nearest name: {said}");
    check!(said.contains(":5") || said.contains("line 5"), "the line is not named: {said}");
    node_starts(&node, &good).await
}

/// With a good configuration the same node starts.
async fn node_starts(node: &Node, text: &str) -> Result<()> {
    std::fs::write(node.config_path(), text)?;
    node.start_daemon().await?;
    Ok(())
}

async fn default_config_is_valid(context: Context) -> Result<()> {
    let node = context.prepared(Settings::default())?;
    let output = Command::new(paths::product("berthd")?).args(["config", "default"]).output().await?;
    let text = String::from_utf8(output.stdout)?;
    for key in ["root", "state", "certs_dir", "max_parallel_layers", "spool", "bin_dirs", "masquerade"] {
        check!(text.contains(key), "{key} is missing from the default configuration:\n{text}");
    }
    // Its own default bridge and paths must not be touched by a test, so it is only read.
    let bridge = node.tag().bridge();
    let line = "# bridge = \"berth0\"";
    check!(text.contains(line), "the default bridge is not berth0:\n{text}");
    let text = text.replace(line, &format!("bridge = \"{bridge}\""));
    node_starts(&node, &text).await
}

async fn stale_socket(context: Context) -> Result<()> {
    let node = context.node().await?;
    node.kill_daemon().await?;
    check!(node.socket().exists(), "no stale socket to try with");
    node.start_daemon().await?;
    let answer = node.cri().await?.version().await?;
    check!(answer.runtime_name == "berth", "{answer:?}");
    Ok(())
}

async fn second_daemon_on_one_root(context: Context) -> Result<()> {
    let node = context.node().await?;
    let output = ends(&node, &[], &[]).await?;
    let said = words(&output);
    check!(!output.status.success(), "a second daemon ran on one root: {said}");
    let root = node.dir().join("root").display().to_string();
    check!(said.contains(&root), "the root is not named: {said}");
    let pid = node.daemon_pid().unwrap_or_default().to_string();
    check!(said.contains(&pid), "the holder's pid {pid} is not named: {said}");
    node.cri().await?.version().await.context("the first daemon no longer answers")?;
    Ok(())
}

/// Another root and state, the same bridge: it would take the first one's rules away when it ends.
async fn second_daemon_on_one_bridge(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("first").await?;
    let other = bed.node.dir().join("other");
    let place = |name: &str| other.join(name).display().to_string();
    let (root, state, socket) = (place("root"), place("state"), place("state/s.sock"));
    let mut command = Command::new(paths::product("berthd")?);
    command.arg("--config").arg(bed.node.config_path()).args(["--root", &root, "--state", &state]);
    command.args(["--socket", &socket]).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await??;
    let said = words(&output);
    check!(!output.status.success(), "a second daemon ran on one bridge: {said}");
    check!(said.contains(&bed.node.tag().bridge()), "the bridge is not named: {said}");
    check!(said.contains("[network.builtin] bridge"), "the remedy is not named: {said}");
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    check!(bed.exec(&id, "ip -4 addr show eth0").await?.contains("inet "), "the first one's pod");
    bed.node.remove_everything().await?;
    bed.node.stop_daemon().await?;
    let locks = std::fs::read_dir("/run/lock/berth")?.flatten();
    let bridge = bed.node.tag().bridge();
    let mut left = locks.filter(|entry| entry.file_name().to_string_lossy().starts_with(&bridge));
    check!(left.next().is_none(), "the lock of the bridge is left");
    Ok(())
}

/// What makes other daemons read their configuration again or tell their state must not end this one.
async fn other_signals(context: Context) -> Result<()> {
    let node = context.node().await?;
    let pid = node.daemon_pid().and_then(Pid::from_raw).context("no daemon")?;
    for signal in [Signal::HUP, Signal::USR1] {
        kill_process(pid, signal)?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    node.cri().await?.version().await.context("the daemon after SIGHUP")?;
    check!(node.log_tail(50).contains("SIGHUP"), "nothing in the log");
    Ok(())
}

/// What an administrator greps for at night: the first digits of an id lead to what was done with it.
async fn log_names_what_calls_are_about(context: Context) -> Result<()> {
    let bed = context.bed_with(Settings { quiet: true, ..Settings::default() }).await?;
    let pod = bed.pod("named").await?;
    let id = bed.busybox_in(&pod, "c", "exit 7").await?;
    bed.ended(&id).await?;
    let refused = bed.cri().await?.start(&id).await;
    check!(refused.is_err(), "a container that ended was started again");
    let log = bed.node.log_tail(1000);
    let about = |id: &str, words: &[&str]| {
        log.lines().any(|line| line.contains(&id[..12]) && words.iter().all(|word| line.contains(word)))
    };
    for words in [["CreateContainer", "done"], ["StartContainer", "done"], ["StartContainer", "failed"]] {
        check!(about(&id, &words), "no line about {id} with {words:?}:\n{log}");
    }
    check!(about(&id, &["a container ended", "7"]), "no line about the end of {id}:\n{log}");
    check!(about(&pod.id, &["RunPodSandbox", "e2e/named"]), "no line about {}:\n{log}", pod.id);
    Ok(())
}

async fn config_check(context: Context) -> Result<()> {
    let node = context.prepared(Settings::default())?;
    let path = node.config_path().display().to_string();
    let good = std::fs::read_to_string(node.config_path())?;
    for args in [vec!["config", "check", &path], vec!["--config", &path, "config", "check"]] {
        let output = Command::new(paths::product("berthd")?).args(&args).output().await?;
        check!(output.status.success() && words(&output).contains(&path), "{args:?}: {}", words(&output));
    }
    std::fs::write(node.config_path(), "[network]\nmode = 3\n")?;
    let output = Command::new(paths::product("berthd")?).args(["config", "check", &path]).output().await?;
    let said = words(&output);
    check!(!output.status.success() && said.matches("TOML parse error").count() <= 1, "{said}");
    node_starts(&node, &good).await
}

async fn two_daemons_side_by_side(context: Context) -> Result<()> {
    let (one, two) = (context.bed().await?, context.bed().await?);
    let (a, b) = (one.pod("same").await?, two.pod("same").await?);
    let first = one.busybox_in(&a, "c", "sleep 1000").await?;
    two.busybox_in(&b, "c", "sleep 1000").await?;
    check!(one.cri().await?.pods().await?.len() == 1, "pods of the other daemon are listed");
    two.node.remove_everything().await?;
    two.node.stop_daemon().await?;
    check!(one.exec(&first, "echo well").await? == "well\n", "its pod does not answer");
    Ok(())
}

async fn not_root(context: Context) -> Result<()> {
    let node = context.prepared(Settings::default())?;
    let through = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    // The program must be readable by that user, wherever the build put it.
    let copy = node.dir().join("berthd");
    std::fs::copy(paths::product("berthd")?, &copy)?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new(through[0]);
    command.args(&through[1..]).arg(&copy).args(["--root", "/tmp/berth-nobody-root"]);
    command.args(["--state", "/tmp/berth-nobody-state"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await??;
    let said = words(&output);
    check!(!output.status.success(), "it started: {said}");
    check!(said.contains("root"), "what is needed is not said: {said}");
    check!(!std::path::Path::new("/tmp/berth-nobody-root").exists(), "it left a root behind");
    node.start_daemon().await?;
    Ok(())
}

async fn socket_mode(context: Context) -> Result<()> {
    let node = context.node().await?;
    let mode = std::fs::metadata(node.socket())?.permissions().mode() & 0o777;
    check!(mode == 0o660, "the socket has mode {mode:o}");
    node.stop_daemon().await?;
    check!(!node.socket().exists(), "the socket is still there after SIGTERM");
    node.start_daemon().await?;
    Ok(())
}

/// A kubelet writes its node status whenever the answer's order changes.
async fn stable_status(context: Context) -> Result<()> {
    let node = context.node().await?;
    let mut cri = node.cri().await?;
    let first = cri.status(false).await?;
    for _ in 0..50 {
        check!(cri.status(false).await? == first, "two calls differ");
    }
    node.kill_daemon().await?;
    node.start_daemon().await?;
    let mut cri = node.cri().await?;
    let later = cri.status(false).await?;
    check!(later == first, "after a restart: {later:?}, before: {first:?}");
    Ok(())
}
