//! Runs a row under both runtimes and compares.

use super::row::{Expect, Row};
use anyhow::{Context as _, Result, bail};
use berth_e2e::bundle::{Bundle, Runtime};
use berth_e2e::filter::Filter;
use berth_e2e::harness::Context;
use berth_e2e::{node, paths};
use std::fmt::Write as _;
use std::path::Path;

/// Only rows whose names hold this word run.
const ONLY: &str = "BERTH_E2E_ROW";
/// Only one row of so many runs, of each subject.
const EVERY: &str = "BERTH_E2E_EVERY";
/// So many rows are left out first.
const FROM: &str = "BERTH_E2E_FROM";

/// Runs the rows of a subject one after the other; every failure is told, not only the first.
pub(super) async fn all(context: &Context, rows: Vec<Row>) -> Result<()> {
    if paths::peer("runc").is_err() {
        return Err(context.skip("runc is not built: cargo xtask tools --all"));
    }
    let judged = tokio::task::spawn_blocking(move || judge_all(&rows)).await?;
    let (mut ran, mut story) = (0, String::new());
    for (name, verdict) in &judged {
        match verdict {
            Ok(()) => ran += 1,
            Err(error) => writeln!(story, "row {name}: {error:#}")?,
        }
    }
    if !story.is_empty() {
        bail!("{ran} of {} rows are as expected\n{story}", judged.len());
    }
    Ok(())
}

fn judge_all(rows: &[Row]) -> Vec<(&'static str, Result<()>)> {
    chosen(rows).map(|row| (row.name, judge(row))).collect()
}

/// The rows that the environment asks for and the machine has everything for.
pub(crate) fn chosen(rows: &[Row]) -> impl Iterator<Item = &Row> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let (every, from) = (number(EVERY).unwrap_or(1).max(1), number(FROM).unwrap_or(0));
    let rows = rows.iter().skip(from).step_by(every);
    rows.filter(move |row| row.name.contains(&only) && row.needs.iter().all(|need| has(need)))
}

/// What one runtime showed.
pub(crate) struct Shown {
    pub(crate) seen: String,
    /// The complaint of its last command that failed.
    pub(crate) complaint: String,
}

fn judge(row: &Row) -> Result<()> {
    let ours = show(row, Runtime::Berth, None)?;
    let runc = show(row, Runtime::Runc, None)?;
    match verdict(&row.expect, &ours, &runc) {
        None => Ok(()),
        Some(reason) => bail!(
            "{reason}\n  berth: {}\n         {}\n  runc:  {}\n         {}",
            indent(&ours.seen),
            indent(&ours.complaint),
            indent(&runc.seen),
            indent(&runc.complaint)
        ),
    }
}

/// What is not as expected, if anything.
fn verdict(expect: &Expect, ours: &Shown, runc: &Shown) -> Option<String> {
    let missing =
        |words: &[&'static str], text: &str| words.iter().find(|word| !text.contains(*word)).copied();
    match expect {
        Expect::Same(_) if ours.seen != runc.seen => Some("they differ".to_owned()),
        Expect::Same(words) => missing(words, &ours.seen).map(|word| format!("{word:?} is not shown")),
        Expect::Refused(_) if !ours.seen.contains("[refused") => Some("ours does not refuse".to_owned()),
        Expect::Refused(_) if !runc.seen.contains("[refused") => Some("runc does not refuse".to_owned()),
        Expect::Refused(words) => {
            missing(words, &ours.complaint).map(|word| format!("{word:?} is not in our complaint"))
        }
        Expect::Differs { ours: word, why, .. }
            if !format!("{}{}", ours.seen, ours.complaint).contains(word) =>
        {
            Some(format!("ours does not show {word:?}, though it is meant to differ: {why}"))
        }
        Expect::Differs { runc: word, why, .. }
            if !format!("{}{}", runc.seen, runc.complaint).contains(word) =>
        {
            Some(format!("runc does not show {word:?}, though ours is meant to differ: {why}"))
        }
        Expect::Differs { .. } if ours.seen == runc.seen => Some("they do not differ any more".to_owned()),
        Expect::Differs { .. } => None,
    }
}

/// Lays a row's bundle and does what it says, behind a filter if there is one.
pub(crate) fn show(row: &Row, runtime: Runtime, filter: Option<Filter>) -> Result<Shown> {
    let name = runtime.name();
    let mut bundle = Bundle::new(runtime)?;
    bundle.behind(filter);
    row.prepare.iter().try_for_each(|prepare| prepare(&bundle)).context("preparing the bundle")?;
    for change in &row.changes {
        bundle.change(|spec| change(spec, &bundle))?;
    }
    let seen = (row.observe)(&bundle).with_context(|| format!("looking at {name}"))?;
    let complaint = bundle.plain(&bundle.last_complaint().unwrap_or_default());
    bundle.call_with("delete", &["--force"], &[]).with_context(|| format!("{name} delete --force"))?;
    match bundle.left_after_all() {
        left if left.is_empty() => Ok(Shown { seen, complaint }),
        left if runtime == Runtime::Runc => Ok(Shown { seen: format!("{seen}\nleft: {left:?}"), complaint }),
        left => bail!("{name} left behind: {}\n{seen}\n{complaint}", left.join(", ")),
    }
}

/// Whether the machine has what a row needs.
fn has(need: &str) -> bool {
    match need {
        "v1" => !only_unified(),
        "shared-root" => root_is_shared(),
        "nosuid-terminals" => mount_of("/dev/pts").is_some_and(|line| line.contains("nosuid,noexec")),
        "private-root" => !root_is_shared(),
        "v2" => only_unified(),
        // The bounding set, in which bit 24 is CAP_SYS_RESOURCE.
        "no-sys-resource" => {
            std::fs::read_to_string("/proc/self/status").unwrap_or_default().lines().any(|line| {
                let bits = line.strip_prefix("CapBnd:\t").and_then(|bits| u64::from_str_radix(bits, 16).ok());
                bits.is_some_and(|bits| bits & 1 << 24 == 0)
            })
        }
        "nic" => super::netdevices::can_be_made(),
        "no-rdma" => !has("rdma"),
        "no-resctrl" => !Path::new("/sys/fs/resctrl/schemata").exists(),
        "no-apparmor" => !Path::new("/sys/kernel/security/apparmor").exists(),
        path if path.starts_with('/') => Path::new(path).exists(),
        controller => node::hierarchies().iter().any(|root| {
            let listed = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            root.ends_with(controller) || listed.split_whitespace().any(|name| name == controller)
        }),
    }
}

/// Whether the root's mount tells others of what is mounted on it, as systemd arranges.
pub(super) fn root_is_shared() -> bool {
    mount_of("/").is_some_and(|line| line.contains(" shared:"))
}

/// The line of the topmost mount at a place.
fn mount_of(place: &str) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().rfind(|line| line.split(' ').nth(4) == Some(place)).map(str::to_owned)
}

/// Whether /sys/fs/cgroup is the unified hierarchy itself.
pub(super) fn only_unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

fn indent(text: &str) -> String {
    text.trim_end().replace('\n', "\n         ")
}
