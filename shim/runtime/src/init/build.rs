//! Building a container: the steps of its first process, in order.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_core::oci::{Linux, LinuxPersonalityDomain, Mount, Process, Spec};
use berth_sys::namespace::{self, Namespaces};
use berth_sys::path::{Kind, make_in_root};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::mounts::{self, Place};
use super::process::{self, Filter, Ready};
use super::{console, devices, enter, filesystem, gone, label, mask, rootfs, sysctl, user};
use crate::args::ResolvedUser;
use crate::channel::Channel;
use crate::error::{At, Failure};
use crate::hooks;
use crate::options::Options;
use crate::wire::{CreateOrder, Go, Report};

/// What is carried from step to step.
struct Built {
    root: OwnedFd,
    user: ResolvedUser,
    terminal: Option<console::Terminal>,
    warnings: Vec<String>,
}

/// Builds the container, reports, waits, executes.
pub(super) fn run(channel: &Channel, mut order: CreateOrder, filter: &[u8]) -> Result<Infallible, Failure> {
    let inherited = Inherited::take(&mut order)?;
    // Only the first process of a pid namespace made by the clone is told nothing; it asks the host's /proc, which is still here.
    let first = host_pid();
    enter::join_cgroups(&order.common.cgroups)?;
    let mut warnings = Vec::new();
    super::oom::adjust(process_of(&order.spec)?.oom_score_adj(), &mut warnings)?;
    let overlay = mapped_overlay(&order, inherited.layer_map.as_ref())?;
    let early = early_binds(&mut order, inherited.idmaps)?;
    let host_pid = enter::enter(channel, &order)?.or(first).unwrap_or(0);
    isolate(&order)?;
    let mut built = root_file_system(channel, &mut order, overlay, early, warnings)?;
    let ready = become_process(&order, &mut built, filter)?;
    if order.switches.early_program {
        ready.find()?;
    }
    let report = Report::Ready { user: built.user, warnings: built.warnings };
    match &built.terminal {
        Some(terminal) => channel.send_with(&report, terminal.master.as_fd()),
        None => channel.send(&report),
    }
    .step("report to the parent")?;
    drop(built.terminal);
    drop(built.root);
    let starter = wait_for_start(channel, inherited.listener.as_ref())?;
    let listener = inherited.seccomp.map(|fd| {
        let state = hooks::state_text(&order.id, "creating", Some(host_pid), &order.bundle, &order.spec);
        (fd, process::agent_text(host_pid, order.common.seccomp_metadata.as_deref(), &state))
    });
    let failure = start(&order, ready, filter, listener);
    match starter {
        // Who gave the order gets the answer.
        Some(other) => {
            let _ = other.send(&Report::Failed(failure));
            gone()
        }
        None => Err(failure),
    }
}

/// This process's id as the host's /proc shows it.
fn host_pid() -> Option<i32> {
    rustix::fs::readlink("/proc/self", Vec::new()).ok()?.to_str().ok()?.parse().ok()
}

/// Descriptors that came with the order.
struct Inherited {
    listener: Option<OwnedFd>,
    seccomp: Option<OwnedFd>,
    idmaps: Vec<(usize, OwnedFd)>,
    layer_map: Option<OwnedFd>,
}

impl Inherited {
    fn take(order: &mut CreateOrder) -> Result<Self, Failure> {
        let take = |fd: i32| berth_sys::inherited::take(fd).step("take an inherited descriptor");
        Ok(Self {
            listener: order.listener.map(take).transpose()?,
            seccomp: order.common.seccomp_listener.map(take).transpose()?,
            layer_map: order.layer_map.map(take).transpose()?,
            idmaps: shared(&order.idmaps)?,
        })
    }
}

/// Descriptors that several mounts may share.
fn shared(numbers: &[(usize, i32)]) -> Result<Vec<(usize, OwnedFd)>, Failure> {
    let mut out: Vec<(usize, OwnedFd)> = Vec::new();
    for (at, (mount, number)) in numbers.iter().enumerate() {
        let fd = match numbers[..at].iter().position(|(_, earlier)| earlier == number) {
            Some(earlier) => out[earlier].1.try_clone(),
            None => berth_sys::inherited::take(*number),
        };
        out.push((*mount, fd.step("take an inherited descriptor")?));
    }
    Ok(out)
}

