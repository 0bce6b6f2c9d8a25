//! The slice as a whole: the way once through everything, and the rules that hold all along it.

mod first;
mod lists;
mod operations;
mod stops;

use berth_e2e::harness::Test;

/// The tests of this subject.
pub(crate) fn tests() -> Vec<Test> {
    [first::tests(), operations::tests(), stops::tests(), lists::tests()].concat()
}
