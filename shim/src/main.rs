//! berth-shim: the per-pod monitor, the runtime's child (init) and the OCI command line in one binary.

fn main() {}
