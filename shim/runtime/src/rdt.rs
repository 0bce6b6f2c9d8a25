//! `linux.intelRdt`: the container's class of service in a mounted resctrl, and its monitoring group.
//!
//! A directory named by the container's id is the container's own: it is made or creating fails, so it can go with the container.
//! One that `closID` names belongs to whoever named it, and stays.

mod schemata;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use berth_core::oci::{LinuxIntelRdt, Spec};

use crate::config::refuse;
use crate::error::Error;

/// What the kernel keeps beside the classes in the directory of each.
const KERNELS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// Checks what can be known beforehand.
pub(crate) fn check(rdt: &LinuxIntelRdt) -> Result<(), Error> {
    let lines = rdt.schemata().iter().flatten().chain(rdt.l3_cache_schema()).chain(rdt.mem_bw_schema());
    if lines.into_iter().any(|line| line.contains(['\n', '\0'])) {
        return Err(refused("a schema holds a line end or a NUL byte"));
    }
    match given(rdt.mem_bw_schema()) {
        Some(schema) if !schema.starts_with("MB:") => Err(refused("memBwSchema does not begin with MB:")),
        _ => Ok(()),
    }
}

#[inline(never)]
fn refused(reason: impl ToString) -> Error {
    refuse("linux.intelRdt", reason.to_string())
}

/// A text that says something.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Where resctrl is mounted.
#[inline(never)]
fn mounted() -> io::Result<PathBuf> {
    let none = "resctrl is not mounted: `mount -t resctrl resctrl /sys/fs/resctrl`, on a machine that has it";
    let point = berth_cgroup::hierarchy::mount_point("resctrl").map_err(io::Error::other)?;
    point.ok_or_else(|| io::Error::other(none))
}

fn config_of(spec: &Spec) -> Option<&LinuxIntelRdt> {
    spec.linux().as_ref()?.intel_rdt().as_ref()
}

/// The groups of a container, by their directories.
#[derive(Debug)]
struct Groups {
    class: PathBuf,
    monitoring: Option<PathBuf>,
    /// Whether the class has the container's name.
    own: bool,
}

impl Groups {
    #[inline(never)]
    fn of(root: &Path, rdt: &LinuxIntelRdt, id: &str) -> io::Result<Self> {
        let name = given(rdt.clos_id());
        let monitoring = *rdt.enable_monitoring() == Some(true);
        // The root is the class that everything is in from the beginning.
        let at_root = name == Some("/");
        if !at_root && !is_name(name.unwrap_or(id)) || monitoring && !is_name(id) {
            let text = format!("closID: {:?} is no name of a class of service", name.unwrap_or(id));
            return Err(io::Error::other(text));
        }
        let class = if at_root { root.to_owned() } else { root.join(name.unwrap_or(id)) };
        let monitoring = monitoring.then(|| class.join("mon_groups").join(id));
        Ok(Self { class, monitoring, own: name.is_none() })
    }

    #[inline(never)]
    fn join(&self, pid: i32) -> io::Result<()> {
        for group in [Some(&self.class), self.monitoring.as_ref()].into_iter().flatten() {
            write(&group.join("tasks"), &pid.to_string())?;
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let fine = |c: char| c != '/' && !c.is_control();
    !["", ".", ".."].contains(&name) && !KERNELS.contains(&name) && name.chars().all(fine)
}

/// Writes to a file of the kernel's, which is there or nothing is.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let written =
        std::fs::File::options().write(true).open(file).and_then(|mut f| f.write_all(text.as_bytes()));
    written.map_err(|error| io::Error::other(format!("write {text:?} to {}: {error}", file.display())))
}

/// The groups of a container that is being made. What was made of them goes when this is dropped, unless it was kept.
#[derive(Debug)]
pub(crate) struct Made {
    root: PathBuf,
    groups: Groups,
    made: Vec<PathBuf>,
}

impl Made {
    /// Makes what the configuration asks for, if it asks for anything.
    #[inline(never)]
    pub(crate) fn new(spec: &Spec, id: &str) -> Result<Option<Self>, Error> {
        let Some(rdt) = config_of(spec) else { return Ok(None) };
        let mut made = mounted().and_then(|root| Self::begin(root, rdt, id)).map_err(refused)?;
        match made.fill(rdt) {
            Ok(()) => Ok(Some(made)),
            Err(error) => Err(refused(format!("{error}: {}", made.status()))),
        }
    }

