//! create: everything up to the point before execve.

mod parent;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_cgroup::{Cgroup, CgroupPath, Driver};
use berth_core::oci::{Linux, LinuxIdMapping, LinuxNamespaceType, LinuxResources, Mount, Spec};
use berth_sys::namespace::Namespaces;
use rustix::fs::{Mode, OFlags};

use crate::args::{Context, CreateArgs, Created, ResolvedUser, Stdio};
use crate::config::{self, kind_of, refuse};
use crate::error::{At, Error};
use crate::launch::{self, Built, Init, Start};
use crate::rdt::Made;
use crate::seccomp::{self, Program};
use crate::wire::{CgroupMounts, Common, CreateOrder, Order};
use parent::Parent;

/// Builds a container. Its process waits for [`crate::start()`]; the caller is its parent.
///
/// # Errors
/// The step that failed. Nothing stays behind then: no process, no mount, no cgroup.
pub fn create(args: CreateArgs) -> Result<Created, Error> {
    config::check(&args.spec, args.overlay.is_some())?;
    let linux = linux_of(&args.spec)?;
    let filter = linux.seccomp().as_ref().map(seccomp::compile).transpose()?;
    let agent = agent_of(linux, filter.as_ref())?;
    let class = Made::new(&args.spec, &args.id)?;
    let cgroup = make_cgroup(&args)?;
    let mut parent = Parent { args: &args, class: class.as_ref(), moved: None };
    match build(&mut parent, &cgroup, filter.as_ref(), agent.as_ref()) {
        Ok(built) => {
            let moved = parent.moved;
            if let Some(class) = class {
                class.keep();
            }
            Ok(Created { moved, ..finish(args, cgroup, filter, agent, built) })
        }
        Err(error) => {
            // The first error is the one to tell; what cannot be removed now is found by the next create of that path.
            let _ = cgroup.kill();
            let _ = cgroup.delete();
            Err(error)
        }
    }
}

fn linux_of(spec: &Spec) -> Result<&Linux, Error> {
    spec.linux().as_ref().ok_or_else(|| refuse("linux", "is missing"))
}

/// Where the filter's listener goes.
fn agent_of(linux: &Linux, filter: Option<&Program>) -> Result<Option<(PathBuf, String)>, Error> {
    let wants = filter.is_some_and(Program::wants_listener);
    let Some(seccomp) = linux.seccomp().as_ref().filter(|_| wants) else { return Ok(None) };
    let Some(path) = seccomp.listener_path().clone() else {
        return Err(refuse("linux.seccomp.listenerPath", "SCMP_ACT_NOTIFY takes somebody to notify"));
    };
    Ok(Some((path, seccomp.listener_metadata().clone().unwrap_or_default())))
}

/// Where the cgroup of a container is: `linux.cgroupsPath`, or a place by its id.
///
/// # Errors
/// A path in the other driver's form.
pub fn cgroup_path(spec: &Spec, id: &str, driver: Driver) -> Result<CgroupPath, Error> {
    match linux_of(spec)?.cgroups_path().as_ref().filter(|p| !p.as_os_str().is_empty()) {
        Some(path) => {
            let text = path.to_str().ok_or_else(|| refuse("linux.cgroupsPath", "is not UTF-8"))?;
            Ok(CgroupPath::parse(driver, text)?)
        }
        None => match driver {
            Driver::Cgroupfs => Ok(CgroupPath::parse(driver, &format!("/{id}"))?),
            Driver::Systemd => Ok(CgroupPath::parse(driver, &format!(":berth:{id}"))?),
        },
    }
}

fn make_cgroup(args: &CreateArgs) -> Result<Cgroup, Error> {
    let path = cgroup_path(&args.spec, &args.id, args.cgroup.driver)?;
    let none = LinuxResources::default();
    let resources = linux_of(&args.spec)?.resources().as_ref().unwrap_or(&none);
    Ok(Cgroup::create(&args.cgroup.hierarchies, &path, resources)?)
}

/// Descriptors that init gets, and the numbers that the order calls them by.
#[derive(Default)]
struct Extras {
    owned: Vec<OwnedFd>,
    base: usize,
}

