//! Real clients and peers, built once from pinned Go modules into the ignored cache.

use crate::{apt, guest, layout, process};
use anyhow::{Context, bail};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// One build step: arguments of `go`, where `OUT` stands for the folder of built peers.
type Step = &'static [&'static str];

/// One Go module under `e2e/tools` and what is built from it.
struct Peer {
    module: &'static str,
    /// Tests need it; the rest is for benchmarks and long runs.
    needed: bool,
    steps: &'static [Step],
}

const PEERS: [Peer; 6] = [
    Peer {
        module: "critools",
        needed: true,
        steps: &[
            &[
                "build",
                "-trimpath",
                "-ldflags=-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=v1.37.0",
                "-o=OUT/crictl",
                "sigs.k8s.io/cri-tools/cmd/crictl",
            ],
            // critest runs its specs side by side through it.
            &["build", "-trimpath", "-ldflags=-s -w", "-o=OUT/ginkgo", "github.com/onsi/ginkgo/v2/ginkgo"],
            &[
                "test",
                "-c",
                "-trimpath",
                "-ldflags=-s -w",
                "-o=OUT/critest",
                "sigs.k8s.io/cri-tools/cmd/critest",
            ],
        ],
    },
    Peer {
        module: "cni",
        needed: true,
        steps: &[&["build", "-trimpath", "-ldflags=-s -w", "-o=OUT/cni/", "tool"]],
    },
    Peer {
        module: "runc",
        needed: true,
        steps: &[&[
            "build",
            "-trimpath",
            "-tags=seccomp",
            "-ldflags=-s -w",
            "-o=OUT/runc",
            "github.com/opencontainers/runc",
        ]],
    },
    Peer {
        module: "containerd",
        needed: true,
        steps: &[&[
            "build",
            "-trimpath",
            "-ldflags=-s -w -X github.com/containerd/containerd/v2/version.Version=v2.4.2",
            "-o=OUT/",
            "tool",
        ]],
    },
    Peer {
        module: "kubelet",
        needed: true,
        steps: &[&[
            "build",
            "-trimpath",
            "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2",
            "-o=OUT/",
            "tool",
        ]],
    },
    Peer {
        module: "kubelet-1.34",
        needed: false,
        steps: &[&[
            "build",
            "-trimpath",
            "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v1.34.4",
            "-o=OUT/kubelet-1.34",
            "k8s.io/kubernetes/cmd/kubelet",
        ]],
    },
];

/// The name under which the guest is asked for; it is no Go module.
const GUEST: &str = "guest";

/// `cargo xtask tools [--all | MODULE ... | guest]`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let all = args.iter().any(|arg| arg == "--all");
    let named: Vec<&str> = args.iter().map(String::as_str).filter(|arg| *arg != "--all").collect();
    for name in &named {
        if *name != GUEST && !PEERS.iter().any(|peer| peer.module == *name) {
            bail!("no such module: e2e/tools/{name}");
        }
    }
    apt::run()?;
    let wanted = |peer: &Peer| match named.is_empty() {
        true => all || peer.needed,
        false => named.contains(&peer.module),
    };
    for peer in PEERS.iter().filter(|peer| wanted(peer)) {
        build(peer).with_context(|| format!("building e2e/tools/{}", peer.module))?;
    }
    if (all && named.is_empty()) || named.contains(&GUEST) {
        apt::need(&guest::PACKAGES)?;
        guest::run().context("building the guest")?;
    }
    Ok(())
}

fn build(peer: &Peer) -> anyhow::Result<()> {
    let out = layout::tools();
    fs::create_dir_all(out.join("cni"))?;
    let folder = layout::root().join("e2e/tools").join(peer.module);
    let stamp = out.join(format!(".{}.stamp", peer.module));
    let wanted = fingerprint(&folder, peer)?;
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    if !process::exists("go") {
        bail!("Go 1.26 or newer is needed to build crictl and the other peers, and `go` is not in PATH");
    }
    let begun = Instant::now();
    for step in peer.steps {
        let args = step.iter().map(|arg| arg.replace("OUT", &out.to_string_lossy()));
        let mut go = Command::new("go");
        process::run(go.args(args).current_dir(&folder).env("GOFLAGS", "-mod=readonly -buildvcs=false"))?;
    }
    println!("   {} built in {} s", peer.module, begun.elapsed().as_secs());
    Ok(fs::write(&stamp, wanted)?)
}

/// Changes when a pinned version or a build step changes.
fn fingerprint(folder: &Path, peer: &Peer) -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    for name in ["go.mod", "go.sum"] {
        let path = folder.join(name);
        fs::read(&path).with_context(|| path.display().to_string())?.hash(&mut hasher);
    }
    peer.steps.hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}
