//! What runs in the guest itself: the daemon as a service of systemd, spoken to through its usual socket.

mod pods;
mod server;

use anyhow::{Context as _, Result};
use berth_e2e::cri::Cri;
use berth_e2e::harness::{Context, Test};
use berth_e2e::{check, podspec, tests};
use berth_proto::cri as wire;
use pods::{image, start_in};
use server::Server;

tests![lives_on, scopes_of_pods, out_of_memory, never_started, moved_init];

/// The tests when this program runs in the guest, and none elsewhere: they take the machine's own service.
pub(crate) fn in_guest() -> Vec<Test> {
    if std::env::var_os("BERTH_E2E_GUEST").is_some() { tests() } else { Vec::new() }
}

/// A restart, by hand or by kill, does not touch pods; the driver is systemd's, and stays so while pods exist.
async fn lives_on(_context: Context) -> Result<()> {
    let server = Server::start("").await?;
    let mut cri = server.cri().await?;
    check!(server.driver().await? == wire::CgroupDriver::Systemd, "another driver than systemd");
    let (_, id) = start_in(&server, "berthlives.slice", "lives", &["sleep", "100000"]).await?;
    let before = cri.container(&id).await?;
    let init = berth_e2e::procfs::init_of(&id).context("no process")?;
    for act in ["restart", "kill --signal KILL --kill-whom main"] {
        let main = server.property("MainPID")?;
        server.systemctl(act)?;
        server.until(|| server.property("MainPID").is_ok_and(|now| now != main && now != "0")).await?;
        server.wait().await?;
        let mut cri = server.cri().await?;
        let after = cri.container(&id).await?;
        check!(after.state() == wire::ContainerState::ContainerRunning, "after {act}: {after:?}");
        check!(after.started_at == before.started_at, "after {act}: {after:?}");
        check!(berth_e2e::procfs::init_of(&id) == Some(init), "after {act} another process");
        check!(cri.exec(&id, &["true"], 30).await?.exit_code == 0, "exec after {act}");
    }
    // The kubelet's file now wishes otherwise: not while there are pods.
    std::fs::create_dir_all("/var/lib/kubelet")?;
    std::fs::write("/var/lib/kubelet/config.yaml", "cgroupDriver: cgroupfs\n")?;
    server.systemctl("restart")?;
    server.wait().await?;
    check!(server.driver().await? == wire::CgroupDriver::Systemd, "the driver flipped under a pod");
    std::fs::remove_file("/var/lib/kubelet/config.yaml")?;
    server.clean().await
}

/// The container's scope lies in its pod's slice with its limits, processes are counted, and the other form of parent
/// is refused with the remedy and leaves nothing.
async fn scopes_of_pods(_context: Context) -> Result<()> {
    let server = Server::start("CPUAffinity=0\n").await?;
    let mut cri = server.cri().await?;
    let (pod, id) = start_in(&server, "berthpods.slice", "scopes", &["sleep", "100000"]).await?;
    let told = server::run(
        "systemctl",
        &[
            "show",
            "-p",
            "MemoryLimit,MemoryMax,CPUQuotaPerSecUSec,Slice,CollectMode",
            &format!("berth-{id}.scope"),
        ],
    )?;
    for word in
        ["=67108864", "CPUQuotaPerSecUSec=500ms", "Slice=berthpods.slice", "CollectMode=inactive-or-failed"]
    {
        check!(told.contains(word), "no {word} in {told}");
    }
    let init = berth_e2e::procfs::init_of(&id).context("no process")?;
    let groups = std::fs::read_to_string(format!("/proc/{init}/cgroup"))?;
    let path = format!("/berthpods.slice/berth-{id}.scope");
    let systemd = groups.lines().filter(|line| line.starts_with("0::") || line.contains(":memory:"));
    check!(systemd.clone().count() > 0 && systemd.clone().all(|line| line.ends_with(&path)), "{groups}");
    figures(&mut cri, &pod, &id).await?;
    let refused = cri.run_pod(&pods::config("/berth-wrong/pod", "wrong")).await;
    let text = refused.err().context("a path was accepted as a parent by the systemd driver")?.to_string();
    check!(text.contains("systemd") && text.contains("cgroupfs"), "{text}");
    server.clean().await?;
    let left = server::run(
        "find",
        &["/sys/fs/cgroup", "-name", "*:*", "-o", "-name", "berth-wrong", "-o", "-name", "berth-*.scope"],
    )?;
    check!(left.is_empty(), "{left}");
    Ok(())
}

async fn figures(cri: &mut Cri, pod: &str, id: &str) -> Result<()> {
    // The unit's own affinity is none of the container's business.
    let seen = cri.exec(id, &["grep", "Cpus_allowed_list", "/proc/self/status"], 30).await?;
    check!(seen.stdout.ends_with(b"0-1\n"), "{:?}", String::from_utf8_lossy(&seen.stdout));
    let stats = cri.stats(id).await?;
    check!(stats.memory.is_some_and(|m| m.usage_bytes.is_some_and(|v| v.value > 0)), "no memory figure");
    let stats = wire::PodSandboxStatsRequest { pod_sandbox_id: pod.to_owned() };
    let stats = cri.runtime.pod_sandbox_stats(stats).await?.into_inner();
    let count = stats.stats.and_then(|s| s.linux).and_then(|l| l.process).and_then(|p| p.process_count);
    check!(count.is_some_and(|count| count.value > 0), "process_count {count:?}");
    Ok(())
}

