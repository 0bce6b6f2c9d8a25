//! ExecSync.

use std::time::{Duration, Instant};

use berth_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies};
use berth_proto::ttrpc::Code;

use crate::bundle::Bundle;
use crate::harness::{Shim, code};

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

/// A launch that hangs is over in its time too: here it meets a frozen group.
#[tokio::test(flavor = "current_thread")]
async fn the_time_counts_from_the_call() {
    let Some(shim) = Shim::start("frozen").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    shim.run(&bundle).await;
    let path = format!("{}/{}", shim.cgroup, bundle.id);
    let hierarchies = Hierarchies::discover().unwrap();
    let cgroup = Cgroup::open(&hierarchies, &CgroupPath::parse(Driver::Cgroupfs, &path).unwrap()).unwrap();
    cgroup.freeze().unwrap();
    let begun = Instant::now();
    let answer = shim.exec(&bundle.id, &["true"], 300).await;
    cgroup.thaw().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.timed_out));
    assert_eq!(shim.exec(&bundle.id, &["true"], 20_000).await.unwrap().exit_code, 0);
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn probes_that_leave_processes_leave_no_groups() {
    let Some(shim) = Shim::start("groups").await else { return };
    let bundle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    shim.run(&bundle).await;
    for _ in 0..5 {
        let answer =
            shim.exec(&bundle.id, &["sh", "-c", "sleep 0.3 >/dev/null 2>&1 & true"], 9_000).await.unwrap();
        assert_eq!(answer.exit_code, 0);
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    shim.exec(&bundle.id, &["true"], 9_000).await.unwrap();
    let path = format!("{}/{}", shim.cgroup, bundle.id);
    let hierarchies = Hierarchies::discover().unwrap();
    let cgroup = Cgroup::open(&hierarchies, &CgroupPath::parse(Driver::Cgroupfs, &path).unwrap()).unwrap();
    if let Some(directory) = cgroup.unified_path() {
        let groups =
            std::fs::read_dir(directory).unwrap().flatten().filter(|entry| entry.path().is_dir()).count();
        assert_eq!(groups, 0);
    }
    shim.end().await;
}
