//! exec: one more process in a running container, which inherits all that the first one has.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use berth_core::oci::{LinuxPersonalityDomain, Process};
use berth_sys::namespace::Namespaces;
use rustix::fs::{Mode, OFlags};

use crate::args::{Context, Exec, ExecArgs, ExecProgram, Stdio};
use crate::config::{self, kind_of, refuse};
use crate::error::{At, Error};
use crate::hooks;
use crate::launch::{self, Answers, Init, Start};
use crate::seccomp::Program;
use crate::wire::{Common, ExecOrder, Order};

/// Runs a program in a container; returns once execve has happened.
///
/// # Errors
/// The step that failed, or why the program cannot be executed. No process stays behind then.
pub fn exec(args: &ExecArgs<'_>) -> Result<Exec, Error> {
    let mut extras: Vec<OwnedFd> = vec![args.pidfd.try_clone().step("copy the process's descriptor")?];
    let mut order = order(args)?;
    if let Some((path, metadata)) = &args.context.listener {
        extras.push(launch::connect_agent(path)?);
        order.common.seccomp_listener = Some(Start::number_of(args.preserved.len(), 1));
        order.common.seccomp_metadata = Some(metadata.clone());
    }
    let order = Order::Exec(Box::new(order));
    let built = build(args, &extras, &order)?;
    let guard = Unreleased(Some(built.child));
    launch::release(built.channel)?;
    let Some(child) = guard.keep() else {
        return Err(Error::Died { how: "without a trace".to_owned() });
    };
    Ok(Exec { pid: child.pid, pidfd: child.pidfd, console: built.console, warnings: built.warnings })
}

fn order(args: &ExecArgs<'_>) -> Result<ExecOrder, Error> {
    let process = process_of(args)?;
    config::check_process(&process)?;
    let context = args.context;
    let join = namespaces(args)?;
    Ok(ExecOrder {
        target: Start::number_of(args.preserved.len(), 0),
        join: join.bits(),
        keyring: (!context.no_new_keyring).then(|| context.id.clone()),
        personality: personality(context),
        state: hooks::state_text(&context.id, "running", Some(args.pid), &context.bundle, &context.spec),
        terminal: matches!(args.stdio, Stdio::Terminal),
        common: Common {
            user_namespace: join.contains(Namespaces::USER),
            cgroups: args.places.as_ref().map_or_else(|| args.cgroup.v1_dirs(), |places| places.v1.clone()),
            seccomp_flags: context.seccomp.as_ref().map_or(0, Program::flags),
            preserved: args.preserved.len() as u32,
            memory_policy: context.spec.linux().as_ref().and_then(crate::limit::memory_policy),
            env_bytes: match args.program {
                ExecProgram::Argv(_) => config::env_bytes(&context.spec)?,
                ExecProgram::Process(_) => Vec::new(),
            },
            ..Common::default()
        },
        process,
    })
}

fn build(args: &ExecArgs<'_>, extras: &[OwnedFd], order: &Order) -> Result<launch::Built, Error> {
    let filter = args.context.seccomp.as_ref().map_or(&[][..], Program::bytes);
    let own = own_group(args)?;
    let mut unified = args.kill_group.as_ref().or(own.as_ref()).map(AsFd::as_fd);
    loop {
        let extra: Vec<BorrowedFd<'_>> = extras.iter().map(AsFd::as_fd).collect();
        let start = Start {
            exe: args.exe.as_fd(),
            stdio: &args.stdio,
            preserved: &args.preserved,
            extra: &extra,
            namespaces: Namespaces::empty(),
            cgroup: unified,
        };
        let spawned = Init::spawn(&start);
        let mut init = match spawned {
            // The container may have turned its own group into one that takes no processes; then its first process
            // shows where they live now.
            Err(_) if unified.is_some() => {
                unified = None;
                continue;
            }
            other => other?,
        };
        if unified.is_none() {
            join(args, init.pid())?;
        }
        crate::rdt::join(&args.context.spec, &args.context.id, init.pid())?;
        match init.build(order, filter, &mut Nothing) {
            Err(error) if unified.is_some() && init.was_stillborn(&error) => unified = None,
            other => return other,
        }
    }
}