fn process_of(spec: &Spec) -> Result<&Process, Failure> {
    spec.process().as_ref().ok_or_else(|| Failure::refused("read config.json", None, "process is missing"))
}

fn linux_of(spec: &Spec) -> Result<&Linux, Failure> {
    spec.linux().as_ref().ok_or_else(|| Failure::refused("read config.json", None, "linux is missing"))
}

/// For a container with a user namespace the overlay is made before that is entered: only the host's root may map the layers'
/// owners and read what overlayfs notes in them.
fn mapped_overlay(order: &CreateOrder, map: Option<&OwnedFd>) -> Result<Option<OwnedFd>, Failure> {
    let (Some(plan), Some(map)) = (&order.overlay, map) else { return Ok(None) };
    let linux = linux_of(&order.spec)?;
    let root_of = |mappings: &Option<Vec<berth_core::oci::LinuxIdMapping>>| {
        let mut all = mappings.iter().flatten();
        all.find(|m| m.container_id() == 0).map(berth_core::oci::LinuxIdMapping::host_id)
    };
    super::overlay::mapped(plan, map, root_of(linux.uid_mappings()), root_of(linux.gid_mappings())).map(Some)
}

/// What the new namespaces need at once.
fn isolate(order: &CreateOrder) -> Result<(), Failure> {
    let made = enter::kind_of(order.made | order.make);
    let linux = linux_of(&order.spec)?;
    if made.contains(Namespaces::TIME) {
        let offsets = linux.time_offsets().iter().flatten();
        let mut offsets: Vec<(String, i64, u32)> = offsets
            .map(|(clock, o)| (clock.clone(), o.secs().unwrap_or(0), o.nanosecs().unwrap_or(0)))
            .collect();
        offsets.sort();
        enter::new_time(&offsets)?;
    }
    if made.contains(Namespaces::CGROUP) {
        namespace::unshare(Namespaces::CGROUP).step("make a cgroup namespace")?;
    }
    rustix::process::setsid().map(drop).step("start a session")?;
    if !order.switches.no_new_keyring {
        keyring(&order.id)?;
    }
    if made.contains(Namespaces::NETWORK) {
        berth_sys::process::loopback_up().step("bring the loopback interface up")?;
    }
    if let Some(name) = order.spec.hostname().as_deref().filter(|n| !n.is_empty()) {
        rustix::system::sethostname(name.as_bytes()).at("set hostname", name)?;
    }
    if let Some(name) = order.spec.domainname().as_deref().filter(|n| !n.is_empty()) {
        rustix::system::setdomainname(name.as_bytes()).at("set domainname", name)?;
    }
    Ok(())
}

/// The container's own session keyring, made or joined. A kernel without keyrings has nothing to share either.
pub(super) fn keyring(id: &str) -> Result<(), Failure> {
    let name =
        std::ffi::CString::new(format!("_ses.{id}")).map_err(std::io::Error::from).step("name keyring")?;
    match berth_sys::process::join_session_keyring(&name) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOSYS.raw_os_error()) => Ok(()),
        other => other.step("join a session keyring"),
    }
}

