//! A bundle with busybox in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use berth_proto::shim::{CreateRequest, Overlay};
use serde_json::{Value, json};

use crate::harness::Shim;

/// One container's bundle, in its shim's directory.
pub(crate) struct Bundle {
    /// The container's id.
    pub(crate) id: String,
    directory: PathBuf,
    config: Value,
}

impl Bundle {
    /// A container that runs `argv` of busybox's programs. `name` is one hex digit or more.
    pub(crate) fn new(shim: &Shim, name: &str, argv: &[&str]) -> Bundle {
        let id = format!("{name:0>64}");
        let directory = shim.directory.join(name);
        fs::create_dir_all(directory.join("layer/bin")).expect("test set-up");
        for place in ["upper", "work", "rootfs", "layer/proc", "layer/dev", "layer/sys", "layer/tmp"] {
            fs::create_dir_all(directory.join(place)).expect("test set-up");
        }
        let busybox = directory.join("layer/bin/busybox");
        fs::copy(busybox_path().expect("busybox"), &busybox).expect("test set-up");
        let list = Command::new(busybox_path().expect("busybox"))
            .arg("--list")
            .output()
            .expect("test set-up")
            .stdout;
        for program in String::from_utf8(list).expect("test set-up").lines().filter(|name| *name != "busybox")
        {
            symlink("busybox", directory.join("layer/bin").join(program)).expect("test set-up");
        }
        let config = config(&format!("{}/{id}", shim.cgroup), argv);
        Bundle { id, directory, config }
    }

    /// The configuration, to change it before `request`.
    pub(crate) fn config(&mut self) -> &mut Value {
        &mut self.config
    }

    /// Writes the configuration and gives the request that creates the container.
    pub(crate) fn request(&self) -> CreateRequest {
        fs::write(self.directory.join("config.json"), self.config.to_string()).expect("test set-up");
        let path = |name: &str| self.directory.join(name).to_string_lossy().into_owned();
        CreateRequest {
            id: self.id.clone(),
            bundle: path(""),
            rootfs: Some(Overlay {
                lower: vec![path("layer")],
                upper: path("upper"),
                work: path("work"),
                options: Vec::new(),
            }),
            log_path: path("0.log"),
            ..Default::default()
        }
    }

    /// The log's path.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.join("0.log")
    }

    /// The log's records without their times, the two streams one after the other.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = fs::read(self.log_path()).expect("test set-up");
        let mut records: Vec<String> = String::from_utf8_lossy(&text)
            .lines()
            .map(|line| line.split_once(' ').expect("a time").1.to_owned())
            .collect();
        records.sort_by_key(|record| !record.starts_with("stdout"));
        records
    }
}

/// A static busybox, if the machine has one.
pub(crate) fn busybox_path() -> Option<PathBuf> {
    ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from).into_iter().find(|path| path.exists())
}

fn config(cgroup: &str, argv: &[&str]) -> Value {
    let capabilities = ["CAP_CHOWN", "CAP_KILL", "CAP_SETUID", "CAP_SETGID"];
    json!({
        "ociVersion": "1.2.0",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": argv,
            "env": ["PATH=/bin", "A=1"],
            "cwd": "/",
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs" },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] },
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": {},
            "namespaces": [{ "type": "mount" }, { "type": "pid" }, { "type": "ipc" }, { "type": "uts" }, { "type": "network" }],
        },
    })
}
