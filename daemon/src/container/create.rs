//! The steps of CreateContainer. Each pushes its own undo before it acts; the first failure undoes them all.

use super::spec::{self, Facts};
use super::{ContainerConfig, ContainerRecord, ContainerState, DEFAULT_STOP_SIGNAL, RunUser, end, facts};
use crate::blocking::Room;
use crate::pod::machine::Draft;
use crate::pod::{Cancel, Error, Ground, ImageForContainer, PodView, Row, faults};
use crate::probe::Wish;
use crate::sandbox::SandboxRecord;
use crate::supervisor::Shim;
use crate::undo::Undo;
use berth_cgroup::{CgroupPath, Driver};
use berth_core::fault::Point;
use berth_proto::shim::{CreateRequest, Overlay, UserLookup};
use berth_snapshot::OverlayPlan;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the shim may still work on a container that has been given up; then it is deleted under its hands.
const CREATE_MARGIN: Duration = Duration::from_secs(10);

/// Where a container is made.
pub(crate) struct Place<'a> {
    /// What pods stand on.
    pub(crate) ground: &'a Arc<Ground>,
    /// Its sandbox.
    pub(crate) sandbox: &'a Arc<SandboxRecord>,
    /// The sandbox's shim.
    pub(crate) shim: Option<&'a Shim>,
    /// Its neighbours.
    pub(crate) pod: &'a PodView,
}

struct Making<'a> {
    place: Place<'a>,
    shim: Shim,
    image: ImageForContainer,
    record: ContainerRecord,
    cancel: Cancel,
    undo: Undo,
}

/// Makes a container, or leaves nothing.
///
/// # Errors
/// The step that failed, or that it was cancelled.
pub(crate) async fn create(place: Place<'_>, draft: Draft, cancel: Cancel) -> Result<ContainerRecord, Error> {
    let gone = || Error::ShimGone(format!("sandbox {}", place.sandbox.id));
    let shim = place.shim.cloned().ok_or_else(gone)?;
    let image = image(place.ground, &draft.config).await?;
    let record = begin(&place, &draft, &image)?;
    let id = record.id;
    let mut making = Making { place, shim, image, record, cancel, undo: Undo::new() };
    match making.steps(&draft.config).await {
        Ok(()) => Ok(making.record),
        Err(error) => {
            tracing::warn!(container = %id, %error, "the container could not be made; undoing");
            making.undo.run_while_it_works(id.as_str()).await;
            Err(error)
        }
    }
}

async fn image(ground: &Arc<Ground>, config: &Arc<ContainerConfig>) -> Result<ImageForContainer, Error> {
    let (images, config) = (Arc::clone(&ground.images), Arc::clone(config));
    ground.block_in(Room::Look, "look up the image", move || images.resolve(&config.image.image)).await
}

fn begin(place: &Place<'_>, draft: &Draft, image: &ImageForContainer) -> Result<ContainerRecord, Error> {
    let (sandbox, config) = (&place.sandbox.config, &draft.config);
    let driver = place.ground.driver;
    let cgroup = CgroupPath::under_parent(driver, &sandbox.cgroup_parent, draft.id.as_str())
        .map_err(|error| Error::invalid("sandbox_config.linux.cgroup_parent", error.to_string()))?;
    let logs = !sandbox.log_directory.is_empty() && !config.log_path.is_empty();
    Ok(ContainerRecord {
        id: draft.id,
        sandbox: place.sandbox.id,
        config: ContainerConfig::clone(config),
        image_id: image.id.clone(),
        image_ref: image.reference.clone(),
        created_at: draft.created_at,
        boot_id: place.ground.boot_id.clone(),
        cgroup: cgroup.to_string(),
        log: logs.then(|| PathBuf::from(&sandbox.log_directory).join(&config.log_path)),
        stop_signal: stop_signal(config, image)?,
        user: None,
        state: ContainerState::Creating,
    })
}

/// The request's, the image's, SIGTERM.
fn stop_signal(config: &ContainerConfig, image: &ImageForContainer) -> Result<u32, Error> {
    match (config.stop_signal, image.stop_signal.as_str()) {
        (Some(signal), _) => Ok(signal),
        (None, "") => Ok(DEFAULT_STOP_SIGNAL),
        (None, text) => super::end::signal_number(text)
            .ok_or_else(|| Error::invalid("config.image", format!("its stop signal {text:?} is no signal"))),
    }
}