impl Extras {
    fn add(&mut self, fd: OwnedFd) -> i32 {
        self.owned.push(fd);
        Start::number_of(self.base, self.owned.len() - 1)
    }
}

/// Namespaces sorted into those joined, made by the clone, and made later by init.
#[derive(Default)]
struct Split {
    joins: Vec<(u64, i32)>,
    at_clone: Namespaces,
    later: Namespaces,
    fork: bool,
}

fn split(args: &CreateArgs, extras: &mut Extras) -> Result<Split, Error> {
    let mut split = Split::default();
    let mut fresh = Namespaces::empty();
    for (i, namespace) in linux_of(&args.spec)?.namespaces().iter().flatten().enumerate() {
        let kind = kind_of(namespace.typ());
        let given = args.namespaces.iter().find(|(typ, _)| *typ == namespace.typ()).map(|(_, fd)| fd);
        let path = namespace.path().as_ref().filter(|p| !p.as_os_str().is_empty());
        let fd = match (given, path) {
            (Some(fd), _) => fd.try_clone().step("copy a namespace's descriptor")?,
            (None, Some(path)) => open_namespace(path, namespace.typ(), i)?,
            (None, None) => {
                fresh |= kind;
                continue;
            }
        };
        split.fork |= kind == Namespaces::PID || kind == Namespaces::USER;
        split.joins.push((kind.bits(), extras.add(fd)));
    }
    // A namespace belongs to the user namespace that it is made in, so with one of these the rest waits for it.
    let user = has(&args.spec, LinuxNamespaceType::User);
    let late = Namespaces::CGROUP | Namespaces::TIME;
    split.later = if user { fresh } else { fresh.without(fresh.without(late)) };
    split.at_clone = fresh.without(split.later);
    split.fork |= split.later.contains(Namespaces::USER) || split.later.contains(Namespaces::PID);
    // In a fork, what the clone made would be left behind by the process that forks; it makes them all.
    if split.fork {
        split.later = fresh;
        split.at_clone = Namespaces::empty();
    }
    Ok(split)
}

/// Opens a namespace to join, and looks whether it is one and of the right kind.
fn open_namespace(path: &Path, typ: LinuxNamespaceType, index: usize) -> Result<OwnedFd, Error> {
    let place = format!("linux.namespaces[{index}].path");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty())
        .at("open namespace", path)
        .map_err(|failure| failure.note(place.clone()))?;
    match berth_sys::namespace::kind_of(fd.as_fd()) {
        Ok(kind) if kind == kind_of(typ) => Ok(fd),
        _ => Err(refuse(place, format!("{} is no {typ} namespace", crate::error::printable(path)))),
    }
}

fn has(spec: &Spec, kind: LinuxNamespaceType) -> bool {
    spec.linux()
        .as_ref()
        .and_then(|l| l.namespaces().as_ref())
        .is_some_and(|list| list.iter().any(|n| n.typ() == kind))
}

fn build(
    parent: &mut Parent<'_>,
    cgroup: &Cgroup,
    filter: Option<&Program>,
    agent: Option<&(PathBuf, String)>,
) -> Result<Built, Error> {
    let args = parent.args;
    let mut extras = Extras { base: args.preserved.len(), ..Extras::default() };
    let split = split(args, &mut extras)?;
    let numbers = Numbers::add(args, agent, &mut extras)?;
    let bytes = filter.map_or(&[][..], Program::bytes);
    let mut unified = cgroup.unified_dir().filter(|_| !berth_sys::lacks(berth_sys::Call::Clone3));
    loop {
        let extra: Vec<BorrowedFd<'_>> = extras.owned.iter().map(AsFd::as_fd).collect();
        let start = Start {
            exe: args.exe.as_fd(),
            stdio: &args.stdio,
            preserved: &args.preserved,
            extra: &extra,
            namespaces: split.at_clone,
            cgroup: unified.as_ref().map(AsFd::as_fd),
        };
        let mut init = Init::spawn(&start)?;
        if unified.is_none() {
            cgroup.join(init.pid())?;
        }
        parent.class.map_or(Ok(()), |class| class.join(init.pid()))?;
        // After the join: a group that systemd makes begins with its first process, and has no directories before.
        let mut order = order(args, cgroup, &split, filter)?;
        numbers.fill(&mut order);
        order.common.seccomp_metadata = agent.map(|(_, metadata)| metadata.clone());
        match init.build(&Order::Create(Box::new(order)), bytes, parent) {
            Err(error) if unified.is_some() && init.was_stillborn(&error) => unified = None,
            other => return other,
        }
    }
}

