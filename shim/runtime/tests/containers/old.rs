//! Kernels from 5.10 on: the newer calls are forbidden, and the same tests have to pass.

use std::process::Command;

use super::Test;
use super::bundle::Bundle;

pub(crate) const TESTS: &[Test] = &[
    ("old::works_without_the_newer_calls", works_without_the_newer_calls),
    ("old::too_many_layers_are_refused_by_their_length", too_many_layers_are_refused_by_their_length),
];

/// Does what the command line says about calls.
pub(crate) fn heed() {
    if let Some(refusal) = std::env::args().find_map(|arg| arg.strip_prefix(FLAG)?.parse().ok()) {
        forget_new_calls(refusal);
    }
    if std::env::args().any(|arg| arg == BY_NAME) {
        install(&serde_json::json!([no_layer_descriptors(22)]));
    }
}

/// Makes this test program act as on an old kernel; behind it stands what fsconfig says to descriptors.
const FLAG: &str = "--old-kernel=";

/// EINVAL before 6.13; EOPNOTSUPP before 6.5, when overlayfs did not know the new calls.
const REFUSALS: [&str; 2] = ["22", "95"];

/// Whether this is such a run.
fn is_old() -> bool {
    std::env::args().any(|arg| arg.starts_with(FLAG))
}

/// Makes this test program run where overlayfs takes its layers by name only.
pub(crate) const BY_NAME: &str = "--layers-by-name";

/// Whether this run lacks something already.
pub(crate) fn is_restricted() -> bool {
    let flags = [FLAG, super::forbidden::FORBID, BY_NAME];
    std::env::args().any(|arg| flags.iter().any(|flag| arg.starts_with(flag)))
}

/// What came with Linux 5.11 and later and has an effect here. Others go to the profile's end as unknown.
const NEWER: &str = "epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self \
    memfd_secret process_mrelease futex_waitv set_mempolicy_home_node cachestat fchmodat2 statmount listmount mseal \
    open_tree_attr";

/// None of the newer calls is known, fsconfig takes no descriptors (overlay layers, 6.13), memfd_create no MFD_EXEC (6.3), and
/// close_range, whose newer flag is of 5.11, is not there at all. For this process and its children; one descriptor is left open
/// for them.
fn forget_new_calls(refusal: u32) {
    let newer: Vec<&str> = NEWER.split_whitespace().collect();
    install(&serde_json::json!([
        {"names": newer, "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        {"names": ["close_range"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        no_layer_descriptors(refusal),
        {"names": ["memfd_create"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22,
         "args": [{"index": 1, "value": 16, "valueTwo": 16, "op": "SCMP_CMP_MASKED_EQ"}]}
    ]));
    assert_eq!(berth_sys::missing().len(), 4, "{:?}", berth_sys::missing());
    let leak = std::fs::File::open("/").expect("open");
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).expect("inherit");
    std::mem::forget(leak);
}

/// fsconfig takes no descriptors.
fn no_layer_descriptors(refusal: u32) -> serde_json::Value {
    serde_json::json!({"names": ["fsconfig"], "action": "SCMP_ACT_ERRNO", "errnoRet": refusal,
        "args": [{"index": 1, "value": 5, "op": "SCMP_CMP_EQ"}]})
}

/// Puts a filter around this process and its children.
pub(crate) fn install(rules: &serde_json::Value) {
    let profile = serde_json::json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules});
    let profile = serde_json::from_value(profile).expect("profile");
    let program = berth_runtime::seccomp::compile(&profile).expect("compile");
    berth_sys::seccomp::install(program.bytes(), program.flags()).expect("install");
}

/// Runs this test program once more.
pub(crate) fn again(args: &[&str]) -> (bool, String) {
    let output = Command::new(std::env::current_exe().expect("exe")).args(args).output().expect("run");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn works_without_the_newer_calls() {
    REFUSALS.iter().for_each(|refusal| works_on(refusal));
}

fn works_on(refusal: &str) {
    let flag = format!("{FLAG}{refusal}");
    let tests = [
        "overlay_writes",
        "runs_and_returns",
        "masked_and",
        "read_only_root",
        "tmpfs_modes",
        "cgroup_mount",
        "targets_behind",
        "binary",
        "has_only_three",
        "inherits_everything",
        "seccomp_filter",
        "devices_and_links",
        "basics::limits",
    ];
    let (well, text) = again(&[&[flag.as_str()], &tests[..]].concat());
    assert!(well, "{text}");
    assert!(text.contains(&format!("{} tests, 0 failed", tests.len())), "{text}");
}

fn too_many_layers_are_refused_by_their_length() {
    if is_old() {
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
