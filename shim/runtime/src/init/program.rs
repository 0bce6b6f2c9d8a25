//! The program: found in the container's PATH, executed, or the reason why not.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, FileType};
use rustix::io::Errno;

use crate::error::Failure;

/// Where to look when the environment names no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The path to execute for `name`, as execvp would find it; only what looks executable to this process is taken.
pub(super) fn find(name: &str, env: &[CString]) -> Result<CString, Failure> {
    if name.contains('/') {
        check(Path::new(name)).map_err(|e| refused(Path::new(name), e))?;
        return text(name.as_bytes());
    }
    let path =
        env.iter().find_map(|e| e.to_bytes().strip_prefix(b"PATH=")).unwrap_or(DEFAULT_PATH.as_bytes());
    let mut denied = None;
    for directory in path.split(|b| *b == b':').filter(|d| !d.is_empty()) {
        let candidate = Path::new(OsStr::from_bytes(directory)).join(name);
        match check(&candidate) {
            Ok(()) => return text(candidate.as_os_str().as_bytes()),
            Err(Errno::ACCESS) => denied = denied.or(Some(candidate)),
            Err(_) => {}
        }
    }
    match denied {
        Some(path) => Err(refused(&path, Errno::ACCESS)),
        None => Err(refused(Path::new(name), Errno::NOENT)
            .note(format!("not found in PATH {}", String::from_utf8_lossy(path)))),
    }
}

/// Whether `path` is a file that this process may execute.
fn check(path: &Path) -> rustix::io::Result<()> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::empty())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
}

/// Executes; returns only when that failed.
pub(super) fn execute(path: &CString, argv: &[CString], env: &[CString]) -> Failure {
    let error = berth_sys::process::execute(path, argv, env);
    let subject = Path::new(OsStr::from_bytes(path.as_bytes()));
    let failure = Failure::new("execute", Some(subject), &error);
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => failure.note("the file is there, but the interpreter that it names is not"),
        Some(Errno::NOEXEC) => failure.note("it is no program for this machine, nor a script with a #! line"),
        _ => failure,
    }
}

fn refused(path: &Path, errno: Errno) -> Failure {
    let failure = Failure::new("execute", Some(path), &io::Error::from(errno));
    let directory = rustix::fs::statat(CWD, path, AtFlags::empty())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    if directory { failure.note("it is a directory") } else { failure }
}

fn text(bytes: &[u8]) -> Result<CString, Failure> {
    CString::new(bytes).map_err(|_| Failure::refused("execute", None, "the name holds a NUL byte"))
}
