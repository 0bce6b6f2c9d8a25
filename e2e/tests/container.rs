//! What a process finds around it: namespaces, mounts, user, capabilities, filter, limits, environment.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context, Pod};
use berth_e2e::image::{ImageBuilder, Layer};
use berth_e2e::{check, podspec, samples, tests};
use berth_proto::cri as wire;
use serde_json::json;

tests![
    namespaces,
    masked_and_read_only,
    devices_and_shm,
    capabilities,
    seccomp_in_start_and_exec,
    no_new_privileges,
    users_and_groups,
    environment_and_directory,
    environment_of_bytes,
    image_defaults,
    read_only_rootfs,
    privileged,
    exec_results,
    exec_time_out,
    mounts,
    host_untouched,
];

const IDLE: &[&str] = &["sleep", "1000"];

async fn idle(context: &Context) -> Result<(Bed, Pod, wire::ContainerConfig)> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("pod").await?;
    let config = podspec::container("c", &image, IDLE);
    Ok((bed, pod, config))
}

async fn namespaces(context: Context) -> Result<()> {
    let (bed, pod, config) = idle(&context).await?;
    let one = bed.start(&pod, &config).await?;
    let two = podspec::container("d", &bed.image("busybox:1"), IDLE);
    let two = bed.start(&pod, &two).await?;
    let of =
        async |id: &str, kind: &str| bed.exec(id, &format!("ls -l /proc/1/ns/{kind} | sed 's/.* //'")).await;
    for kind in ["net", "ipc", "uts"] {
        check!(of(&one, kind).await? == of(&two, kind).await?, "{kind} is not shared in the pod");
    }
    for kind in ["pid", "mnt"] {
        check!(of(&one, kind).await? != of(&two, kind).await?, "{kind} is shared between containers");
    }
    for kind in ["net", "ipc", "uts", "pid", "mnt", "cgroup"] {
        let host = std::fs::read_link(format!("/proc/self/ns/{kind}"))?.display().to_string();
        let inner = of(&one, kind).await?;
        // On cgroup v1 a container keeps the host's cgroup namespace, as with other runtimes.
        let may_share =
            kind == "cgroup" && !std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        check!(may_share || inner.trim() != host, "{kind} is the host's");
    }
    check!(bed.exec(&one, "hostname").await? == "pod\n", "the hostname is not the pod's");
    let processes = bed.exec(&one, "ps -o pid,args | grep -c '[s]leep 1000'").await?;
    check!(processes == "1\n", "processes of the other container are seen: {processes}");
    Ok(())
}

async fn masked_and_read_only(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    let security = podspec::security(&mut config);
    security.masked_paths =
        ["/proc/kcore", "/proc/keys", "/sys/firmware", "/not/there"].map(str::to_owned).into();
    security.readonly_paths = ["/proc/sys", "/proc/bus", "/not/there"].map(str::to_owned).into();
    let id = bed.start(&pod, &config).await?;
    let masked = bed.exec(&id, "head -c 9 /proc/kcore | wc -c; ls -A /sys/firmware | wc -l").await?;
    check!(masked == "0\n0\n", "not masked: {masked:?}");
    let write = bed.exec(&id, "echo 1 > /proc/sys/kernel/domainname").await;
    check!(write.is_err(), "/proc/sys can be written");
    check!(bed.exec(&id, "grep ' /sys ' /proc/mounts").await?.contains("ro,"), "/sys can be written");
    Ok(())
}

async fn devices_and_shm(context: Context) -> Result<()> {
    let (bed, pod, config) = idle(&context).await?;
    let one = bed.start(&pod, &config).await?;
    let list = bed.exec(&one, "ls /dev").await?;
    for name in ["null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "mqueue", "fd", "stdin"] {
        check!(list.lines().any(|line| line == name), "/dev/{name} is missing: {list}");
    }
    check!(!list.contains("sda") && !list.contains("vda") && !list.contains("kmsg"), "{list}");
    check!(bed.exec(&one, "head -c 4 /dev/zero | wc -c; echo x > /dev/null").await? == "4\n", "devices");
    check!(bed.exec(&one, "stat -c %a /dev/shm").await? == "1777\n", "mode of /dev/shm");
    check!(bed.exec(&one, "df -k /dev/shm | awk 'NR==2{print $2}'").await? == "65536\n", "size of /dev/shm");
    let two = podspec::container("d", &bed.image("busybox:1"), IDLE);
    let two = bed.start(&pod, &two).await?;
    bed.exec(&one, "echo shared > /dev/shm/x").await?;
    check!(bed.exec(&two, "cat /dev/shm/x").await? == "shared\n", "/dev/shm is not the pod's");
    let made = bed.exec(&one, "mknod /tmp/disk b 8 0 && cat /tmp/disk").await;
    check!(made.is_err(), "a block device could be opened");
    Ok(())
}