/// The root file system with everything in it, up to the moment it is the root.
fn root_file_system(
    channel: &Channel,
    order: &mut CreateOrder,
    overlay: Option<OwnedFd>,
    early: Early,
    warnings: Vec<String>,
) -> Result<Built, Failure> {
    // Modes are what config.json says, whatever mask the caller had.
    rustix::process::umask(rustix::fs::Mode::empty());
    let planned = match early {
        Early::Taken(planned) => planned,
        Early::Left(idmaps) => mounts::plan(take_mounts(order), &order.bundle, idmaps)?,
    };
    let spec = &order.spec;
    let linux = linux_of(spec)?;
    let propagation = linux.rootfs_propagation().as_deref().and_then(crate::options::propagation);
    let private = matches!(propagation, Some((berth_sys::mount::Propagation::Private, _)));
    let path = spec.root().as_ref().map(|r| r.path().as_path());
    rootfs::cut_off(private)?;
    let root = match (overlay, &order.overlay) {
        (Some(mount), Some(plan)) => rootfs::attach_overlay(plan, mount)?,
        _ => rootfs::attach(&order.bundle, path, order.overlay.as_ref())?,
    };
    let place = Place {
        root: &root,
        bundle: &order.bundle,
        cgroups: &order.cgroup_mounts,
        own_cgroup_namespace: enter::kind_of(order.made | order.make).contains(Namespaces::CGROUP),
        label: linux.mount_label().as_deref().filter(|l| !l.is_empty()),
    };
    let made = mounts::make(planned, &place)?;
    let makes_dev = !made.foreign_dev;
    if makes_dev {
        devices::make(&root, linux.devices().as_deref().unwrap_or_default(), has_user_namespace(linux))?;
    }
    let terminal = terminal(order, &root, makes_dev)?;
    let cwd = process_of(spec)?.cwd();
    make_in_root(&root, cwd, Kind::Directory).at("make working directory", cwd)?;
    run_hooks(channel, order)?;
    let user = who(order, &root)?;
    protect(spec, linux, &root, &made.kernel)?;
    rootfs::enter(&root, order.switches.no_pivot)?;
    if let Some((kind, recursive)) = propagation {
        rootfs::propagate(kind, recursive)?;
    }
    Ok(Built { root, user, terminal, warnings })
}

fn take_mounts(order: &mut CreateOrder) -> Vec<Mount> {
    order.spec.mounts.take().unwrap_or_default()
}

/// Mounts whose sources were taken before the namespaces were entered, or the user namespaces for those still to be taken.
enum Early {
    Taken(Vec<mounts::Planned>),
    Left(Vec<(usize, OwnedFd)>),
}

/// With a user namespace the sources of bind mounts are taken, and their owners mapped, by the host's root: inside, mounts of the
/// host are locked together, and nobody may map the owners of a file system that is not the namespace's own.
fn early_binds(order: &mut CreateOrder, idmaps: Vec<(usize, OwnedFd)>) -> Result<Early, Failure> {
    // Without the newer calls there is nowhere to keep them: they are taken inside.
    if !has_user_namespace(linux_of(&order.spec)?) || berth_sys::mount::missing_call().is_some() {
        return Ok(Early::Left(idmaps));
    }
    let mut planned = mounts::plan(take_mounts(order), &order.bundle, idmaps)?;
    mounts::take_binds(&mut planned, &order.bundle)?;
    Ok(Early::Taken(planned))
}

fn has_user_namespace(linux: &Linux) -> bool {
    use berth_core::oci::LinuxNamespaceType;
    linux.namespaces().iter().flatten().any(|n| n.typ() == LinuxNamespaceType::User)
}

fn terminal(order: &CreateOrder, root: &OwnedFd, shown: bool) -> Result<Option<console::Terminal>, Failure> {
    if !order.terminal {
        return Ok(None);
    }
    let size = process_of(&order.spec)?.console_size().map(|s| (s.height() as u16, s.width() as u16));
    let terminal = console::open(root, size)?;
    if shown {
        console::show(root, &terminal)?;
    }
    Ok(Some(terminal))
}

/// prestart and createRuntime in the parent, createContainer here: after the mounts, before anything becomes read-only.
fn run_hooks(channel: &Channel, order: &CreateOrder) -> Result<(), Failure> {
    if order.runtime_hooks {
        enter::ask(channel, &Report::Hooks)?;
    }
    let Some(list) = order.spec.hooks().as_ref().and_then(|h| h.create_container().as_ref()) else {
        return Ok(());
    };
    hooks::run_all("createContainer", list, &state_inside(order, "creating")).map_err(|e| e.into_failure())
}

fn who(order: &CreateOrder, root: &OwnedFd) -> Result<ResolvedUser, Failure> {
    if let Some(lookup) = &order.user {
        return user::resolve(root, lookup);
    }
    let user = process_of(&order.spec)?.user();
    let groups = user.additional_gids().clone().unwrap_or_default();
    Ok(ResolvedUser { uid: user.uid(), gid: user.gid(), groups, home: None })
}

