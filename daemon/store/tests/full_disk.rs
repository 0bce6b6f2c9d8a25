//! A disk that fills up: one test in a process of its own, since fault points belong to the process.

use berth_core::fault::arm_text;
use berth_core::{Classified, ErrorClass};
use berth_store::{FAULTS, Row, Store};

#[test]
fn a_full_disk_costs_no_record_and_ends_with_it() {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::open(dir.path()).expect("store");
    let reserve = dir.path().join("store.reserve");
    store.sandboxes().put("a", &1).expect("put");
    assert!(reserve.exists());

    // One failing write: the reserve is freed, the file reopened, the call succeeds, the reserve is taken back.
    arm_text("store.disk=1*fail", FAULTS).expect("arm");
    store.sandboxes().put("b", &2).expect("the second try");
    assert!(!store.is_read_only() && reserve.exists());

    // The disk stays full: writes fail with their class, reads go on.
    arm_text("store.disk=fail", FAULTS).expect("arm");
    let error = store.sandboxes().put("c", &3).expect_err("full");
    assert_eq!(error.class(), ErrorClass::ResourceExhausted, "{error}");
    assert!(store.is_read_only() && !reserve.exists());
    arm_text("store.disk=off", FAULTS).expect("disarm");
    assert_eq!(store.sandboxes().get::<u32>("b").expect("get"), Some(Row::Whole(2)));
    assert_eq!(store.sandboxes().get::<u32>("c").expect("get"), None);

    // Space returns: the next write settles everything.
    store.sandboxes().put("c", &3).expect("put");
    assert!(!store.is_read_only() && reserve.exists());
    drop(store);
    let again = Store::open(dir.path()).expect("open");
    assert_eq!(again.sandboxes().all_raw().expect("raw").len(), 3);

    // A step that fails before commit leaves nothing.
    arm_text("store.commit=1*fail", FAULTS).expect("arm");
    assert!(again.sandboxes().put("d", &4).is_err());
    assert_eq!(again.sandboxes().get::<u32>("d").expect("get"), None);
}