/// A field of /proc/1/status as hex.
async fn status_hex(bed: &Bed, id: &str, of: &str, field: &str) -> Result<u64> {
    let line = bed.exec(id, &format!("grep ^{field}: /proc/{of}/status")).await?;
    Ok(u64::from_str_radix(line.split_whitespace().nth(1).context("no value")?, 16)?)
}

async fn capabilities(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    let id = bed.start(&pod, &config).await?;
    for field in ["CapEff", "CapPrm", "CapBnd"] {
        let (main, exec) =
            (status_hex(&bed, &id, "1", field).await?, status_hex(&bed, &id, "self", field).await?);
        check!(main == 0xa804_25fb, "{field} of the default set: {main:x}");
        check!(exec == main, "{field} in exec: {exec:x}");
    }
    check!(status_hex(&bed, &id, "1", "CapInh").await? == 0, "inheritable capabilities");
    "caps".clone_into(&mut config.metadata.get_or_insert_default().name);
    podspec::security(&mut config).capabilities = Some(wire::Capability {
        add_capabilities: vec!["NET_ADMIN".to_owned(), "SYS_PTRACE".to_owned()],
        drop_capabilities: vec!["ALL".to_owned()],
        ..Default::default()
    });
    let id = bed.start(&pod, &config).await?;
    let found = status_hex(&bed, &id, "1", "CapEff").await?;
    check!(found == 1 << 12 | 1 << 19, "ALL dropped, two added: {found:x}");
    Ok(())
}

async fn seccomp_in_start_and_exec(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    let id = bed.start(&pod, &config).await?;
    for of in ["1", "self"] {
        check!(status_hex(&bed, &id, of, "Seccomp").await? == 2, "no filter on {of}");
    }
    check!(bed.exec(&id, "unshare -U true 2>&1 || mount -t tmpfs x /tmp").await.is_err(), "mount is allowed");
    "open".clone_into(&mut config.metadata.get_or_insert_default().name);
    podspec::security(&mut config).seccomp = Some(wire::SecurityProfile {
        profile_type: wire::security_profile::ProfileType::Unconfined.into(),
        ..Default::default()
    });
    let id = bed.start(&pod, &config).await?;
    for of in ["1", "self"] {
        check!(status_hex(&bed, &id, of, "Seccomp").await? == 0, "a filter on {of}, though unconfined");
    }
    Ok(())
}

async fn no_new_privileges(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    podspec::security(&mut config).no_new_privs = true;
    let id = bed.start(&pod, &config).await?;
    for of in ["1", "self"] {
        check!(status_hex(&bed, &id, of, "NoNewPrivs").await? == 1, "not set on {of}");
    }
    Ok(())
}

type Change<'a> = &'a (dyn Fn(&mut wire::LinuxContainerSecurityContext) + Sync);

async fn users_and_groups(context: Context) -> Result<()> {
    let (bed, pod, config) = idle(&context).await?;
    let of = async |name: &str, change: Change| {
        let mut config = config.clone();
        name.clone_into(&mut config.metadata.get_or_insert_default().name);
        change(podspec::security(&mut config));
        let id = bed.start(&pod, &config).await?;
        bed.exec(&id, "id -u; id -g; id -G; grep Groups /proc/1/status").await
    };
    let int = |value| Some(wire::Int64Value { value });
    let said = of("number", &|s| s.run_as_user = int(1234)).await?;
    check!(said.starts_with("1234\n0\n0\n"), "{said}");
    let said = of("both", &|s| (s.run_as_user, s.run_as_group) = (int(1234), int(5678))).await?;
    check!(said.starts_with("1234\n5678\n5678\n"), "{said}");
    let said = of("name", &|s| s.run_as_username = "www-data".to_owned()).await?;
    // www-data is a member of staff in the image's group file.
    check!(said.starts_with("33\n33\n33 50\n"), "{said}");
    let said = of("more", &|s| {
        (s.run_as_user, s.supplemental_groups) = (int(33), vec![4000, 4001]);
    })
    .await?;
    check!(said.contains("4000 4001"), "supplemental groups are missing");
    let said = of("strict", &|s| {
        s.run_as_username = "www-data".to_owned();
        s.supplemental_groups = vec![4000];
        s.supplemental_groups_policy = wire::SupplementalGroupsPolicy::Strict.into();
    })
    .await?;
    check!(said.contains("33 4000\n") && !said.contains("50"), "{said}");
    let mut nobody = config.clone();
    podspec::security(&mut nobody).run_as_username = "no-such-user".to_owned();
    let outcome = bed.start(&pod, &nobody).await;
    let words = format!("{:#}", outcome.err().context("a user that is not there")?);
    check!(words.contains("no-such-user"), "{words}");
    Ok(())
}

