//! Every input that the fuzzers kept, given to the same checks again.

#[path = "corpus/checks.rs"]
mod checks;

use std::path::Path;

#[test]
fn what_the_fuzzers_found_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in checks::TARGETS {
        let mut seen = 0;
        for entry in std::fs::read_dir(corpus.join(name)).expect("corpus").flatten() {
            let data = std::fs::read(entry.path()).expect("read");
            let held = std::panic::catch_unwind(|| check(&data));
            assert!(held.is_ok(), "{name}: {}", entry.path().display());
            seen += 1;
        }
        assert!(seen >= 5, "{name} has {seen} inputs only");
    }
}

#[test]
fn the_checks_can_fail() {
    // A profile whose program is fine, and bytes that are none: both pass without a word.
    checks::seccomp(br#"{"defaultAction":"SCMP_ACT_ALLOW"}"#);
    checks::seccomp(b"{");
    assert!(berth_runtime::parse::spec(b"{}").is_err());
    assert_eq!(berth_runtime::parse::mount_options(&["x=1".to_owned()]).data, ["x=1"]);
}
