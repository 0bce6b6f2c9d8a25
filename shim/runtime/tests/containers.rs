//! Containers built and run for real. Needs root and a static busybox; says so and ends well without them.
//!
//! A main of its own, since this same binary has to answer to `init`. Arguments are parts of names of tests to run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

#[path = "containers/basics.rs"]
mod basics;
#[path = "containers/bundle.rs"]
mod bundle;
#[path = "containers/exec.rs"]
mod exec;
#[path = "containers/failures.rs"]
mod failures;
#[path = "containers/forbidden.rs"]
mod forbidden;
#[path = "containers/given.rs"]
mod given;
#[path = "containers/hostile.rs"]
mod hostile;
#[path = "containers/identity.rs"]
mod identity;
#[path = "containers/mounts.rs"]
mod mounts;
#[path = "containers/old.rs"]
mod old;
#[path = "containers/stress.rs"]
mod stress;

/// A test by name.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("init") {
        berth_runtime::init::main();
    }
    if let Err(reason) = bundle::possible() {
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    old::heed();
    forbidden::heed();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let lists = [
        basics::TESTS,
        mounts::TESTS,
        identity::TESTS,
        exec::TESTS,
        failures::TESTS,
        forbidden::TESTS,
        given::TESTS,
        hostile::TESTS,
        old::TESTS,
        stress::TESTS,
    ];
    let mut failed = Vec::new();
    let mut count = 0;
    for (name, test) in lists.concat() {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        count += 1;
        let begun = std::time::Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(test));
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({} ms)", begun.elapsed().as_millis());
        if outcome.is_err() {
            failed.push(name);
        }
    }
    println!("{count} tests, {} failed {failed:?}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
