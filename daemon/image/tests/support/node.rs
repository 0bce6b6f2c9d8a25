//! A puller with a store of its own, whose workers are this test program.

use crate::index::Memory;
use berth_image::unpack::WorkerCommand;
use berth_image::{Error, Options, PullRequest, PulledImage, Puller, Reference, RegistryAuth};
use berth_snapshot::Snapshots;
use std::sync::Arc;

pub(crate) struct Node {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) puller: Puller,
    pub(crate) snapshots: Snapshots,
    pub(crate) index: Arc<Memory>,
}

/// This program again, as a worker: the test of this name does the work when the variable is set.
fn worker() -> WorkerCommand {
    let exe = std::env::current_exe().unwrap();
    let args =
        ["BERTH_TEST_WORKER=1".into(), exe.into_os_string(), "--exact".into(), "unpack_worker_entry".into()];
    let mut args: Vec<_> = args.into_iter().collect();
    args.extend(["--nocapture".into(), "--test-threads=1".into()]);
    WorkerCommand { program: "/usr/bin/env".into(), args }
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::at(tempfile::tempdir().unwrap(), change)
    }

    /// In a directory that may be something special.
    pub(crate) fn at(dir: tempfile::TempDir, change: impl FnOnce(&mut Options)) -> Self {
        let snapshots = Snapshots::open(dir.path()).unwrap();
        let index = Arc::new(Memory::default());
        let certs_dir = dir.path().join("certs.d");
        let mut options = Options { certs_dir, worker: worker(), ..Options::default() };
        change(&mut options);
        let puller = Puller::new(options, snapshots.clone(), index.clone(), index.clone());
        Self { dir, puller, snapshots, index }
    }

    pub(crate) fn hosts(&self, host: &str, text: &str) {
        let dir = self.dir.path().join("certs.d").join(host);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("hosts.toml"), text).unwrap();
    }

    pub(crate) async fn pull(&self, reference: &str) -> Result<PulledImage, Error> {
        self.pull_as(reference, RegistryAuth::default()).await
    }

    pub(crate) async fn pull_as(&self, reference: &str, auth: RegistryAuth) -> Result<PulledImage, Error> {
        let mut request = PullRequest::new(Reference::parse(reference).unwrap());
        request.auth = auth;
        self.puller.pull(request).await
    }

    /// Waits until nothing is left of pulls that were given up.
    pub(crate) async fn becomes_clean(&self) {
        for _ in 0..200 {
            if std::fs::read_dir(self.dir.path().join("staging")).unwrap().count() == 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        self.assert_clean();
    }

    /// Nothing is left of failed pulls.
    pub(crate) fn assert_clean(&self) {
        let staged = std::fs::read_dir(self.dir.path().join("staging")).unwrap().count();
        assert_eq!(staged, 0, "something is left in staging");
    }

    pub(crate) fn read(&self, image: &PulledImage, layer: usize, path: &str) -> String {
        let path = self.snapshots.layer_path(&image.layers[layer]).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// Makes every worker write its process id to `file` first.
pub(crate) fn noting_workers(options: &mut Options, file: &std::path::Path) {
    let real = options.worker.clone();
    let script = format!("echo $$ >> {}; exec \"$0\" \"$@\"", file.display());
    options.worker.program = "/bin/sh".into();
    options.worker.args =
        ["-c".into(), script.into(), real.program.into()].into_iter().chain(real.args).collect();
}

/// The noted workers that are still there, dead ones that nobody has waited for included.
pub(crate) fn workers(file: &std::path::Path) -> Vec<i32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let all = text.lines().filter_map(|line| line.parse().ok());
    all.filter(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()).collect()
}

/// The whole error, causes included.
pub(crate) fn text(error: &Error) -> String {
    berth_core::error::chain(error)
}