/// The directory of the unified tree to be born in, unless there is a kill group.
fn own_group(args: &ExecArgs<'_>) -> Result<Option<OwnedFd>, Error> {
    match (&args.kill_group, &args.places) {
        (Some(_), _) => Ok(None),
        (None, None) => Ok(args.cgroup.unified_dir()),
        (None, Some(places)) => {
            let open = |dir: &PathBuf| {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::open(dir, flags, Mode::empty()).at("open cgroup", dir)
            };
            Ok(places.unified.as_ref().map(open).transpose()?)
        }
    }
}

/// Joins from outside; where the container's own group takes no processes any more, joins that of its first process.
fn join(args: &ExecArgs<'_>, pid: i32) -> Result<(), Error> {
    if let Some(dir) = args.places.as_ref().and_then(|places| places.unified.as_ref()) {
        let file = dir.join("cgroup.procs");
        return Ok(std::fs::write(&file, pid.to_string()).at("join cgroup", &file)?);
    }
    let Err(error) = args.cgroup.join(pid) else { return Ok(()) };
    let table = std::fs::read_to_string(format!("/proc/{}/cgroup", args.pid)).unwrap_or_default();
    let beside = table.lines().find_map(|line| line.strip_prefix("0::"));
    match (beside, args.cgroup.unified_path(), args.cgroup.path().relative()) {
        (Some(beside), Some(path), relative) => {
            let root = path.to_string_lossy().trim_end_matches(relative.trim_start_matches('/')).to_owned();
            let file =
                format!("{}/{}/cgroup.procs", root.trim_end_matches('/'), beside.trim_start_matches('/'));
            std::fs::write(file, pid.to_string()).map_err(|_| error.into())
        }
        _ => Err(error.into()),
    }
}

/// The namespaces of the container, as a set to take from its first process.
fn namespaces(args: &ExecArgs<'_>) -> Result<Namespaces, Error> {
    let linux = args.context.spec.linux().as_ref().ok_or_else(|| refuse("linux", "is missing"))?;
    let mut set = Namespaces::empty();
    for namespace in linux.namespaces().iter().flatten() {
        set |= kind_of(namespace.typ());
    }
    // Nobody may join the user namespace that he is in.
    if set.contains(Namespaces::USER) && same_user_namespace(args.pid) {
        set = set.without(Namespaces::USER);
    }
    Ok(set)
}

fn same_user_namespace(pid: i32) -> bool {
    let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/user")).ok();
    of("self") == of(&pid.to_string())
}

fn personality(context: &Context) -> Option<u64> {
    let personality = context.spec.linux().as_ref()?.personality().as_ref()?;
    Some(match personality.domain() {
        LinuxPersonalityDomain::PerLinux => 0,
        LinuxPersonalityDomain::PerLinux32 => 8,
    })
}

/// The process to run: the container's own with other arguments, or one that was given, completed.
fn process_of(args: &ExecArgs<'_>) -> Result<Process, Error> {
    let own = args.context.spec.process().as_ref().ok_or_else(|| refuse("process", "is missing"))?;
    let mut process = match &args.program {
        ExecProgram::Argv(argv) => {
            let mut process = own.clone();
            process.args = Some(argv.clone());
            process.console_size = None;
            process
        }
        ExecProgram::Process(given) => (**given).clone(),
    };
    if process.capabilities().is_none() {
        process.capabilities = own.capabilities().clone();
    }
    if process.rlimits().is_none() {
        process.rlimits = own.rlimits().clone();
    }
    if process.apparmor_profile().is_none() {
        process.apparmor_profile = own.apparmor_profile().clone();
    }
    if process.selinux_label().is_none() {
        process.selinux_label = own.selinux_label().clone();
    }
    if process.oom_score_adj().is_none() {
        process.oom_score_adj = own.oom_score_adj();
    }
    if process.no_new_privileges().is_none() {
        process.no_new_privileges = own.no_new_privileges();
    }
    Ok(process)
}

/// An exec has nothing to ask.
struct Nothing;

impl Answers for Nothing {
    fn map_users(&mut self, _pid: i32) -> Result<(), Error> {
        Ok(())
    }

    fn hooks(&mut self, _pid: i32) -> Result<(), Error> {
        Ok(())
    }
}

/// A process that is reaped unless it runs its program.
struct Unreleased(Option<berth_sys::spawn::Child>);

impl Unreleased {
    fn keep(mut self) -> Option<berth_sys::spawn::Child> {
        self.0.take()
    }
}

impl Drop for Unreleased {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            let _ = berth_sys::pidfd::send_signal(&child.pidfd, 9);
            let _ = berth_sys::pidfd::wait(&child.pidfd);
        }
    }
}
