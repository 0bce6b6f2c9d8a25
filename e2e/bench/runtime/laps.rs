//! One container after the other, each runtime in turn.

use crate::timing::Samples;
use anyhow::{Context, bail, ensure};
use berth_core::profile::{DEFAULT_CAPABILITIES, seccomp_default};
use berth_e2e::bundle::{Bundle, Runtime};
use berth_e2e::paths;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WHOLE: &str = "create + start + exit + delete";
const EXEC: &str = "exec `true`";
const NOTHING: &str = "a command that does nothing, `--version`";

/// What is timed.
pub(super) const NAMES: [&str; 6] = [WHOLE, "create", "start", "delete", EXEC, NOTHING];

/// Times and peaks of one runtime.
pub(super) struct Laps {
    pub(super) samples: Samples,
    pub(super) create_rss: f64,
    pub(super) start_rss: f64,
    pub(super) delete_rss: f64,
    pub(super) exec_rss: f64,
}

/// A pause before each lap: a move between cgroups after a pause is the dear one, and it is what a node sees.
const PAUSE: Duration = Duration::from_millis(50);

/// Laps of every runtime.
pub(super) fn run(runtimes: &[Runtime], rounds: usize, limits: bool) -> anyhow::Result<Vec<Laps>> {
    let mut samples: Vec<Samples> = runtimes.iter().map(|_| Samples::default()).collect();
    let homes = runtimes.iter().map(|runtime| home(*runtime, limits)).collect::<Result<Vec<_>, _>>()?;
    for round in 0..rounds + 2 {
        for ((short, long), samples) in homes.iter().zip(&mut samples) {
            let mut scratch = Samples::default();
            // The first two rounds warm the caches of all.
            let into = if round < 2 { &mut scratch } else { samples };
            std::thread::sleep(PAUSE);
            lap(short, into).with_context(|| short.runtime().name())?;
            into.keep(EXEC, timed(long, &["exec", long.id(), "true"])?);
            into.keep(NOTHING, timed(long, &["--version"])?);
        }
    }
    let mut laps = Vec::new();
    for ((short, long), samples) in homes.iter().zip(samples) {
        laps.push(peaks(short, long, samples).with_context(|| short.runtime().name())?);
        long.must("kill", &["KILL"])?;
        long.until("stopped")?;
        long.must("delete", &[])?;
    }
    Ok(laps)
}

/// A bundle of `true`, and a container that runs, for exec.
pub(crate) fn home(runtime: Runtime, limits: bool) -> anyhow::Result<(Bundle, Bundle)> {
    let (mut short, mut long) = (Bundle::new(runtime)?, Bundle::new(runtime)?);
    short.keep_state_in_memory();
    long.keep_state_in_memory();
    let seccomp = serde_json::to_value(seccomp_default(DEFAULT_CAPABILITIES))?;
    for (bundle, args) in [(&short, json!(["true"])), (&long, json!(["sleep", "100000"]))] {
        bundle.change(|spec| {
            // The newest that every peer takes.
            spec["ociVersion"] = json!("1.0.2");
            spec["process"]["args"] = args;
            spec["linux"]["seccomp"] = seccomp.clone();
            spec["linux"]["resources"] = if limits { limited() } else { Value::Null };
        })?;
    }
    let status = command(&long, &["create", long.id()])?.status()?;
    ensure!(status.success(), "{}: create ended with {status}: {:?}", runtime.name(), long.last_complaint());
    long.must("start", &[])?;
    Ok((short, long))
}

fn limited() -> Value {
    json!({
        "devices": [
            {"allow": false, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 5, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 8, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 9, "access": "rwm"}
        ],
        "memory": {"limit": 128 << 20},
        "cpu": {"shares": 256, "quota": 50000, "period": 100_000},
        "pids": {"limit": 200}
    })
}

fn lap(bundle: &Bundle, samples: &mut Samples) -> anyhow::Result<()> {
    let begun = Instant::now();
    let pid_file = bundle.state_dir().join(".pid").display().to_string();
    samples.keep("create", timed(bundle, &["create", "--pid-file", &pid_file, bundle.id()])?);
    let pid: i32 = std::fs::read_to_string(&pid_file)?.trim().parse()?;
    let pidfd = pidfd_open(Pid::from_raw(pid).context("no pid")?, PidfdFlags::empty())?;
    samples.keep("start", timed(bundle, &["start", bundle.id()])?);
    poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None)?;
    samples.keep("delete", timed(bundle, &["delete", bundle.id()])?);
    samples.keep(WHOLE, begun.elapsed());
    Ok(())
}

/// A command of the runtime whose streams the container may keep.
fn command(bundle: &Bundle, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = bundle.runtime().command()?;
    prepared(&mut command, bundle, words);
    Ok(command)
}

pub(crate) fn prepared(command: &mut Command, bundle: &Bundle, words: &[&str]) {
    command.arg("--root").arg(bundle.state_dir()).arg("--log").arg(bundle.path("bench.log"));
    command.args(["--log-format", "json"]).args(words).current_dir(bundle.dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
}

fn timed(bundle: &Bundle, words: &[&str]) -> anyhow::Result<Duration> {
    let mut command = command(bundle, words)?;
    let begun = Instant::now();
    let status = command.status()?;
    let took = begun.elapsed();
    if !status.success() {
        bail!("{} ended with {status}: {:?}", words[0], bundle.last_complaint());
    }
    Ok(took)
}

fn peaks(short: &Bundle, long: &Bundle, samples: Samples) -> anyhow::Result<Laps> {
    let create_rss = peak(short, &["create", short.id()])?;
    let start_rss = peak(short, &["start", short.id()])?;
    short.until("stopped")?;
    let delete_rss = peak(short, &["delete", short.id()])?;
    let exec_rss = peak(long, &["exec", long.id(), "true"])?;
    Ok(Laps { samples, create_rss, start_rss, delete_rss, exec_rss })
}

/// The most memory that a command or anything that it waited for ever had, in MiB, as GNU time tells it.
fn peak(bundle: &Bundle, words: &[&str]) -> anyhow::Result<f64> {
    let told = bundle.path("peak");
    let runtime = bundle.runtime();
    let mut command = Command::new(paths::package_file("time", "usr/bin/time")?);
    command.args(["-f", "%M", "-o"]).arg(&told).arg(runtime.program()?).args(runtime.words());
    command.envs(runtime.environment());
    prepared(&mut command, bundle, words);
    let status = command.status()?;
    ensure!(status.success(), "{} ended with {status}: {:?}", words[0], bundle.last_complaint());
    let text = std::fs::read_to_string(&told)?;
    Ok(text.trim().parse::<f64>().with_context(|| format!("time said {text:?}"))? / 1024.0)
}
