//! The end-to-end tests: the built product on private nodes. See `cargo xtask test`.

mod bad_images;
mod bad_requests;
mod cases;
mod cases_faulty;
mod churn;
mod container;
mod crictl;
mod critest;
mod daemon;
mod faults;
mod images;
mod kubelet;
mod limits;
mod logs;
mod network;
mod restart;
mod slice;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        critest::tests(),
        kubelet::tests(),
        slice::tests(),
        crictl::tests(),
        container::tests(),
        images::tests(),
        limits::tests(),
        logs::tests(),
        network::tests(),
        bad_images::tests(),
        bad_requests::tests(),
        cases::tests(),
        daemon::tests(),
        restart::tests(),
        faults::tests(),
        churn::tests(),
        cases_faulty::tests(),
    ];
    berth_e2e::harness::main(&tests.concat())
}
