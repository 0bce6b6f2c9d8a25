//! Figures of one shim, printed; run by hand:
//! `cargo test --profile dist -p berth-shim --test pods -- --ignored --nocapture`.

use std::fs;
use std::time::{Duration, Instant};

use crate::bundle::Bundle;
use crate::harness::Shim;

fn figure(pid: u32, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the shim lives");
    let line = text.lines().find(|line| line.starts_with(name)).expect("in the file");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

fn print_memory(shim: &Shim, when: &str) {
    let (pss, anonymous) =
        (figure(shim.pid(), "smaps_rollup", "Pss:"), figure(shim.pid(), "smaps_rollup", "Pss_Anon:"));
    let threads = figure(shim.pid(), "status", "Threads:");
    println!("{when}: PSS {pss} kB, anonymous {anonymous} kB, {threads} threads");
}

#[tokio::test(flavor = "current_thread")]
#[ignore = "a measurement, not a test"]
async fn memory_and_log_speed() {
    let Some(shim) = Shim::start("measure").await else { return };
    print_memory(&shim, "empty");
    let idle = Bundle::new(&shim, "a", &["sleep", "1000"]);
    shim.run(&idle).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    print_memory(&shim, "one container");
    for round in 0..5 {
        let begun = Instant::now();
        shim.exec(&idle.id, &["true"], 0).await.expect("exec");
        let plain = begun.elapsed();
        let begun = Instant::now();
        shim.exec(&idle.id, &["true"], 10_000).await.expect("exec");
        println!("exec {round}: {plain:?}, with a time-out {:?}", begun.elapsed());
    }
    let line = "x".repeat(70);
    let script = format!("yes {line} | head -c 300000000");
    let loud = Bundle::new(&shim, "b", &["sh", "-c", &script]);
    let begun = Instant::now();
    shim.run(&loud).await;
    shim.exit(&loud.id).await;
    let bytes = fs::metadata(loud.log_path()).expect("a log").len();
    println!("300 MB of 71-byte lines: {:?}, {bytes} bytes of log", begun.elapsed());
    let ticks: u64 = fs::read_to_string(format!("/proc/{}/stat", shim.pid()))
        .expect("stat")
        .rsplit(") ")
        .next()
        .map(|rest| rest.split(' ').skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum())
        .expect("ticks");
    println!("CPU of the shim: {} ms", ticks * 10);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    print_memory(&shim, "idle again");
    shim.end().await;
}
