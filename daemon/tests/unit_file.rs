//! The systemd unit: what it must say, what it must never say, and what systemd thinks of it.

use std::process::Command;

const UNIT: &str = include_str!("../../systemd/berthd.service");

/// Directives that would give the daemon a mount namespace of its own.
const PRIVATE_MOUNTS: [&str; 24] = [
    "PrivateTmp",
    "PrivateDevices",
    "PrivateMounts",
    "PrivateUsers",
    "ProtectSystem",
    "ProtectHome",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectControlGroups",
    "ProtectProc",
    "ProcSubset",
    "ReadWritePaths",
    "ReadOnlyPaths",
    "InaccessiblePaths",
    "ExecPaths",
    "NoExecPaths",
    "BindPaths",
    "BindReadOnlyPaths",
    "TemporaryFileSystem",
    "RootDirectory",
    "RootImage",
    "MountFlags",
    "DynamicUser",
];

fn directives() -> Vec<(&'static str, &'static str)> {
    let lines = UNIT.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn pods_outlive_the_daemon() {
    let has = |wanted: (&str, &str)| directives().contains(&wanted);
    for wanted in [
        ("Type", "notify"),
        ("KillMode", "process"),
        ("Delegate", "yes"),
        ("TasksMax", "infinity"),
        ("TimeoutStartSec", "infinity"),
    ] {
        assert!(has(wanted), "{wanted:?} is missing");
    }
}

#[test]
fn no_directive_makes_a_mount_namespace() {
    for (name, _) in directives() {
        assert!(!PRIVATE_MOUNTS.contains(&name), "{name} gives the daemon mounts of its own");
        assert!(!name.starts_with("LoadCredential") && !name.starts_with("SetCredential"), "{name} mounts");
    }
}

#[test]
fn systemd_finds_nothing_wrong() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("berthd.service");
    let unit = UNIT.replace("/usr/bin/berthd", env!("CARGO_BIN_EXE_berthd"));
    std::fs::write(&path, unit).expect("write");
    let Ok(done) = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&path).output() else {
        eprintln!("systemd-analyze is not installed, skipped");
        return;
    };
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && text.trim().is_empty(), "{text}");
}
