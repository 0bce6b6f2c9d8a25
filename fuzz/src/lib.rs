//! The checks that the fuzz targets run; the runtime's own tests replay the corpus through the same file.

#[path = "../../shim/runtime/tests/corpus/checks.rs"]
mod checks;

/// Runs the check of a target on one input.
///
/// # Panics
/// When something does not hold, or there is no such target.
pub fn check(target: &str, data: &[u8]) {
    let found = checks::TARGETS.iter().find(|(name, _)| *name == target);
    (found.expect("a target of the table").1)(data);
}
