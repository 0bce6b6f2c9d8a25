//! The checks that the fuzz targets run; the runtime's own tests replay the corpus through the same file.

#[path = "../../shim/runtime/tests/corpus/checks.rs"]
pub mod checks;
