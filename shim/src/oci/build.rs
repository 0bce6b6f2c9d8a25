//! What create and run have in common.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use berth_cgroup::{Driver, Hierarchies};
use berth_runtime::{CgroupArgs, CreateArgs, Created, Stdio, Switches};

use super::container::started_ticks;
use super::flags::{Flag, Parsed};
use super::store::{Lock, Place, Record, read_spec};
use super::{About, Global, OciError, console};

pub(crate) const FLAGS: &[Flag] = &[
    Flag::value("bundle", "b"),
    Flag::value("console-socket", ""),
    Flag::value("pidfd-socket", ""),
    Flag::value("pid-file", ""),
    Flag::value("preserve-fds", ""),
    Flag::switch("no-pivot", ""),
    Flag::switch("no-new-keyring", ""),
    Flag::switch("no-subreaper", ""),
    Flag::switch("detach", "d"),
    Flag::switch("keep", ""),
];

/// A container that was just built, and its directory, which no other command works on yet.
pub(crate) struct Made {
    pub(crate) created: Created,
    pub(crate) place: Place,
    pub(crate) lock: Lock,
}

/// Builds the container; on failure nothing of it stays.
pub(crate) fn build(
    global: &Global,
    flags: &Parsed,
    preserved: Vec<OwnedFd>,
    listen: bool,
) -> Result<Made, OciError> {
    let id = flags.sole_id()?;
    let bundle = flags.value("bundle").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let bundle = std::fs::canonicalize(&bundle).about("open bundle", &bundle)?;
    let mut spec = read_spec(&bundle.join("config.json"))?;
    let place = Place::claim(global, id)?;
    let lock = place.lock()?;
    // Recorded before anything is made: should this process be killed, `delete --force` finds what it left.
    let begun = record(global, id, &bundle, &spec).and_then(|record| place.save(&record).map(|()| record));
    let made = begun.and_then(|record| place.save_spec(&mut spec).map(|()| record)).and_then(|record| {
        let listener = if listen { Some(place.listen()?) } else { None };
        create(global, flags, &bundle, spec, (preserved, listener)).map(|created| (created, record))
    });
    let tell = |(mut created, record): (Created, Record)| {
        let told = tell(global, flags, &place, record, &mut created);
        let told =
            told.and_then(|()| if listen { Ok(berth_runtime::entrust(&mut created)?) } else { Ok(()) });
        told.inspect_err(|_| undo(&created)).map(|()| created)
    };
    match made.and_then(tell) {
        Ok(created) => Ok(Made { created, place, lock }),
        Err(error) => {
            // The first error is the one to tell.
            let _ = place.remove();
            Err(error)
        }
    }
}

fn undo(created: &Created) {
    let _ = berth_runtime::kill(&created.pidfd, 9);
    let _ = berth_sys::pidfd::wait(&created.pidfd);
    let _ = berth_runtime::delete(created);
}

fn create(
    global: &Global,
    flags: &Parsed,
    bundle: &Path,
    spec: berth_core::oci::Spec,
    (preserved, listener): (Vec<OwnedFd>, Option<OwnedFd>),
) -> Result<Created, OciError> {
    let terminal = spec.process().as_ref().and_then(|p| p.terminal()).unwrap_or(false);
    if !terminal && flags.value("console-socket").is_some() {
        return Err(OciError::Usage("--console-socket takes process.terminal in config.json".into()));
    }
    if terminal && flags.value("console-socket").is_none() && (listener.is_some() || flags.is_set("detach")) {
        return Err(OciError::Usage(
            "process.terminal takes --console-socket when the caller goes on alone".into(),
        ));
    }
    if terminal && flags.value("console-socket").is_none() {
        console::must_have_ours("process.terminal")?;
    }
    if listener.is_some() || flags.is_set("detach") {
        super::container::must_be_found_again()?;
    }
    Ok(berth_runtime::create(CreateArgs {
        id: flags.sole_id()?.to_owned(),
        bundle: bundle.to_owned(),
        spec,
        overlay: None,
        user: None,
        stdio: if terminal { Stdio::Terminal } else { own_stdio()? },
        preserved,
        cgroup: CgroupArgs { driver: global.driver, hierarchies: Arc::new(Hierarchies::discover()?) },
        exe: sealed()?,
        namespaces: Vec::new(),
        listener,
        switches: Switches {
            no_pivot: flags.is_set("no-pivot"),
            no_new_keyring: flags.is_set("no-new-keyring"),
            // Callers such as Docker take a failed start for a container that is still there.
            early_program: true,
        },
    })?)
}

