//! A control group: one container's (or sandbox's) directories in all hierarchies.

pub(crate) mod make;
pub(crate) mod places;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use berth_core::oci::LinuxResources;

use crate::device::{self, Rule};
use crate::error::{CgroupError, Result};
use crate::exec_group::ExecGroup;
use crate::hierarchy::{Hierarchies, Mode};
use crate::limits::{self, Step};
use crate::path::{CgroupPath, Driver};
use crate::{freeze, kill, oom, procs, remove, stats};
use places::Places;

/// A group that exists, or with systemd one that comes into being with its first process.
#[derive(Debug)]
pub struct Cgroup {
    path: CgroupPath,
    mode: Mode,
    places: OnceLock<Places>,
    /// A group that was ever killed must not be the target of a clone: see [`Cgroup::unified_dir`].
    killed: AtomicBool,
    oom_notices: OnceLock<Arc<oom::Notices>>,
    #[cfg(feature = "systemd")]
    pending: Option<crate::systemd::Pending>,
}

/// Resources checked and turned into steps, before anything is made.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) devices: Option<Vec<Rule>>,
    /// Nobody asked for device control: where the host cannot give it, the group does without.
    pub(crate) devices_optional: bool,
}

impl Plan {
    pub(crate) fn new(mode: Mode, resources: &LinuxResources, present: Option<&str>) -> Result<Self> {
        let steps = match mode {
            Mode::V2 => limits::v2::plan(resources, present)?,
            Mode::V1 | Mode::Hybrid => limits::v1::plan(resources)?,
        };
        Ok(Self { steps, devices: device::rules(resources)?, devices_optional: false })
    }

    /// For a new group: one that says nothing of devices gets the default ones and no others.
    pub(crate) fn fresh(mode: Mode, resources: &LinuxResources) -> Result<Self> {
        let plan = Self::new(mode, resources, None)?;
        let devices_optional = plan.devices.is_none();
        Ok(Self { devices: plan.devices.or_else(|| Some(device::default_rules())), devices_optional, ..plan })
    }

    /// Sets what was planned on a group that was just made: no former values to keep.
    pub(crate) fn carry_out(&self, mode: Mode, places: &Places) -> Result<()> {
        limits::apply::apply(&self.steps, &|controller| places.dir(mode, controller), None)?;
        match &self.devices {
            Some(_) if self.devices_optional && places.dir(mode, "devices").is_none() => Ok(()),
            Some(rules) => set_devices(mode, places, rules, true),
            None => Ok(()),
        }
    }
}

impl Cgroup {
    /// Makes the group in every hierarchy and sets its resources. Nothing is made if the resources make no sense, and
    /// what was made is removed if a step fails; missing parents stay.
    ///
    /// A leftover without processes is replaced, for a group that was once killed is of no use. With systemd nothing
    /// is made yet: a scope begins with its first process, in [`Cgroup::join`].
    ///
    /// # Errors
    /// [`CgroupError::InUse`] if there are processes in it, [`CgroupError::ControllerMissing`] for a limit that this
    /// host cannot enforce, else the failed step.
    pub fn create(hierarchies: &Hierarchies, path: &CgroupPath, resources: &LinuxResources) -> Result<Self> {
        let plan = Plan::fresh(hierarchies.mode(), resources)?;
        match path.driver() {
            Driver::Cgroupfs => {
                let places = make::make(hierarchies, &path.relative(), make::Existing::Replace, |_| true)?;
                let group = Self::with(path, hierarchies.mode(), places);
                match plan.carry_out(group.mode, group.places()?) {
                    Ok(()) => Ok(group),
                    Err(error) => {
                        // The first error is the one to tell; a directory that stays is found by the next create.
                        let _ = group.delete();
                        Err(error)
                    }
                }
            }
            #[cfg(feature = "systemd")]
            Driver::Systemd => Ok(Self {
                path: path.clone(),
                mode: hierarchies.mode(),
                places: OnceLock::new(),
                killed: AtomicBool::new(false),
                oom_notices: OnceLock::new(),
                pending: Some(crate::systemd::Pending::new(hierarchies, path, plan)?),
            }),
            #[cfg(not(feature = "systemd"))]
            Driver::Systemd => Err(CgroupError::Systemd("this build has no systemd support".to_owned())),
        }
    }