async fn out_of_memory(_context: Context) -> Result<()> {
    let server = Server::start("").await?;
    let (_, id) = start_in(&server, "berthoom.slice", "oom", &["tail", "-n", "1", "/dev/zero"]).await?;
    let status = server.ended(&id).await?;
    check!(status.reason == "OOMKilled" && status.exit_code == 137, "{status:?}");
    server.clean().await
}

/// What never started is no success: the error names path and errno, is plain text, and nothing is left of it.
async fn never_started(_context: Context) -> Result<()> {
    let server = Server::start("").await?;
    let mut cri = server.cri().await?;
    let (pod, healthy) = start_in(&server, "berthnever.slice", "never", &["sleep", "100000"]).await?;
    let script = "printf '#!/no/interpreter\\n' >/tmp/script; chmod 755 /tmp/script; echo x >/tmp/plain; chmod 644 /tmp/plain";
    cri.exec(&healthy, &["sh", "-c", script], 30).await?;
    entrypoints(&server, &mut cri, &pod).await?;
    execs(&mut cri, &healthy).await?;
    // The node is out of network namespaces: said so, and the pod can be tried again.
    let most = std::fs::read_to_string("/proc/sys/user/max_net_namespaces")?;
    std::fs::write("/proc/sys/user/max_net_namespaces", "0")?;
    let refused = cri.run_pod(&pods::config("berthnever.slice", "nonet")).await;
    std::fs::write("/proc/sys/user/max_net_namespaces", most)?;
    let error = refused.err().context("a pod without a network namespace started")?;
    check!(error.message().contains("ENOSPC") || error.message().contains("No space left"), "{error}");
    cri.run_pod(&pods::config("berthnever.slice", "nonet")).await.context("the second try")?;
    server.clean().await
}

async fn entrypoints(server: &Server, cri: &mut Cri, pod: &str) -> Result<()> {
    let pod_config = pods::config("berthnever.slice", "never");
    for (program, errno) in [
        ("/no/such", "ENOENT"),
        ("/etc/passwd", "EACCES"),
        ("/etc", "EACCES"),
        ("/no/\"quoted\u{1}\"", "ENOENT"),
    ] {
        let image = image(server).await?;
        let config = podspec::container("bad", &image, &[program]);
        let id = cri.create(pod, &config, &pod_config).await?;
        let error = cri.start(&id).await.err().with_context(|| format!("{program} started"))?;
        check!(error.message().contains(errno), "{program}: {error}");
        let status = cri.container(&id).await?;
        check!(
            status.exit_code != 0 && status.state() == wire::ContainerState::ContainerExited,
            "{status:?}"
        );
        cri.remove(&id).await?;
        check!(
            server::run("find", &["/sys/fs/cgroup", "-name", &format!("*{id}*")])?.is_empty(),
            "cgroups of {program}"
        );
    }
    Ok(())
}

async fn execs(cri: &mut Cri, healthy: &str) -> Result<()> {
    for (program, errno) in
        [("/no/such", "ENOENT"), ("/tmp/script", "ENOENT"), ("/tmp/plain", "EACCES"), ("/tmp", "EACCES")]
    {
        match cri.exec(healthy, &[program], 30).await {
            Ok(answer) => check!(
                answer.exit_code != 0 && String::from_utf8_lossy(&answer.stderr).contains(errno),
                "exec of {program}: {answer:?}"
            ),
            Err(error) => check!(error.message().contains(errno), "exec of {program}: {error}"),
        }
    }
    Ok(())
}

/// A privileged init that moved itself into a group of its own: probes go on working.
async fn moved_init(_context: Context) -> Result<()> {
    let server = Server::start("").await?;
    let mut cri = server.cri().await?;
    let image = image(&server).await?;
    let mut pod_config = pods::config("berthmoved.slice", "moved");
    let linux = pod_config.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default().privileged = true;
    let pod = cri.run_pod(&pod_config).await?;
    let group = if server::unified() { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/memory" };
    let script =
        format!("mkdir {group}/q && echo 1 >{group}/q/cgroup.procs && echo moved; exec sleep 100000");
    let mut config = podspec::container("c", &image, &["sh", "-c", &script]);
    config.envs = vec![wire::KeyValue { key: "A".to_owned(), value: b"1".to_vec() }];
    podspec::security(&mut config).privileged = true;
    let id = cri.create(&pod, &config, &pod_config).await?;
    cri.start(&id).await?;
    let init = berth_e2e::procfs::init_of(&id).context("no process")?;
    server
        .until(|| {
            std::fs::read_to_string(format!("/proc/{init}/cgroup")).is_ok_and(|text| text.contains("/q\n"))
        })
        .await?;
    let answer = cri.exec(&id, &["true"], 30).await?;
    check!(answer.exit_code == 0, "{answer:?}");
    let answer = cri.exec(&id, &["env"], 30).await?;
    let env = String::from_utf8_lossy(&answer.stdout).into_owned();
    check!(env.contains("A=1\n") && env.contains("PATH="), "{env}");
    server.clean().await
}
