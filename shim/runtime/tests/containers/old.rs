//! Kernels from 5.10 on: the newer calls are forbidden, and the same tests have to pass.

use std::process::Command;

use super::Test;
use super::bundle::Bundle;

pub(crate) const TESTS: &[Test] = &[
    ("old::works_without_the_newer_calls", works_without_the_newer_calls),
    ("old::too_many_layers_are_refused_by_their_length", too_many_layers_are_refused_by_their_length),
];

/// Makes this test program act as on an old kernel; behind it stands what fsconfig says to descriptors.
pub(crate) const FLAG: &str = "--old-kernel=";

/// EINVAL before 6.13; EOPNOTSUPP before 6.5, when overlayfs did not know the new calls.
const REFUSALS: [&str; 2] = ["22", "95"];

/// The errno behind the flag, if it was given.
pub(crate) fn refusal() -> Option<u32> {
    std::env::args().find_map(|arg| arg.strip_prefix(FLAG)?.parse().ok())
}

/// mount_setattr is unknown, and fsconfig takes no descriptors, for this process and its children.
pub(crate) fn forget_new_calls(refusal: u32) {
    let profile = serde_json::json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            {"names": ["mount_setattr"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
            {"names": ["fsconfig"], "action": "SCMP_ACT_ERRNO", "errnoRet": refusal,
             "args": [{"index": 1, "value": 5, "op": "SCMP_CMP_EQ"}]}
        ]
    });
    let profile = serde_json::from_value(profile).expect("profile");
    let program = berth_runtime::seccomp::compile(&profile).expect("compile");
    berth_sys::seccomp::install(program.bytes(), program.flags()).expect("install");
}

fn works_without_the_newer_calls() {
    REFUSALS.iter().for_each(|refusal| works_on(refusal));
}

fn works_on(refusal: &str) {
    let tests = [
        "overlay_writes",
        "runs_and_returns",
        "masked_and",
        "read_only_root",
        "tmpfs_modes",
        "cgroup_mount",
        "targets_behind",
        "binary",
    ];
    let mut program = Command::new(std::env::current_exe().expect("exe"));
    let output = program.arg(format!("{FLAG}{refusal}")).args(tests).output().expect("run");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("{} tests, 0 failed", tests.len())));
}

fn too_many_layers_are_refused_by_their_length() {
    if refusal().is_some() {
        return;
    }
    // mount(2) would cut the list of layers and mount others than asked for; here there are as many as the new calls take.
    let mut b = Bundle::new("cat /marker").with_overlay();
    let plan = b.overlay.as_mut().expect("plan");
    for i in 0..400 {
        let dir = b.dir.join(format!("l{i}"));
        std::fs::create_dir(&dir).expect("mkdir");
        plan.lower.insert(0, dir);
    }
    std::fs::write(b.rootfs().join("marker"), "lowest\n").expect("write");
    assert_eq!(b.output(), "lowest\n");
}
