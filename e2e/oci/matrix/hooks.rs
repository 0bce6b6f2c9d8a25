//! Hooks: which, when, where, with what state; and what happens when one fails.

use super::row::{Row, row};
use anyhow::Result;
use berth_e2e::bundle::{Bundle, Ran, push};
use serde_json::{Value, json};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [order(), more_order(), further_order(), failing(), more_failing(), bad()].into_iter().flatten().collect()
}

const ALL: [&str; 6] =
    ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// A hook that runs a script of the host's shell, which gets the state on its standard input.
fn hook(script: &str) -> Value {
    json!({"path": "/bin/sh", "args": ["sh", "-c", script]})
}

/// Where hooks write: a folder that the container sees at /log.
fn log(bundle: &Bundle) -> Result<()> {
    Ok(std::fs::create_dir(bundle.path("log"))?)
}

fn logged(spec: &mut Value, bundle: &Bundle) {
    push(
        &mut spec["mounts"],
        json!({"destination": "/log", "type": "bind", "source": bundle.path("log"), "options": ["bind"]}),
    );
    // The path of the host, for the hooks that run in its mount namespace.
    spec["annotations"] = json!({"folder": bundle.path("log")});
}

/// The program writes its line only when start has returned.
const PROGRAM: &str = "until [ -e /log/go ]; do usleep 5000; done; echo program >> /log/all";

/// Every hook writes a line; where it runs, the folder has another name.
fn lines(what: &'static str) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, bundle| {
        logged(spec, bundle);
        for name in ALL {
            let dir = if name == "startContainer" { "/log".to_owned() } else { bundle.text("log") };
            let script = format!("{what} >> {dir}/all").replace("NAME", name);
            push(&mut spec["hooks"][name], hook(&script));
        }
        spec["process"]["args"] = json!(["sh", "-c", PROGRAM]);
    }
}

fn life(bundle: &Bundle) -> Result<String> {
    let mut told = String::new();
    for (verb, words) in [("create", [].as_slice()), ("start", &[])] {
        let ran = bundle.call(verb, words)?;
        if ran.code != 0 {
            told.push_str(&format!("{verb} {}\n", ran.seen(bundle)));
            return Ok(told + &all(bundle));
        }
    }
    std::fs::write(bundle.path("log/go"), "")?;
    bundle.until("stopped")?;
    told.push_str(&done("delete", &bundle.call("delete", &[])?));
    Ok(told + &all(bundle))
}

