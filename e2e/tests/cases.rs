//! Small inputs that other runtimes got wrong, each tested as a whole kind.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::image::{ImageBuilder, Layer};
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{check, podspec, procfs, samples, tests};
use berth_proto::cri as wire;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

tests![
    mount_targets_behind_links,
    the_requests_own_files_win,
    affinity_of_the_daemon_is_not_inherited,
    oom_killer_stays_on,
    addresses_without_a_conf,
    hundreds_of_masked_paths,
    image_users,
    short_lives,
];

fn bind(bed: &Bed, host: &str, inner: &str) -> wire::Mount {
    let host_path = bed.node.dir().join("volumes").join(host).display().to_string();
    wire::Mount { host_path, container_path: inner.to_owned(), ..Default::default() }
}

/// Targets at or below a link, dangling ones too: they are made inside the root where the link points.
async fn mount_targets_behind_links(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let links = Layer::new()
        .dir("opt", 0o755)
        .symlink("opt/logs", "v9")
        .symlink("opt/v9", "/srv/none")
        .symlink("etc/localtime", "/usr/share/none")
        .symlink("up", "../../../../../../../tmp/berth-e2e-escaped");
    let image = ImageBuilder::new().layer(samples::busybox_layer()?).layer(links).build();
    bed.registry.push("links", "1", &image);
    let name = bed.image("links:1");
    bed.cri().await?.pull(&name).await?;
    let volumes = bed.node.dir().join("volumes");
    std::fs::create_dir_all(volumes.join("dir"))?;
    std::fs::write(volumes.join("dir/mark"), "dir")?;
    std::fs::write(volumes.join("file"), "file")?;
    let targets = ["/var/run/secrets/x", "/opt/logs", "/up"];
    let mut config = podspec::container("c", &name, &["sleep", "1000"]);
    config.mounts = targets.map(|inner| bind(&bed, "dir", inner)).to_vec();
    config.mounts.push(bind(&bed, "file", "/etc/localtime"));
    let pod = bed.pod("links").await?;
    let id = bed.start(&pod, &config).await?;
    let script =
        "cat /run/secrets/x/mark /srv/none/mark /opt/logs/mark /up/mark /etc/localtime /usr/share/none";
    let said = bed.exec(&id, script).await?;
    check!(said == "dirdirdirdirfilefile", "{said:?}");
    check!(!Path::new("/tmp/berth-e2e-escaped").exists(), "a target was made on the host");
    Ok(())
}

/// What the runtime makes by itself must not cover what the pod asked for.
async fn the_requests_own_files_win(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let volumes = bed.node.dir().join("volumes");
    let files = ["/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/dev/termination-log"];
    let mut config = podspec::container("c", &image, &["sleep", "1000"]);
    for file in files {
        let name = file.replace('/', "-");
        std::fs::write(volumes.join(&name), format!("own {file}\n"))?;
        config.mounts.push(bind(&bed, &name, file));
    }
    std::fs::create_dir_all(volumes.join("shm"))?;
    std::fs::write(volumes.join("shm/mark"), "own shm\n")?;
    config.mounts.push(bind(&bed, "shm", "/dev/shm"));
    podspec::security(&mut config).run_as_user = Some(wire::Int64Value { value: 12345 });
    let pod = bed.pod("own").await?;
    let id = bed.start(&pod, &config).await?;
    for file in files {
        let said = bed.exec(&id, &format!("cat {file}")).await?;
        check!(said == format!("own {file}\n"), "{file}: {said:?}");
    }
    check!(bed.exec(&id, "cat /dev/shm/mark; id -u").await? == "own shm\n12345\n", "/dev/shm or the user");
    let other = bed.busybox_in(&pod, "d", "sleep 1000").await?;
    check!(bed.exec(&other, "grep -c root /etc/passwd").await? == "1\n", "the image's file was changed");
    Ok(())
}

/// A unit's CPUAffinity is the daemon's own.
async fn affinity_of_the_daemon_is_not_inherited(context: Context) -> Result<()> {
    let wrapper = ["taskset", "-c", "0"].map(str::to_owned).to_vec();
    let bed = context.bed_with(Settings { wrapper, ..Settings::default() }).await?;
    let daemon = bed.node.daemon_pid().context("no daemon")?;
    let allowed = |pid: i32| -> Result<String> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        Ok(line.context("no such line")?.to_owned())
    };
    check!(allowed(daemon)? == "Cpus_allowed_list:\t0", "the test's own premise: {}", allowed(daemon)?);
    let all =
        format!("Cpus_allowed_list:\t{}", std::fs::read_to_string("/sys/devices/system/cpu/online")?.trim());
    let pod = bed.pod("free").await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let pid = procfs::init_of(&id).context("no process")?;
    check!(allowed(pid)? == all, "the container: {}, not {all}", allowed(pid)?);
    let exec = bed.exec(&id, "grep Cpus_allowed_list: /proc/self/status").await?;
    check!(exec.trim() == all, "exec: {exec}");
    Ok(())
}

