//! `exec`: one more process in a container.

use std::ffi::OsString;
use std::path::Path;

use berth_core::oci::Process;
use berth_runtime::{Exec, ExecArgs, ExecProgram, Stdio};
use serde_json::{Value, json};

use super::build::{own_stdio, preserved, sealed, write_pid};
use super::container::{Container, Status};
use super::flags::{Flag, Parsed};
use super::{About, Global, OciError, console, flags, from_json, subgroup, wait};

const FLAGS: &[Flag] = &[
    Flag::value("console-socket", ""),
    Flag::value("pidfd-socket", ""),
    Flag::value("cwd", ""),
    Flag::value("env", "e"),
    Flag::switch("tty", "t"),
    Flag::value("user", "u"),
    Flag::value("additional-gids", "g"),
    Flag::value("process", "p"),
    Flag::switch("detach", "d"),
    Flag::value("pid-file", ""),
    Flag::value("process-label", ""),
    Flag::value("apparmor", ""),
    Flag::switch("no-new-privs", ""),
    Flag::value("cap", "c"),
    Flag::value("preserve-fds", ""),
    Flag::value("cgroup", ""),
    Flag::switch("ignore-paused", ""),
    Flag::switch("no-subreaper", ""),
];

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<u8, OciError> {
    let flags = flags::parse(FLAGS, args)?;
    let preserved = preserved(&flags)?;
    let container = Container::load(global, flags.id()?)?;
    let mut states = vec![Status::Running, Status::Created];
    if flags.is_set("ignore-paused") {
        states.push(Status::Paused);
    }
    container.must_be(&states)?;
    let Some(pidfd) = container.process() else {
        return Err(OciError::State(format!("container {} has ended", container.record.id)));
    };
    let context = container.context()?;
    let process = process(&flags, &context)?;
    let terminal = process.terminal().unwrap_or(false);
    if terminal && flags.is_set("detach") && flags.value("console-socket").is_none() {
        return Err(OciError::Usage("--tty takes --console-socket when the caller goes on alone".into()));
    }
    if terminal && flags.value("console-socket").is_none() {
        console::must_have_ours("--tty")?;
    }
    let signals = wait::Signals::block();
    let cgroup = container.cgroup()?;
    let exec = berth_runtime::exec(&ExecArgs {
        context: &context,
        pid: container.record.pid,
        pidfd: &pidfd,
        cgroup: &cgroup,
        kill_group: None,
        places: subgroup::places(&flags, &cgroup)?,
        program: ExecProgram::Process(Box::new(process)),
        stdio: if terminal { Stdio::Terminal } else { own_stdio()? },
        preserved,
        exe: &*sealed()?,
    })?;
    exec.warnings.iter().for_each(|warning| global.log.warn(warning));
    hand_over(&flags, exec, &signals)
}

/// Tells the caller of the process by the ways that were asked for, then waits for its end, or not.
fn hand_over(flags: &Parsed, exec: Exec, signals: &wait::Signals) -> Result<u8, OciError> {
    let mut master = exec.console;
    if let Some(path) = flags.value("console-socket") {
        console::send(Path::new(path), master.take().as_ref())?;
    }
    if let Some(path) = flags.value("pidfd-socket") {
        console::send(Path::new(path), Some(&exec.pidfd))?;
    }
    write_pid(flags, exec.pid)?;
    if flags.is_set("detach") {
        return Ok(0);
    }
    if let Some(master) = master {
        console::relay(&master, &exec.pidfd, signals);
    }
    Ok(wait::until_ended(&exec.pidfd, signals))
}

/// The process: a file's, or the container's own with what the flags change.
fn process(flags: &Parsed, context: &berth_runtime::Context) -> Result<Process, OciError> {
    if let Some(path) = flags.value("process") {
        let text = std::fs::read(path).about("read", path)?;
        return from_json(path, &text);
    }
    let bad = |error| OciError::Json { path: "process".to_owned(), error };
    let mut value = serde_json::to_value(context.spec.process()).map_err(bad)?;
    let argv = &flags.rest[1..];
    if argv.is_empty() {
        return Err(OciError::Usage("there is nothing to run: give a command or --process".into()));
    }
    value["args"] = json!(argv);
    value["terminal"] = json!(flags.is_set("tty"));
    change(flags, &mut value)?;
    serde_json::from_value(value).map_err(bad)
}

fn change(flags: &Parsed, value: &mut Value) -> Result<(), OciError> {
    if let Some(cwd) = flags.value("cwd") {
        value["cwd"] = json!(cwd);
    }
    if let Some(label) = flags.value("process-label") {
        value["selinuxLabel"] = json!(label);
    }
    if let Some(profile) = flags.value("apparmor") {
        value["apparmorProfile"] = json!(profile);
    }
    if flags.is_set("no-new-privs") {
        value["noNewPrivileges"] = json!(true);
    }
    let mut env: Vec<String> = serde_json::from_value(value["env"].clone()).unwrap_or_default();
    env.extend(flags.values("env"));
    value["env"] = json!(env);
    for cap in flags.values("cap") {
        for set in ["bounding", "effective", "permitted"] {
            match value["capabilities"][set].as_array_mut() {
                Some(list) if !list.contains(&json!(cap)) => list.push(json!(cap)),
                Some(_) => {}
                None => value["capabilities"][set] = json!([cap]),
            }
        }
    }
    user(flags, value)
}

fn user(flags: &Parsed, value: &mut Value) -> Result<(), OciError> {
    let number = |text: &str| {
        text.parse::<u32>().map_err(|_| OciError::Usage(format!("{text:?} is no number of a user or group")))
    };
    if let Some(user) = flags.value("user") {
        let about = |_| OciError::Usage(format!("--user: {user:?} is not UID or UID:GID"));
        let (uid, gid) = user.split_once(':').map_or((user, None), |(uid, gid)| (uid, Some(gid)));
        value["user"]["uid"] = json!(number(uid).map_err(about)?);
        if let Some(gid) = gid {
            value["user"]["gid"] = json!(number(gid).map_err(about)?);
        }
    }
    let groups = flags.values("additional-gids");
    if !groups.is_empty() {
        let groups = groups.iter().map(|g| number(g)).collect::<Result<Vec<_>, _>>()?;
        value["user"]["additionalGids"] = json!(groups);
    }
    Ok(())
}
