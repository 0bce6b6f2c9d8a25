//! Joining a container: the steps of an exec.

use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_sys::namespace;
use rustix::fs::{Mode, OFlags};

use super::process::{self, Filter, Ready};
use super::{console, enter, filesystem, label, oom};
use crate::args::ResolvedUser;
use crate::channel::Channel;
use crate::error::{At, Failure};
use crate::options::Options;
use crate::wire::{ExecOrder, Go, Report};

/// Joins, reports, waits, executes.
pub(super) fn run(channel: &Channel, order: ExecOrder, filter: &[u8]) -> Result<Infallible, Failure> {
    let take = |fd: i32| berth_sys::inherited::take(fd).step("take an inherited descriptor");
    let target = take(order.target)?;
    let agent = order.common.seccomp_listener.map(take).transpose()?;
    let mut warnings = Vec::new();
    // The container's own /proc has masked paths, so that its user namespace may make no other one.
    let labelled = order.process.apparmor_profile().is_some() || order.process.selinux_label().is_some();
    let proc = labelled.then(own_proc).transpose()?;
    let host_pid = join(channel, &order, target, &mut warnings)?;
    let (ready, terminal) = become_process(&order, filter, proc, &mut warnings)?;
    report(channel, &order, terminal, warnings)?;
    let listener = agent.map(|fd| {
        (fd, process::agent_text(host_pid, order.common.seccomp_metadata.as_deref(), &order.state))
    });
    Err(ready.launch(Filter { program: filter, flags: order.common.seccomp_flags, listener }))
}

/// A proc file system that nothing of the container's can reach.
fn own_proc() -> Result<OwnedFd, Failure> {
    if berth_sys::mount::missing_call().is_some() {
        // It cannot be detached, so it is in a mount namespace that is left at once.
        namespace::unshare(namespace::Namespaces::MOUNT).step("make a mount namespace")?;
        super::rootfs::cut_off(true)?;
    }
    filesystem::create("proc", Some(Path::new("proc")), &Options::default())
}

/// Into the cgroup and the namespaces.
fn join(
    channel: &Channel,
    order: &ExecOrder,
    target: OwnedFd,
    warnings: &mut Vec<String>,
) -> Result<i32, Failure> {
    enter::join_cgroups(&order.common.cgroups)?;
    oom::adjust(order.process.oom_score_adj(), warnings)?;
    namespace::join(target.as_fd(), enter::kind_of(order.join)).step("join the container's namespaces")?;
    drop(target);
    // Not dumpable, so that no process of the container can look into this one before it has shed the runtime's descriptors.
    let host_pid = enter::fork(channel, namespace::Namespaces::empty())?;
    rustix::process::setsid().map(drop).step("start a session")?;
    if let Some(id) = &order.keyring {
        super::build::keyring(id)?;
    }
    Ok(host_pid)
}

fn become_process(
    order: &ExecOrder,
    filter: &[u8],
    proc: Option<OwnedFd>,
    warnings: &mut Vec<String>,
) -> Result<(Ready, Option<console::Terminal>), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty()).at("open", "/")?;
    let program = &order.process;
    if let Some(proc) = proc {
        label::apply(&proc, program)?;
    }
    if let Some(domain) = order.personality {
        berth_sys::process::set_personality(domain).step("set personality")?;
    }
    let mut terminal = None;
    if order.terminal {
        let size = program.console_size().map(|s| (s.height() as u16, s.width() as u16));
        let made = console::open(&root, size)?;
        console::adopt(&made.slave)?;
        terminal = Some(made);
    }
    let user = user_of(order);
    let ready = process::prepare(program, &user, &order.common, !filter.is_empty(), &root, warnings)?;
    Ok((ready, terminal))
}

fn user_of(order: &ExecOrder) -> ResolvedUser {
    let user = order.process.user();
    let groups = user.additional_gids().clone().unwrap_or_default();
    ResolvedUser { uid: user.uid(), gid: user.gid(), groups, home: None }
}

fn report(
    channel: &Channel,
    order: &ExecOrder,
    terminal: Option<console::Terminal>,
    warnings: Vec<String>,
) -> Result<(), Failure> {
    let report = Report::Ready { user: user_of(order), warnings };
    match &terminal {
        Some(terminal) => channel.send_with(&report, terminal.master.as_fd()),
        None => channel.send(&report),
    }
    .step("report to the parent")?;
    drop(terminal);
    if channel.receive::<Go>().step("wait for the order to start")?.is_none() {
        super::gone();
    }
    Ok(())
}
