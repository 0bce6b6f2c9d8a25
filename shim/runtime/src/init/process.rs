//! From a finished container (or a joined one) to the program: the part that the first process and an exec share.

use std::collections::HashSet;
use std::ffi::CString;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_core::oci::{PosixRlimit, Process};
use berth_sys::path::open_in_root;
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid, makedev};
use rustix::io::Errno;

use super::{credentials, program};
use crate::args::ResolvedUser;
use crate::capability::Sets;
use crate::error::{At, Failure};
use crate::wire::Common;

/// A process that lacks nothing but its filter and the program.
pub(super) struct Ready {
    argv: Vec<CString>,
    env: Vec<CString>,
    /// Capabilities to fall back to once the filter is installed; none when that has happened.
    late: Option<Sets>,
    no_new_privileges: bool,
    preserved: u32,
}

/// The filter to install last.
pub(super) struct Filter<'a> {
    pub(super) program: &'a [u8],
    pub(super) flags: u32,
    /// Where its listener goes, and what is said with it.
    pub(super) listener: Option<(OwnedFd, String)>,
}

/// Takes on everything that `process` says but the filter and the program. `root` is the container's root directory.
pub(super) fn prepare(
    process: &Process,
    user: &ResolvedUser,
    common: &Common,
    filtered: bool,
    root: &OwnedFd,
    warnings: &mut Vec<String>,
) -> Result<Ready, Failure> {
    let argv = strings(process.args().as_deref().unwrap_or_default(), "process.args")?;
    let mut env = strings(process.env().as_deref().unwrap_or_default(), "process.env")?;
    last_wins(&mut env);
    add_bytes(&mut env, &common.env_bytes);
    add_home(&mut env, user, root);
    super::schedule::apply(process)?;
    if let Some((mode, nodes)) = &common.memory_policy {
        berth_sys::process::set_memory_policy(*mode, nodes).step("set memory policy")?;
    }
    let cwd = enter_cwd(root, process.cwd());
    limits(process.rlimits().as_deref().unwrap_or_default(), warnings)?;
    own_streams(user.uid)?;
    rustix::process::umask(Mode::from_raw_mode(process.user().umask().unwrap_or(0o022)));
    let no_new_privileges = process.no_new_privileges().unwrap_or(false);
    let keep_admin = filtered && !no_new_privileges;
    let sets = Sets::from_spec(process.capabilities().as_ref());
    let sets = credentials::apply(user, sets, keep_admin, common.user_namespace, warnings)?;
    // A change of user sets this to what fs.suid_dumpable says, which may be "yes".
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .step("keep the process not dumpable")?;
    // A directory that only the user may enter is tried again as the user.
    if cwd.is_err() {
        enter_cwd(root, process.cwd())?;
    }
    inside(process.cwd())?;
    if no_new_privileges {
        rustix::thread::set_no_new_privs(true).step("set no_new_privs")?;
    }
    Ok(Ready { argv, env, late: keep_admin.then_some(sets), no_new_privileges, preserved: common.preserved })
}

impl Ready {
    /// Installs the filter and executes; returns only when something failed.
    pub(super) fn launch(self, filter: Filter<'_>) -> Failure {
        match self.last_steps(filter) {
            Ok(path) => program::execute(&path, &self.argv, &self.env),
            Err(failure) => failure,
        }
    }

    /// The path of the program.
    pub(super) fn find(&self) -> Result<CString, Failure> {
        let name = self.argv.first().and_then(|a| a.to_str().ok()).unwrap_or_default();
        program::find(name, &self.env)
    }

    fn last_steps(&self, filter: Filter<'_>) -> Result<CString, Failure> {
        let path = self.find()?;
        berth_sys::signal::reset();
        // A second line of defence: everything opened here carries the mark from birth, and what was inherited got it when
        // it was taken. Kernels before 5.11 do without.
        let _ = berth_sys::process::close_on_exec_from(3 + self.preserved);
        debug_assert!(self.late.is_none() || !self.no_new_privileges);
        if !filter.program.is_empty() {
            install(filter)?;
        }
        if let Some(sets) = self.late {
            credentials::finish(sets)?;
        }
        Ok(path)
    }
}

fn install(filter: Filter<'_>) -> Result<(), Failure> {
    let fd = berth_sys::seccomp::install(filter.program, filter.flags).step("install the seccomp filter")?;
    if let (Some(fd), Some((socket, text))) = (fd, filter.listener) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd()];
        control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds));
        let slices = [IoSlice::new(text.as_bytes())];
        rustix::net::sendmsg(&socket, &slices, &mut control, rustix::net::SendFlags::NOSIGNAL)
            .step("hand the seccomp listener over")?;
    }
    Ok(())
}

