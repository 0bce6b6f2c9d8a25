//! A container from Create to Delete.

use std::fs;
use std::time::{Duration, Instant};

use berth_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies};
use berth_proto::shim::{
    DeleteRequest, EventsRequest, KillRequest, ShimClient, StartRequest, State, UpdateRequest,
};
use berth_proto::ttrpc::Code;
use serde_json::json;

use crate::bundle::Bundle;
use crate::harness::{LIMIT, Shim, code};

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

/// Neither kill nor the news of the end waits for a hook that hangs, and nothing is left in the end.
#[tokio::test(flavor = "current_thread")]
async fn a_start_that_hangs_holds_nobody() {
    let Some(shim) = Shim::start("hook").await else { return };
    let mut bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    bundle.config()["hooks"] = json!({ "poststart": [{ "path": "/bin/sleep", "args": ["sleep", "5"] }] });
    shim.client.create(&bundle.request(), LIMIT).await.unwrap();
    let starting = tokio::spawn({
        let (client, id) = (shim.client.clone(), bundle.id.clone());
        async move { client.start(&StartRequest { id }, LIMIT).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    shim.client.kill(&KillRequest { id: bundle.id.clone(), signal: 9, all: true }, LIMIT).await.unwrap();
    assert_eq!(shim.exit(&bundle.id).await.code, 137);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    starting.await.unwrap().unwrap();
    assert_eq!(shim.state(&bundle.id).await, State::Stopped);
    shim.client.delete(&DeleteRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    shim.end().await;
}

/// A privileged program may move itself out of its group: it is deleted all the same.
#[tokio::test(flavor = "current_thread")]
async fn a_first_process_outside_its_group_is_killed_too() {
    let Some(shim) = Shim::start("moved").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    let pid = shim.client.create(&bundle.request(), LIMIT).await.unwrap().pid;
    shim.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    let hierarchies = Hierarchies::discover().unwrap();
    let elsewhere = CgroupPath::parse(Driver::Cgroupfs, &format!("{}/elsewhere", shim.cgroup)).unwrap();
    let elsewhere = Cgroup::create(&hierarchies, &elsewhere, &Default::default()).unwrap();
    elsewhere.join(pid as i32).unwrap();
    let begun = Instant::now();
    shim.client.delete(&DeleteRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    elsewhere.delete().unwrap();
    shim.end().await;
}
