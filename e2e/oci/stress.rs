//! Many at once, and makers that are killed: nothing leaks, hangs or ends with another code than its own.

use anyhow::{Context as _, Result};
use berth_e2e::bundle::{Bundle, Runtime};
use berth_e2e::harness::Context;
use berth_e2e::{check, tests};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How many work at once.
const BESIDE: u32 = 16;

tests![; minutes 15 [instant_exits, makers_killed]; long [ten_thousand]];

async fn instant_exits(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(|| both(1000, 2000)).await?
}

async fn ten_thousand(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(|| both(4000, 6000)).await?
}

/// So many containers, then so many execs.
fn both(containers: u32, execs: u32) -> Result<()> {
    let open = descriptors()?;
    let begun = Instant::now();
    beside(containers, |worker| {
        let bundle = Bundle::new(Runtime::Berth)?;
        worker.each(|number| container(&bundle, number))?;
        gone(&bundle)
    })?;
    let between = begun.elapsed();
    beside(execs, |worker| {
        let bundle = Bundle::new(Runtime::Berth)?;
        bundle.change(|c| c["process"]["args"] = json!(["sleep", "100000"]))?;
        bundle.up()?;
        worker.each(|number| exec(&bundle, number))?;
        let processes = bundle.processes();
        check!(processes.len() == 1, "processes of execs are left: {processes:?}");
        bundle.must("kill", &["KILL"])?;
        bundle.until("stopped")?;
        bundle.must("delete", &[])?;
        gone(&bundle)
    })?;
    println!(
        "        {containers} containers in {between:.1?}, {execs} execs in {:.1?}",
        begun.elapsed() - between
    );
    check!(descriptors()? <= open + 8, "descriptors: {open} before, {} after", descriptors()?);
    Ok(())
}

/// One of those that work beside each other.
struct Worker<'a> {
    next: &'a AtomicU32,
    count: u32,
}

impl Worker<'_> {
    /// Does the work as long as there are numbers left.
    fn each(&self, work: impl Fn(u32) -> Result<()>) -> Result<()> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return Ok(());
            }
            work(number).with_context(|| format!("number {number}"))?;
        }
    }
}

/// Hands out `count` numbers to workers.
fn beside(count: u32, work: impl Fn(&Worker<'_>) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let worker = || work(&Worker { next: &next, count });
        let threads: Vec<_> = (0..BESIDE).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => anyhow::bail!("a worker panicked"),
        })
    })
}

/// What the program of this number does: it ends with a code of its own.
fn program(number: u32) -> (i32, String) {
    let code = (number % 125) as i32;
    (code, format!("exit {code}"))
}

fn container(bundle: &Bundle, number: u32) -> Result<()> {
    let (code, script) = program(number);
    bundle.change(|c| c["process"]["args"] = json!(["sh", "-c", script]))?;
    let ran = bundle.run()?;
    check!(ran.code == code && ran.error.is_none(), "{} instead of {code}: {:?}", ran.code, ran.error);
    Ok(())
}

fn exec(bundle: &Bundle, number: u32) -> Result<()> {
    let (code, script) = program(number);
    let ran = bundle.exec(&script)?;
    check!(ran.code == code && ran.error.is_none(), "{} instead of {code}: {:?}", ran.code, ran.error);
    Ok(())
}

fn gone(bundle: &Bundle) -> Result<()> {
    let left = bundle.left_after_all();
    check!(left.is_empty(), "left: {left:?}");
    Ok(())
}

fn descriptors() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// Makers killed at any moment of their work.
const KILLS: u32 = 300;

/// `delete --force` then leaves nothing, and the id is free again.
async fn makers_killed(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(|| {
        let early = AtomicU32::new(0);
        beside(KILLS, |worker| {
            let bundle = Bundle::new(Runtime::Berth)?;
            bundle.change(|c| c["process"]["args"] = json!(["sleep", "100000"]))?;
            let begun = Instant::now();
            bundle.must("create", &[])?;
            let whole = begun.elapsed();
            let ran = bundle.call_with("delete", &["--force"], &[])?;
            check!(ran.code == 0, "delete --force: {:?} {}", ran.error, ran.err);
            worker.each(|number| {
                early.fetch_add(u32::from(killed(&bundle, number, whole)?), Ordering::Relaxed);
                Ok(())
            })
        })?;
        let early = early.into_inner();
        println!("        {early} of {KILLS} were killed before they had ended");
        check!(early > KILLS / 10, "only {early} of {KILLS} were killed before they had ended");
        Ok(())
    })
    .await?
}

/// Kills a create after a part of the time that one takes; whether it was still at work.
fn killed(bundle: &Bundle, number: u32, whole: Duration) -> Result<bool> {
    let mut step = bundle.step(&["create", bundle.id()])?;
    let mut child = step.spawn()?;
    // All parts come, in an order that looks like none.
    std::thread::sleep(whole.mul_f64(f64::from(number * 7919 % 100) / 100.0));
    let early = child.try_wait()?.is_none();
    child.kill()?;
    child.wait()?;
    let ran = bundle.call_with("delete", &["--force"], &[])?;
    check!(ran.code == 0, "delete --force: {:?} {}", ran.error, ran.err);
    gone(bundle)?;
    Ok(early)
}
