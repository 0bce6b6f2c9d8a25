//! Without pidfd_open no command finds another's container again. None may take one that runs for one that has ended.

use crate::matrix::lifecycle::sleeper;
use anyhow::Result;
use berth_e2e::bundle::{Bundle, Runtime};
use berth_e2e::check;
use berth_e2e::filter::Filter;
use serde_json::json;

/// What is tried on a container that runs: the command, its flags and its words.
const COMMANDS: &[(&str, &[&str], &[&str])] = &[
    ("state", &[], &[]),
    ("start", &[], &[]),
    ("exec", &[], &["true"]),
    ("ps", &[], &[]),
    ("pause", &[], &[]),
    ("resume", &[], &[]),
    ("update", &["--pids-limit", "77"], &[]),
    ("events", &["--stats"], &[]),
    ("kill", &[], &["KILL"]),
    ("kill", &["--all"], &["KILL"]),
    ("delete", &[], &[]),
    ("delete", &["--force"], &[]),
];

/// Every command is refused, and what ran goes on; only `run` needs no other command, and does what it always does.
pub(super) fn all(filter: &Filter) -> Result<()> {
    nothing_is_touched(filter)?;
    nothing_is_left(filter)?;
    let bundle = || {
        let bundle = Bundle::new(Runtime::Berth)?;
        bundle.change(|spec| {
            spec["process"]["args"] = json!(["sh", "-c", "sleep 100000 & ls / /dev; exit 5"])
        })?;
        anyhow::Ok(bundle)
    };
    let (free, mut behind) = (bundle()?, bundle()?);
    behind.behind(Some(filter.clone()));
    let (one, other) = (free.run()?, behind.run()?);
    check!(
        one.seen(&free) == other.seen(&behind) && one.code == 5,
        "{filter}: {other:?}, without it {one:?}"
    );
    check!(behind.left_after_all().is_empty(), "{filter}: left {:?}", behind.left());
    Ok(())
}

fn nothing_is_touched(filter: &Filter) -> Result<()> {
    for ready in ["created", "running"] {
        let mut bundle = Bundle::new(Runtime::Berth)?;
        sleeper(&bundle)?;
        bundle.must("create", &[])?;
        if ready == "running" {
            bundle.must("start", &[])?;
        }
        let first = bundle.pid()?;
        for (verb, flags, words) in COMMANDS {
            bundle.behind(Some(filter.clone()));
            let ran = bundle.call_with(verb, flags, words)?;
            let named = ran.error.as_ref().is_some_and(|error| error.contains("pidfd_open"));
            check!(ran.code != 0 && named, "{filter}: {verb} {flags:?}: {ran:?}");
            bundle.behind(None);
            let (status, pid) = (bundle.status()?, bundle.pid()?);
            check!(
                (status.as_str(), pid) == (ready, first),
                "{filter}: {status}, {pid} after {verb} {flags:?}"
            );
        }
        bundle.behind(Some(filter.clone()));
        let ran = bundle.step(&["list"])?.run()?;
        check!(ran.code != 0 && ran.error.is_some(), "{filter}: list: {ran:?}");
        bundle.behind(None);
        bundle.must("kill", &["KILL"])?;
        bundle.until("stopped")?;
        bundle.must("delete", &[])?;
        check!(bundle.left_after_all().is_empty(), "{filter}: left {:?}", bundle.left());
    }
    Ok(())
}

/// What could not be found again is not made at all.
fn nothing_is_left(filter: &Filter) -> Result<()> {
    for (verb, flags) in [("create", &[][..]), ("run", &["--detach"])] {
        let mut bundle = Bundle::new(Runtime::Berth)?;
        sleeper(&bundle)?;
        bundle.behind(Some(filter.clone()));
        let ran = bundle.call_with(verb, flags, &[])?;
        let named = ran.error.as_ref().is_some_and(|error| error.contains("pidfd_open"));
        check!(ran.code != 0 && named, "{filter}: {verb} {flags:?}: {ran:?}");
        check!(bundle.left().is_empty(), "{filter}: {verb} {flags:?} left {:?}", bundle.left());
    }
    Ok(())
}
