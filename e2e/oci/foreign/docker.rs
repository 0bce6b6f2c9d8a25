//! Debian's Docker, unpacked and started in network and mount namespaces of its own, with the product as its runtime.

use anyhow::{Context as _, Result};
use berth_e2e::ctr::Said;
use berth_e2e::harness::Context;
use berth_e2e::yard::Yard;
use berth_e2e::{check, paths, samples, tests};
use std::path::PathBuf;

tests![run, limits, security, life];

/// A Docker daemon with one image, `busybox`.
struct Docker {
    yard: Yard,
}

/// Runs a test's body and takes Docker down whatever came of it.
macro_rules! with_docker {
    ($body:path) => {{
        let mut docker = Docker { yard: Yard::new()? };
        let result = match docker.start().await {
            Ok(()) => $body(&docker).await,
            Err(error) => Err(error),
        };
        docker.yard.finish(result).await
    }};
}

async fn run(_context: Context) -> Result<()> {
    with_docker!(hello)
}

async fn limits(_context: Context) -> Result<()> {
    with_docker!(limited)
}

async fn security(_context: Context) -> Result<()> {
    with_docker!(secured)
}

async fn life(_context: Context) -> Result<()> {
    with_docker!(lived)
}

impl Docker {
    async fn start(&mut self) -> Result<()> {
        let dir = self.yard.dir().display().to_string();
        let package = |name: &str, file: &str| paths::package_file(name, file);
        let dockerd = package("docker.io", "usr/sbin/dockerd")?.display().to_string();
        let name = self.yard.name();
        // It writes into /etc, which is a copy for it alone.
        for folder in ["etc", "etc-work"] {
            std::fs::create_dir_all(self.yard.dir().join(folder))?;
        }
        let script = format!(
            "mount -t overlay overlay -o lowerdir=/etc,upperdir={dir}/etc,workdir={dir}/etc-work /etc && \
             exec {dockerd} --data-root {dir}/data --exec-root {dir}/exec --pidfile {dir}/pid \
             -H unix://{dir}/docker.sock --iptables=false --bridge=none --cgroup-parent /{name} \
             --add-runtime berth={dir}/bin/berth-oci --default-runtime berth"
        );
        let own = ["unshare", "--net", "--mount", "--propagation", "slave", "sh", "-c", &script];
        let words = own.map(str::to_owned);
        // Its containerd, shim and runc are looked for there.
        let mut path: Vec<PathBuf> = Vec::new();
        for (name, file) in [
            ("docker.io", "usr/bin/docker"),
            ("docker.io", "usr/sbin/dockerd"),
            ("containerd", "usr/bin/containerd"),
            ("runc", "usr/bin/runc"),
        ] {
            path.extend(package(name, file)?.parent().map(PathBuf::from));
        }
        let socket = self.yard.dir().join("docker.sock");
        self.yard.start(&words, &path, &socket).await?;
        let tar = self.yard.dir().join("busybox.tar");
        std::fs::write(&tar, samples::busybox_layer()?.tar())?;
        self.ok(&["import", &tar.display().to_string(), "busybox"]).await.map(drop)
    }

    fn words(&self, args: &[&str]) -> Result<Vec<String>> {
        let client = paths::package_file("docker.io", "usr/bin/docker")?.display().to_string();
        let host = format!("unix://{}/docker.sock", self.yard.dir().display());
        let config = self.yard.dir().join("client").display().to_string();
        let mut words = vec![client, "--config".to_owned(), config, "-H".to_owned(), host];
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        Ok(words)
    }

    async fn say(&self, args: &[&str], input: &str) -> Result<Said> {
        berth_e2e::ctr::said(&self.words(args)?, input).await
    }

    async fn ok(&self, args: &[&str]) -> Result<String> {
        let said = self.say(args, "").await?;
        check!(said.code == 0, "docker {args:?}: {said:?}");
        Ok(said.out.trim().to_owned())
    }

    /// `docker run --rm` of a script, with options.
    async fn script(&self, options: &[&str], script: &str) -> Result<Said> {
        let args = [&["run", "--rm"], options, &["busybox", "sh", "-c", script]].concat();
        self.say(&args, "").await
    }

    /// What such a script prints.
    async fn prints(&self, options: &[&str], script: &str) -> Result<String> {
        let said = self.script(options, script).await?;
        check!(said.code == 0, "docker run {options:?} {script:?}: {said:?}");
        Ok(said.out.trim().to_owned())
    }
}

async fn hello(docker: &Docker) -> Result<()> {
    check!(docker.prints(&[], "echo hello").await? == "hello", "no hello");
    let said = docker.script(&[], "echo out; echo err >&2; exit 7").await?;
    check!((said.code, said.out.trim(), said.err.trim()) == (7, "out", "err"), "{said:?}");
    let said = docker.say(&["run", "--rm", "-i", "busybox", "cat"], "through\n").await?;
    check!((said.code, said.out.as_str()) == (0, "through\n"), "{said:?}");
    let missing = docker.say(&["run", "--rm", "busybox", "/no/such"], "").await?;
    check!(missing.code == 127 && missing.err.contains("/no/such"), "{missing:?}");
    let words = docker.words(&["run", "--rm", "-it", "busybox", "sh", "-c", TERMINAL])?;
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let line = format!("stty rows 33 cols 101; exec {}", quoted.join(" "));
    let said =
        berth_e2e::ctr::said(&["script", "-qec", &line, "/dev/null"].map(str::to_owned), "typed\n").await?;
    check!(said.code == 5 && said.out.contains("33 101") && said.out.contains("got-typed"), "{said:?}");
    Ok(())
}