/// Parameters set, paths hidden or made read-only, the root itself made read-only.
fn protect(spec: &Spec, linux: &Linux, root: &OwnedFd, kernel: &mounts::Kernel) -> Result<(), Failure> {
    let process = process_of(spec)?;
    let sysctls: BTreeMap<String, String> =
        linux.sysctl().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    let labelled = process.apparmor_profile().is_some() || process.selinux_label().is_some();
    if !sysctls.is_empty() || labelled {
        let proc = filesystem::create("proc", Some(Path::new("proc")), &Options::default())?;
        sysctl::set(&proc, &sysctls)?;
        label::apply(&proc, process)?;
    }
    mask::read_only(root, kernel, linux.readonly_paths().as_deref().unwrap_or_default())?;
    let label = linux.mount_label().as_deref().filter(|l| !l.is_empty());
    mask::hide(root, kernel, linux.masked_paths().as_deref().unwrap_or_default(), label)?;
    if spec.root().as_ref().and_then(berth_core::oci::Root::readonly).unwrap_or(false) {
        rootfs::read_only(root)?;
    }
    Ok(())
}

fn become_process(order: &CreateOrder, built: &mut Built, filter: &[u8]) -> Result<Ready, Failure> {
    let linux = linux_of(&order.spec)?;
    if let Some(personality) = linux.personality() {
        let domain = match personality.domain() {
            LinuxPersonalityDomain::PerLinux => 0,
            LinuxPersonalityDomain::PerLinux32 => 8,
        };
        berth_sys::process::set_personality(domain).step("set personality")?;
    }
    if let Some(terminal) = &built.terminal {
        console::adopt(&terminal.slave)?;
    }
    let init = process_of(&order.spec)?;
    // The root by name now: the descriptor from before may show a mount that others have since covered.
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, rustix::fs::Mode::empty()).at("open", "/")?;
    process::prepare(init, &built.user, &order.common, !filter.is_empty(), &root, &mut built.warnings)
}

/// Waits for the order to start, on the channel or from whoever connects to the listener: then that connection is returned.
/// When the parent goes, so do we, unless it has said before that we are to go on alone.
fn wait_for_start(channel: &Channel, listener: Option<&OwnedFd>) -> Result<Option<Channel>, Failure> {
    let Some(listener) = listener else {
        return match channel.receive::<Go>().step("wait for the order to start")? {
            Some(_) => Ok(None),
            None => gone(),
        };
    };
    let mut parent = true;
    loop {
        let mut polls = vec![PollFd::new(listener, PollFlags::IN)];
        if parent {
            polls.push(PollFd::new(channel, PollFlags::IN));
        }
        match rustix::event::poll(&mut polls, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno).step("wait for the order to start"),
        }
        if parent && !polls[1].revents().is_empty() {
            match channel.receive::<Go>() {
                Ok(Some((Go::Start, _))) => return Ok(None),
                Ok(Some((Go::Continue(_), _))) => parent = false,
                _ => gone(),
            }
        }
        if polls[0].revents().contains(PollFlags::IN)
            && let Some(other) = accept(listener)
        {
            return Ok(Some(other));
        }
    }
}

/// Takes a connection and its order to start. Who may connect is decided by the socket's mode and its directory's, which are
/// root's own; whoever connects and says nothing is not waited for long.
fn accept(listener: &OwnedFd) -> Option<Channel> {
    const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
    let socket = rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC).ok()?;
    let mut polls = [PollFd::new(&socket, PollFlags::IN)];
    if !matches!(rustix::event::poll(&mut polls, Some(&PATIENCE)), Ok(1..)) {
        return None;
    }
    let other = Channel::new(socket);
    let start = matches!(other.receive::<Go>(), Ok(Some((Go::Start, _))));
    start.then_some(other)
}

/// The hooks of the last moment, then the program. Returns only when something failed.
fn start(order: &CreateOrder, ready: Ready, filter: &[u8], listener: Option<(OwnedFd, String)>) -> Failure {
    if let Some(list) = order.spec.hooks().as_ref().and_then(|h| h.start_container().as_ref())
        && let Err(error) = hooks::run_all("startContainer", list, &state_inside(order, "created"))
    {
        return error.into_failure();
    }
    ready.launch(Filter { program: filter, flags: order.common.seccomp_flags, listener })
}

/// The state as a hook inside the container reads it: with the process id that it sees.
fn state_inside(order: &CreateOrder, status: &str) -> String {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    hooks::state_text(&order.id, status, Some(pid), &order.bundle, &order.spec)
}
