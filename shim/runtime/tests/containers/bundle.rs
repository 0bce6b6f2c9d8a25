//! A bundle on disk with a busybox rootfs, and what it takes to run it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use berth_cgroup::{Cgroup, Driver, Hierarchies};
use berth_runtime::{
    CgroupArgs, CreateArgs, Created, Error, Exec, ExecArgs, ExecProgram, OverlayPlan, Stdio, UserLookup,
};
use serde_json::{Value, json};

const BUSYBOX: &str = "/bin/busybox";

/// Whether containers can be made here.
pub(crate) fn possible() -> Result<(), &'static str> {
    if !rustix::process::geteuid().is_root() {
        return Err("containers take root");
    }
    if !Path::new(BUSYBOX).exists() {
        return Err("needs /bin/busybox (package busybox-static)");
    }
    Ok(())
}

/// This test binary, which answers to `init`.
pub(crate) fn exe() -> Arc<OwnedFd> {
    static EXE: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    EXE.get_or_init(|| Arc::new(berth_sys::sealed_self().expect("sealed binary"))).clone()
}

pub(crate) fn hierarchies() -> Arc<Hierarchies> {
    static FOUND: OnceLock<Arc<Hierarchies>> = OnceLock::new();
    FOUND.get_or_init(|| Arc::new(Hierarchies::discover().expect("cgroups"))).clone()
}

/// A bundle; removed when dropped.
pub(crate) struct Bundle {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) spec: Value,
    pub(crate) user: Option<UserLookup>,
    pub(crate) overlay: Option<OverlayPlan>,
}

/// What a container wrote and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
}

