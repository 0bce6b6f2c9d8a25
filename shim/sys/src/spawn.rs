//! Creating a process without running Rust code between clone and execve.
//!
//! The child shares the caller's memory and runs on a stack of its own until it executes, the caller sleeping meanwhile
//! (`CLONE_VM | CLONE_VFORK`). All it does is written down beforehand: place descriptors, drop the others, reset signals, execute.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

mod child;
mod clone;

pub use clone::{Fork, fork_sibling};

use crate::namespace::Namespaces;

/// What to execute and what the new process starts with.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The program, executed by descriptor (`O_PATH` is enough).
    pub exe: BorrowedFd<'a>,
    /// The arguments, program name first.
    pub argv: &'a [CString],
    /// The environment, `NAME=value` each.
    pub env: &'a [CString],
    /// The only descriptors the program finds open: the first becomes 0, the second 1 and so on.
    pub fds: &'a [BorrowedFd<'a>],
    /// Namespaces made new for the child.
    pub namespaces: Namespaces,
    /// A directory of the unified cgroup tree in which the child is born.
    pub cgroup: Option<BorrowedFd<'a>>,
}

/// A process that this process created and has to reap.
#[derive(Debug)]
pub struct Child {
    /// Its id in the caller's pid namespace.
    pub pid: i32,
    /// Its handle, immune to reuse of the id.
    pub pidfd: OwnedFd,
}

/// Starts `plan`. Returns once the program runs; a failure to execute it is reported here with its errno.
///
/// # Errors
/// The errno of clone3, of placing the descriptors or of execveat.
pub fn spawn(plan: &Plan<'_>) -> io::Result<Child> {
    let argv = pointers(plan.argv);
    let env = pointers(plan.env);
    let fds: Vec<i32> = plan.fds.iter().map(AsRawFd::as_raw_fd).collect();
    let mut lifted = vec![-1; fds.len()];
    let mut order = child::Order {
        exe: plan.exe.as_raw_fd(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        fds: fds.as_ptr(),
        lifted: lifted.as_mut_ptr(),
        count: fds.len(),
        errno: 0,
    };
    let mut pidfd: i32 = -1;
    let cgroup = plan.cgroup.map(|fd| fd.as_raw_fd());
    let blocked = crate::signal::BlockAll::new();
    let outcome = clone::vfork_into(plan.namespaces.bits(), cgroup, &mut pidfd, &mut order);
    drop(blocked);
    let pid = outcome?;
    // SAFETY: clone3 succeeded with CLONE_PIDFD, so it stored a new descriptor that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    if order.errno != 0 {
        // Another reaper of this process may have been quicker; either way the child is gone.
        let _ = crate::pidfd::wait(&pidfd);
        return Err(io::Error::from_raw_os_error(order.errno));
    }
    Ok(Child { pid, pidfd })
}

/// The null-terminated array of pointers that execve wants; valid while `strings` lives.
pub(crate) fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    fn run(program: &str, args: &[&str]) -> io::Result<(Child, File)> {
        let exe = File::open(program)?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let argv: Vec<CString> = args.iter().map(|a| CString::new(*a).expect("no NUL")).collect();
        let plan = Plan {
            exe: exe.as_fd(),
            argv: &argv,
            env: &[],
            fds: &[null.as_fd(), writer.as_fd(), writer.as_fd()],
            namespaces: Namespaces::empty(),
            cgroup: None,
        };
        let child = spawn(&plan)?;
        Ok((child, File::from(reader)))
    }

    #[test]
    fn runs_with_only_the_given_descriptors() {
        let (child, mut out) =
            run("/bin/sh", &["sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; exit 7"]).expect("spawn");
        let mut text = String::new();
        out.read_to_string(&mut text).expect("read");
        // ls itself holds 3 for the directory.
        assert_eq!(text, "0 1 2 3 ");
        assert_eq!(crate::pidfd::wait(&child.pidfd).expect("wait"), crate::pidfd::Exit::Code(7));
    }

    #[test]
    fn reports_the_errno_of_execve() {
        let error = run("/etc/passwd", &["x"]).expect_err("not executable");
        assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn signals_start_at_default() {
        let (child, mut out) =
            run("/bin/sh", &["sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"]).expect("spawn");
        let mut text = String::new();
        out.read_to_string(&mut text).expect("read");
        crate::pidfd::wait(&child.pidfd).expect("wait");
        for line in text.lines() {
            assert!(line.ends_with("0000000000000000"), "{line}");
        }
    }
}
