//! The commands: a life in single steps, and what each says when it does not fit.

use super::row::{Row, row};
use anyhow::{Context as _, Result};
use berth_e2e::bundle::{Bundle, Ran, Receiver, wait_for};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [
        steps(),
        more_steps(),
        refusals(),
        more_refusals(),
        signals(),
        more_signals(),
        handed(),
        more_handed(),
        told(),
        more_told(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A container that sleeps.
pub(crate) fn sleeper(bundle: &Bundle) -> Result<()> {
    bundle.change(|spec| spec["process"]["args"] = json!(["sleep", "100000"]))
}

/// A row about a container that sleeps and runs.
fn up(name: &'static str, see: impl Fn(&Bundle) -> Result<String> + Send + Sync + 'static) -> Row {
    row(name).prepare(sleeper).see(move |bundle| {
        bundle.up()?;
        see(bundle)
    })
}

/// The exit codes of commands, and the status after each.
fn trail(bundle: &Bundle, calls: &[(&str, &[&str])]) -> Result<String> {
    let mut told = String::new();
    for (verb, words) in calls {
        let ran = bundle.call(verb, words)?;
        told.push_str(&format!("{verb} {} {}\n", ran.code, bundle.status()?));
    }
    Ok(told)
}

fn steps() -> Vec<Row> {
    vec![
        row("life: create, start, kill, delete")
            .prepare(sleeper)
            .see(|bundle| {
                let mut told = trail(bundle, &[("create", &[]), ("start", &[]), ("kill", &["KILL"])])?
                    .replace("kill 0 running", "kill 0 stopped");
                bundle.until("stopped")?;
                told.push_str(&trail(bundle, &[("delete", &[])])?);
                Ok(told)
            })
            .same(&["create 0 created\nstart 0 running\nkill 0 stopped\ndelete 0 gone\n"]),
        row("life: deleted before it is started")
            .prepare(sleeper)
            .see(|bundle| trail(bundle, &[("create", &[]), ("delete", &[])]))
            .same(&["create 0 created\ndelete 0 gone\n"]),
        up("life: pause and resume", |bundle| trail(bundle, &[("pause", &[]), ("resume", &[])]))
            .same(&["pause 0 paused\nresume 0 running\n"]),
        up("life: deleted by force while it runs", |bundle| {
            let ran = bundle.call_with("delete", &["--force"], &[])?;
            Ok(format!("{} {}", ran.code, bundle.status()?))
        })
        .same(&["0 gone"]),
        up("life: deleted by force while it is paused", |bundle| {
            bundle.must("pause", &[])?;
            let ran = bundle.call_with("delete", &["--force"], &[])?;
            Ok(format!("{} {}", ran.code, bundle.status()?))
        })
        .same(&["0 gone"]),
        row("life: run and detach")
            .prepare(sleeper)
            .see(|bundle| {
                let ran = bundle.call_with("run", &["--detach"], &[])?;
                Ok(format!("{} {}", ran.code, bundle.status()?))
            })
            .same(&["0 running"]),
    ]
}

fn more_steps() -> Vec<Row> {
    vec![
        row("life: run and keep")
            .sh("exit 4")
            .see(|bundle| {
                let ran = bundle.call_with("run", &["--keep"], &[])?;
                Ok(format!("{} {}", ran.code, bundle.status()?))
            })
            .same(&["4 stopped"]),
        row("life: what runs in the background ends with the first process")
            .sh("sleep 100000 & sleep 100000 & echo started")
            .same(&["started\n[exit 0]"]),
        row("life: the same without a pid namespace")
            .change(|spec, _| {
                if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
                    list.retain(|namespace| namespace["type"] != "pid");
                }
            })
            .sh("sleep 100000 & sleep 100000 & echo started")
            .same(&["started\n[exit 0]"]),
    ]
}

/// What a command says to a container that is not fit for it.
fn refusal(
    name: &'static str,
    ready: &'static [(&'static str, &'static [&'static str])],
    verb: &'static str,
    words: &'static [&'static str],
) -> Row {
    row(name).prepare(sleeper).see(move |bundle| {
        for (verb, words) in ready {
            bundle.must(verb, words)?;
        }
        let ran = bundle.call(verb, words)?;
        Ok(ran.seen(bundle))
    })
}

