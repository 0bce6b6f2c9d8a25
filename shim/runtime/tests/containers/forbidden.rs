//! A runtime that is itself behind a seccomp filter: each of the newer calls forbidden, one by one and all together, and containers
//! are the same as ever. What there is no other way for is refused, and the call that it takes is named.

use serde_json::json;

use super::Test;
use super::bundle::Bundle;
use super::old::{again, install, is_restricted};

pub(crate) const TESTS: &[Test] = &[
    ("forbidden::one_by_one", one_by_one),
    ("forbidden::all_of_the_mount_calls", all_of_the_mount_calls),
    ("forbidden::all_together", all_together),
    ("forbidden::owners_cannot_be_mapped", owners_cannot_be_mapped),
];

/// Makes this test program run without some calls: the errno and the calls follow, with commas between.
pub(crate) const FORBID: &str = "--forbid=";

const ENOSYS: u32 = 38;
const EPERM: u32 = 1;

const MOUNTS: &[&str] = &["open_tree", "move_mount", "fsopen", "fsconfig", "fsmount"];

/// A C library asks for these as well, and only ENOSYS makes it ask for the older ones.
const LIBRARY: &[&str] = &["clone3"];

/// Does what the command line says.
pub(crate) fn heed() {
    let Some(words) = std::env::args().find_map(|arg| arg.strip_prefix(FORBID).map(str::to_owned)) else {
        return;
    };
    let mut words = words.split(',');
    let errno: u32 = words.next().and_then(|errno| errno.parse().ok()).expect("errno");
    let calls: Vec<&str> = words.collect();
    install(&json!([{"names": calls, "action": "SCMP_ACT_ERRNO", "errnoRet": errno}]));
    let missing = berth_sys::missing();
    for call in &calls {
        assert!(missing.iter().any(|line| line.starts_with(&format!("{call} "))), "{call}: {missing:?}");
    }
}

/// What has to be the same: mounts of every kind, masks, devices, terminals, processes, and the attacks.
const SAME: &[&str] = &[
    "basics::runs_and_returns",
    "basics::sees_its_own",
    "basics::has_only_three",
    "basics::overlay_writes",
    "basics::is_in_its_cgroup",
    "basics::limits",
    "basics::joins_a_pid",
    "basics::time_namespace",
    "exec::inherits_everything",
    "exec::in_a_user_namespace",
    "failures::mounts_that_cannot",
    "failures::nothing_is_left",
    "failures::hooks_in_order",
    "hostile::proc_behind",
    "hostile::volumes_over",
    "hostile::dev_behind",
    "hostile::a_volume_that",
    "hostile::links_out",
    "hostile::working_directory",
    "hostile::the_runtimes_binary",
    "hostile::a_console_that",
    "identity::user_of_the_image",
    "identity::user_namespace",
    "identity::seccomp_filter",
    "mounts::targets_behind",
    "mounts::tmpfs_modes",
    "mounts::sockets_and_pipes",
    "mounts::masked_and",
    "mounts::many_masked",
    "mounts::read_only_root",
    "mounts::devices_and_links",
    "mounts::terminal",
    "mounts::cgroup_mount",
    "mounts::copy_up",
    "mounts::sysctls",
    "mounts::the_pods_own",
];

fn without(calls: &[&str], errno: u32) {
    let flag = format!("{FORBID}{errno},{}", calls.join(","));
    let (well, text) = again(&[&[flag.as_str()], SAME].concat());
    assert!(well, "without {calls:?}, errno {errno}: {text}");
    assert!(text.contains(&format!("{} tests, 0 failed", SAME.len())), "{text}");
}

fn one_by_one() {
    if is_restricted() {
        return;
    }
    for errno in [ENOSYS, EPERM] {
        // Either all calls for mounts are used or none, so one of them stands for the others; that each is noticed `heed` asserts.
        for call in ["move_mount", "mount_setattr", "openat2", "pidfd_open"] {
            without(&[call], errno);
        }
    }
    LIBRARY.iter().for_each(|call| without(&[call], ENOSYS));
}

fn all_of_the_mount_calls() {
    if is_restricted() {
        return;
    }
    for call in MOUNTS {
        let flag = format!("{FORBID}{EPERM},{call}");
        let (well, text) = again(&[&flag, "mounts::masked_and", "basics::overlay_writes"]);
        assert!(well && text.contains("2 tests, 0 failed"), "without {call}: {text}");
    }
}

fn all_together() {
    if is_restricted() {
        return;
    }
    let others = ["mount_setattr", "openat2", "pidfd_open"];
    without(&[MOUNTS, &others, LIBRARY].concat(), ENOSYS);
    without(&[MOUNTS, &others].concat(), EPERM);
}

fn owners_cannot_be_mapped() {
    if !is_restricted() {
        for call in ["open_tree", "mount_setattr"] {
            let flag = format!("{FORBID}{ENOSYS},{call}");
            let (well, text) = again(&[&flag, "forbidden::owners_cannot"]);
            assert!(well && text.contains(&format!("refused: {call}")), "{text}");
        }
        return;
    }
    let mut b = Bundle::new("true");
    let map = json!([{"containerID": 0, "hostID": 5000, "size": 10}]);
    let source = b.dir.clone();
    b.mount(json!({"destination": "/m", "source": source, "options": ["bind", "idmap"], "uidMappings": map, "gidMappings": map}));
    let error = b.try_run().expect_err("it cannot be done").to_string();
    for call in MOUNTS.iter().chain(&["mount_setattr"]) {
        if error.contains(&format!("id-mapped mounts take {call},")) {
            println!("refused: {call}");
        }
    }
    assert!(super::bundle::groups_named(&b.id).is_empty(), "a cgroup is left");
}