fn strings(texts: &[String], place: &str) -> Result<Vec<CString>, Failure> {
    texts
        .iter()
        .map(|text| {
            CString::new(text.as_str()).map_err(|_| Failure::refused(place, None, "a value holds a NUL byte"))
        })
        .collect()
}

/// Of entries with one name the last stays, where it stands: a C library would read the first.
fn last_wins(env: &mut Vec<CString>) {
    let mut seen = HashSet::new();
    env.reverse();
    env.retain(|entry| seen.insert(name_of(entry).to_vec()));
    env.reverse();
}

/// The part before the equal sign.
fn name_of(entry: &CString) -> &[u8] {
    entry.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// Entries that JSON could not hold: each takes the place of the one with its name, or comes last.
fn add_bytes(env: &mut Vec<CString>, entries: &[String]) {
    for entry in entries.iter().filter_map(|text| CString::new(crate::config::from_hex(text)?).ok()) {
        match env.iter().position(|e| name_of(e) == name_of(&entry)) {
            Some(at) => env[at] = entry,
            None => env.push(entry),
        }
    }
}

/// HOME is set when the environment does not, or sets it empty.
fn add_home(env: &mut Vec<CString>, user: &ResolvedUser, root: &OwnedFd) {
    if env.iter().any(|e| e.to_bytes().starts_with(b"HOME=") && e.to_bytes().len() > 5) {
        return;
    }
    env.retain(|e| !e.to_bytes().starts_with(b"HOME="));
    let home = user.home.clone().or_else(|| super::user::home_of(root, user.uid));
    let home = home.filter(|h| h.starts_with('/')).unwrap_or_else(|| "/".to_owned());
    env.extend(CString::new(format!("HOME={home}")));
}

/// Enters the working directory, resolved inside the root: a magic link to a descriptor of ours leads nowhere.
fn enter_cwd(root: &OwnedFd, cwd: &Path) -> Result<(), Failure> {
    let directory =
        open_in_root(root, cwd, OFlags::PATH | OFlags::DIRECTORY).at("enter working directory", cwd)?;
    rustix::process::fchdir(&directory).at("enter working directory", cwd)
}

/// The kernel's own word on whether the working directory is below the root.
fn inside(cwd: &Path) -> Result<(), Failure> {
    let real = rustix::process::getcwd(Vec::new()).at("check working directory", cwd)?;
    if real.as_bytes().starts_with(b"/") {
        return Ok(());
    }
    Err(Failure::refused("check working directory", Some(cwd), "it lies outside of the container's root"))
}

/// Sets every limit; one that may not rise stays at what the runtime has, with a warning.
fn limits(limits: &[PosixRlimit], warnings: &mut Vec<String>) -> Result<(), Failure> {
    for limit in limits {
        let name = limit.typ().to_string();
        let number = crate::limit::number(&name)
            .ok_or_else(|| Failure::refused("set limit", Some(Path::new(&name)), "unknown on Linux"))?;
        let outcome = berth_sys::process::set_limit(number, limit.soft(), limit.hard());
        if outcome.as_ref().is_err_and(|e| e.raw_os_error() == Some(Errno::PERM.raw_os_error())) {
            let (_, hard) = berth_sys::process::limit(number).at("read limit", &name)?;
            berth_sys::process::set_limit(number, limit.soft().min(hard), limit.hard().min(hard))
                .at("set limit", &name)?;
            warnings
                .push(format!("{name} stays at the runtime's own {hard}: raising it takes CAP_SYS_RESOURCE"));
            continue;
        }
        outcome.at("set limit", &name)?;
    }
    Ok(())
}

/// The standard streams belong to the user, so that /dev/stdout can be opened again. The null device stays root's.
fn own_streams(uid: u32) -> Result<(), Failure> {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for stream in streams {
        let Ok(stat) = rustix::fs::fstat(stream) else { continue };
        let null = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && stat.st_rdev == makedev(1, 3);
        if null || stat.st_uid == uid {
            continue;
        }
        match rustix::fs::fchown(stream, Some(Uid::from_raw(uid)), Some(Gid::from_raw(stat.st_gid))) {
            // Not ours to give away (another user namespace, a read-only or foreign file system): the program may still use it.
            Ok(()) | Err(Errno::INVAL | Errno::PERM | Errno::ROFS) => {}
            Err(errno) => return Err(errno).step("give the standard streams to the user"),
        }
    }
    Ok(())
}

/// What a seccomp agent is told with the listener, as the specification words it.
pub(super) fn agent_text(pid: i32, metadata: Option<&str>, state: &str) -> String {
    let state: serde_json::Value = serde_json::from_str(state).unwrap_or_default();
    serde_json::json!({
        "ociVersion": crate::hooks::OCI_VERSION,
        "fds": ["seccompFd"],
        "pid": pid,
        "metadata": metadata.unwrap_or_default(),
        "state": state,
    })
    .to_string()
}
