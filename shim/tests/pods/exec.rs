//! ExecSync.

use std::time::{Duration, Instant};

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
