//! Damage to what is kept of a container between two commands: nothing that runs is forgotten, nothing runs without its filter,
//! nobody waits for ever.

use super::lifecycle::sleeper;
use anyhow::{Context as _, Result};
use berth_core::profile::{DEFAULT_CAPABILITIES, seccomp_default};
use berth_e2e::bundle::{Bundle, Runtime};
use berth_e2e::check;
use std::fs;
use std::path::{Path, PathBuf};

/// A record that is gone, empty, cut short or no file: `delete --force` keeps its hands off, and `list` tells.
pub(super) fn a_lost_record_is_no_lost_container() -> Result<()> {
    let bundle = running(false)?;
    let record = kept(&bundle, "state.json");
    let whole = fs::read(&record)?;
    for damage in [gone, emptied, halved, fifo] {
        damage(&record)?;
        for words in
            [&["delete", "--force", bundle.id()][..], &["state", bundle.id()], &["kill", bundle.id()]]
        {
            let ran = bundle.step(words)?.run()?;
            check!(ran.code != 0, "{words:?} of a container without a record: {ran:?}");
        }
        let list = bundle.step(&["list"])?.run()?;
        check!(!record.exists() || list.err.contains(bundle.id()), "list tells nothing: {list:?}");
        let _gone = fs::remove_file(&record);
        fs::write(&record, &whole)?;
        check!(bundle.status()? == "running", "it is {}", bundle.status()?);
    }
    bundle.call_with("delete", &["--force"], &[])?;
    let left = bundle.left_after_all();
    check!(left.is_empty(), "{}", left.join(", "));
    Ok(())
}

/// The compiled filter damaged, and the configuration changed to know of none: an exec has the filter or is refused.
pub(super) fn nothing_joins_without_the_filter() -> Result<()> {
    let bundle = running(true)?;
    let words = ["exec", bundle.id(), "grep", "Seccomp:", "/proc/self/status"];
    let filtered = bundle.step(&words)?.run()?;
    check!(filtered.out.contains("Seccomp:\t2"), "{filtered:?}");
    let (filter, config) = (kept(&bundle, "seccomp.bpf"), kept(&bundle, "config.json"));
    let whole = fs::read(&filter)?;
    for damage in [gone, emptied, halved, fifo] {
        damage(&filter)?;
        let ran = bundle.step(&words)?.run()?;
        check!(ran.code != 0 && ran.out.is_empty(), "with a damaged filter: {ran:?}");
        let _gone = fs::remove_file(&filter);
        fs::write(&filter, &whole)?;
    }
    let mut spec: serde_json::Value = serde_json::from_slice(&fs::read(&config)?)?;
    spec["linux"].as_object_mut().context("linux")?.remove("seccomp");
    fs::write(&config, serde_json::to_vec(&spec)?)?;
    let ran = bundle.step(&words)?.run()?;
    check!(ran.out.contains("Seccomp:\t2"), "by a changed configuration: {ran:?}");
    bundle.call_with("delete", &["--force"], &[])?;
    Ok(())
}

/// A FIFO in the place of the bundle's configuration is refused at once.
pub(super) fn a_fifo_is_no_configuration() -> Result<()> {
    let bundle = Bundle::new(Runtime::Berth)?;
    let config = bundle.path("config.json");
    fifo(&config)?;
    for command in ["create", "run"] {
        let ran = bundle.step(&[command, bundle.id()])?.run()?;
        check!(ran.code != 0 && ran.err.contains("regular file"), "{command}: {ran:?}");
    }
    Ok(())
}

fn running(filtered: bool) -> Result<Bundle> {
    let bundle = Bundle::new(Runtime::Berth)?;
    sleeper(&bundle)?;
    if filtered {
        let profile = serde_json::to_value(seccomp_default(DEFAULT_CAPABILITIES))?;
        bundle.change(|spec| spec["linux"]["seccomp"] = profile)?;
    }
    bundle.up()?;
    Ok(bundle)
}

fn kept(bundle: &Bundle, name: &str) -> PathBuf {
    bundle.state_dir().join(bundle.id()).join(name)
}

fn gone(file: &Path) -> Result<()> {
    Ok(fs::remove_file(file)?)
}

fn emptied(file: &Path) -> Result<()> {
    Ok(fs::write(file, "")?)
}

fn halved(file: &Path) -> Result<()> {
    let whole = fs::read(file)?;
    // Not between two instructions of eight bytes.
    Ok(fs::write(file, &whole[..whole.len() / 2 / 8 * 8 + 3])?)
}

fn fifo(file: &Path) -> Result<()> {
    fs::remove_file(file)?;
    let kind = rustix::fs::FileType::Fifo;
    Ok(rustix::fs::mknodat(rustix::fs::CWD, file, kind, rustix::fs::Mode::RUSR, 0)?)
}