/// The same with the lines in the order of the alphabet.
fn sorted_life(bundle: &Bundle) -> Result<String> {
    let told = life(bundle)?;
    let mut lines: Vec<&str> = told.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

fn done(verb: &str, ran: &Ran) -> String {
    format!("{verb} {}\n", ran.code)
}

fn all(bundle: &Bundle) -> String {
    bundle.plain(&std::fs::read_to_string(bundle.path("log/all")).unwrap_or_default())
}

const STATE: &str = "echo NAME $(cat | tr -d ' \\n' | sed 's/\"pid\":[0-9]*/\"pid\":N/; s/\"ociVersion\":\"[^\"]*\"/VERSION/' \
    | tr ',{}' '\\n\\n\\n' | sort | tr '\\n' ' ')";

const POSTSTART: &str = "poststart comes after the program has been started, not with create";

fn order() -> Vec<Row> {
    vec![
        row("hooks: all six in order").prepare(log).change(lines("cat > /dev/null; echo NAME")).see(life).differs(
            "delete 0\nprestart\ncreateRuntime\ncreateContainer\nstartContainer\npoststart\nprogram\npoststop\n",
            "createContainer\npoststart\nstartContainer\n",
            POSTSTART,
        ),
        row("hooks: poststart runs before start returns")
            .prepare(log)
            .change(|spec, bundle| {
                logged(spec, bundle);
                push(&mut spec["hooks"]["poststart"], hook(&format!("sleep 0.3; echo post > {}/all", bundle.text("log"))));
                spec["process"]["args"] = json!(["sleep", "100000"]);
            })
            .see(|bundle| {
                bundle.up()?;
                Ok(all(bundle))
            })
            .same(&["post\n"]),
        row("hooks: the state they are given").prepare(log).change(lines(STATE)).see(life).differs(
            "poststart \"annotations\": \"bundle\":\"<bundle>\" \"folder\":\"<bundle>/log\" \"id\":\"<id>\" \"pid\":N \"status\":\"running\" VERSION",
            "poststart \"annotations\": \"bundle\":\"<bundle>\" \"folder\":\"<bundle>/log\" \"id\":\"<id>\" \"pid\":N \"status\":\"created\" VERSION",
            POSTSTART,
        ),
        row("hooks: the state of all but poststart")
            .prepare(log)
            .change(lines(STATE))
            .see(|bundle| Ok(sorted_life(bundle)?.lines().filter(|line| !line.starts_with("poststart")).collect::<Vec<_>>().join("\n")))
            .same(&["prestart \"annotations\"", "\"status\":\"creating\"", "\"status\":\"created\"", "poststop", "\"status\":\"stopped\""]),
    ]
}

fn more_order() -> Vec<Row> {
    vec![
        row("hooks: the mount namespace of each")
            .prepare(log)
            .change(lines("cat > /dev/null; h=no; [ -e <host> ] && h=yes; echo NAME sees the host: $h"))
            .change(|spec, bundle| {
                let text = spec["hooks"].to_string().replace("<host>", &bundle.text("config.json"));
                spec["hooks"] = serde_json::from_str(&text).unwrap_or_default();
            })
            .see(sorted_life)
            .same(&["prestart sees the host: yes", "createRuntime sees the host: yes", "startContainer sees the host: no", "poststop sees the host: yes"]),
        row("hooks: createContainer is before the root is changed and sees its mounts")
            .prepare(log)
            .change(|spec, bundle| {
                logged(spec, bundle);
                let root = bundle.rootfs().display().to_string();
                let script = format!("cat > /dev/null; grep -c ' {root}/proc proc ' /proc/self/mounts > {}/all; touch {root}/made", bundle.text("log"));
                push(&mut spec["hooks"]["createContainer"], hook(&script));
                spec["root"]["readonly"] = json!(true);
                spec["process"]["args"] = json!(["ls", "/made"]);
            })
            .see(|bundle| {
                let seen = bundle.run()?.seen(bundle);
                Ok(seen + &all(bundle))
            })
            .same(&["/made\n", "1\n"]),
    ]
}

fn further_order() -> Vec<Row> {
    vec![
        row("hooks: their environment is what they are given and no more")
            .prepare(log)
            .change(|spec, bundle| {
                logged(spec, bundle);
                let mut one = hook(&format!(
                    "cat > /dev/null; /usr/bin/env | grep -v -E '^(PWD|SHLVL|_|OLDPWD)=' > {}/all",
                    bundle.text("log")
                ));
                one["env"] = json!(["A=1"]);
                push(&mut spec["hooks"]["createRuntime"], one);
            })
            .see(|bundle| {
                let seen = bundle.run()?.seen(bundle);
                Ok(seen + &all(bundle))
            })
            .same(&["[exit 0]A=1\n"]),
        row("hooks: the working directory")
            .prepare(log)
            .change(lines("cat > /dev/null; echo NAME $(pwd)"))
            .see(life)
            .differs(
                "createContainer <bundle>\n",
                "createContainer <bundle>/rootfs\n",
                "hooks of the host all begin in the bundle",
            ),
        row("hooks: the annotations are in the state")
            .prepare(log)
            .change(|spec, bundle| {
                logged(spec, bundle);
                spec["annotations"] = json!({"key": "value \"quoted\""});
                push(
                    &mut spec["hooks"]["createRuntime"],
                    hook(&format!("grep -o '\"key\": *\"value[^,}}]*\"' > {}/all", bundle.text("log"))),
                );
            })
            .see(|bundle| Ok(bundle.run()?.seen(bundle) + &all(bundle).replace("\": \"", "\":\"")))
            .same(&["\"key\":\"value \\\"quoted\\\"\""]),
    ]
}

/// One hook that fails, and the program says that it ran.
fn fails(name: &'static str, script: &'static str) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, bundle| {
        logged(spec, bundle);
        push(&mut spec["hooks"][name], hook(script));
        spec["process"]["args"] = json!(["sh", "-c", PROGRAM]);
    }
}