async fn environment_and_directory(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    let value = |key: &str, value: &[u8]| wire::KeyValue { key: key.to_owned(), value: value.to_vec() };
    config.envs =
        vec![value("A", b"1"), value("EMPTY", b""), value("B", b"two = words"), value("A", b"last")];
    config.working_dir = "/made/for/it".to_owned();
    let id = bed.start(&pod, &config).await?;
    let main = bed.exec(&id, "tr '\\0' '\\n' < /proc/1/environ | sort").await?;
    check!(main.contains("A=last\n") && !main.contains("A=1"), "{main}");
    check!(main.contains("EMPTY=\n") && main.contains("B=two = words\n"), "{main}");
    check!(main.contains("PATH=/usr/local/sbin"), "the image's PATH is missing: {main}");
    let exec = bed.exec(&id, "env | grep -E '^(A|B|EMPTY|PATH)=' | sort").await?;
    for line in exec.lines() {
        check!(main.lines().any(|l| l == line), "exec has {line:?}, the container has not: {main}");
    }
    check!(exec.lines().count() == 4, "{exec}");
    check!(bed.exec(&id, "pwd").await? == "/made/for/it\n", "exec's directory");
    let answer = bed.cri().await?.exec(&id, &["pwd"], 5).await?;
    check!(answer.stdout == b"/made/for/it\n", "lookup in PATH and cwd of exec: {answer:?}");
    Ok(())
}

/// Environment values are bytes: CRI says so, and programs rely on it.
async fn environment_of_bytes(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    config.envs = vec![wire::KeyValue { key: "RAW".to_owned(), value: b"\xff\xfe".to_vec() }];
    let id = bed.start(&pod, &config).await?;
    // "RAW=", the two bytes, and the newline.
    let raw = bed.exec(&id, "tr '\\0' '\\n' < /proc/1/environ | grep ^RAW= | wc -c").await?;
    check!(raw == "7\n", "RAW came with {raw} bytes");
    Ok(())
}

async fn image_defaults(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = ImageBuilder::new()
        .layer(samples::busybox_layer()?)
        .layer(Layer::new().dir("work", 0o755))
        .config("Entrypoint", json!(["sh", "-c", "echo \"$0 $* in $(pwd) as $(id -u):$(id -g) $MODE\""]))
        .config("Cmd", json!(["one", "two"]))
        .config("WorkingDir", json!("/work"))
        .config("User", json!("www-data:staff"))
        .config("Env", json!(["PATH=/bin", "MODE=image"]))
        .build();
    bed.registry.push("defaults", "1", &image);
    let name = bed.image("defaults:1");
    bed.cri().await?.pull(&name).await?;
    let pod = bed.pod("defaults").await?;
    let said = async |label: &str, command: &[&str], args: &[&str]| {
        let mut config = podspec::container(label, &name, command);
        config.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let id = bed.start(&pod, &config).await?;
        bed.ended(&id).await?;
        bed.log(&pod, label, 1).await
    };
    let plain = said("plain", &[], &[]).await?;
    check!(plain == "one two in /work as 33:50 image", "{plain:?}");
    // Arguments replace Cmd; a command replaces both.
    check!(said("args", &[], &["three"]).await?.starts_with("three  in /work"), "args");
    check!(said("command", &["echo", "own"], &[]).await? == "own", "command");
    check!(said("both", &["echo"], &["own", "args"]).await? == "own args", "command and args");
    Ok(())
}

async fn read_only_rootfs(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    podspec::security(&mut config).readonly_rootfs = true;
    let id = bed.start(&pod, &config).await?;
    check!(bed.exec(&id, "touch /x").await.is_err(), "the root can be written");
    check!(bed.exec(&id, "touch /dev/shm/x && echo well").await? == "well\n", "/dev/shm cannot");
    Ok(())
}

async fn privileged(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let mut pod = podspec::pod(&bed.node, "strong");
    let linux = pod.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default().privileged = true;
    let pod = bed.run_pod(pod).await?;
    let mut config = podspec::container("c", &image, IDLE);
    podspec::security(&mut config).privileged = true;
    podspec::security(&mut config).seccomp = None;
    let id = bed.start(&pod, &config).await?;
    check!(status_hex(&bed, &id, "1", "Seccomp").await? == 0, "a filter on a privileged container");
    let host = std::fs::read_to_string("/proc/self/status")?;
    let bounding = host.lines().find_map(|l| l.strip_prefix("CapBnd:\t")).context("no CapBnd")?;
    let found = status_hex(&bed, &id, "1", "CapEff").await?;
    check!(format!("{found:016x}") == bounding, "{found:x}, the host has {bounding}");
    check!(bed.exec(&id, "mount -t tmpfs x /tmp && echo well").await? == "well\n", "cannot mount");
    check!(bed.exec(&id, "grep ' /sys ' /proc/mounts").await?.contains("rw,"), "/sys is read-only");
    Ok(())
}