/// The numbers by which the order calls descriptors.
struct Numbers {
    agent: Option<i32>,
    listener: Option<i32>,
    idmaps: Vec<(usize, i32)>,
    layer_map: Option<i32>,
}

impl Numbers {
    fn add(args: &CreateArgs, agent: Option<&(PathBuf, String)>, extras: &mut Extras) -> Result<Self, Error> {
        let agent = agent.map(|(path, _)| launch::connect_agent(path)).transpose()?;
        let listener =
            args.listener.as_ref().map(OwnedFd::try_clone).transpose().step("copy the listener")?;
        Ok(Self {
            agent: agent.map(|fd| extras.add(fd)),
            listener: listener.map(|fd| extras.add(fd)),
            idmaps: idmaps(args, extras)?,
            layer_map: layer_map(args, extras)?,
        })
    }

    fn fill(&self, order: &mut CreateOrder) {
        order.common.seccomp_listener = self.agent;
        order.listener = self.listener;
        order.idmaps.clone_from(&self.idmaps);
        order.layer_map = self.layer_map;
    }
}

fn order(
    args: &CreateArgs,
    cgroup: &Cgroup,
    split: &Split,
    filter: Option<&Program>,
) -> Result<CreateOrder, Error> {
    let mut spec = args.spec.clone();
    // Compiled already, and most of the text.
    if let Some(linux) = spec.linux.as_mut() {
        linux.seccomp = None;
        linux.resources = None;
    }
    Ok(CreateOrder {
        id: args.id.clone(),
        bundle: args.bundle.clone(),
        overlay: args.overlay.clone(),
        user: args.user.clone(),
        switches: args.switches,
        terminal: matches!(args.stdio, Stdio::Terminal),
        common: Common {
            user_namespace: has(&args.spec, LinuxNamespaceType::User),
            cgroups: cgroup.v1_dirs(),
            seccomp_flags: filter.map_or(0, Program::flags),
            preserved: args.preserved.len() as u32,
            memory_policy: crate::limit::memory_policy(linux_of(&args.spec)?),
            env_bytes: config::env_bytes(&args.spec)?,
            ..Common::default()
        },
        joins: split.joins.clone(),
        idmaps: Vec::new(),
        layer_map: None,
        make: split.later.bits(),
        made: split.at_clone.bits(),
        fork: split.fork,
        runtime_hooks: parent::has_work(&args.spec),
        listener: None,
        cgroup_mounts: cgroup_mounts(args, cgroup),
        spec,
    })
}

/// The places that a cgroup mount of the container's shows; only looked for when there is one.
fn cgroup_mounts(args: &CreateArgs, cgroup: &Cgroup) -> CgroupMounts {
    let kinds = ["cgroup", "cgroup2"];
    let wanted = args.spec.mounts().iter().flatten().any(|m| kinds.map(Some).contains(&m.typ().as_deref()));
    if !wanted {
        return CgroupMounts::default();
    }
    let directories = cgroup.v1_dirs();
    let of = |mount: &Path| directories.iter().find(|d| d.starts_with(mount)).cloned();
    let v1 = args.cgroup.hierarchies.v1_mounts();
    CgroupMounts {
        v1: v1
            .into_iter()
            .filter_map(|(mount, names)| of(&mount).map(|group| (mount, names, group)))
            .collect(),
        unified: cgroup.unified_path(),
    }
}