fn refusals() -> Vec<Row> {
    let created: &[(&str, &[&str])] = &[("create", &[])];
    let running: &[(&str, &[&str])] = &[("create", &[]), ("start", &[])];
    let paused: &[(&str, &[&str])] = &[("create", &[]), ("start", &[]), ("pause", &[])];
    vec![
        refusal("refusal: created twice", created, "create", &[]).refused(&["exist"]),
        refusal("refusal: run what is created", created, "run", &[]).refused(&["exist"]),
        refusal("refusal: started twice", running, "start", &[]).refused(&["running"]),
        refusal("refusal: deleted while it runs", running, "delete", &[]).refused(&["running"]),
        refusal("refusal: resumed while it runs", running, "resume", &[]).refused(&["running", "paused"]),
        refusal("refusal: paused twice", paused, "pause", &[]).refused(&["paused"]),
        refusal("refusal: exec while it is paused", paused, "exec", &["true"]).refused(&["paused"]),
        refusal("refusal: an unknown signal", running, "kill", &["NONSENSE"]).refused(&["NONSENSE"]),
        refusal("refusal: paused before it is started", created, "pause", &[])
            .see(|bundle| {
                bundle.must("create", &[])?;
                trail(bundle, &[("pause", &[]), ("resume", &[])])
            })
            .same(&["pause 0 paused\nresume 0 created\n"]),
        refusal("refusal: create of two", &[], "create", &["another"]).refused(&["another"]),
        refusal("refusal: start of two", created, "start", &["another"]).refused(&["another"]),
        refusal("missing: state", &[], "state", &[]).refused(&["does not exist"]),
        refusal("missing: start", &[], "start", &[]).refused(&["does not exist"]),
        refusal("missing: kill", &[], "kill", &["TERM"]).refused(&["does not exist"]),
        refusal("missing: exec", &[], "exec", &["true"]).refused(&["does not exist"]),
        refusal("missing: delete", &[], "delete", &[]).refused(&["does not exist"]),
        refusal("missing: ps", &[], "ps", &[]).refused(&["does not exist"]),
        refusal("missing: pause", &[], "pause", &[]).refused(&["does not exist"]),
        refusal("missing: update", &[], "update", &[]).refused(&["does not exist"]),
        refusal("missing: events", &[], "events", &[]).refused(&["does not exist"]),
        row("missing: delete by force is a success")
            .see(|bundle| Ok(bundle.call_with("delete", &["--force"], &[])?.seen(bundle)))
            .same(&["[exit 0]"]),
        row("refusal: an id that is a path")
            .see(|bundle| Ok(bundle.step(&["run", "../x"])?.run()?.seen(bundle)))
            .refused(&["../x"]),
    ]
}

fn more_refusals() -> Vec<Row> {
    vec![
        row("refusal: an empty id")
            .see(|bundle| Ok(bundle.step(&["run", ""])?.run()?.seen(bundle)))
            .refused(&["id"]),
        row("refusal: no id at all")
            .see(|bundle| Ok(format!("{}", bundle.step(&["run"])?.run()?.code != 0)))
            .same(&["true"]),
        row("refusal: an unknown command")
            .see(|bundle| Ok(format!("{}", bundle.step(&["nonsense"])?.run()?.code != 0)))
            .same(&["true"]),
        row("refusal: an unknown flag")
            .see(|bundle| Ok(format!("{}", bundle.call_with("run", &["--nonsense"], &[])?.code != 0)))
            .same(&["true"]),
        row("refusal: a bundle that is missing")
            .see(|bundle| Ok(bundle.call_with("run", &["--bundle", "/no/such"], &[])?.seen(bundle)))
            .refused(&["/no/such"]),
    ]
}

