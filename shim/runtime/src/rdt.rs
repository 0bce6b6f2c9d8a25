//! `linux.intelRdt`: the container's class of service in a mounted resctrl, and its monitoring group.
//!
//! A directory named by the container's id is the container's own: it is made or creating fails, so it can go with the container.
//! One that `closID` names belongs to whoever named it, and stays.

mod schemata;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use berth_core::oci::{LinuxIntelRdt, Spec};

use crate::config::refuse;
use crate::error::{At, Error};

const PLACE: &str = "linux.intelRdt";
const CLASS: &str = "linux.intelRdt.closID";

/// What the kernel keeps beside the classes in the directory of each.
const KERNELS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// Checks what can be known beforehand.
pub(crate) fn check(rdt: &LinuxIntelRdt) -> Result<(), Error> {
    let schemata = rdt.schemata().iter().flatten();
    let lines = schemata.chain(rdt.l3_cache_schema()).chain(rdt.mem_bw_schema());
    if lines.into_iter().any(|line| line.contains(['\n', '\0'])) {
        return Err(refuse(PLACE, "a schema holds a line end or a NUL byte"));
    }
    match given(rdt.mem_bw_schema()) {
        Some(schema) if !schema.starts_with("MB:") => {
            Err(refuse("linux.intelRdt.memBwSchema", format!("{schema:?} does not begin with MB:")))
        }
        _ => Ok(()),
    }
}