async fn oom_killer_stays_on(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("killer").await?;
    let limit = wire::LinuxContainerResources { memory_limit_in_bytes: 32 << 20, ..Default::default() };
    let config = podspec::container("c", &image, &["sleep", "1000"]);
    let id = bed.start(&pod, &podspec::with_resources(config, limit)).await?;
    let path = format!("{}/{id}", bed.node.cgroup().child("killer"));
    let dirs = bed.node.cgroup().directories(&path);
    let control = dirs.iter().find_map(|dir| std::fs::read_to_string(dir.join("memory.oom_control")).ok());
    // v2 has no such switch: there it cannot be wrong.
    let control = control.unwrap_or_else(|| "oom_kill_disable 0".to_owned());
    check!(control.contains("oom_kill_disable 0"), "{control}");
    Ok(())
}

/// Addresses come from the records, not from a configuration that may be gone.
async fn addresses_without_a_conf(context: Context) -> Result<()> {
    let bed = context.bed_with(Settings::network(NetworkMode::Cni)).await?;
    let pod = bed.pod("kept").await?;
    let before = bed.cri().await?.pod(&pod.id).await?;
    check!(before.network.as_ref().is_some_and(|n| !n.ip.is_empty()), "{before:?}");
    let conf = bed.node.dir().join("cni/10-e2e.conflist");
    let text = std::fs::read(&conf)?;
    bed.node.kill_daemon().await?;
    std::fs::remove_file(&conf)?;
    bed.node.start_daemon().await?;
    let after = bed.cri().await?.pod(&pod.id).await?;
    check!(after == before, "before {before:?}\nafter {after:?}");
    // DEL works from the cached configuration too.
    bed.cri().await?.stop_pod(&pod.id).await?;
    bed.cri().await?.remove_pod(&pod.id).await?;
    let leases = bed.node.dir().join("cni-leases").join(bed.node.tag().name());
    let names =
        std::fs::read_dir(&leases)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let left: Vec<String> = names.filter(|name| name.starts_with("10.")).collect();
    check!(left.is_empty(), "host-local still holds {left:?}");
    std::fs::write(&conf, text)?;
    tokio::process::Command::new("ip").args(["link", "delete", &bed.node.tag().bridge()]).status().await?;
    Ok(())
}

/// One masked path per CPU, hundreds of them, and some twice.
async fn hundreds_of_masked_paths(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("masks").await?;
    let volumes = bed.node.dir().join("volumes/many");
    let mut paths = Vec::new();
    for number in 0..512 {
        std::fs::create_dir_all(volumes.join(format!("d{number}/inner")))?;
        paths.push(format!("/many/d{number}"));
    }
    for number in 0..10 {
        std::fs::write(volumes.join(format!("f{number}")), "secret")?;
        paths.push(format!("/many/f{number}"));
    }
    paths.extend(paths.clone().into_iter().take(50));
    let begun = Instant::now();
    bed.busybox_in(&pod, "plain", "sleep 1000").await?;
    let plain = begun.elapsed();
    let mut config = podspec::container("masked", &image, &["sleep", "1000"]);
    config.mounts = vec![bind(&bed, "many", "/many")];
    podspec::security(&mut config).masked_paths = paths;
    let begun = Instant::now();
    let id = bed.start(&pod, &config).await?;
    let masked = begun.elapsed();
    check!(masked < plain * 2 + std::time::Duration::from_millis(500), "plain {plain:?}, masked {masked:?}");
    let said = bed.exec(&id, "ls -A /many/d0 /many/d511 | grep -c inner; cat /many/f0 /many/f9 | wc -c; touch /many/d7/x 2>&1; grep -c ' /many/d3 ' /proc/mounts").await?;
    let lines: Vec<&str> = said.lines().collect();
    check!(lines.len() == 4 && lines[0] == "0" && lines[1] == "0", "something shows: {said:?}");
    check!(lines[2].contains("Read-only"), "a masked directory can be written: {said:?}");
    check!(lines[3] == "1", "masked more than once: {said:?}");
    Ok(())
}

/// ImageStatus tells a user's number or name, never both; a group has no part in it.
async fn image_users(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let cases = [
        ("www-data:staff", None, "www-data"),
        ("33:10", Some(33), ""),
        ("1000", Some(1000), ""),
        ("nobody-knows", None, "nobody-knows"),
        ("", None, ""),
    ];
    for (at, (user, uid, username)) in cases.into_iter().enumerate() {
        let layer = Layer::new().file("which", 0o644, user);
        let image = ImageBuilder::new().layer(layer).config("User", json!(user)).build();
        bed.registry.push("users", &at.to_string(), &image);
        let name = bed.image(&format!("users:{at}"));
        bed.cri().await?.pull(&name).await?;
        let status = bed.cri().await?.image_status(&name).await?.context("not there")?;
        let found = (status.uid.map(|uid| uid.value), status.username.as_str());
        check!(found == (uid, username), "{user:?}: {found:?}");
    }
    Ok(())
}

/// Containers that end at once: each has its code, its times and its log, however quick.
async fn short_lives(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("short").await?;
    for number in 0..40 {
        let name = format!("c{number}");
        let code = number % 7;
        let config = podspec::container(&name, &image, &["sh", "-c", &format!("echo {number}; exit {code}")]);
        let id = bed.start(&pod, &config).await?;
        let status = bed.ended(&id).await?;
        check!(status.exit_code == code, "{number}: {status:?}");
        check!(status.started_at > 0 && status.finished_at >= status.started_at, "{number}: {status:?}");
        check!(status.started_at >= status.created_at, "{number}: {status:?}");
        check!(bed.log(&pod, &name, 1).await? == number.to_string(), "{number}: its log");
        bed.cri().await?.remove(&id).await?;
    }
    Ok(())
}
