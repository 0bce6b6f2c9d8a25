//! A private daemon: own root, state, socket and bridge, ended with the value.

use berth_proto::cri::image_service_client::ImageServiceClient;
use berth_proto::cri::runtime_service_client::RuntimeServiceClient;
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tonic::transport::{Channel, Endpoint};

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) struct Daemon {
    dir: tempfile::TempDir,
    root: PathBuf,
    state: PathBuf,
    child: Option<Child>,
    faults: Option<&'static str>,
}

impl Daemon {
    /// A daemon that answers, or nothing without root.
    pub(crate) async fn start(name: &str) -> Option<Self> {
        Self::prepared(name, |_| ()).await
    }

    /// The same, over a root in which `prepare` has put something before.
    pub(crate) async fn prepared(name: &str, prepare: impl FnOnce(&Path)) -> Option<Self> {
        if !is_root() {
            eprintln!("{name}: needs root, skipped");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("berth-node-").tempdir().expect("dir");
        let bridge = format!("bn{}{}", std::process::id() % 100_000, name);
        let config = format!(
            "[grpc]\ndrain_seconds = 2\n[runtime]\nshim = \"/bin/true\"\n[cgroup]\ndriver = \"cgroupfs\"\n[network]\nmode = \"builtin\"\n\
             [network.builtin]\nbridge = \"{}\"\n",
            bridge.chars().take(15).collect::<String>()
        );
        std::fs::write(dir.path().join("config.toml"), config).expect("config");
        let (root, state) = (dir.path().join("root"), dir.path().join("run"));
        std::fs::create_dir(&root).expect("root");
        prepare(&root);
        let mut daemon = Self { dir, root, state, child: None, faults: None };
        daemon.again().await;
        Some(daemon)
    }

    fn command(&self, root: &Path, state: &Path) -> Command {
        // A shell sets the loosest umask, and hands its pid on.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_berthd")]);
        command.arg("--config").arg(self.dir.path().join("config.toml"));
        command.arg("--root").arg(root).arg("--state").arg(state);
        command.args(["--log-format", "json", "--log-level", "debug"]);
        if let Some(faults) = self.faults {
            command.arg("--allow-faults").env("BERTH_FAULTS", faults);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        command
    }

    /// From its next start on it fails where `faults` says.
    pub(crate) fn fail_at(&mut self, faults: &'static str) {
        self.faults = Some(faults);
    }

    /// Starts it (again) and waits until it answers.
    pub(crate) async fn again(&mut self) {
        let log = std::fs::File::create(self.dir.path().join("log")).expect("log");
        self.child = Some(self.command(&self.root, &self.state).stderr(log).spawn().expect("spawn"));
        let begun = Instant::now();
        loop {
            if let Ok(channel) = connect(self.socket()).await {
                let request = berth_proto::cri::VersionRequest::default();
                if RuntimeServiceClient::new(channel).version(request).await.is_ok() {
                    return;
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "no answer: {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What a daemon on these directories says when it ends at once.
    pub(crate) async fn second(&self, root: &Path, state: &Path) -> String {
        let child = self.command(root, state).stderr(Stdio::piped()).spawn().expect("spawn");
        let wait = tokio::time::timeout(Duration::from_secs(10), child.wait_with_output());
        let done = wait.await.expect("it ends at once").expect("output");
        assert!(!done.status.success());
        String::from_utf8_lossy(&done.stderr).into_owned()
    }

    pub(crate) async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.expect("kill");
        }
    }

    /// Asks it to end.
    pub(crate) fn tell(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid() as i32).expect("pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signal");
    }

    /// Ends it politely: exit code and log.
    pub(crate) async fn terminate(&mut self) -> (Option<i32>, String) {
        self.tell();
        let mut child = self.child.take().expect("running");
        let status =
            tokio::time::timeout(Duration::from_secs(15), child.wait()).await.expect("ends").expect("status");
        (status.code(), self.log())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().and_then(Child::id).expect("running")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.state.join("berthd.sock")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(crate) async fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(connect(self.socket()).await.expect("connect"))
    }

    pub(crate) async fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(connect(self.socket()).await.expect("connect"))
    }
}

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    let connector = tower::service_fn(move |_: tonic::transport::Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await
}
