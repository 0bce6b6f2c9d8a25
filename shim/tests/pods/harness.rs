//! A shim of its own for one test, and nothing left of it afterwards.

use std::fs;
use std::io::{PipeReader, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use berth_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies};
use berth_proto::shim::{
    ContainerState, EventsRequest, ExecSyncRequest, ExecSyncResponse, Exit, ListRequest, ShimClient,
    ShutdownRequest, StartRequest, State, event,
};
use berth_proto::ttrpc::{CallError, Code};

use crate::bundle::Bundle;

/// No call of a test takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A running shim.
pub(crate) struct Shim {
    /// Speaks to it.
    pub(crate) client: ShimClient,
    /// Its files and those of its containers.
    pub(crate) directory: PathBuf,
    /// The parent of its containers' cgroups.
    pub(crate) cgroup: String,
    /// Where it listens.
    pub(crate) socket: PathBuf,
    process: Child,
    ended: bool,
    _files: tempfile::TempDir,
}

impl Shim {
    /// Starts one; none where the machine cannot run containers.
    pub(crate) async fn start(name: &str) -> Option<Shim> {
        if !rustix::process::geteuid().is_root() || crate::bundle::busybox_path().is_none() {
            eprintln!("skipped: needs root and busybox-static");
            return None;
        }
        let files =
            tempfile::Builder::new().prefix(&format!("berth-shim-{name}-")).tempdir().expect("test set-up");
        let directory = files.path().to_owned();
        let (socket, state) = (directory.join("socket"), directory.join("state"));
        fs::create_dir(&state).expect("test set-up");
        let (mut ready, ready_end) = std::io::pipe().expect("test set-up");
        let mut command = Command::new("/bin/sh");
        // The shell places the pipe at descriptor 3.
        command.args([
            "-c",
            "exec 3>&1 1>/dev/null; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_berth-shim"),
            "serve",
        ]);
        command.arg("--sandbox").arg("5".repeat(64)).arg("--socket").arg(&socket).arg("--state").arg(&state);
        let log = fs::File::create(directory.join("shim.log")).expect("test set-up");
        command.stdin(Stdio::null()).stdout(OwnedFd::from(ready_end)).stderr(log);
        let process = command.spawn().expect("test set-up");
        drop(command);
        wait_ready(&mut ready, &directory);
        let client = ShimClient::connect(&socket).await.expect("test set-up");
        let cgroup = format!("/berth-shim-{name}-{}", std::process::id());
        Some(Shim { client, directory, cgroup, socket, process, ended: false, _files: files })
    }

    /// The shim's process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Creates and starts a container.
    pub(crate) async fn run(&self, bundle: &Bundle) {
        self.client.create(&bundle.request(), LIMIT).await.expect("test set-up");
        self.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await.expect("test set-up");
    }

    /// Runs a program in a container.
    pub(crate) async fn exec(
        &self,
        id: &str,
        argv: &[&str],
        timeout_ms: i64,
    ) -> Result<ExecSyncResponse, CallError> {
        let argv = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let request = ExecSyncRequest { id: id.to_owned(), argv, timeout_ms, output_cap: 0 };
        self.client.exec_sync(&request, LIMIT).await
    }

    /// Everything it knows.
    pub(crate) async fn list(&self) -> Vec<ContainerState> {
        self.client.list(&ListRequest {}, LIMIT).await.expect("test set-up").containers
    }

    /// The state of one container.
    pub(crate) async fn state(&self, id: &str) -> State {
        self.list().await.into_iter().find(|container| container.id == id).expect("listed").state()
    }

    /// Waits for a container's exit, as the daemon learns of it.
    pub(crate) async fn exit(&self, id: &str) -> Exit {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let events = self
                .client
                .events(&EventsRequest { acked: 0, wait_ms: 1000 }, LIMIT)
                .await
                .expect("test set-up")
                .events;
            let exit = events.into_iter().filter(|event| event.id == id).find_map(|event| match event.kind {
                Some(event::Kind::Exit(exit)) => Some(exit),
                _ => None,
            });
            if let Some(exit) = exit {
                return exit;
            }
            // Other events are there already, so that the call does not wait.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no exit of {id}; shim said: {}", self.said());
    }

    /// What the shim wrote on its standard error.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.directory.join("shim.log")).unwrap_or_default()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < end, "the shim does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends it in order, and checks that nothing is left.
    pub(crate) async fn end(mut self) {
        self.client.shutdown(&ShutdownRequest {}, LIMIT).await.expect("test set-up");
        let status = self.wait().await;
        assert!(status.success(), "{status}: {}", self.said());
        assert!(!self.socket.exists() && !self.directory.join("state/journal").exists());
        self.ended = true;
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if !self.ended {
            eprintln!("the shim said: {}", self.said());
            let _gone = self.process.kill();
            let _gone = self.process.wait();
        }
        let hierarchies = Hierarchies::discover().expect("test set-up");
        let path = CgroupPath::parse(Driver::Cgroupfs, &self.cgroup).expect("test set-up");
        if let Ok(cgroup) = Cgroup::open(&hierarchies, &path) {
            if self.ended {
                assert!(cgroup.procs().unwrap_or_default().is_empty(), "processes are left");
            }
            let _left = cgroup.kill();
            let _left = cgroup.delete();
        }
    }
}

fn wait_ready(ready: &mut PipeReader, directory: &std::path::Path) {
    let mut text = String::new();
    ready.read_to_string(&mut text).expect("test set-up");
    let said = fs::read_to_string(directory.join("shim.log")).unwrap_or_default();
    assert_eq!(text, "ready\n", "the shim said: {said}");
}

/// The code with which a call was refused.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, CallError>) -> Code {
    result.expect_err("refused").status().expect("by the shim").code
}
