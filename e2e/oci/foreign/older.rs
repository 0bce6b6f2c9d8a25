//! containerd 1.6, which reads a plain address from its shim and no JSON.

use anyhow::Result;
use berth_e2e::ctr::{Said, said};
use berth_e2e::harness::Context;
use berth_e2e::yard::Yard;
use berth_e2e::{check, paths, samples, tests};

tests![shim];

async fn shim(_context: Context) -> Result<()> {
    let mut yard = Yard::new()?;
    let result = walk(&mut yard).await;
    yard.finish(result).await
}

async fn walk(yard: &mut Yard) -> Result<()> {
    let dir = yard.dir().display().to_string();
    let config = format!(
        "version = 2\nroot = \"{dir}/root\"\nstate = \"{dir}/state\"\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = \"{dir}/c.sock\"\n"
    );
    std::fs::write(yard.dir().join("config.toml"), config)?;
    let rootfs = rootfs(yard)?;
    let daemon = paths::package_file("containerd", "usr/bin/containerd")?.display().to_string();
    let words = [daemon, "--config".to_owned(), format!("{dir}/config.toml")];
    let socket = yard.dir().join("c.sock");
    yard.start(&words, &[], &socket).await?;
    let fifos = format!("{dir}/fifos");
    let run = ["run", "--fifo-dir", &fifos, "--rootfs", "--runtime", "io.containerd.berth.v1"];
    let front = [&run[..], &["--rm", &rootfs, "front", "/bin/sh", "-c", "echo out; exit 7"]].concat();
    let said = ctr(yard, &front).await?;
    check!((said.code, said.out.trim()) == (7, "out"), "{said:?}");
    let sleeper = [&run[..], &["-d", &rootfs, "sleeper", "/bin/sleep", "100000"]].concat();
    let said = ctr(yard, &sleeper).await?;
    check!(said.code == 0, "{said:?}");
    let said = ctr(yard, &["task", "exec", "--exec-id", "e", "sleeper", "/bin/sh", "-c", "exit 3"]).await?;
    check!(said.code == 3, "{said:?}");
    let said = ctr(yard, &["task", "metrics", "sleeper"]).await?;
    check!(said.code == 0 && said.out.contains("pids.current"), "{said:?}");
    let said = ctr(yard, &["task", "rm", "-f", "sleeper"]).await?;
    check!(said.code == 0, "{said:?}");
    let said = ctr(yard, &["container", "rm", "sleeper"]).await?;
    check!(said.code == 0, "{said:?}");
    let left = yard.cgroup().directories(&format!("{}/sleeper", yard.name()));
    check!(left.is_empty(), "{left:?}");
    Ok(())
}

/// Its own client, in a namespace of the yard's name.
async fn ctr(yard: &Yard, args: &[&str]) -> Result<Said> {
    let mut words = vec![paths::package_file("containerd", "usr/bin/ctr")?.display().to_string()];
    words.extend(["--address".to_owned(), yard.dir().join("c.sock").display().to_string()]);
    words.extend(["--namespace".to_owned(), yard.name()]);
    words.extend(args.iter().map(|arg| (*arg).to_owned()));
    said(&words, "").await
}

/// A folder with busybox.
fn rootfs(yard: &Yard) -> Result<String> {
    let (into, tar) = (yard.dir().join("rootfs"), yard.dir().join("rootfs.tar"));
    std::fs::create_dir_all(&into)?;
    std::fs::write(&tar, samples::busybox_layer()?.tar())?;
    let status = std::process::Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&into).status()?;
    check!(status.success(), "tar: {status}");
    Ok(into.display().to_string())
}
