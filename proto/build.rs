//! Compiles the wire words with protox, so that no protoc is needed; each file only under its feature.

use std::error::Error;
use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::var_os("CARGO_FEATURE_SHIM").is_some() {
        shim()?;
    }
    if std::env::var_os("CARGO_FEATURE_CONTAINERD").is_some() {
        containerd()?;
    }
    if std::env::var_os("CARGO_FEATURE_CRI").is_some() {
        cri()?;
    }
    Ok(())
}

/// Messages only, as below.
fn containerd() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=containerd");
    let files = ["shim", "cgroups_v1", "cgroups_v2"].map(|name| format!("containerd/{name}.proto"));
    let words = protox::compile(files, ["containerd"])?;
    let mut config = tonic_prost_build::Config::new();
    config.compile_fds(words)?;
    Ok(())
}

/// Messages only: the calls of berth.shim.v1 are bound to ttrpc by hand in src/shim.rs.
fn shim() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=shim/shim.proto");
    let words = protox::compile(["shim/shim.proto"], ["shim"])?;
    let mut config = tonic_prost_build::Config::new();
    config.compile_fds(words)?;
    Ok(())
}

/// Messages, client and server of runtime.v1, and the descriptor for the test that holds it against its table.
fn cri() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=cri/api.proto");
    let words = protox::compile(["cri/api.proto"], ["cri"])?;
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("cri.bin"), words.encode_to_vec())?;
    tonic_prost_build::configure().build_transport(false).compile_fds(words)?;
    Ok(())
}
