//! Over directories in the shape of resctrl, whose files appear by themselves only in the kernel's.

use super::*;
use serde_json::{Value, json};

fn rdt(value: Value) -> LinuxIntelRdt {
    serde_json::from_value(value).expect("intelRdt")
}

/// A mounted resctrl with a class `there`.
fn resctrl() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("directory");
    std::fs::create_dir_all(root.path().join("info/MB")).expect("info");
    std::fs::write(root.path().join("info/MB/bandwidth_gran"), "10\n").expect("gran");
    std::fs::write(root.path().join("info/last_cmd_status"), "the kernel's reason\n").expect("status");
    fill(root.path());
    std::fs::create_dir(root.path().join("there")).expect("class");
    fill(&root.path().join("there"));
    root
}

/// What the kernel puts into a new class.
fn fill(class: &Path) {
    std::fs::create_dir_all(class.join("mon_groups")).expect("mon_groups");
    std::fs::write(class.join("tasks"), "").expect("tasks");
    std::fs::write(class.join("schemata"), "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n").expect("schemata");
}

fn empty(class: &Path) {
    for file in ["tasks", "schemata"] {
        std::fs::remove_file(class.join(file)).expect(file);
    }
    std::fs::remove_dir(class.join("mon_groups")).expect("mon_groups");
}

fn begin(root: &tempfile::TempDir, rdt: &LinuxIntelRdt, id: &str) -> Result<Made, String> {
    Made::begin(root.path().to_owned(), rdt, id).map_err(|error| error.to_string())
}

#[test]
fn a_container_has_a_class_of_its_own_which_goes_with_it() {
    let root = resctrl();
    let config = rdt(json!({"l3CacheSchema": "L3:0=f", "memBwSchema": "MB:0=20", "schemata": ["L3:1=1"]}));
    let mut made = begin(&root, &config, "c1").expect("begun");
    let class = root.path().join("c1");
    fill(&class);
    std::fs::write(class.join("schemata"), "").expect("schemata");
    made.fill(&config).expect("filled");
    // A file keeps what was written last over what was there.
    assert_eq!(std::fs::read_to_string(class.join("schemata")).expect("schemata"), "L3:1=1\n\n");
    made.join(4711).expect("joined");
    assert_eq!(std::fs::read_to_string(class.join("tasks")).expect("tasks"), "4711");
    made.keep();
    assert!(class.is_dir());
    empty(&class);
    remove_at(root.path(), &config, "c1").expect("removed");
    assert!(!class.exists());
    remove_at(root.path(), &config, "c1").expect("removed twice");
}

#[test]
fn what_failed_takes_its_class_along_and_says_the_kernels_reason() {
    let root = resctrl();
    let config = rdt(json!({"schemata": ["L3:0=0"]}));
    let mut made = begin(&root, &config, "c2").expect("begun");
    // Nothing can be written: the file is not there.
    assert!(made.fill(&config).is_err());
    assert_eq!(made.status(), "the kernel's reason");
    drop(made);
    assert!(!root.path().join("c2").exists());
}

#[test]
fn a_class_of_the_containers_name_is_not_taken_over() {
    let root = resctrl();
    assert!(begin(&root, &rdt(json!({})), "there").is_err());
    assert!(root.path().join("there").is_dir());
}

#[test]
fn a_class_that_is_named_must_be_there_or_described() {
    let root = resctrl();
    let error = begin(&root, &rdt(json!({"closID": "gone"})), "c3").expect_err("missing");
    assert!(error.contains("closID"), "{error}");
    assert!(!root.path().join("gone").exists());
    let config = rdt(json!({"closID": "new", "schemata": ["L3:0=1"]}));
    let mut made = begin(&root, &config, "c3").expect("made");
    fill(&root.path().join("new"));
    made.fill(&config).expect("filled");
    made.keep();
    remove_at(root.path(), &config, "c3").expect("removed");
    assert!(root.path().join("new").is_dir(), "it belongs to whoever named it");
}

#[test]
fn a_class_that_is_there_must_be_as_described() {
    let root = resctrl();
    for (config, fits) in [
        (json!({"closID": "there"}), true),
        (json!({"closID": "/"}), true),
        (json!({"closID": "there", "l3CacheSchema": "L3:0=7ff", "memBwSchema": "MB:1=95"}), true),
        (json!({"closID": "there", "l3CacheSchema": "L3:0=f"}), false),
        (json!({"closID": "there", "memBwSchema": "MB:0=50"}), false),
    ] {
        let config = rdt(config);
        let mut made = begin(&root, &config, "c4").expect("begun");
        assert_eq!(made.fill(&config).is_ok(), fits, "{config:?}");
    }
    assert!(root.path().join("there").is_dir());
}

#[test]
fn monitoring_has_a_group_that_goes_with_the_container() {
    let root = resctrl();
    let config = rdt(json!({"closID": "there", "enableMonitoring": true}));
    let group = root.path().join("there/mon_groups/c5");
    let mut made = begin(&root, &config, "c5").expect("begun");
    made.fill(&config).expect("filled");
    assert!(group.is_dir());
    assert!(
        begin(&root, &config, "c5")
            .and_then(|mut made| made.fill(&config).map_err(|e| e.to_string()))
            .is_err()
    );
    std::fs::write(group.join("tasks"), "").expect("tasks");
    made.join(7).expect("joined");
    assert_eq!(std::fs::read_to_string(group.join("tasks")).expect("tasks"), "7");
    made.keep();
    std::fs::remove_file(group.join("tasks")).expect("tasks");
    remove_at(root.path(), &config, "c5").expect("removed");
    assert!(!group.exists() && root.path().join("there").is_dir());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let root = resctrl();
    for name in ["..", ".", "a/b", "/etc", "../x", "info", "mon_groups", "mon_data", "a\nb", "schemata"] {
        let config = rdt(json!({"closID": name, "enableMonitoring": true}));
        assert!(begin(&root, &config, "c6").is_err(), "{name:?}");
    }
    assert!(begin(&root, &rdt(json!({})), "info").is_err());
}

#[test]
fn schemata_are_lines() {
    for bad in [
        json!({"schemata": ["L3:0=f\nMB:0=10"]}),
        json!({"l3CacheSchema": "L3:0=f\nMB:0=10"}),
        json!({"memBwSchema": "L3:0=f"}),
    ] {
        assert!(check(&rdt(bad.clone())).is_err(), "{bad}");
    }
    assert!(
        check(&rdt(json!({"memBwSchema": "MB:0=10", "schemata": ["L2:0=f"], "enableCMT": true}))).is_ok()
    );
}