    /// Opens a group made before, in the hierarchies where it is found.
    ///
    /// # Errors
    /// [`CgroupError::NotFound`] if it is in none.
    pub fn open(hierarchies: &Hierarchies, path: &CgroupPath) -> Result<Self> {
        let places = Places::open(hierarchies, &path.relative());
        if places.is_empty() {
            return Err(CgroupError::NotFound { path: path.to_string() });
        }
        Ok(Self::with(path, hierarchies.mode(), places))
    }

    fn with(path: &CgroupPath, mode: Mode, places: Places) -> Self {
        Self {
            path: path.clone(),
            mode,
            places: OnceLock::from(places),
            killed: AtomicBool::new(false),
            oom_notices: OnceLock::new(),
            #[cfg(feature = "systemd")]
            pending: None,
        }
    }

    /// The path it was made or opened by.
    pub fn path(&self) -> &CgroupPath {
        &self.path
    }

    /// Which worlds the group lives in.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Its directories; with systemd there are none before the first process joined.
    fn places(&self) -> Result<&Places> {
        self.places.get().ok_or_else(|| CgroupError::NotFound { path: self.path.to_string() })
    }

    /// Its absolute directory in every v1 hierarchy, `name=systemd` among them, sorted. Empty on v2.
    ///
    /// A process with one thread that writes `0` to `tasks` there moves itself without the wait that a move by
    /// another process costs.
    pub fn v1_dirs(&self) -> Vec<PathBuf> {
        self.places
            .get()
            .map_or_else(Vec::new, |places| places.v1.iter().map(|(_, dir)| dir.path.clone()).collect())
    }

    /// Its directory in the unified tree, for CLONE_INTO_CGROUP. None if there is no unified tree, and none after
    /// [`Cgroup::kill`]: some kernels (6.18) kill a child at birth that is cloned into a group which was killed more
    /// or less often than its parent's. Join by [`Cgroup::join`] then.
    pub fn unified_dir(&self) -> Option<OwnedFd> {
        if self.killed.load(Ordering::Relaxed) {
            return None;
        }
        self.places.get()?.unified.as_ref()?.fd.try_clone().ok()
    }

    /// Its absolute path in the unified tree.
    pub fn unified_path(&self) -> Option<PathBuf> {
        Some(self.places.get()?.unified.as_ref()?.path.clone())
    }

    /// Moves a process into all its hierarchies, in one burst: the first move waits for the kernel, the further ones
    /// of the burst do not.
    ///
    /// # Errors
    /// The failed write; ESRCH if the process is gone.
    pub fn join(&self, pid: i32) -> Result<()> {
        #[cfg(feature = "systemd")]
        if let (Some(pending), None) = (&self.pending, self.places.get()) {
            let places = pending.start(pid)?;
            return self.places.get_or_init(|| places).join(pid);
        }
        self.places()?.join(pid)
    }

