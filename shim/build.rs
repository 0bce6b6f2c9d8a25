//! The shim is linked at a fixed address: there is one per pod, and a third of a megabyte of relocated tables would be
//! each one's own instead of shared pages of the file.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-no-pie");
}
