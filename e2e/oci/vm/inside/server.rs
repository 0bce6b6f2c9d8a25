//! The daemon under its own unit.

use anyhow::{Context as _, Result, bail};
use berth_e2e::cri::Cri;
use berth_e2e::registry::Registry;
use berth_e2e::vm::BIN;
use berth_e2e::{check, samples};
use berth_proto::cri as wire;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

const SOCKET: &str = "/run/berth/berthd.sock";
const DROP_IN: &str = "/etc/systemd/system/berthd.service.d/test.conf";

/// There is one service; tests take turns.
static TURN: Mutex<()> = Mutex::const_new(());

/// The running service, and a registry that it pulls from.
pub(super) struct Server {
    _turn: MutexGuard<'static, ()>,
    _registry: Registry,
}

impl Server {
    /// Installs the product as the unit's first lines say, with further words for `[Service]`, and starts it.
    pub(super) async fn start(words: &str) -> Result<Self> {
        let turn = TURN.lock().await;
        let registry = Registry::start().await?;
        registry.push("busybox", "1", &samples::busybox()?);
        let certs = Path::new("/etc/berth/certs.d/registry.guest.test");
        fs::create_dir_all(certs)?;
        let host = registry.host();
        fs::write(
            certs.join("hosts.toml"),
            format!(
                "server = \"http://{host}\"\n[host.\"http://{host}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
            ),
        )?;
        fs::write("/etc/berth/config.toml", "")?;
        for name in ["berthd", "berth-shim"] {
            run("install", &["-m755", &format!("{BIN}/{name}"), &format!("/usr/bin/{name}")])?;
        }
        fs::create_dir_all("/etc/systemd/system/berthd.service.d")?;
        fs::write(DROP_IN, format!("[Service]\n{words}"))?;
        run("systemctl", &["daemon-reload"])?;
        let server = Self { _turn: turn, _registry: registry };
        // Type=notify: when this returns, it serves.
        server.systemctl("start").with_context(server_log)?;
        check!(server.property("ActiveState")? == "active", "{}", server_log());
        server.cri().await?.version().await.context("it said that it is ready")?;
        Ok(server)
    }

    pub(super) async fn cri(&self) -> Result<Cri> {
        Cri::connect(Path::new(SOCKET)).await
    }

    /// A verb of systemctl on the unit.
    pub(super) fn systemctl(&self, verb: &str) -> Result<()> {
        let mut words: Vec<&str> = verb.split(' ').collect();
        words.push("berthd.service");
        run("systemctl", &words).map(drop)
    }

    pub(super) fn property(&self, name: &str) -> Result<String> {
        run("systemctl", &["show", "--value", "-p", name, "berthd.service"])
    }

    /// Until it answers again.
    pub(super) async fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let answer = match self.cri().await {
                Ok(cri) => cri.version().await.map_err(anyhow::Error::from),
                Err(refused) => Err(refused),
            };
            let active = self.property("ActiveState")? == "active";
            match answer {
                Ok(_) if active => return Ok(()),
                _ if begun.elapsed() > Duration::from_secs(60) => bail!("no answer\n{}", server_log()),
                _ => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    pub(super) async fn until(&self, mut holds: impl FnMut() -> bool) -> Result<()> {
        let begun = Instant::now();
        while !holds() {
            check!(begun.elapsed() < Duration::from_secs(60), "it never came to hold\n{}", server_log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    pub(super) async fn driver(&self) -> Result<wire::CgroupDriver> {
        let answer =
            self.cri().await?.runtime.runtime_config(wire::RuntimeConfigRequest {}).await?.into_inner();
        Ok(answer.linux.context("nothing of linux")?.cgroup_driver())
    }

    /// The last status of a container that ends.
    pub(super) async fn ended(&self, id: &str) -> Result<wire::ContainerStatus> {
        let begun = Instant::now();
        loop {
            let status = self.cri().await?.container(id).await?;
            if status.state() == wire::ContainerState::ContainerExited {
                return Ok(status);
            }
            check!(begun.elapsed() < Duration::from_secs(90), "it still runs\n{}", server_log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Removes every pod and stops the service; nothing may stay.
    pub(super) async fn clean(self) -> Result<()> {
        let mut cri = self.cri().await?;
        for pod in cri.pods().await? {
            cri.stop_pod(&pod.id).await.context("StopPodSandbox")?;
            cri.remove_pod(&pod.id).await.context("RemovePodSandbox")?;
        }
        let left = run("find", &["/sys/fs/cgroup", "-name", "berth-*.scope"])?;
        check!(left.is_empty(), "left: {left}");
        self.systemctl("stop")?;
        check!(self.property("Result")? == "success", "{}", server_log());
        Ok(())
    }
}

/// Whether the guest has the unified tree only.
pub(super) fn unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// What a program prints; another exit code than 0 is an error.
pub(super) fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output().with_context(|| program.to_owned())?;
    if !output.status.success() {
        bail!("{program} {args:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn server_log() -> String {
    run("journalctl", &["-u", "berthd", "-n", "60", "--no-pager", "-o", "cat"]).unwrap_or_default()
}
