//! A real shim with real containers: what the daemon relies on. Needs root and a static busybox.

mod bundle;
mod exec;
mod harness;
mod lifecycle;
mod logs;
mod measure;
mod sandbox;