/// A text that says something.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Where resctrl is mounted.
fn mounted() -> Result<PathBuf, Error> {
    let none = "resctrl is not mounted: `mount -t resctrl resctrl /sys/fs/resctrl`, on a machine that has it";
    berth_cgroup::hierarchy::mount_point("resctrl")?.ok_or_else(|| refuse(PLACE, none))
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
    fn of(root: &Path, rdt: &LinuxIntelRdt, id: &str) -> Result<Self, Error> {
        let name = given(rdt.clos_id());
        let class = match name.unwrap_or(id) {
            // The class that everything is in from the beginning.
            "/" if name.is_some() => root.to_owned(),
            name if is_name(name) => root.join(name),
            other => return Err(refuse(CLASS, format!("no class of service can be called {other:?}"))),
        };
        let monitoring = match rdt.enable_monitoring() {
            Some(true) if !is_name(id) => return Err(refuse(PLACE, format!("{id:?} is no group's name"))),
            Some(true) => Some(class.join("mon_groups").join(id)),
            _ => None,
        };
        Ok(Self { class, monitoring, own: name.is_none() })
    }

    fn join(&self, pid: i32) -> Result<(), Error> {
        for group in [Some(&self.class), self.monitoring.as_ref()].into_iter().flatten() {
            let file = group.join("tasks");
            write(&file, &pid.to_string()).at("join resctrl group", &file)?;
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
    std::fs::File::options().write(true).open(file)?.write_all(text.as_bytes())
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
    pub(crate) fn new(spec: &Spec, id: &str) -> Result<Option<Self>, Error> {
        let Some(rdt) = spec.linux().as_ref().and_then(|linux| linux.intel_rdt().as_ref()) else {
            return Ok(None);
        };
        let mut made = Self::begin(mounted()?, rdt, id)?;
        made.fill(rdt)?;
        Ok(Some(made))
    }

    /// Finds or makes the class.
    fn begin(root: PathBuf, rdt: &LinuxIntelRdt, id: &str) -> Result<Self, Error> {
        let groups = Groups::of(&root, rdt, id)?;
        let mut made = Self { root, groups, made: Vec::new() };
        let class = made.groups.class.clone();
        let shared = !made.groups.own;
        if shared && class.is_dir() {
            return Ok(made);
        }
        if shared && !says_schemata(rdt) {
            let text = format!("there is no class {}, and no schema to make it of", class.display());
            return Err(refuse(CLASS, text));
        }
        match std::fs::create_dir(&class) {
            // Another container was quicker.
            Err(error) if shared && error.kind() == ErrorKind::AlreadyExists && class.is_dir() => {}
            other => {
                made.told(other, "make class of service", &class)?;
                made.made.push(class);
            }
        }
        Ok(made)
    }

    /// Gives the class its schemata and makes the monitoring group.
    fn fill(&mut self, rdt: &LinuxIntelRdt) -> Result<(), Error> {
        let file = self.groups.class.join("schemata");
        let simple = [rdt.l3_cache_schema(), rdt.mem_bw_schema()].into_iter().filter_map(given);
        let mut lines: Vec<&str> = Vec::new();
        if self.made.is_empty() {
            let simple: Vec<&str> = simple.collect();
            if !simple.is_empty() {
                let now = std::fs::read_to_string(&file).at("read", &file)?;
                let step = std::fs::read_to_string(self.root.join("info/MB/bandwidth_gran"));
                let step = step.ok().and_then(|text| text.trim().parse().ok());
                schemata::compare(&now, &simple, step.unwrap_or(1))
                    .map_err(|text| refuse(CLASS, format!("{} is there and {text}", file.display())))?;
            }
        } else {
            lines.extend(simple);
        }
        lines.extend(rdt.schemata().iter().flatten().map(String::as_str));
        for line in lines {
            self.told(write(&file, &format!("{line}\n")), &format!("write {line:?} to"), &file)?;
        }
        if let Some(group) = self.groups.monitoring.clone() {
            self.told(std::fs::create_dir(&group), "make monitoring group", &group)?;
            self.made.push(group);
        }
        Ok(())
    }

    /// Adds what the kernel has to say about an error of ours.
    fn told(&self, done: io::Result<()>, step: &str, path: &Path) -> Result<(), Error> {
        let status = || std::fs::read_to_string(self.root.join("info/last_cmd_status")).unwrap_or_default();
        Ok(done.at(step, path).map_err(|failure| failure.note(format!("{PLACE}: {}", status().trim())))?)
    }

    /// Takes a process in; what it forks later is in by itself.
    pub(crate) fn join(&self, pid: i32) -> Result<(), Error> {
        self.groups.join(pid)
    }

    /// The container is made.
    pub(crate) fn keep(mut self) {
        self.made.clear();
    }
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

fn says_schemata(rdt: &LinuxIntelRdt) -> bool {
    given(rdt.l3_cache_schema()).is_some()
        || given(rdt.mem_bw_schema()).is_some()
        || rdt.schemata().as_ref().is_some_and(|lines| !lines.is_empty())
}

/// Takes a further process of a container into its groups.
pub(crate) fn join(spec: &Spec, id: &str, pid: i32) -> Result<(), Error> {
    match spec.linux().as_ref().and_then(|linux| linux.intel_rdt().as_ref()) {
        Some(rdt) => Groups::of(&mounted()?, rdt, id)?.join(pid),
        None => Ok(()),
    }
}

/// Removes what was made for a container. Can be repeated; where resctrl is mounted no more there is nothing left.
pub(crate) fn remove(spec: &Spec, id: &str) -> Result<(), Error> {
    let Some(rdt) = spec.linux().as_ref().and_then(|linux| linux.intel_rdt().as_ref()) else { return Ok(()) };
    match mounted() {
        Ok(root) => remove_at(&root, rdt, id),
        Err(_) => Ok(()),
    }
}

fn remove_at(root: &Path, rdt: &LinuxIntelRdt, id: &str) -> Result<(), Error> {
    // What cannot be named was never made.
    let Ok(groups) = Groups::of(root, rdt, id) else { return Ok(()) };
    for group in [groups.monitoring.as_ref(), groups.own.then_some(&groups.class)].into_iter().flatten() {
        match std::fs::remove_dir(group) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).at("remove resctrl group", group).map_err(Error::from);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
