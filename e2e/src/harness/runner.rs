//! Runs tests beside each other, each within its time, and checks for leaks after each.

use super::context::{Context, Skipped};
use super::report::{Outcome, Report};
use super::{Body, Test};
use anyhow::Context as _;
use futures_util::StreamExt;
use futures_util::stream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What the command line and the environment ask for.
struct Choice {
    filters: Vec<String>,
    list: bool,
    jobs: usize,
    /// `(which, of how many)`, from `BERTH_E2E_SHARD=1/3`.
    shard: (usize, usize),
    long: bool,
}

/// The `main` of a test program: `[--list] [--jobs N] [filter ...]`.
pub fn main(tests: &[Test]) -> ExitCode {
    let choice = match choice() {
        Ok(choice) => choice,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(2);
        }
    };
    let chosen = choose(tests, &choice);
    if choice.list {
        chosen.iter().for_each(|test| println!("{}", test.name));
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    match runtime {
        Ok(runtime) if runtime.block_on(run(&chosen, choice.jobs)) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("starting the runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

fn choice() -> anyhow::Result<Choice> {
    let mut choice = Choice {
        filters: Vec::new(),
        list: false,
        jobs: 4,
        shard: (1, 1),
        long: std::env::var_os("BERTH_E2E_ALL").is_some(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => choice.list = true,
            "--jobs" => choice.jobs = args.next().context("--jobs wants a number")?.parse()?,
            // What cargo passes on to every test program.
            "--nocapture" | "--quiet" => {}
            other => choice.filters.push(other.to_owned()),
        }
    }
    if let Ok(shard) = std::env::var("BERTH_E2E_SHARD") {
        let (which, of) = shard.split_once('/').context("BERTH_E2E_SHARD is like 1/3")?;
        choice.shard = (which.parse()?, of.parse()?);
    }
    Ok(choice)
}

fn choose<'a>(tests: &'a [Test], choice: &Choice) -> Vec<&'a Test> {
    let wanted = |test: &&Test| {
        let named = choice.filters.iter().any(|filter| test.name.contains(filter.as_str()));
        // A long test runs in the long run, or when its whole name is given.
        let asked = choice.long || choice.filters.iter().any(|f| short(test.name) == *f);
        (choice.filters.is_empty() || named) && (!test.long || asked)
    };
    let (which, of) = choice.shard;
    let mine = |at: &usize| at % of.max(1) + 1 == which;
    let chosen = tests.iter().filter(wanted).enumerate();
    chosen.filter(|(at, _)| mine(at)).map(|(_, test)| test).collect()
}

/// The name without the test program's own.
fn short(name: &str) -> &str {
    name.split_once("::").map_or(name, |(_, rest)| rest)
}

async fn run(tests: &[&Test], jobs: usize) -> bool {
    let mut report = Report::new();
    let mut running = stream::iter(tests.iter().map(|test| one(**test))).buffer_unordered(jobs);
    while let Some((name, took, outcome)) = running.next().await {
        report.add(short(name), took, &outcome);
    }
    report.close()
}

async fn one(test: Test) -> (&'static str, Duration, Outcome) {
    let begun = Instant::now();
    if !rustix::process::geteuid().is_root() {
        let reason = "needs root: it makes namespaces, mounts, cgroups and links".to_owned();
        return (test.name, begun.elapsed(), Outcome::Skipped(reason));
    }
    let context = Context::default();
    let result = within(test.body, test.limit * slow(), context.clone()).await;
    let (logs, problems) = tidy(&context, result.is_err()).await;
    (test.name, begun.elapsed(), outcome(result, logs, problems))
}

/// How many times slower than usual this machine is, from `BERTH_E2E_SLOW`: an emulated one is.
fn slow() -> u32 {
    std::env::var("BERTH_E2E_SLOW").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// The body as a task of its own, so that a panic or a hang ends only this test.
async fn within(body: Body, limit: Duration, context: Context) -> anyhow::Result<()> {
    let mut task = tokio::spawn(body(context));
    match tokio::time::timeout(limit, &mut task).await {
        Ok(joined) => joined.unwrap_or_else(|error| Err(anyhow::anyhow!("panicked: {error}"))),
        Err(_) => {
            task.abort();
            anyhow::bail!("still running after {limit:?}")
        }
    }
}

/// Takes the test's nodes down; the daemon's last words and what went wrong.
async fn tidy(context: &Context, failed: bool) -> (Vec<String>, Vec<String>) {
    let (mut logs, mut problems) = (Vec::new(), Vec::new());
    for node in context.take_nodes() {
        let log = if failed { node.log_tail(60) } else { String::new() };
        let found = match tokio::time::timeout(Duration::from_secs(60), node.finish()).await {
            Ok(found) => found,
            Err(_) => vec!["taking the node down did not end within 60 s".to_owned()],
        };
        if failed || !found.is_empty() {
            let log = if log.is_empty() { node.last_log() } else { log };
            logs.push(format!("log of {}:\n{log}", node.tag().name()));
        }
        problems.extend(found);
    }
    (logs, problems)
}

fn outcome(result: anyhow::Result<()>, logs: Vec<String>, problems: Vec<String>) -> Outcome {
    let story = match result {
        Err(error) if error.is::<Skipped>() && problems.is_empty() => {
            return Outcome::Skipped(error.to_string());
        }
        Ok(()) if problems.is_empty() => return Outcome::Passed,
        Ok(()) => String::new(),
        Err(error) => format!("{error:#}\n"),
    };
    Outcome::Failed(format!("{story}{}\n{}", problems.join("\n"), logs.join("\n")))
}
