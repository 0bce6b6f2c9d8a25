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
async fn orphans_in_the_nodes_pid_namespace_are_reaped_and_killed() {
    let Some(shim) = Shim::start("orphans").await else { return };
    // Each child of the shell outlives its parent and comes to the shim; one ends soon, one never by itself.
    let script = "(sleep 0.1 &); (sleep 1234 >/dev/null 2>&1 &); sleep 0.3; echo done";
    let mut bundle = Bundle::new(&shim, "a", &["sh", "-c", script]);
    bundle.config()["linux"]["namespaces"] =
        json!([{ "type": "mount" }, { "type": "network" }, { "type": "ipc" }]);
    shim.run(&bundle).await;
    assert_eq!(shim.exit(&bundle.id).await.code, 0);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let states: Vec<String> = children(shim.pid());
    assert!(states.iter().all(|state| state != "Z"), "zombies are left: {states:?}");
    assert_eq!(states.len(), 1, "the one that sleeps on");
    shim.client.delete(&DeleteRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(children(shim.pid()), Vec::<String>::new());
    shim.end().await;
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
