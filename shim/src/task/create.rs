//! Create: a bundle becomes a container that waits before execve.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_cgroup::Driver;
use berth_core::log::Stream;
use berth_core::oci::Spec;
use berth_proto::shim as wire;
use berth_runtime::{CgroupArgs, CreateArgs, Created, OverlayPlan, Stdio, Switches, UserLookup};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::container::{Container, Parts, watch_to_the_end};
use crate::error::{CallError, Step};
use crate::io::log_file::LogFile;
use crate::io::pump::Output;
use crate::oom::OomCounter;
use crate::pod::Pod;
use crate::slots::Claim;
use crate::{blocking, oom};

/// Builds a container.
pub(crate) async fn create(
    pod: Arc<Pod>,
    request: wire::CreateRequest,
) -> Result<wire::CreateResponse, CallError> {
    berth_core::ContainerId::parse(&request.id)
        .map_err(|error| CallError::request("id", error.to_string()))?;
    let claim = pod.claim(&request.id)?;
    // A task of its own: the container is entered or undone even if the connection goes meanwhile.
    let work = tokio::spawn(build(pod, claim, request));
    work.await.unwrap_or_else(|error| Err(CallError::Panicked(error.to_string())))
}

async fn build(
    pod: Arc<Pod>,
    claim: Claim<Container>,
    request: wire::CreateRequest,
) -> Result<wire::CreateResponse, CallError> {
    let line_max = usize::try_from(request.log_line_max).unwrap_or(0);
    let ends = Ends::open(&request)?;
    let (args, keep) = (arguments(&pod, request)?, ends.keep);
    let (log, stdio) = (keep.log, ends.give);
    let busy = pod.reaper.busy();
    let (mut built, log) = blocking::run(move || {
        let log = LogFile::open(log.clone()).step(|| format!("open log {}", log.display()))?;
        Ok((args.create(stdio)?, log))
    })
    .await?;
    pod.reaper.adopt(built.pid);
    drop(busy);
    for warning in &built.warnings {
        crate::say!("container {}: {warning}", built.id);
    }
    let streams = match built.console.take() {
        Some(master) => vec![(Stream::Stdout, master)],
        None => keep.streams,
    };
    let pidfd = built.pidfd.try_clone();
    let output = Output::start(streams, log, line_max, &pod.turns);
    let (pidfd, output) = match (pidfd, output) {
        (Ok(pidfd), Ok(output)) => (pidfd, output),
        (Err(error), _) | (_, Err(error)) => return Err(undo(&pod, built, error).await),
    };
    built.keep();
    let parts = Parts { built, pidfd, output, stdin: keep.stdin, oom: OomCounter::default() };
    Ok(enter(&pod, claim, Container::new(parts)).await)
}

async fn enter(pod: &Arc<Pod>, claim: Claim<Container>, container: Container) -> wire::CreateResponse {
    let container = Arc::new(container);
    oom::watch(pod, &container).await;
    claim.fill(container.clone());
    crate::background::spawn(watch_to_the_end(pod.clone(), container.clone()));
    wire::CreateResponse { pid: container.pid.unsigned_abs(), user: Some(user_to_wire(&container)) }
}

/// The container was built and cannot be watched: it goes again.
async fn undo(pod: &Arc<Pod>, built: Created, error: std::io::Error) -> CallError {
    let (pid, pidfd) = (built.pid, built.pidfd.try_clone());
    let killed = blocking::run(move || {
        berth_runtime::kill(&built.pidfd, 9)?;
        berth_runtime::kill_all(&built.cgroup, 9)?;
        Ok(built)
    })
    .await;
    if let Ok(pidfd) = pidfd {
        pod.reaper.wait(pid, &pidfd).await;
    }
    if let Ok(built) = killed {
        let _left = blocking::run(move || Ok(berth_runtime::delete(&built)?)).await;
    }
    CallError::Step { step: "watch the new container".into(), source: error }
}

/// What the runtime needs but for the streams.
struct Arguments {
    id: String,
    bundle: PathBuf,
    overlay: Option<OverlayPlan>,
    user: Option<UserLookup>,
    cgroup: CgroupArgs,
    exe: Arc<OwnedFd>,
}