impl Making<'_> {
    async fn steps(&mut self, config: &Arc<ContainerConfig>) -> Result<(), Error> {
        let run_as = spec::run_as(config, &self.image)?;
        let facts = facts::gather(&self.place, config);
        let facts = self.cancel.or("CreateContainer", facts).await?;
        // Held until the shim is done with it.
        let _target = facts.target_pid.clone();
        self.check()?;
        self.save_first().await?;
        self.point(&faults::CREATE_BEGUN)?;
        let plan = self.layer().await?;
        self.point(&faults::CREATE_LAYER)?;
        let bundle = self.bundle(facts).await?;
        self.point(&faults::CREATE_BUNDLE)?;
        let made = self.in_shim(&bundle, plan, run_as).await?;
        self.point(&faults::CREATE_DONE)?;
        let user = made.user.unwrap_or_default();
        self.record.user = Some(RunUser { uid: user.uid, gid: user.gid, groups: user.groups });
        self.record.state = ContainerState::Created { pid: made.pid };
        self.place.ground.save(vec![Row::Container(Arc::new(self.record.clone()))]).await
    }

    fn check(&self) -> Result<(), Error> {
        self.cancel.check("CreateContainer")
    }

    fn point(&self, point: &Point) -> Result<(), Error> {
        point.pass().map_err(|fault| Error::step("create container", &fault))?;
        self.check()
    }

    /// Checks and holds the image in the transaction that writes the record.
    async fn save_first(&mut self) -> Result<(), Error> {
        let (ground, id) = (Arc::clone(self.place.ground), self.record.id);
        self.undo.push("delete the record", move || {
            let ground = Arc::clone(&ground);
            async move { ground.save(vec![Row::NoContainer(id)]).await }
        });
        self.place.ground.save(vec![Row::NewContainer(Arc::new(self.record.clone()))]).await
    }

    async fn layer(&mut self) -> Result<OverlayPlan, Error> {
        let (ground, id) = (Arc::clone(self.place.ground), self.record.id);
        let undo = Arc::clone(&ground);
        self.undo.push("remove the writable layer", move || end::remove_layer(Arc::clone(&undo), id));
        let layers = self.image.layers.clone();
        let base = Arc::clone(&ground);
        let made = base.block("make the writable layer", move || {
            let plan = ground.snapshots.container_create(id.as_str(), &layers);
            plan.map_err(|error| Error::internal("make the writable layer", error))
        });
        made.await
    }

    async fn bundle(&mut self, facts: Facts) -> Result<PathBuf, Error> {
        let input = spec::Input {
            sandbox: self.place.sandbox,
            config: &self.record.config,
            image: &self.image,
            cgroup: &self.record.cgroup,
            facts: &facts,
        };
        let spec = spec::build(&input)?;
        let bundle = self.place.ground.paths(self.record.sandbox).bundle(self.record.id);
        let (ground, dir) = (Arc::clone(self.place.ground), bundle.clone());
        self.undo.push("remove the bundle", move || end::remove_bundle(Arc::clone(&ground), dir.clone()));
        let dir = bundle.clone();
        let written = self.place.ground.block("write the bundle", move || {
            let failed =
                |error: std::io::Error| Error::file(format!("write the bundle {}", dir.display()), &error);
            std::fs::create_dir_all(dir.join("rootfs")).map_err(failed)?;
            let text =
                serde_json::to_vec(&spec).map_err(|error| Error::internal("write config.json", error))?;
            std::fs::write(dir.join("config.json"), text).map_err(failed)
        });
        written.await?;
        if let Some(logs) = self.record.log.as_deref().and_then(std::path::Path::parent) {
            let made = self.place.ground.blocking.host_path(logs, Wish::MakeDirectory).await;
            made.map_err(|error| Error::step("make the log's directory", &error))?;
        }
        Ok(bundle)
    }

    async fn in_shim(
        &mut self,
        bundle: &std::path::Path,
        plan: OverlayPlan,
        run_as: spec::RunAs,
    ) -> Result<berth_proto::shim::CreateResponse, Error> {
        let (shim, record) = (self.shim.clone(), Arc::new(self.record.clone()));
        let (ground, id) = (Arc::clone(self.place.ground), self.record.id);
        self.undo.push("free what the container holds in its shim", move || {
            let (ground, record, shim) = (Arc::clone(&ground), Arc::clone(&record), shim.clone());
            async move { end::free(&ground, &record, Some(&shim)).await }
        });
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let config = &self.record.config;
        let request = CreateRequest {
            id: id.to_string(),
            bundle: text(bundle),
            rootfs: Some(Overlay {
                lower: plan.lower.iter().map(|path| text(path)).collect(),
                upper: text(&plan.upper),
                work: text(&plan.work),
                options: plan.options,
            }),
            user: Some(UserLookup {
                name: run_as.name,
                gid: run_as.gid,
                supplemental: run_as.supplemental,
                merge_image_groups: run_as.merge,
            }),
            log_path: self.record.log.as_deref().map(text).unwrap_or_default(),
            tty: config.tty,
            stdin: config.stdin,
            stdin_once: config.stdin_once,
            systemd_cgroup: self.place.ground.driver == Driver::Systemd,
            log_line_max: 0,
        };
        let work = self.shim.create(&request);
        self.cancel.or_late("CreateContainer", CREATE_MARGIN, work).await
    }
}
