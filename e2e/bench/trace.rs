//! Where the time of a container of `true` goes: every system call of one create, start and delete, by strace.

mod log;

use crate::numbers;
use crate::runtime::laps::{home, prepared};
use crate::table::Table;
use anyhow::{Context, ensure};
use berth_e2e::bundle::{Bundle, Runtime};
use log::{Call, Log};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Child, Command};
use std::time::Duration;

/// What is traced, in order; the program and the child that builds the container count as create's.
const VERBS: [&str; 4] = ["create", "start", "delete", "exec"];

/// Calls in which a process waits for another one.
const WAITS: [&str; 12] = [
    "wait4",
    "waitid",
    "poll",
    "ppoll",
    "epoll_wait",
    "epoll_pwait",
    "recvmsg",
    "recvfrom",
    "accept",
    "accept4",
    "futex",
    "restart_syscall",
];

/// What is shown on the line of time.
const LONG: Duration = Duration::from_micros(200);

const HEAD: &str = "\
# Where the time goes

`cargo xtask bench trace` (as root) writes this page: one container of `true` with the default Kubernetes profile and
limits, created, started and deleted under strace, and an exec. Under strace each call costs some 20 µs more and each
process switch still more, so the counts are exact and the times are good for comparing calls with each other only; what a
container takes without strace is in [BENCHMARKS.md](../BENCHMARKS.md).
";

/// What one runtime did: its calls by verb.
type Traced = BTreeMap<&'static str, Vec<Call>>;

/// Traces, and gives the whole page.
pub(crate) fn run(args: &[String]) -> anyhow::Result<String> {
    numbers(args, [])?;
    let runtimes = [Runtime::Runc, Runtime::Berth];
    let all = runtimes.iter().map(|runtime| traced(*runtime)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut page = HEAD.to_owned();
    let load = std::fs::read_to_string("/proc/loadavg")?;
    writeln!(page, "\nLoad average while it was written: {}.", load.split(' ').next().unwrap_or("?"))?;
    writeln!(page, "\n## System calls, with those of the child that builds the container and of `true`\n")?;
    page.push_str(&counts(&runtimes, &all));
    let ours = all.last().context("nobody was traced")?;
    writeln!(page, "\n## Berth: calls of create, start and delete by their time, without those that wait\n")?;
    page.push_str(&by_call(ours));
    writeln!(page, "\n## Berth: calls of {} µs and more, as they came\n\n```text", LONG.as_micros())?;
    page.push_str(&line_of_time(ours)?);
    writeln!(page, "```")?;
    Ok(page)
}

fn traced(runtime: Runtime) -> anyhow::Result<Traced> {
    let (short, long) = home(runtime, true)?;
    let creating = begin(&short, "create", &["create", short.id()])?;
    short.until("created")?;
    end(begin(&short, "start", &["start", short.id()])?, "start")?;
    // Its tracer ends with the last process that it made, which is the container's.
    end(creating, "create")?;
    end(begin(&short, "delete", &["delete", short.id()])?, "delete")?;
    end(begin(&long, "exec", &["exec", long.id(), "true"])?, "exec")?;
    let read = |verb: &'static str| {
        let bundle = if verb == "exec" { &long } else { &short };
        let text = std::fs::read_to_string(bundle.path(&format!("{verb}.strace")))?;
        let text = text.replace(&runtime.program()?.display().to_string(), runtime.name());
        Ok((verb, Log::parse(&bundle.plain(&text)).calls()))
    };
    let all = VERBS.into_iter().map(read).collect();
    long.must("kill", &["KILL"])?;
    long.until("stopped")?;
    long.must("delete", &[])?;
    all
}

fn begin(bundle: &Bundle, verb: &str, words: &[&str]) -> anyhow::Result<Child> {
    let runtime = bundle.runtime();
    let mut command = Command::new("strace");
    command.args(["-f", "-q", "-ttt", "-T", "-s", "48", "-o"]).arg(bundle.path(&format!("{verb}.strace")));
    command.arg(runtime.program()?).args(runtime.words()).envs(runtime.environment());
    prepared(&mut command, bundle, words);
    command.spawn().context("strace")
}

fn end(mut child: Child, verb: &str) -> anyhow::Result<()> {
    let status = child.wait()?;
    ensure!(status.success(), "{verb} under strace ended with {status}");
    Ok(())
}

fn counts(runtimes: &[Runtime], all: &[Traced]) -> String {
    let mut table = Table::new(runtimes.iter().map(|runtime| runtime.name()));
    for verb in VERBS {
        let figures: Vec<_> =
            all.iter().map(|traced| traced.get(verb).map(|calls| calls.len() as f64)).collect();
        table.figures(verb, 0, &figures);
    }
    table.text()
}

fn by_call(traced: &Traced) -> String {
    let mut sums: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for call in VERBS[..3].iter().filter_map(|verb| traced.get(verb)).flatten() {
        let sum = sums.entry(&call.name).or_default();
        *sum = (sum.0 + 1, sum.1 + call.took);
    }
    let mut sums: Vec<_> = sums.into_iter().filter(|(name, _)| !WAITS.contains(name)).collect();
    sums.sort_by_key(|(_, (_, took))| std::cmp::Reverse(*took));
    let mut text = "| call | times | ms in all |\n|---|---|---|\n".to_owned();
    for (name, (times, took)) in sums.into_iter().take(20) {
        text.push_str(&format!("| {name} | {times} | {:.2} |\n", took.as_secs_f64() * 1e3));
    }
    text
}

fn line_of_time(traced: &Traced) -> anyhow::Result<String> {
    let mut text = String::new();
    for verb in &VERBS[..3] {
        let calls = traced.get(verb).map(Vec::as_slice).unwrap_or_default();
        let Some(first) = calls.first() else { continue };
        let mut processes: Vec<u32> = Vec::new();
        writeln!(text, "{verb}")?;
        for call in calls {
            let at = processes.iter().position(|pid| *pid == call.pid).unwrap_or_else(|| {
                processes.push(call.pid);
                processes.len() - 1
            });
            if call.took >= LONG && !WAITS.contains(&call.name.as_str()) {
                let bar = "#".repeat((call.took.as_micros() / LONG.as_micros()).min(40) as usize);
                let (since, took) = ((call.at - first.at) * 1e3, call.took.as_secs_f64() * 1e3);
                let shown: String = call.text.chars().take(90).collect();
                writeln!(text, "{since:8.1} ms  process {}  {took:6.2} ms {bar} {shown}", at + 1)?;
            }
        }
    }
    Ok(text)
}