fn signals() -> Vec<Row> {
    let trapping = "trap 'echo got; exit 5' TERM USR1; echo ready; while :; do usleep 5000; done";
    let with = move |name: &'static str, words: &'static [&'static str]| {
        row(name).sh(trapping).see(move |bundle| {
            let mut step = bundle.step(&["run", bundle.id()])?;
            let child = step.spawn()?;
            // The last words of the trap are set up before the first are said.
            wait_for("ready", || Ok(logs(bundle).contains("ready")))?;
            let killed = bundle.call("kill", words)?;
            Ok(format!("kill {} {}", killed.code, step.end(child)?.seen(bundle)))
        })
    };
    vec![
        with("kill: TERM is the default", &[]).same(&["got\n[exit 5]"]),
        with("kill: by name", &["SIGUSR1"]).same(&["got\n[exit 5]"]),
        with("kill: by number", &["10"]).same(&["got\n[exit 5]"]),
        with("kill: KILL", &["KILL"]).same(&["ready\n[exit 137]"]),
        up("kill: what has ended", |bundle| {
            bundle.must("kill", &["KILL"])?;
            bundle.until("stopped")?;
            Ok(bundle.call("kill", &["TERM"])?.seen(bundle))
        })
        .refused(&["not"]),
        up("kill: all of what has ended", |bundle| {
            bundle.must("kill", &["KILL"])?;
            bundle.until("stopped")?;
            Ok(bundle.call_with("kill", &["--all"], &["KILL"])?.seen(bundle))
        })
        .same(&["[exit 0]"]),
    ]
}

fn more_signals() -> Vec<Row> {
    vec![
        row("kill: all")
            .sh("sleep 100000 & exec sleep 100000")
            .see(|bundle| {
                bundle.up()?;
                wait_for("two processes", || Ok(bundle.processes().len() == 2))?;
                let ran = bundle.call_with("kill", &["--all"], &["KILL"])?;
                bundle.until("stopped")?;
                wait_for("none", || Ok(bundle.processes().is_empty()))?;
                Ok(ran.seen(bundle))
            })
            .same(&["[exit 0]"]),
        up("kill: while it is paused", |bundle| {
            bundle.must("pause", &[])?;
            let ran = bundle.call("kill", &["KILL"])?;
            bundle.until("stopped")?;
            Ok(ran.seen(bundle))
        })
        .same(&["[exit 0]"]),
    ]
}