    /// What the kernel has to say about its last refusal.
    fn status(&self) -> String {
        std::fs::read_to_string(self.root.join("info/last_cmd_status")).unwrap_or_default().trim().to_owned()
    }

    /// Finds or makes the class.
    fn begin(root: PathBuf, rdt: &LinuxIntelRdt, id: &str) -> io::Result<Self> {
        let groups = Groups::of(&root, rdt, id)?;
        let mut made = Self { root, groups, made: Vec::new() };
        let class = made.groups.class.clone();
        let shared = !made.groups.own;
        if shared && class.is_dir() {
            return Ok(made);
        }
        if shared && lines(rdt).next().is_none() {
            let text = format!("closID: there is no {}, and no schema to make it of", class.display());
            return Err(io::Error::other(text));
        }
        made.make(class)?;
        Ok(made)
    }

    fn make(&mut self, group: PathBuf) -> io::Result<()> {
        std::fs::create_dir(&group).map_err(|error| {
            let status = self.status();
            io::Error::other(format!("make {}: {error}: {status}", group.display()))
        })?;
        self.made.push(group);
        Ok(())
    }

    /// Gives the class its schemata and makes the monitoring group.
    fn fill(&mut self, rdt: &LinuxIntelRdt) -> io::Result<()> {
        let file = self.groups.class.join("schemata");
        let simple = [rdt.l3_cache_schema(), rdt.mem_bw_schema()].into_iter().filter_map(given).count();
        let mut said = 0;
        if self.made.is_empty() && simple > 0 {
            let step = std::fs::read_to_string(self.root.join("info/MB/bandwidth_gran"));
            let step = step.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1);
            let now = std::fs::read_to_string(&file)?;
            if let Some(line) = lines(rdt).take(simple).find(|line| !schemata::has(&now, line, step)) {
                let text = format!("closID: {} is there and does not say {line}: {now}", file.display());
                return Err(io::Error::other(text));
            }
            said = simple;
        }
        lines(rdt).skip(said).try_for_each(|line| write(&file, &format!("{line}\n")))?;
        self.groups.monitoring.clone().map_or(Ok(()), |group| self.make(group))
    }

    /// Takes a process in; what it forks later is in by itself.
    pub(crate) fn join(&self, pid: i32) -> Result<(), Error> {
        self.groups.join(pid).map_err(refused)
    }

    /// The container is made.
    pub(crate) fn keep(mut self) {
        self.made.clear();
    }
}

/// The schemata in the order that they are to be written in.
fn lines(rdt: &LinuxIntelRdt) -> impl Iterator<Item = &str> {
    let simple = [rdt.l3_cache_schema(), rdt.mem_bw_schema()].into_iter().filter_map(given);
    simple.chain(rdt.schemata().iter().flatten().map(String::as_str))
}

impl Drop for Made {
    fn drop(&mut self) {
        for group in self.made.iter().rev() {
            // Another container may have found the class meanwhile; its processes would fall out of it.
            let used =
                std::fs::read_to_string(group.join("tasks")).is_ok_and(|tasks| !tasks.trim().is_empty());
            if self.groups.own || !used {
                let _ = std::fs::remove_dir(group);
            }
        }
    }
}

/// Takes a further process of a container into its groups.
#[inline(never)]
pub(crate) fn join(spec: &Spec, id: &str, pid: i32) -> Result<(), Error> {
    let Some(rdt) = config_of(spec) else { return Ok(()) };
    mounted().and_then(|root| Groups::of(&root, rdt, id)?.join(pid)).map_err(refused)
}

/// Removes what was made for a container. Can be repeated; where resctrl is mounted no more there is nothing left.
#[inline(never)]
pub(crate) fn remove(spec: &Spec, id: &str) -> Result<(), Error> {
    match config_of(spec).and_then(|rdt| Some((mounted().ok()?, rdt))) {
        Some((root, rdt)) => remove_at(&root, rdt, id).map_err(refused),
        None => Ok(()),
    }
}

fn remove_at(root: &Path, rdt: &LinuxIntelRdt, id: &str) -> io::Result<()> {
    // What cannot be named was never made.
    let Ok(groups) = Groups::of(root, rdt, id) else { return Ok(()) };
    for group in [groups.monitoring.as_ref(), groups.own.then_some(&groups.class)].into_iter().flatten() {
        match std::fs::remove_dir(group) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io::Error::other(format!("remove {}: {error}", group.display())));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