/// This binary, sealed.
pub(crate) fn sealed() -> Result<Arc<OwnedFd>, OciError> {
    Ok(Arc::new(berth_sys::sealed_self().about("seal", "/proc/self/exe")?))
}

/// Copies of our own standard streams.
pub(crate) fn own_stdio() -> Result<Stdio, OciError> {
    let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().about("copy", "standard streams");
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    Ok(Stdio::Fds([copy(input.as_fd())?, copy(output.as_fd())?, copy(error.as_fd())?]))
}

/// The descriptors that `--preserve-fds` hands down. To be called before this process opens anything itself: that must not be
/// taken for what the caller left open.
pub(crate) fn preserved(flags: &Parsed) -> Result<Vec<OwnedFd>, OciError> {
    let count: i32 = flags.number("preserve-fds")?.unwrap_or(0);
    if !(0..=1024).contains(&count) {
        return Err(OciError::Usage(format!("--preserve-fds: {count} is not between 0 and 1024")));
    }
    (3..3 + count)
        .map(|fd| berth_sys::inherited::take(fd).about("--preserve-fds: take descriptor", fd.to_string()))
        .collect()
}

/// What is known of a container before it has a process.
fn record(
    global: &Global,
    id: &str,
    bundle: &Path,
    spec: &berth_core::oci::Spec,
) -> Result<Record, OciError> {
    let root = spec.root().as_ref().map_or_else(PathBuf::new, |r| r.path().clone());
    Ok(Record {
        id: id.to_owned(),
        bundle: bundle.to_owned(),
        rootfs: bundle.join(root),
        pid: 0,
        started_ticks: 0,
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64),
        systemd: global.driver == Driver::Systemd,
        cgroup: berth_runtime::cgroup_path(spec, id, global.driver)?.to_string(),
        owner: "root".to_owned(),
        later: later(spec),
    })
}

/// Whether a configuration has what later commands do.
fn later(spec: &berth_core::oci::Spec) -> bool {
    spec.hooks().as_ref().is_some_and(|hooks| hooks.poststart().is_some() || hooks.poststop().is_some())
        || spec.linux().as_ref().is_some_and(|linux| linux.intel_rdt().is_some())
}

/// Records the process and tells the caller of it by the ways that were asked for.
fn tell(
    global: &Global,
    flags: &Parsed,
    place: &Place,
    mut record: Record,
    created: &mut Created,
) -> Result<(), OciError> {
    created.warnings.iter().for_each(|warning| global.log.warn(warning));
    place.save_filter(created.context.seccomp.as_ref())?;
    record.pid = created.pid;
    record.started_ticks = started_ticks(created.pid).unwrap_or(0);
    place.save(&record)?;
    if let Some(path) = flags.value("console-socket") {
        let master = created.console.take();
        console::send(Path::new(path), master.as_ref())?;
    }
    if let Some(path) = flags.value("pidfd-socket") {
        console::send(Path::new(path), Some(&created.pidfd))?;
    }
    write_pid(flags, created.pid)
}

/// `--pid-file`: written under another name first, so that whoever waits for it never reads half a number.
pub(crate) fn write_pid(flags: &Parsed, pid: i32) -> Result<(), OciError> {
    let Some(path) = flags.value("pid-file").map(PathBuf::from) else { return Ok(()) };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fresh = path.with_file_name(format!(".{name}.new"));
    let mut file = File::create(&fresh).about("write", &fresh)?;
    std::io::Write::write_all(&mut file, pid.to_string().as_bytes()).about("write", &fresh)?;
    std::fs::rename(&fresh, &path).about("rename", &path)
}
