//! Tests with the kernel as the judge: a thread installs a program and makes calls.

use berth_core::oci::LinuxSeccomp;
use rustix::fs::{CWD, Mode, mkdirat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::net::{AddressFamily, SocketType, socket};

use super::{Program, compile};

/// Runs `calls` in a thread under `program`; nothing if this process may not install one.
fn under<T: Send + 'static>(program: Program, calls: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: skipped");
        return None;
    }
    let thread = std::thread::spawn(move || {
        berth_sys::seccomp::install(program.bytes(), program.flags()).unwrap();
        calls()
    });
    Some(thread.join().unwrap())
}

fn open(family: u16) -> Result<(), Errno> {
    socket(AddressFamily::from_raw(family), SocketType::DGRAM, None).map(drop)
}

#[test]
fn the_default_profile_holds_in_the_kernel() {
    let json =
        berth_core::profile::seccomp_default(berth_core::profile::DEFAULT_CAPABILITIES).to_json().unwrap();
    let profile: LinuxSeccomp = serde_json::from_str(&json).unwrap();
    let program = compile(&profile).unwrap();
    let answers = under(program, || {
        let child = std::process::Command::new("/bin/true").status().map(|status| status.success());
        (open(1), open(38), open(40), unmount("/no/such/place", UnmountFlags::DETACH), child.ok())
    });
    if let Some(answers) = answers {
        assert_eq!(answers, (Ok(()), Err(Errno::PERM), Err(Errno::PERM), Err(Errno::PERM), Some(true)));
    }
}

#[test]
fn conditions_and_errnos_hold_in_the_kernel() {
    let profile: LinuxSeccomp = serde_json::from_str(
        r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
            {"names":["mkdirat","mkdir"],"action":"SCMP_ACT_ERRNO","errnoRet":71},
            {"names":["socket"],"action":"SCMP_ACT_ERRNO","errnoRet":99,
             "args":[{"index":0,"value":2,"op":"SCMP_CMP_EQ"},
                     {"index":1,"value":15,"valueTwo":2,"op":"SCMP_CMP_MASKED_EQ"}]}]}"#,
    )
    .unwrap();
    let answers = under(compile(&profile).unwrap(), || {
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None).is_ok();
        (mkdirat(CWD, "/no/such/place", Mode::RWXU), open(2), stream, open(1))
    });
    if let Some(answers) = answers {
        assert_eq!(answers, (Err(Errno::PROTO), Err(Errno::ADDRNOTAVAIL), true, Ok(())));
    }
}

/// What the kernel answers for one call, made by number without arguments.
#[test]
fn every_number_holds_in_the_kernel() {
    // Each call has an errno of its own, told by its number; whoever gets another answer went another way through the program.
    let calls: Vec<_> = (0..470usize).filter_map(syscalls::x86_64::Sysno::new).collect();
    // Those that the thread itself needs to go on, that could end it, or that the kernel keeps for itself and asks no filter about.
    let needed = "futex write mmap munmap mremap mprotect brk madvise exit exit_group rt_sigreturn rt_sigprocmask sigaltstack \
        rseq set_robust_list gettid getpid tgkill uretprobe uprobe";
    let needed: Vec<&str> = needed.split_whitespace().collect();
    let chosen: Vec<_> = calls.into_iter().filter(|call| !needed.contains(&call.name())).collect();
    let rules: Vec<String> = chosen
        .iter()
        .map(|call| {
            let errno = 1 + call.id() as u32;
            format!(r#"{{"names":["{}"],"action":"SCMP_ACT_ERRNO","errnoRet":{errno}}}"#, call.name())
        })
        .collect();
    let text = format!(r#"{{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{}]}}"#, rules.join(","));
    let profile: LinuxSeccomp = serde_json::from_str(&text).unwrap();
    let numbers: Vec<i64> = chosen.iter().map(|call| i64::from(call.id())).collect();
    let asked = numbers.clone();
    let mut answers = Vec::with_capacity(numbers.len());
    if cfg!(target_arch = "x86_64")
        && let Some(answers) = under(compile(&profile).unwrap(), move || {
            answers.extend(asked.iter().map(|number| berth_sys::seccomp::probe(*number)));
            answers
        })
    {
        for (number, answer) in numbers.iter().zip(answers) {
            assert_eq!(i64::from(answer), 1 + number, "call {number}");
        }
    }
}
