//! Create: everything up to the point before the container's program is executed.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_core::oci::Spec;
use berth_proto::containerd as wire;
use berth_runtime::{CgroupArgs, CreateArgs, Created, RootMount, Stdio, Switches};

use crate::blocking;
use crate::error::{CallError, Step};
use crate::oci::container::started_ticks;
use crate::slots::Claim;
use crate::v2::container::{Container, watch_memory, watch_to_the_end};
use crate::v2::options::Options;
use crate::v2::process::{Handles, Life, Process};
use crate::v2::record::{self, Record};
use crate::v2::shim::Shim;
use crate::v2::stdio::{Ends, Kept, Paths};
use crate::v2::task::delete::undo;

/// Builds a container. On failure nothing of it stays.
pub(super) async fn create(
    shim: Arc<Shim>,
    request: wire::CreateTaskRequest,
) -> Result<wire::CreateTaskResponse, CallError> {
    if !request.checkpoint.is_empty() {
        return Err(CallError::Unsupported("restoring a checkpoint"));
    }
    let claim = shim.claim(&request.id)?;
    let plan = Plan::new(&shim, &request)?;
    let paths = Paths {
        stdin: request.stdin.clone(),
        stdout: request.stdout.clone(),
        stderr: request.stderr.clone(),
        terminal: request.terminal,
    };
    let Ends { give, mut kept } = Ends::open(&shim, &request.id, &paths, plan.options.io_owner).await?;
    let (bundle, mounted) = (plan.bundle.clone(), !plan.mounts.is_empty());
    let container = match build(&shim, plan, give, &mut kept, paths).await {
        Ok(container) => container,
        Err(error) => {
            kept.give_up(&shim).await;
            if mounted {
                let root = bundle.join("rootfs");
                // The first error is the one to tell.
                let _left = blocking::run(move || Ok(berth_runtime::unmount_root(&root)?)).await;
            }
            return Err(error);
        }
    };
    let pid = container.first.life().pid();
    tell(&shim, request, pid);
    begin(&shim, claim, container).await;
    Ok(wire::CreateTaskResponse { pid })
}

/// The container, built and as it is kept.
async fn build(
    shim: &Shim,
    plan: Plan,
    stdio: Stdio,
    kept: &mut Kept,
    paths: Paths,
) -> Result<Arc<Container>, CallError> {
    let (bundle, io_owner) = (plan.bundle.clone(), plan.options.io_owner);
    let busy = shim.reaper.busy();
    let mut built = blocking::run(move || plan.build(stdio)).await?;
    shim.reaper.adopt(built.pid);
    drop(busy);
    let console = built.console.take().map(Arc::new);
    let pidfd = built.pidfd.try_clone().step(|| "copy a handle".to_owned());
    let parts = pidfd.and_then(|pidfd| Ok((pidfd, kept.run(console.as_ref())?)));
    let (pidfd, streams) = match parts {
        Ok(parts) => parts,
        Err(error) => {
            undo(shim, built).await;
            return Err(error);
        }
    };
    built.keep();
    let first = Arc::new(Process::new(String::new(), paths));
    *first.life() = Life::Created(built.pid);
    first.fill(Handles { pidfd, console, streams });
    Ok(Arc::new(Container::new(bundle, first, built, io_owner)))
}

async fn begin(shim: &Arc<Shim>, claim: Claim<Container>, container: Arc<Container>) {
    watch_memory(shim, &container).await;
    claim.fill(container.clone());
    let first = container.first.clone();
    crate::background::spawn(watch_to_the_end(shim.clone(), container, first));
}

fn tell(shim: &Shim, request: wire::CreateTaskRequest, pid: u32) {
    shim.events.create(wire::TaskCreate {
        container_id: request.id,
        bundle: request.bundle,
        rootfs: request.rootfs,
        io: Some(wire::TaskIo {
            stdin: request.stdin,
            stdout: request.stdout,
            stderr: request.stderr,
            terminal: request.terminal,
        }),
        checkpoint: String::new(),
        pid,
    });
}

/// What is to be built.
struct Plan {
    id: String,
    bundle: PathBuf,
    mounts: Vec<RootMount>,
    options: Options,
    shim: Arc<Shim>,
}

impl Plan {
    fn new(shim: &Arc<Shim>, request: &wire::CreateTaskRequest) -> Result<Plan, CallError> {
        let bundle = PathBuf::from(&request.bundle);
        if !bundle.is_absolute() {
            return Err(CallError::request("bundle", "must be an absolute directory"));
        }
        let mount = |mount: &wire::Mount| RootMount {
            kind: mount.r#type.clone(),
            source: mount.source.clone(),
            target: mount.target.clone(),
            options: mount.options.clone(),
        };
        Ok(Plan {
            id: request.id.clone(),
            bundle,
            mounts: request.rootfs.iter().map(mount).collect(),
            options: Options::read(request.options.as_ref())?,
            shim: shim.clone(),
        })
    }

    /// Mounts the root file system where containerd looks for it, and builds.
    fn build(self, stdio: Stdio) -> Result<Created, CallError> {
        let mut spec = crate::task::create::load(&self.bundle.join("config.json"))?;
        if let Some(process) = spec.process.as_mut()
            && process.oom_score_adj().is_none()
        {
            // Nothing said must not mean the shim's own, which is the hardest to kill.
            process.oom_score_adj = Some(0);
        }
        let root = self.bundle.join("rootfs");
        if !self.mounts.is_empty() {
            std::fs::create_dir_all(&root).step(|| format!("make {}", root.display()))?;
            berth_runtime::mount_root(&self.mounts, &root, self.shim.exe.as_fd())?;
        }
        let bundle = self.bundle.clone();
        // What was mounted goes with whatever else the caller undoes.
        self.create(spec, stdio).inspect_err(|_| record::remove(&bundle))
    }

    fn create(self, spec: Spec, stdio: Stdio) -> Result<Created, CallError> {
        let path = spec.linux().as_ref().and_then(|linux| linux.cgroups_path().as_ref());
        let driver = self.options.driver(path.and_then(|path| path.to_str()));
        let cgroup = berth_runtime::cgroup_path(&spec, &self.id, driver)?.to_string();
        let mut record = Record { id: self.id.clone(), pid: 0, started_ticks: 0, cgroup };
        // Before anything is made: should this process be killed, `delete` finds what it left.
        save(&record, &self.bundle)?;
        let built = berth_runtime::create(CreateArgs {
            id: self.id,
            bundle: self.bundle.clone(),
            spec,
            overlay: None,
            user: None,
            stdio,
            preserved: Vec::new(),
            cgroup: CgroupArgs { driver, hierarchies: self.shim.hierarchies.clone() },
            exe: self.shim.exe.clone(),
            namespaces: Vec::new(),
            listener: None,
            switches: Switches {
                no_pivot: self.options.no_pivot,
                no_new_keyring: self.options.no_new_keyring,
                early_program: true,
            },
        })?;
        for warning in &built.warnings {
            crate::say!("container {}: {warning}", built.id);
        }
        record.pid = built.pid;
        record.started_ticks = started_ticks(built.pid).unwrap_or(0);
        if let Err(error) = save(&record, &self.bundle) {
            let _ = berth_runtime::kill(&built.pidfd, 9);
            let _ = berth_sys::pidfd::wait(&built.pidfd);
            let _ = berth_runtime::delete(&built);
            return Err(error);
        }
        Ok(built)
    }
}

fn save(record: &Record, bundle: &Path) -> Result<(), CallError> {
    record.save(bundle).step(|| format!("record the container in {}", bundle.display()))
}