impl Arguments {
    fn create(self, stdio: Stdio) -> Result<Created, CallError> {
        let mut spec = load(&self.bundle.join("config.json"))?;
        if let Some(process) = spec.process.as_mut()
            && process.oom_score_adj().is_none()
        {
            // Nothing said must not mean the shim's own, which is the hardest to kill.
            process.oom_score_adj = Some(0);
        }
        Ok(berth_runtime::create(CreateArgs {
            id: self.id,
            bundle: self.bundle,
            spec,
            overlay: self.overlay,
            user: self.user,
            stdio,
            preserved: Vec::new(),
            cgroup: self.cgroup,
            exe: self.exe,
            namespaces: Vec::new(),
            listener: None,
            switches: Switches::default(),
        })?)
    }
}

/// Reads a configuration. From bytes, as everywhere in this binary: a second kind of source would double the parser.
pub(crate) fn load(config: &Path) -> Result<Spec, CallError> {
    let bytes = crate::regular::read(config).step(|| format!("read {}", config.display()))?;
    let parsed = serde_json::from_slice(&bytes);
    parsed.map_err(|error| CallError::request("bundle", format!("{}: {error}", config.display())))
}

fn arguments(pod: &Pod, request: wire::CreateRequest) -> Result<Arguments, CallError> {
    let bundle = PathBuf::from(request.bundle);
    if !bundle.is_absolute() {
        return Err(CallError::request("bundle", "must be an absolute directory"));
    }
    let driver = if request.systemd_cgroup { Driver::Systemd } else { Driver::Cgroupfs };
    Ok(Arguments {
        id: request.id,
        bundle,
        overlay: request.rootfs.map(overlay).transpose()?,
        user: request.user.map(user).transpose()?,
        cgroup: CgroupArgs { driver, hierarchies: pod.hierarchies.clone() },
        exe: pod.exe.clone(),
    })
}

fn overlay(plan: wire::Overlay) -> Result<OverlayPlan, CallError> {
    if plan.lower.is_empty() || !plan.lower.iter().all(|layer| Path::new(layer).is_absolute()) {
        return Err(CallError::request("rootfs.lower", "must be one or more absolute directories"));
    }
    let set = |path: String| Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
    Ok(OverlayPlan {
        lower: plan.lower.into_iter().map(PathBuf::from).collect(),
        upper: set(plan.upper),
        work: set(plan.work),
        options: plan.options,
    })
}

fn user(lookup: wire::UserLookup) -> Result<UserLookup, CallError> {
    let id = |field, number: i64| {
        u32::try_from(number).map_err(|_| CallError::request(field, format!("{number} is no group id")))
    };
    Ok(UserLookup {
        name: lookup.name,
        gid: lookup.gid.map(|gid| id("user.gid", gid)).transpose()?,
        supplemental: lookup
            .supplemental
            .into_iter()
            .map(|gid| id("user.supplemental", gid))
            .collect::<Result<_, _>>()?,
        merge_image_groups: lookup.merge_image_groups,
    })
}

/// Who the container runs as, in the wire's words.
pub(crate) fn user_to_wire(container: &Container) -> wire::ResolvedUser {
    let user = &container.user;
    wire::ResolvedUser {
        uid: user.uid.into(),
        gid: user.gid.into(),
        groups: user.groups.iter().map(|gid| i64::from(*gid)).collect(),
    }
}

/// Both ends of the container's streams.
struct Ends {
    give: Stdio,
    keep: Kept,
}

struct Kept {
    streams: Vec<(Stream, OwnedFd)>,
    stdin: Option<OwnedFd>,
    log: PathBuf,
}

impl Ends {
    fn open(request: &wire::CreateRequest) -> Result<Ends, CallError> {
        let log = PathBuf::from(&request.log_path);
        if !(log.as_os_str().is_empty() || log.is_absolute()) {
            return Err(CallError::request("log_path", "must be absolute"));
        }
        if request.tty {
            return Ok(Ends { give: Stdio::Terminal, keep: Kept { streams: Vec::new(), stdin: None, log } });
        }
        let pipe = || pipe_with(PipeFlags::CLOEXEC).step(|| "make a pipe".to_owned());
        let (out, out_end) = pipe()?;
        let (err, err_end) = pipe()?;
        let (in_end, stdin) = if request.stdin {
            let (reader, writer) = pipe()?;
            (reader, Some(writer))
        } else {
            (OwnedFd::from(File::open("/dev/null").step(|| "open /dev/null".to_owned())?), None)
        };
        let streams = vec![(Stream::Stdout, out), (Stream::Stderr, err)];
        Ok(Ends { give: Stdio::Fds([in_end, out_end, err_end]), keep: Kept { streams, stdin, log } })
    }
}