async fn exec_results(context: Context) -> Result<()> {
    let (bed, pod, config) = idle(&context).await?;
    let id = bed.start(&pod, &config).await?;
    let mut cri = bed.cri().await?;
    let answer = cri.exec(&id, &["sh", "-c", "echo out; echo err >&2; exit 3"], 5).await?;
    let expected = (b"out\n".to_vec(), b"err\n".to_vec(), 3);
    check!((answer.stdout.clone(), answer.stderr.clone(), answer.exit_code) == expected, "{answer:?}");
    let answer = cri.exec(&id, &["sh", "-c", "kill -9 $$"], 5).await?;
    check!(answer.exit_code == 137, "{answer:?}");
    let answer = cri.exec(&id, &["sh", "-c", "head -c 3000000 /dev/zero"], 20).await?;
    check!(answer.stdout.len() == 3_000_000, "{} bytes came", answer.stdout.len());
    for missing in ["/no/such/program", "not-in-path"] {
        match cri.exec(&id, &[missing], 5).await {
            Ok(answer) => check!(answer.exit_code != 0, "{missing}: {answer:?}"),
            Err(error) => check!(error.message().contains(missing), "{missing}: {error}"),
        }
    }
    cri.stop(&id, 0).await?;
    check!(cri.exec(&id, &["true"], 5).await.is_err(), "exec in a container that has ended");
    Ok(())
}

async fn exec_time_out(context: Context) -> Result<()> {
    let (bed, pod, config) = idle(&context).await?;
    let id = bed.start(&pod, &config).await?;
    let begun = std::time::Instant::now();
    let answer = bed.cri().await?.exec(&id, &["sh", "-c", "echo $$ > /tmp/pid; sleep 60"], 1).await;
    let took = begun.elapsed().as_millis();
    let error = answer.err().context("no time-out")?;
    check!(error.code() == tonic::Code::DeadlineExceeded, "{error}");
    check!((900..4000).contains(&took), "after {took} ms");
    let left = bed.exec(&id, "test -d /proc/$(cat /tmp/pid) && echo left || echo gone").await?;
    check!(left == "gone\n", "the process outlives its time-out");
    check!(bed.exec(&id, "echo well").await? == "well\n", "the container does not answer");
    Ok(())
}

async fn mounts(context: Context) -> Result<()> {
    let (bed, pod, mut config) = idle(&context).await?;
    let volumes = bed.node.dir().join("volumes");
    std::fs::write(volumes.join("file"), "from the host")?;
    let bind = |host: &str, inner: &str, readonly| wire::Mount {
        host_path: volumes.join(host).display().to_string(),
        container_path: inner.to_owned(),
        readonly,
        ..Default::default()
    };
    std::fs::create_dir_all(volumes.join("dir"))?;
    config.mounts = vec![
        bind("dir", "/data", false),
        bind("dir", "/made/on/the/way", true),
        bind("file", "/etc/hosts", true),
        // /var/run is a link to /run in this image.
        bind("dir", "/var/run/secrets/x", false),
    ];
    let id = bed.start(&pod, &config).await?;
    bed.exec(&id, "echo written > /data/f").await?;
    check!(std::fs::read_to_string(volumes.join("dir/f"))? == "written\n", "not on the host");
    check!(
        bed.exec(&id, "cat /made/on/the/way/f /run/secrets/x/f").await? == "written\nwritten\n",
        "reading"
    );
    check!(bed.exec(&id, "touch /made/on/the/way/g").await.is_err(), "a read-only mount can be written");
    check!(bed.exec(&id, "cat /etc/hosts").await? == "from the host", "the request's /etc/hosts is covered");
    Ok(())
}

/// Nothing of a container's root is in the host's mount table.
async fn host_untouched(context: Context) -> Result<()> {
    let (bed, pod, config) = idle(&context).await?;
    bed.start(&pod, &config).await?;
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let overlays =
        table.lines().filter(|line| line.contains(" - overlay ") && line.contains(&bed.node.tag().name()));
    let found: Vec<&str> = overlays.collect();
    check!(found.is_empty(), "{found:?}");
    Ok(())
}