fn failing() -> Vec<Row> {
    let one = |name: &'static str, which: &'static str| {
        row(name).prepare(log).change(fails(which, "echo broken >&2; exit 3")).see(life)
    };
    vec![
        one("hooks: prestart fails", "prestart").same(&["create [refused, exit 1]"]),
        one("hooks: createRuntime fails", "createRuntime").same(&["create [refused, exit 1]"]),
        one("hooks: createContainer fails", "createContainer").same(&["create [refused, exit 1]"]),
        one("hooks: startContainer fails", "startContainer").differs(
            "start [refused, exit 1]",
            "delete 0",
            "start has to tell that nothing was started",
        ),
        one("hooks: poststop fails", "poststop").differs(
            "delete 0\nprogram\n",
            "delete 1\nprogram\n",
            "the specification wants a warning: the container is gone",
        ),
        row("hooks: poststart fails")
            .prepare(log)
            .change(fails("poststart", "exit 3"))
            .change(|spec, _| spec["process"]["args"] = json!(["sleep", "100000"]))
            .see(|bundle| {
                let codes = [bundle.call("create", &[])?.code, bundle.call("start", &[])?.code];
                Ok(format!("create and start {codes:?}, then {}", bundle.status()?))
            })
            .differs(
                "create and start [0, 1], then stopped",
                "create and start [1, 1], then gone",
                POSTSTART,
            ),
    ]
}

fn more_failing() -> Vec<Row> {
    vec![
        row("hooks: one that hangs is ended")
            .change(|spec, _| {
                let mut one = hook("exec sleep 100000");
                one["timeout"] = json!(1);
                push(&mut spec["hooks"]["createRuntime"], one);
            })
            .refused(&["createRuntime"]),
        row("hooks: one that is missing")
            .change(|spec, _| push(&mut spec["hooks"]["createRuntime"], json!({"path": "/no/such/hook"})))
            .refused(&["/no/such/hook"]),
        row("hooks: the failing one's words are told")
            .change(|spec, _| {
                push(&mut spec["hooks"]["createRuntime"], hook("echo its own words >&2; exit 9"))
            })
            .refused(&["createRuntime", "its own words"]),
    ]
}

fn bad() -> Vec<Row> {
    vec![
        row("hooks: a relative path")
            .change(|spec, _| push(&mut spec["hooks"]["createRuntime"], json!({"path": "sh"})))
            .refused(&["hooks.createRuntime[0].path"]),
        row("hooks: no signal is blocked")
            .change(|spec, bundle| {
                let told = format!("/SigBlk/w {}", bundle.text("signals"));
                let args = json!(["sed", "-n", told, "/proc/self/status"]);
                push(&mut spec["hooks"]["createRuntime"], json!({"path": "/bin/sed", "args": args}));
            })
            .see(|bundle| {
                bundle.run()?;
                Ok(std::fs::read_to_string(bundle.path("signals"))?)
            })
            .same(&["SigBlk:\t0000000000000000"]),
        row("hooks: a time-out of nothing")
            .change(|spec, _| {
                push(
                    &mut spec["hooks"]["createRuntime"],
                    json!({"path": "/bin/sleep", "args": ["sleep", "2"], "timeout": 0}),
                )
            })
            .refused(&["hooks.createRuntime[0].timeout"]),
        row("hooks: a list that is none")
            .change(|spec, _| spec["hooks"]["poststop"] = json!("x"))
            .refused(&["hooks.poststop"]),
    ]
}