/// One user namespace for every distinct mapping of an id-mapped mount.
fn idmaps(args: &CreateArgs, extras: &mut Extras) -> Result<Vec<(usize, i32)>, Error> {
    let mut out = Vec::new();
    let mut known: Vec<(Mappings<'_>, i32)> = Vec::new();
    for (i, mount) in args.spec.mounts().iter().flatten().enumerate() {
        let Some(mappings) = mappings_of(args, i, mount)? else { continue };
        let number = match known.iter().find(|(m, _)| *m == mappings) {
            Some((_, number)) => *number,
            None => {
                let fd = launch::user_namespace(args.exe.as_fd(), mappings.0, mappings.1)?;
                let number = extras.add(fd);
                known.push((mappings, number));
                number
            }
        };
        out.push((i, number));
    }
    Ok(out)
}

/// Users and groups.
type Mappings<'a> = (&'a [LinuxIdMapping], &'a [LinuxIdMapping]);

/// The mappings of a mount that has any: its own, or with the option alone those of the container.
fn mappings_of<'a>(
    args: &'a CreateArgs,
    index: usize,
    mount: &'a Mount,
) -> Result<Option<Mappings<'a>>, Error> {
    let asked = mount.options().iter().flatten().any(|o| o == "idmap" || o == "ridmap");
    let own = (mount.uid_mappings().as_deref(), mount.gid_mappings().as_deref());
    match own {
        (Some(users), Some(groups)) if !users.is_empty() && !groups.is_empty() => Ok(Some((users, groups))),
        (None, None) if asked => {
            let linux = linux_of(&args.spec)?;
            match (linux.uid_mappings().as_deref(), linux.gid_mappings().as_deref()) {
                (Some(users), Some(groups)) => Ok(Some((users, groups))),
                _ => Err(refuse(format!("mounts[{index}]"), "idmap takes uidMappings and gidMappings")),
            }
        }
        (None, None) => Ok(None),
        _ => Err(refuse(format!("mounts[{index}]"), "takes uidMappings and gidMappings, both")),
    }
}

/// The mappings through which a container with a user namespace sees the layers of its image.
fn layer_map(args: &CreateArgs, extras: &mut Extras) -> Result<Option<i32>, Error> {
    let linux = linux_of(&args.spec)?;
    let user = linux.namespaces().iter().flatten().find(|n| n.typ() == LinuxNamespaceType::User);
    let Some(user) = user.filter(|_| args.overlay.is_some()) else { return Ok(None) };
    let given = args.namespaces.iter().find(|(typ, _)| *typ == LinuxNamespaceType::User).map(|(_, fd)| fd);
    let fd = match (given, user.path(), linux.uid_mappings(), linux.gid_mappings()) {
        (Some(fd), ..) => fd.try_clone().step("copy a namespace's descriptor")?,
        (_, Some(path), ..) if !path.as_os_str().is_empty() => {
            rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .at("open namespace", path)?
        }
        (_, _, Some(users), Some(groups)) => launch::user_namespace(args.exe.as_fd(), users, groups)?,
        _ => return Err(refuse("linux.uidMappings", "is missing")),
    };
    Ok(Some(extras.add(fd)))
}

fn finish(
    args: CreateArgs,
    cgroup: Cgroup,
    filter: Option<Program>,
    agent: Option<(PathBuf, String)>,
    built: Built,
) -> Created {
    let mut spec = args.spec;
    if let Some(linux) = spec.linux.as_mut() {
        linux.seccomp = None;
    }
    settle_user(&mut spec, &built.user);
    let context = Context {
        id: args.id.clone(),
        bundle: args.bundle,
        spec,
        seccomp: filter,
        listener: agent,
        no_new_keyring: args.switches.no_new_keyring,
    };
    Created {
        id: args.id,
        pid: built.child.pid,
        pidfd: built.child.pidfd,
        user: built.user,
        console: built.console,
        cgroup,
        warnings: built.warnings,
        context: Arc::new(context),
        channel: Some(built.channel),
        moved: None,
    }
}

/// Later processes run as who the first was found to be.
fn settle_user(spec: &mut Spec, found: &ResolvedUser) {
    if let Some(process) = spec.process.as_mut() {
        let user = &mut process.user;
        (user.uid, user.gid) = (found.uid, found.gid);
        user.additional_gids = Some(found.groups.clone());
    }
}