/// Everything that the bundle's commands have printed so far.
fn logs(bundle: &Bundle) -> String {
    let files = std::fs::read_dir(bundle.dir()).into_iter().flatten().flatten().map(|entry| entry.path());
    let outs = files.filter(|path| path.extension().is_some_and(|extension| extension == "out"));
    outs.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

fn handed() -> Vec<Row> {
    vec![
        row("--pid-file")
            .prepare(sleeper)
            .see(|bundle| {
                bundle.call_with("create", &["--pid-file", &bundle.text("pid")], &[])?;
                let pid = std::fs::read_to_string(bundle.path("pid"))?;
                Ok(format!("{}", pid == bundle.pid()?.to_string()))
            })
            .same(&["true"]),
        row("--pidfd-socket")
            .prepare(sleeper)
            .see(|bundle| {
                let receiver = Receiver::new(&bundle.path("sock"))?;
                let path = bundle.text("sock");
                let mut step = bundle.step(&["create", "--pidfd-socket", &path, bundle.id()])?;
                let child = step.spawn()?;
                let received = receiver.receive()?;
                step.end(child)?;
                let fd = received.fds.first().context("no descriptor")?.as_raw_fd();
                let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
                let pid = bundle.pid()?;
                Ok(format!("{}", info.lines().any(|line| line == format!("Pid:\t{pid}"))))
            })
            .same(&["true"]),
        row("--console-socket").see(console).same(&["/dev/pts/0", "33 101", "read back"]),
        row("--preserve-fds")
            .sh("ls /proc/self/fd; read line <&3; echo $line")
            .see(|bundle| {
                std::fs::write(bundle.path("three"), "from three\n")?;
                preserve(bundle, &format!("exec 3<{}", bundle.text("three")), "1")
            })
            .same(&["from three"]),
    ]
}

fn more_handed() -> Vec<Row> {
    vec![
        row("--preserve-fds of what nobody opened")
            .sh("ls /proc/self/fd")
            .see(|bundle| preserve(bundle, ":", "1"))
            .differs("take descriptor 3", "3\n4\n[exit 0]", "the number would be one of the runtime's own"),
        row("--no-new-keyring")
            .sh("true")
            .see(|bundle| Ok(bundle.call_with("run", &["--no-new-keyring"], &[])?.seen(bundle)))
            .same(&["[exit 0]"]),
        row("--no-pivot")
            .sh("ls -d /etc; ls /proc/1/root | grep -c bin")
            .see(|bundle| Ok(bundle.call_with("run", &["--no-pivot"], &[])?.seen(bundle)))
            .same(&["/etc"]),
        row("a terminal without --console-socket")
            .change(|spec, _| spec["process"]["terminal"] = json!(true))
            .see(|bundle| Ok(bundle.call("create", &[])?.seen(bundle)))
            .refused(&["--console-socket"]),
        row("a terminal, and the caller has none")
            .change(|spec, _| spec["process"]["terminal"] = json!(true))
            .see(without_a_terminal)
            .refused(&["--console-socket"]),
        row("--console-socket without a terminal")
            .see(|bundle| {
                Ok(bundle.call_with("create", &["--console-socket", "/no/such"], &[])?.seen(bundle))
            })
            .refused(&["--console-socket"]),
    ]
}

/// Runs the bundle from a shell that has opened descriptors.
fn preserve(bundle: &Bundle, opening: &str, count: &str) -> Result<String> {
    from_shell(bundle, &format!("{opening}; exec"), &format!("run --preserve-fds {count}"))
}

/// Runs the bundle in a session of its own, with nothing to read.
fn without_a_terminal(bundle: &Bundle) -> Result<String> {
    from_shell(bundle, "exec </dev/null; exec setsid --wait", "run")
}

fn from_shell(bundle: &Bundle, opening: &str, verb: &str) -> Result<String> {
    let program = bundle.runtime().program()?;
    let words = bundle.runtime().words().join(" ");
    let script = format!(
        "{opening} {} {words} --root {} --log {} --log-format json {verb} {}",
        program.display(),
        bundle.state_dir().display(),
        bundle.text("call0.log"),
        bundle.id()
    );
    let output = std::process::Command::new("sh").args(["-c", &script]).current_dir(bundle.dir()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    let ran =
        Ran { code, out: text(&output.stdout), err: text(&output.stderr), error: bundle.last_complaint() };
    Ok(ran.seen(bundle))
}

/// A terminal over its socket: its name inside, its size, and what is typed.
fn console(bundle: &Bundle) -> Result<String> {
    let receiver = Receiver::new(&bundle.path("sock"))?;
    bundle.change(|spec| {
        spec["process"]["terminal"] = json!(true);
        spec["process"]["consoleSize"] = json!({"height": 33, "width": 101});
        let script = "tty; stty size; stat -c %F /dev/console; read line; echo read $line";
        spec["process"]["args"] = json!(["sh", "-c", script]);
    })?;
    let path = bundle.text("sock");
    let mut step = bundle.step(&["create", "--console-socket", &path, bundle.id()])?;
    let child = step.spawn()?;
    let received = receiver.receive()?;
    step.end(child)?;
    let mut master = std::fs::File::from(received.fds.into_iter().next().context("no descriptor")?);
    bundle.must("start", &[])?;
    master.write_all(b"back\n")?;
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // The end of the last process behind it is an error here.
    while let Ok(count @ 1..) = master.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8_lossy(&seen).replace('\r', "");
    let mut lines: Vec<&str> = text.lines().filter(|line| *line != "back").collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

fn told() -> Vec<Row> {
    vec![
        up("state: its keys", |bundle| {
            let state = bundle.state()?;
            let shape = json!({"id": state["id"], "status": state["status"], "bundle": state["bundle"], "rootfs": state["rootfs"],
                "pid": state["pid"].is_i64(), "created": state["created"].as_str().is_some_and(|t| t.ends_with('Z')), "annotations": state["annotations"]});
            Ok(bundle.plain(&shape.to_string()))
        })
        .change(|spec, _| spec["annotations"] = json!({"a": "b"}))
        .same(&["\"annotations\":{\"a\":\"b\"}", "\"created\":true", "\"pid\":true", "\"rootfs\":\"<bundle>/rootfs\""]),
        up("list: as JSON", |bundle| {
            let list: Value = serde_json::from_str(&bundle.step(&["list", "--format", "json"])?.run()?.out)?;
            let one = &list[0];
            Ok(bundle.plain(&json!([one["id"], one["status"], one["bundle"], one["owner"]]).to_string()))
        })
        .same(&["[\"<id>\",\"running\",\"<bundle>\",\"root\"]"]),
        up("list: quietly", |bundle| Ok(bundle.plain(&bundle.step(&["list", "--quiet"])?.run()?.out))).same(&["<id>\n"]),
        up("list: as a table", |bundle| {
            let out = bundle.step(&["list"])?.run()?.out;
            Ok(out.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect::<Vec<_>>().len().to_string())
        })
        .same(&["2"]),
        row("list: nothing, as JSON").prepare(|bundle| Ok(std::fs::create_dir(bundle.state_dir())?)).see(|bundle| Ok(bundle.step(&["list", "--format", "json"])?.run()?.out)).differs("[]", "null", "an empty list is a list"),
        up("ps: as JSON", |bundle| {
            let pids: Vec<i32> = serde_json::from_str(&bundle.call_with("ps", &["--format", "json"], &[])?.out)?;
            Ok(format!("{}", pids == [bundle.pid()?]))
        })
        .same(&["true"]),
        up("ps: as a table", |bundle| {
            // runc's start comes back before the program is executed.
            wait_for("the program", || Ok(bundle.call("ps", &[])?.out.contains("sleep 100000")))?;
            let out = bundle.call("ps", &[])?.out;
            Ok(format!("{} {}", out.lines().count(), out.contains("sleep 100000")))
        })
        .needs("/bin/ps")
        .same(&["2 true"]),
    ]
}

fn more_told() -> Vec<Row> {
    vec![
        row("spec: writes what runs")
            .see(|bundle| {
                std::fs::remove_file(bundle.path("config.json"))?;
                let code = bundle.step(&["spec"])?.run()?.code;
                let spec = bundle.config()?;
                Ok(format!("{code} {} {}", spec["process"]["args"], spec["root"]["path"]))
            })
            .same(&["0 [\"sh\"] \"rootfs\""]),
        row("spec: does not overwrite")
            .see(|bundle| Ok(bundle.step(&["spec"])?.run()?.seen(bundle)))
            .refused(&["config.json"]),
        row("features: what both say of namespaces and hooks")
            .see(|bundle| {
                let features: Value = serde_json::from_str(&bundle.step(&["features"])?.run()?.out)?;
                Ok(json!([features["hooks"], features["linux"]["namespaces"], features["ociVersionMin"]])
                    .to_string())
            })
            .same(&["createContainer"]),
        row("version")
            .see(|bundle| {
                let out = bundle.step(&["--version"])?.run()?.out;
                Ok(out.lines().filter(|line| line.starts_with("spec:")).collect())
            })
            .same(&["spec: 1."]),
        row("error: one line of JSON in the log, its words on standard error")
            .args(&["/missing"])
            .see(|bundle| {
                let ran = bundle.run()?;
                let said = ran
                    .error
                    .as_deref()
                    .is_some_and(|words| ran.err.contains(words.rsplit(':').next().unwrap_or(words)));
                Ok(format!("{} {said}", ran.code))
            })
            .same(&["1 true"]),
    ]
}
