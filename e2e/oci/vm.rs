//! In a virtual machine with systemd as process 1, once for each way that it lays out control groups.

mod case;
mod devices;
mod life;
mod limits;
mod smoke;
mod suites;

use berth_e2e::harness::Test;

/// The tests of every module, those of one mode together: a change of mode costs a start of the machine.
pub(crate) fn tests() -> Vec<Test> {
    [smoke::tests(), limits::tests(), devices::tests(), life::tests(), suites::tests()].concat()
}