impl Bundle {
    /// A bundle that runs `script` by sh.
    pub(crate) fn new(script: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("berth-rt-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(&id);
        fill(&dir.join("rootfs"));
        let spec = spec(&id, script);
        Self { id, dir, spec, user: None, overlay: None }
    }

    pub(crate) fn rootfs(&self) -> PathBuf {
        self.dir.join("rootfs")
    }

    /// Makes the rootfs the only layer below a writable one.
    pub(crate) fn with_overlay(mut self) -> Self {
        for name in ["upper", "work", "layer2"] {
            std::fs::create_dir_all(self.dir.join(name)).expect("mkdir");
        }
        self.overlay = Some(OverlayPlan {
            lower: vec![self.dir.join("layer2"), self.rootfs()],
            upper: Some(self.dir.join("upper")),
            work: Some(self.dir.join("work")),
            options: Vec::new(),
        });
        self
    }

    pub(crate) fn mount(&mut self, mount: Value) {
        self.spec["mounts"].as_array_mut().expect("mounts").push(mount);
    }

    pub(crate) fn create_with(&self, stdio: Stdio) -> Result<Created, Error> {
        berth_runtime::create(CreateArgs {
            id: self.id.clone(),
            bundle: self.dir.clone(),
            spec: serde_json::from_value(self.spec.clone()).expect("spec"),
            overlay: self.overlay.clone(),
            user: self.user.clone(),
            stdio,
            preserved: Vec::new(),
            cgroup: CgroupArgs { driver: Driver::Cgroupfs, hierarchies: hierarchies() },
            exe: exe(),
            namespaces: Vec::new(),
            listener: None,
            switches: berth_runtime::Switches::default(),
        })
    }

    /// Creates and starts; the reader has what it writes.
    pub(crate) fn launch(&self) -> Result<(Created, File), Error> {
        let (reader, stdio) = pipes();
        let mut created = self.create_with(stdio)?;
        if let Err(error) = berth_runtime::start(&mut created) {
            finish(&created);
            return Err(error);
        }
        Ok((created, reader))
    }

    /// Creates, starts, waits and deletes.
    pub(crate) fn try_run(&self) -> Result<Outcome, Error> {
        let (created, mut reader) = self.launch()?;
        let mut out = String::new();
        reader.read_to_string(&mut out).expect("output");
        let code = finish(&created);
        Ok(Outcome { code, out })
    }

    /// As `try_run`, for what has to work.
    pub(crate) fn run(&self) -> Outcome {
        self.try_run().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The output of a run that has to end with 0.
    pub(crate) fn output(&self) -> String {
        let outcome = self.run();
        assert_eq!(outcome.code, 0, "{}", outcome.out);
        outcome.out
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // A test that failed half way must not leave its container running.
        let path = self.spec["linux"]["cgroupsPath"].as_str().unwrap_or_default();
        let group = berth_cgroup::CgroupPath::parse(Driver::Cgroupfs, path)
            .map(|path| Cgroup::open(&hierarchies(), &path));
        if let Ok(Ok(group)) = group {
            let _ = group.kill();
            let _ = group.delete();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Waits for the first process and deletes; gives the code.
pub(crate) fn finish(created: &Created) -> i32 {
    let exit = berth_sys::pidfd::wait(&created.pidfd).expect("wait");
    berth_runtime::delete(created).expect("delete");
    assert_eq!(groups_named(&created.id), Vec::<PathBuf>::new(), "cgroups are left");
    exit.shell_code()
}

/// Runs `argv` in the container; gives code and output.
pub(crate) fn exec(created: &Created, program: ExecProgram) -> Result<Outcome, Error> {
    let (mut reader, stdio) = pipes();
    let exec = start_exec(created, program, stdio)?;
    let mut out = String::new();
    reader.read_to_string(&mut out).expect("output");
    let exit = berth_sys::pidfd::wait(&exec.pidfd).expect("wait");
    Ok(Outcome { code: exit.shell_code(), out })
}

pub(crate) fn start_exec(created: &Created, program: ExecProgram, stdio: Stdio) -> Result<Exec, Error> {
    berth_runtime::exec(&ExecArgs {
        context: &created.context,
        pid: created.pid,
        pidfd: &created.pidfd,
        cgroup: &created.cgroup,
        places: None,
        kill_group: None,
        program,
        stdio,
        preserved: Vec::new(),
        exe: &exe(),
    })
}

pub(crate) fn argv(words: &[&str]) -> ExecProgram {
    ExecProgram::Argv(words.iter().map(|w| (*w).to_owned()).collect())
}

/// Standard streams that lead into one pipe, and its end to read from.
pub(crate) fn pipes() -> (File, Stdio) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("pipe");
    let null = File::open("/dev/null").expect("null");
    let other = writer.try_clone().expect("dup");
    (File::from(reader), Stdio::Fds([null.into(), writer, other]))
}

/// Every cgroup directory of that name in any hierarchy.
pub(crate) fn groups_named(id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten() {
        let path = entry.path().join(id);
        if path.exists() && !entry.path().is_symlink() {
            found.push(path);
        }
    }
    found
}

fn fill(rootfs: &Path) {
    for name in ["bin", "etc", "proc", "sys", "dev", "tmp", "root"] {
        std::fs::create_dir_all(rootfs.join(name)).expect("mkdir");
    }
    std::fs::copy(BUSYBOX, rootfs.join("bin/busybox")).expect("busybox");
    for applet in APPLETS {
        symlink("busybox", rootfs.join("bin").join(applet)).expect("link");
    }
    std::fs::write(
        rootfs.join("etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nwww:x:33:34::/home/www:/bin/sh\n",
    )
    .expect("passwd");
    std::fs::write(rootfs.join("etc/group"), "root:x:0:\nstaff:x:50:www\n").expect("group");
}

const APPLETS: [&str; 36] = [
    "sh", "cat", "ls", "echo", "true", "false", "id", "env", "pwd", "sleep", "grep", "stat", "mount",
    "readlink", "touch", "hostname", "head", "tail", "wc", "sort", "tr", "cut", "test", "kill", "ps",
    "mkdir", "ln", "rm", "printf", "find", "ip", "tty", "stty", "dd", "mknod", "sysctl",
];

fn spec(id: &str, script: &str) -> Value {
    json!({
        "ociVersion": "1.3.0",
        "root": {"path": "rootfs", "readonly": false},
        "hostname": "box",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["sh", "-c", script],
            "env": ["PATH=/bin"],
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": ["CAP_CHOWN", "CAP_KILL"],
                "permitted": ["CAP_CHOWN", "CAP_KILL"],
                "effective": ["CAP_CHOWN", "CAP_KILL"]
            }
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
            {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]}
        ],
        "linux": {
            "cgroupsPath": format!("/{id}"),
            "namespaces": [
                {"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "cgroup"}
            ],
            "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
        }
    })
}
