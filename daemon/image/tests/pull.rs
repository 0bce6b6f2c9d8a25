//! Pulls from a registry on loopback, good and evil, through real workers into a real layer store. Needs root.
#![allow(clippy::unwrap_used, reason = "a test program: an unwrap that fails is the test failing")]

#[path = "support/image.rs"]
mod image;
#[path = "support/index.rs"]
mod index;
#[path = "support/node.rs"]
mod node;
#[path = "support/registry.rs"]
mod registry;
#[path = "support/tar.rs"]
mod tar;

#[path = "pull/auth.rs"]
mod auth;
#[path = "pull/broken.rs"]
mod broken;
#[path = "pull/evil.rs"]
mod evil;
#[path = "pull/good.rs"]
mod good;
#[path = "pull/mirrors.rs"]
mod mirrors;
#[path = "pull/oddities.rs"]
mod oddities;
#[path = "pull/tls.rs"]
mod tls;

/// Not a test: what a worker started by a test runs.
#[test]
fn unpack_worker_entry() {
    if std::env::var_os("BERTH_TEST_WORKER").is_some() {
        assert_eq!(berth_image::unpack::worker::main(), std::process::ExitCode::SUCCESS);
    }
}
