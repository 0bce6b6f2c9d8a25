//! A real shim with real containers: what the daemon relies on. Needs root and a static busybox.

#[path = "support/bundle.rs"]
mod bundle;
#[path = "support/shim.rs"]
mod shim;

use std::fs;
use std::time::{Duration, Instant};

use berth_proto::shim::{
    DeleteRequest, EventsRequest, KillRequest, ReopenLogRequest, ShimClient, StartRequest,
    StartSandboxRequest, State, UpdateRequest,
};
use berth_proto::ttrpc::Code;
use bundle::Bundle;
use serde_json::json;
use shim::{LIMIT, Shim, code};

#[tokio::test(flavor = "current_thread")]
async fn a_container_runs_logs_and_ends() {
    let Some(shim) = Shim::start("runs").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sh", "-c", "echo out; echo err >&2; printf tail; exit 7"]);
    let created = shim.client.create(&bundle.request(), LIMIT).await.unwrap();
    assert!(created.pid > 1);
    assert_eq!(shim.state(&bundle.id).await, State::Created);
    let started = shim.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    let exit = shim.exit(&bundle.id).await;
    assert_eq!((exit.code, exit.oom_killed, exit.cause.as_str()), (7, false, ""));
    assert!(exit.exited_at >= started.started_at);
    assert_eq!(bundle.log(), ["stdout F out", "stdout F tail", "stderr F err"]);
    let deleted = shim.client.delete(&DeleteRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    assert_eq!(deleted.exit.map(|exit| exit.code), Some(7));
    let again = shim.client.delete(&DeleteRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    assert_eq!(again.exit, None);
    assert!(shim.list().await.is_empty());
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn an_exit_is_told_until_it_is_acknowledged() {
    let Some(shim) = Shim::start("told").await else { return };
    let bundle = Bundle::new(&shim, "a", &["true"]);
    shim.run(&bundle).await;
    shim.exit(&bundle.id).await;
    let second = ShimClient::connect(&shim.socket).await.unwrap();
    let events = second.events(&EventsRequest { acked: 0, wait_ms: 0 }, LIMIT).await.unwrap().events;
    assert_eq!(events.len(), 1, "a daemon that comes back learns of it");
    let acked = events[0].seq;
    let waiting = Instant::now();
    let none = second.events(&EventsRequest { acked, wait_ms: 200 }, LIMIT).await.unwrap().events;
    assert!(none.is_empty() && waiting.elapsed() >= Duration::from_millis(200));
    assert_eq!(shim.list().await[0].exit.as_ref().map(|exit| exit.code), Some(0), "and it stays in the list");
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_program_that_cannot_start_is_an_error_and_an_exit() {
    let Some(shim) = Shim::start("nostart").await else { return };
    for (name, program, errno) in [("a", "/bin/missing", "ENOENT"), ("b", "/tmp", "EACCES")] {
        let bundle = Bundle::new(&shim, name, &[program]);
        shim.client.create(&bundle.request(), LIMIT).await.unwrap();
        let error = shim.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await.unwrap_err();
        let text = error.status().unwrap().message.clone();
        assert!(text.contains(program) && text.contains(errno), "{text}");
        let exit = shim.exit(&bundle.id).await;
        assert_eq!(exit.code, 128);
        assert!(exit.cause.contains(errno), "{}", exit.cause);
        let again = shim.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await;
        assert_eq!(code(again), Code::FailedPrecondition);
    }
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn exec_brings_output_code_and_typed_failures() {
    let Some(shim) = Shim::start("exec").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    shim.run(&bundle).await;
    let id = bundle.id.as_str();
    let answer = shim.exec(id, &["sh", "-c", "echo $A; echo no >&2; exit 3"], 20_000).await.unwrap();
    assert_eq!(
        (answer.exit_code, answer.stdout.as_slice(), answer.stderr.as_slice()),
        (3, &b"1\n"[..], &b"no\n"[..])
    );
    let missing = shim.exec(id, &["missing"], 0).await.unwrap_err();
    assert!(missing.to_string().contains("ENOENT") && missing.to_string().contains("missing"), "{missing}");
    assert_eq!(code(shim.exec(id, &[], 0).await), Code::InvalidArgument);
    assert_eq!(code(shim.exec(&"0".repeat(64), &["true"], 0).await), Code::NotFound);
    let big = shim.exec(id, &["sh", "-c", "head -c 3000000 /dev/zero"], 0).await.unwrap();
    assert_eq!((big.stdout.len(), big.truncated), (3_000_000, false));
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_time_out_kills_the_whole_tree_and_a_held_pipe_delays_little() {
    let Some(shim) = Shim::start("tree").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    shim.run(&bundle).await;
    let begun = Instant::now();
    let script = "echo begun; (setsid sleep 998 &) ; sleep 999 & sh -c 'sleep 997; true'; true";
    let answer = shim.exec(&bundle.id, &["sh", "-c", script], 500).await.unwrap();
    assert!(answer.timed_out && answer.exit_code == 137, "{answer:?}");
    assert_eq!(answer.stdout, b"begun\n");
    assert!(begun.elapsed() < Duration::from_secs(5));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let left = shim.exec(&bundle.id, &["sh", "-c", "ps | grep -c 'sleep 99[789]' || true"], 0).await.unwrap();
    let left = String::from_utf8(left.stdout).unwrap();
    // grep finds itself and its shell.
    assert!(left.trim().parse::<u32>().unwrap() <= 2, "left alive: {left}");
    let begun = Instant::now();
    let held = shim.exec(&bundle.id, &["sh", "-c", "sleep 60 & echo done"], 20_000).await.unwrap();
    assert_eq!((held.exit_code, held.timed_out, held.stdout.as_slice()), (0, false, &b"done\n"[..]));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn kill_reaches_a_container_in_any_state() {
    let Some(shim) = Shim::start("kill").await else { return };
    let kill = |id: &str, signal, all| {
        let request = KillRequest { id: id.to_owned(), signal, all };
        let client = shim.client.clone();
        async move { client.kill(&request, LIMIT).await }
    };
    let trap = Bundle::new(
        &shim,
        "a",
        &["sh", "-c", "trap 'echo got; exit 5' TERM; echo up; while :; do sleep 0.1; done"],
    );
    shim.run(&trap).await;
    while !trap.log().contains(&"stdout F up".to_owned()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    kill(&trap.id, 15, false).await.unwrap();
    assert_eq!(shim.exit(&trap.id).await.code, 5);
    assert_eq!(trap.log(), ["stdout F up", "stdout F got"]);
    kill(&trap.id, 9, false).await.expect("a process that is gone is no failure");
    let waiting = Bundle::new(&shim, "b", &["true"]);
    shim.client.create(&waiting.request(), LIMIT).await.unwrap();
    assert_eq!(code(shim.client.create(&waiting.request(), LIMIT).await), Code::AlreadyExists);
    kill(&waiting.id, 9, true).await.unwrap();
    let exit = shim.exit(&waiting.id).await;
    assert_eq!(exit.code, 137, "an exit between create and start is not lost");
    assert_eq!(code(kill(&"0".repeat(64), 9, false).await), Code::NotFound);
    assert_eq!(code(kill(&trap.id, 99, false).await), Code::InvalidArgument);
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn rotation_loses_no_line_and_splits_none() {
    let Some(shim) = Shim::start("rotate").await else { return };
    let bundle = Bundle::new(
        &shim,
        "a",
        &["sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"],
    );
    shim.run(&bundle).await;
    let mut parts = Vec::new();
    for part in 0..10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let old = shim.directory.join(format!("0.log.{part}"));
        fs::rename(bundle.log_path(), &old).unwrap();
        parts.push(old);
        shim.client.reopen_log(&ReopenLogRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    }
    shim.exit(&bundle.id).await;
    parts.push(bundle.log_path());
    shim.client.reopen_log(&ReopenLogRequest { id: bundle.id.clone() }, LIMIT).await.expect("in any state");
    let all: Vec<u8> = parts.iter().flat_map(|part| fs::read(part).unwrap()).collect();
    let lines: Vec<_> = all
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| berth_core::log::parse(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 20_000);
    for (n, line) in lines.iter().enumerate() {
        assert!(line.full && line.content == format!("line {n}").as_bytes());
    }
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn instant_exits_keep_their_last_words() {
    let Some(shim) = Shim::start("instant").await else { return };
    for n in 0..20 {
        let bundle =
            Bundle::new(&shim, &format!("{n:x}"), &["sh", "-c", "printf 'a\\nb'; printf 'c\\nd' >&2"]);
        shim.run(&bundle).await;
        assert_eq!(shim.exit(&bundle.id).await.code, 0);
        assert_eq!(bundle.log(), ["stdout F a", "stdout F b", "stderr F c", "stderr F d"]);
    }
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_terminal_logs_too() {
    let Some(shim) = Shim::start("tty").await else { return };
    let mut bundle = Bundle::new(&shim, "a", &["sh", "-c", "test -t 0 && test -t 1 && echo terminal"]);
    bundle.config()["process"]["terminal"] = json!(true);
    bundle.config()["mounts"].as_array_mut().unwrap().push(
        json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666", "mode=0620"] }),
    );
    let mut request = bundle.request();
    request.tty = true;
    shim.client.create(&request, LIMIT).await.unwrap();
    shim.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    assert_eq!(shim.exit(&bundle.id).await.code, 0);
    assert_eq!(bundle.log(), ["stdout F terminal"]);
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn running_out_of_memory_is_told_as_such() {
    let Some(shim) = Shim::start("oom").await else { return };
    let mut bundle = Bundle::new(&shim, "a", &["sh", "-c", "x=a; while :; do x=$x$x$x$x; done"]);
    bundle.config()["linux"]["resources"] = json!({ "memory": { "limit": 16 << 20 } });
    let created = shim.client.create(&bundle.request(), LIMIT).await;
    if created.is_err() {
        eprintln!("skipped: no memory controller here: {created:?}");
        return shim.end().await;
    }
    shim.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    let exit = shim.exit(&bundle.id).await;
    assert!(exit.oom_killed && exit.code == 137, "{exit:?}");
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn limits_change_while_it_runs() {
    let Some(shim) = Shim::start("update").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    shim.run(&bundle).await;
    let update = |text: &str| {
        let request = UpdateRequest { id: bundle.id.clone(), resources: text.as_bytes().to_vec() };
        let client = shim.client.clone();
        async move { client.update(&request, LIMIT).await }
    };
    update(r#"{"cpu":{"shares":512}}"#).await.unwrap();
    assert_eq!(code(update("{").await), Code::InvalidArgument);
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_pod_has_namespaces_of_its_own() {
    let Some(shim) = Shim::start("sandbox").await else { return };
    let request = StartSandboxRequest {
        hostname: "berth-test".into(),
        new_uts: true,
        new_ipc: true,
        shared_pid: true,
        sysctls: [("kernel.shmmax".to_owned(), "123456".to_owned())].into(),
        ..Default::default()
    };
    let made = shim.client.start_sandbox(&request, LIMIT).await.unwrap();
    assert_eq!(shim.client.start_sandbox(&request, LIMIT).await.unwrap(), made, "made once");
    let node = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_ne!(node.trim(), "berth-test", "the node keeps its name");
    let script =
        "hostname; cat /proc/sys/kernel/shmmax; (sleep 0.05 &); sleep 0.3; ls /proc | grep -c '^[0-9]*$'";
    let mut bundle = Bundle::new(&shim, "a", &["sh", "-c", script]);
    bundle.config()["linux"]["namespaces"] = json!([
        { "type": "mount" }, { "type": "network" },
        { "type": "ipc", "path": made.ipc_path }, { "type": "uts", "path": made.uts_path }, { "type": "pid", "path": made.pid_path },
    ]);
    shim.run(&bundle).await;
    assert_eq!(shim.exit(&bundle.id).await.code, 0);
    // The holder, the shell, ls and grep: the orphan was reaped by the holder.
    assert_eq!(bundle.log(), ["stdout F berth-test", "stdout F 123456", "stdout F 4"]);
    let refused = StartSandboxRequest { hostname: "x".into(), ..Default::default() };
    assert_eq!(
        shim.client.start_sandbox(&refused, LIMIT).await.unwrap(),
        made,
        "later wishes change nothing"
    );
    let holder = made.holder_pid;
    shim.end().await;
    assert!(!fs::exists(format!("/proc/{holder}")).unwrap(), "the holder went with the shim");
}

#[tokio::test(flavor = "current_thread")]
async fn signals_do_not_end_a_shim_that_owns_containers() {
    let Some(shim) = Shim::start("signals").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    shim.run(&bundle).await;
    let pid = rustix::process::Pid::from_raw(shim.pid() as i32).unwrap();
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::HUP, rustix::process::Signal::PIPE]
    {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(shim.state(&bundle.id).await, State::Running);
    let status = fs::read_to_string(format!("/proc/{pid}/task/{pid}/status", pid = shim.pid())).unwrap();
    assert!(status.contains("\nThreads:\t"), "{status}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let threads = fs::read_dir(format!("/proc/{}/task", shim.pid())).unwrap().count();
    assert_eq!(threads, 1, "idle: one thread");
    shim.end().await;
}
