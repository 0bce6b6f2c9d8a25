//! The pod's own namespaces, and processes without one.

use std::fs;
use std::time::Duration;

use berth_proto::shim::{DeleteRequest, StartSandboxRequest};
use serde_json::json;

use crate::bundle::Bundle;
use crate::harness::{LIMIT, Shim};

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
async fn without_a_pid_namespace_nothing_outlives_the_first_process() {
    let Some(shim) = Shim::start("orphans").await else { return };
    // Each child of the shell outlives its parent and comes to the shim; one ends soon, one never by itself, with
    // the port, say, that the container's next attempt will want.
    let script = "(sleep 0.1 &); (sleep 1234 >/dev/null 2>&1 &); sleep 0.3; echo done";
    let mut bundle = Bundle::new(&shim, "a", &["sh", "-c", script]);
    bundle.config()["linux"]["namespaces"] =
        json!([{ "type": "mount" }, { "type": "network" }, { "type": "ipc" }]);
    shim.run(&bundle).await;
    assert_eq!(shim.exit(&bundle.id).await.code, 0);
    // Killed before the exit was told; the sweep may be a moment behind.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(children(shim.pid()), Vec::<String>::new());
    shim.client.delete(&DeleteRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    shim.end().await;
}

/// A container that may trace its neighbours finds nothing behind the pod's first process.
#[tokio::test(flavor = "current_thread")]
async fn the_holder_reaches_nothing() {
    let Some(shim) = Shim::start("cage").await else { return };
    let request = StartSandboxRequest { shared_pid: true, ..Default::default() };
    let made = shim.client.start_sandbox(&request, LIMIT).await.unwrap();
    let script = "ls -A /proc/1/root/ /proc/1/cwd/; ls /proc/1/fd | wc -l; grep -E '^(Uid|Gid|Groups|Cap|NoNew|Seccomp:)' /proc/1/status";
    let mut bundle = Bundle::new(&shim, "a", &["sh", "-c", script]);
    let all = json!(["CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN"]);
    for set in ["bounding", "effective", "permitted"] {
        bundle.config()["process"]["capabilities"][set] = all.clone();
    }
    bundle.config()["linux"]["namespaces"] =
        json!([{ "type": "mount" }, { "type": "network" }, { "type": "pid", "path": made.pid_path }]);
    shim.run(&bundle).await;
    shim.exit(&bundle.id).await;
    let said: Vec<String> = bundle
        .log()
        .iter()
        .map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))
        .collect();
    let (mut said, mut wanted) = (said, caged());
    said.sort();
    wanted.sort();
    assert_eq!(said, wanted);
    shim.end().await;
}

/// What is to be seen of a caged process.
fn caged() -> Vec<String> {
    let nobody = "65535 65535 65535 65535";
    let none = "0000000000000000";
    vec![
        "/proc/1/cwd/:".to_owned(),
        String::new(),
        "/proc/1/root/:".to_owned(),
        "3".to_owned(),
        format!("Uid: {nobody}"),
        format!("Gid: {nobody}"),
        "Groups:".to_owned(),
        format!("CapInh: {none}"),
        format!("CapPrm: {none}"),
        format!("CapEff: {none}"),
        format!("CapBnd: {none}"),
        format!("CapAmb: {none}"),
        "NoNewPrivs: 1".to_owned(),
        "Seccomp: 2".to_owned(),
    ]
}

/// The pod is lost with its first process: the daemon sees a shim that is gone.
#[tokio::test(flavor = "current_thread")]
async fn a_dead_holder_ends_the_shim() {
    let Some(mut shim) = Shim::start("holderless").await else { return };
    let request = StartSandboxRequest { shared_pid: true, ..Default::default() };
    let made = shim.client.start_sandbox(&request, LIMIT).await.unwrap();
    let holder = rustix::process::Pid::from_raw(made.holder_pid as i32).unwrap();
    rustix::process::kill_process(holder, rustix::process::Signal::KILL).unwrap();
    assert!(!shim.wait().await.success());
    assert!(shim.said().contains("is lost"), "{}", shim.said());
}

/// The states of a process's children.
fn children(parent: u32) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let words = stats.filter_map(|stat| {
        let mut words = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned);
        Some((words.next()?, words.next()?))
    });
    words.filter(|(_, of)| *of == parent.to_string()).map(|(state, _)| state).collect()
}
