//! The harness of the end-to-end tests: private nodes, images, a registry, clients and a leak checker.
//!
//! Everything a test makes carries the tag of its run, so that runs beside each other do not meet,
//! and so that the leak checker can tell its own from everybody else's.

pub mod bundle;
pub mod churn;
pub mod cri;
pub mod crictl;
pub mod critest;
pub mod ctr;
pub mod faults;
pub mod filter;
pub mod harness;
pub mod image;
pub mod kubelet;
pub mod leak;
pub mod node;
pub mod paths;
pub mod podspec;
pub mod procfs;
pub mod registry;
pub mod samples;
pub mod tag;
pub mod vm;
pub mod world;
pub mod yard;