    /// Every process in it and in the groups below it, sorted.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn procs(&self) -> Result<Vec<i32>> {
        procs::all(self.places()?)
    }

    /// Sends SIGKILL to every process in it and below it, also to frozen ones and to those born meanwhile. Dying takes
    /// a moment longer.
    ///
    /// # Errors
    /// [`CgroupError::Timeout`] where the kernel has no `cgroup.kill` and the group could not be emptied.
    pub fn kill(&self) -> Result<()> {
        self.killed.store(true, Ordering::Relaxed);
        kill::kill(self.places()?)
    }

    /// Stops every process in it where it stands, and waits for it.
    ///
    /// # Errors
    /// [`CgroupError::Timeout`] if a process does not stop; the group is thawed again then.
    pub fn freeze(&self) -> Result<()> {
        freeze::freeze(self.places()?)
    }

    /// Lets the processes go on.
    ///
    /// # Errors
    /// The failed write.
    pub fn thaw(&self) -> Result<()> {
        freeze::thaw(self.places()?)
    }

    /// Whether the group is frozen; none where that cannot be known.
    pub fn is_frozen(&self) -> Option<bool> {
        freeze::is_frozen(self.places.get()?)
    }

    /// Changes what `resources` sets and leaves the rest: all of it, or nothing.
    ///
    /// # Errors
    /// The failed step; the former values are back then.
    pub fn set(&self, resources: &LinuxResources) -> Result<()> {
        let places = self.places()?;
        let plan = Plan::new(self.mode, resources, self.cpu_max().as_deref())?;
        self.check_before(resources)?;
        let mut log = Vec::new();
        let place = |controller: &str| places.dir(self.mode, controller);
        let done = limits::apply::apply(&plan.steps, &place, Some(&mut log)).and_then(|()| {
            // systemd writes the files itself, and rounds (a quota to whole percents of a processor): so what was asked
            // for is written once more.
            if self.tell_systemd(places, &plan)? {
                limits::apply::apply(&plan.steps, &place, None)?;
            }
            plan.devices.as_ref().map_or(Ok(()), |rules| set_devices(self.mode, places, rules, false))
        });
        done.inspect_err(|_| {
            limits::apply::roll_back(&log);
            // The error that led here is the one to report.
            if self.tell_systemd(places, &Plan { devices: None, ..plan }).unwrap_or(false) {
                limits::apply::roll_back(&log);
            }
        })
    }

    /// Makes the properties say what the files of the plan's writes say; true if systemd has to do with them.
    #[cfg(feature = "systemd")]
    fn tell_systemd(&self, places: &Places, plan: &Plan) -> Result<bool> {
        let now = |file: &str| places.dir(self.mode, file.split_once('.')?.0)?.line(file);
        crate::systemd::update(&self.path, self.mode, plan, &now)
    }

    #[cfg(not(feature = "systemd"))]
    fn tell_systemd(&self, _places: &Places, _plan: &Plan) -> Result<bool> {
        Ok(false)
    }

    /// The present bandwidth limit of v2: quota and period.
    fn cpu_max(&self) -> Option<String> {
        self.places.get()?.unified.as_ref()?.line("cpu.max")
    }

    /// `checkBeforeUpdate`: a limit below what is used now would kill.
    fn check_before(&self, resources: &LinuxResources) -> Result<()> {
        let Some(memory) = resources.memory().filter(|memory| memory.check_before_update() == Some(true))
        else {
            return Ok(());
        };
        let used = self.stats().memory.usage;
        match (memory.limit().and_then(|limit| u64::try_from(limit).ok()), used) {
            (Some(limit), Some(used)) if limit != 0 && limit < used => Err(CgroupError::Invalid {
                setting: "memory.limit".to_owned(),
                reason: format!("{limit} is less than the {used} bytes in use, and checkBeforeUpdate is set"),
            }),
            _ => Ok(()),
        }
    }

    /// What the group uses now. What a host cannot tell is none, never zero.
    pub fn stats(&self) -> stats::Stats {
        self.places.get().map_or_else(stats::Stats::default, |places| stats::read(self.mode, places))
    }

    /// A group of its own for one further process (an exec with a time-out), so that all it starts can be killed without
    /// the container. It lies below this one where that harms nobody: in the unified tree of a hybrid host, else in the
    /// v1 freezer. None on v2, where a group with both processes and children would take the container its controllers.
    ///
    /// # Errors
    /// The failed step; a name that is no plain name.
    pub fn exec_group(&self, name: &str) -> Result<Option<ExecGroup>> {
        ExecGroup::make(self.mode, self.places()?, name)
    }

    /// How many processes of it (and below it) the OOM killer has ended; none where the kernel does not count. On v1 it is known
    /// of a group that is gone as well, if it was watched while it was there.
    pub fn oom_kills(&self) -> Option<u64> {
        oom::kills(self.mode, self.places.get()?, self.oom_notices.get().map(Arc::as_ref))
    }

    /// A descriptor that tells of the OOM killer; none where there is no memory controller.
    ///
    /// # Errors
    /// The failed step.
    pub fn oom_watch(&self) -> Result<Option<oom::OomWatch>> {
        oom::watch(self.mode, self.places()?, &self.oom_notices)
    }

    /// Removes the group everywhere with all groups below it, and with systemd its unit. It must hold no process; one
    /// that is just dying is waited for. A group that is gone is a success.
    ///
    /// # Errors
    /// [`CgroupError::InUse`] if processes stay in it, else the failed step.
    pub fn delete(&self) -> Result<()> {
        let Some(places) = self.places.get() else { return Ok(()) };
        // Without systemd's help the directories go all the same; its complaint is told after that.
        #[cfg(feature = "systemd")]
        let stopped = crate::systemd::stop(&self.path);
        #[cfg(not(feature = "systemd"))]
        let stopped = Ok(());
        remove::all(places).and(stopped)
    }
}

fn set_devices(mode: Mode, places: &Places, rules: &[Rule], fresh: bool) -> Result<()> {
    let missing = || CgroupError::ControllerMissing { controller: "devices", setting: "devices".to_owned() };
    match mode {
        Mode::V2 => device::attach_v2(places.unified.as_ref().ok_or_else(missing)?, rules, fresh),
        Mode::V1 | Mode::Hybrid => {
            device::write_v1(places.dir(mode, "devices").ok_or_else(missing)?, rules, fresh)
        }
    }
}