const TERMINAL: &str = "test -t 0 && test -t 1 || exit 1; sleep 1; busybox stty size; read line; \
                        echo got-$line; exit 5";

/// The limit as either kind of cgroup shows it.
const MEMORY: &str = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max";

async fn limited(docker: &Docker) -> Result<()> {
    check!(docker.prints(&["--memory", "64m"], MEMORY).await? == "67108864", "--memory");
    let cpus = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us || cut -d' ' -f1 /sys/fs/cgroup/cpu.max";
    check!(docker.prints(&["--cpus", "0.5"], cpus).await? == "50000", "--cpus");
    let pids = "cat /sys/fs/cgroup/pids/pids.max || cat /sys/fs/cgroup/pids.max";
    check!(docker.prints(&["--pids-limit", "77"], pids).await? == "77", "--pids-limit");
    let said = docker.script(&["--memory", "32m"], "tail /dev/zero").await?;
    check!(said.code == 137, "{said:?}");
    let files = docker.prints(&["--ulimit", "nofile=123:456"], "ulimit -Sn; ulimit -Hn").await?;
    check!(files == "123\n456", "{files}");
    Ok(())
}

async fn secured(docker: &Docker) -> Result<()> {
    let who = docker.prints(&["--user", "33:50"], "id -u; id -g").await?;
    check!(who == "33\n50", "{who}");
    let said = docker.script(&["--read-only"], "touch /new").await?;
    check!(said.code != 0 && said.err.contains("Read-only"), "{said:?}");
    let sets = "grep -E '^Cap(Eff|Bnd)' /proc/self/status";
    let none = docker.prints(&["--cap-drop", "ALL"], sets).await?;
    check!(none.lines().all(|line| line.ends_with("\t0000000000000000")), "{none}");
    let one = docker.prints(&["--cap-drop", "ALL", "--cap-add", "CHOWN"], sets).await?;
    check!(one.lines().all(|line| line.ends_with("\t0000000000000001")), "{one}");
    let flag =
        docker.prints(&["--security-opt", "no-new-privileges"], "grep NoNewPrivs /proc/self/status").await?;
    check!(flag == "NoNewPrivs:\t1", "{flag}");
    let profile = docker.yard.dir().join("profile.json");
    let text = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 11}]}"#;
    std::fs::write(&profile, text)?;
    let option = format!("seccomp={}", profile.display());
    let said = docker.script(&["--security-opt", &option], "mkdir /new").await?;
    check!(said.code != 0 && said.err.contains("temporarily unavailable"), "{said:?}");
    let said = docker.script(&[], "unshare -m true").await?;
    check!(said.code != 0, "Docker's own profile does not hold: {said:?}");
    Ok(())
}

/// Containers that are not waited for: exec, logs, pause, update, top, stop, kill, and both ends of a restart.
async fn lived(docker: &Docker) -> Result<()> {
    let script = "trap 'exit 4' TERM; echo begun; while :; do usleep 20000; done";
    let id = docker.ok(&["run", "-d", "--name", "walker", "busybox", "sh", "-c", script]).await?;
    docker.yard.remember(&id);
    let said = docker.say(&["exec", "walker", "sh", "-c", "echo in; exit 3"], "").await?;
    check!((said.code, said.out.trim()) == (3, "in"), "{said:?}");
    check!(docker.ok(&["logs", "walker"]).await? == "begun", "no log");
    docker.ok(&["pause", "walker"]).await?;
    check!(docker.ok(&["inspect", "-f", "{{.State.Status}}", "walker"]).await? == "paused", "not paused");
    docker.ok(&["unpause", "walker"]).await?;
    docker.ok(&["update", "--memory", "96m", "--memory-swap", "96m", "walker"]).await?;
    let memory = docker.ok(&["exec", "walker", "sh", "-c", MEMORY]).await?;
    check!(memory == "100663296", "{memory}");
    check!(docker.ok(&["top", "walker"]).await?.contains("usleep 20000"), "no process");
    docker.ok(&["stop", "walker"]).await?;
    check!(
        docker.ok(&["inspect", "-f", "{{.State.ExitCode}}", "walker"]).await? == "4",
        "its trap did not run"
    );
    docker.ok(&["start", "walker"]).await?;
    docker.ok(&["kill", "walker"]).await?;
    let code = docker.ok(&["wait", "walker"]).await.context("docker wait")?;
    check!(code == "137", "{code}");
    docker.ok(&["rm", "walker"]).await?;
    let left = docker.yard.cgroup().directories(&format!("{}/{id}", docker.yard.name()));
    check!(left.is_empty(), "{left:?}");
    Ok(())
}
