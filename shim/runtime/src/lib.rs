//! The embedded low-level runtime: an OCI bundle becomes a process.
