//! The process: arguments, environment, directory, limits, scheduling and what else it is given.

use super::row::{Row, row};
use berth_e2e::bundle::{Bundle, push};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [
        args(),
        programs(),
        more_programs(),
        env(),
        cwd(),
        limits(),
        scheduling(),
        more_scheduling(),
        rest(),
        more_rest(),
        further_rest(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn args() -> Vec<Row> {
    vec![
        row("args: as they are")
            .args(&["printf", "%s|", "a b", "", "c\nd", "é", "$HOME"])
            .same(&["a b||c\nd|é|$HOME|"]),
        row("args: looked up in PATH").args(&["busybox", "true"]).same(&["[exit 0]"]),
        row("args: relative to the directory")
            .change(|spec, _| spec["process"]["cwd"] = json!("/bin"))
            .args(&["./echo", "x"])
            .same(&["x\n"]),
        row("args: a NUL").args(&["echo", "a\0b"]).differs(
            "process.args[1]",
            "exec /bin/echo: invalid argument\n[exit 255]",
            "a program that never ran is a failure, not an exit code",
        ),
        row("args: a line end and a quote").args(&["echo", "a\n\"b"]).same(&["a\n\"b\n"]),
        row("args: a very long one")
            .change(|spec, _| {
                spec["process"]["args"] = json!(["sh", "-c", "echo ${#0}", "x".repeat(120_000)])
            })
            .same(&["120000"]),
        row("args: longer than the kernel takes")
            .change(|spec, _| spec["process"]["args"] = json!(["echo", "x".repeat(200_000)]))
            .differs(
                "execute /bin/echo: E2BIG",
                "argument list too long\n[exit 255]",
                "a program that never ran is a failure, not an exit code",
            ),
        row("args: a killed program's code").sh("kill -9 $$").change(without_pid).same(&["[exit 137]"]),
    ]
}

/// Where nobody is 1, everybody can be killed.
fn without_pid(spec: &mut Value, _: &Bundle) {
    if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
        list.retain(|namespace| namespace["type"] != "pid");
    }
}

fn programs() -> Vec<Row> {
    let file = |mode: u32, text: &'static str| {
        move |bundle: &Bundle| {
            let path = bundle.rootfs().join("prog");
            std::fs::write(&path, text)?;
            Ok(std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?)
        }
    };
    vec![
        row("program: missing").args(&["/missing"]).refused(&["/missing", "ENOENT"]),
        row("program: missing in PATH").args(&["missing"]).refused(&["missing"]),
        row("program: not executable")
            .prepare(file(0o644, "#!/bin/sh\n"))
            .args(&["/prog"])
            .refused(&["/prog", "EACCES"]),
        row("program: a folder").args(&["/etc"]).refused(&["/etc"]),
        row("program: its interpreter is missing")
            .prepare(file(0o755, "#!/no/such\n"))
            .args(&["/prog"])
            .differs(
                "execute /prog: ENOENT",
                "no such file or directory\n[exit 255]",
                "a program that never ran is a failure, not an exit code",
            ),
        row("program: no format that the kernel knows")
            .prepare(file(0o755, "neither\n"))
            .args(&["/prog"])
            .differs(
                "execute /prog: ENOEXEC",
                "exec format error\n[exit 255]",
                "a program that never ran is a failure, not an exit code",
            ),
        row("program: a script")
            .prepare(file(0o700, "#!/bin/sh\necho script $1\n"))
            .args(&["/prog", "a"])
            .same(&["script a"]),
    ]
}

fn more_programs() -> Vec<Row> {
    vec![
        row("program: found behind one that cannot be executed")
            .prepare(|bundle| {
                std::fs::create_dir_all(bundle.rootfs().join("usr/sbin/echo"))?;
                Ok(())
            })
            .args(&["echo", "found"])
            .same(&["found"]),
    ]
}

fn with_env(list: Value) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, _| spec["process"]["env"] = list.clone()
}

fn env() -> Vec<Row> {
    let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    vec![
        row("env: the order is kept")
            .change(with_env(json!([path, "Z=1", "A=2", "M=3"])))
            .args(&["env"])
            .same(&["Z=1\nA=2\nM=3"]),
        row("env: of two with a name the last wins")
            .change(with_env(json!([path, "A=1", "B=2", "A=3"])))
            .args(&["cat", "/proc/self/environ"])
            .normal(|bundle, ran| ran.seen(bundle).replace('\0', "\n"))
            .same(&["B=2\nA=3\n"]),
        row("env: empty values, equal signs, line ends")
            .change(with_env(json!([path, "E=", "Q=a=b", "N=a\nb"])))
            .sh("echo \"$E|$Q|$N\"")
            .same(&["|a=b|a\nb"]),
        row("env: HOME from the rootfs").args(&["sh", "-c", "echo $HOME"]).same(&["/root"]),
        row("env: HOME of another user")
            .change(|spec, _| spec["process"]["user"] = json!({"uid": 33, "gid": 33}))
            .args(&["sh", "-c", "echo $HOME"])
            .same(&["/var"]),
        row("env: HOME of nobody known")
            .change(|spec, _| spec["process"]["user"] = json!({"uid": 4444, "gid": 0}))
            .args(&["sh", "-c", "echo $HOME"])
            .same(&["/\n"]),
        row("env: HOME as asked")
            .change(with_env(json!([path, "HOME=/x"])))
            .args(&["sh", "-c", "echo $HOME"])
            .same(&["/x"]),
        row("env: none at all").change(with_env(json!([]))).args(&["/bin/env"]).same(&["[exit 0]"]),
        row("env: an empty PATH").change(with_env(json!(["PATH="]))).args(&["echo"]).refused(&["echo"]),
        row("env: without an equal sign")
            .change(with_env(json!([path, "NOEQ"])))
            .refused(&["process.env[1]"]),
        row("env: without a name").change(with_env(json!([path, "=x"]))).refused(&["process.env[1]"]),
        row("env: a NUL").change(with_env(json!([path, "A=b\0c"]))).refused(&["process.env[1]"]),
        row("env: a NUL in the name").change(with_env(json!([path, "A\0B=c"]))).refused(&["process.env[1]"]),
        row("env: a list that is none").change(with_env(json!({"A": "1"}))).refused(&["process.env"]),
    ]
}

fn cwd() -> Vec<Row> {
    let at = |dir: &'static str| move |spec: &mut Value, _: &Bundle| spec["process"]["cwd"] = json!(dir);
    vec![
        row("cwd: there").change(at("/tmp")).args(&["pwd"]).same(&["/tmp\n"]),
        row("cwd: missing, so it is made")
            .change(at("/a/b/c"))
            .sh("pwd; stat -c '%a %u' /a/b")
            .same(&["/a/b/c\n755 0"]),
        row("cwd: through a link")
            .prepare(|bundle| Ok(symlink("/tmp", bundle.rootfs().join("l"))?))
            .change(at("/l"))
            .args(&["readlink", "/proc/self/cwd"])
            .same(&["/tmp\n"]),
        row("cwd: a link that leads out")
            .prepare(|bundle| Ok(symlink("../../../../../../tmp", bundle.rootfs().join("l"))?))
            .change(at("/l"))
            .args(&["readlink", "/proc/self/cwd"])
            .same(&["/tmp\n"]),
        row("cwd: a file").change(at("/etc/passwd")).refused(&["/etc/passwd"]),
        row("cwd: one the user may not enter")
            .change(at("/root"))
            .prepare(|bundle| {
                Ok(std::fs::set_permissions(bundle.rootfs().join("root"), PermissionsExt::from_mode(0o700))?)
            })
            .change(|spec, _| {
                spec["process"]["user"] = json!({"uid": 33, "gid": 33});
                spec["process"]["capabilities"] = json!({});
            })
            .sh("pwd")
            .same(&["/root\n"]),
        row("cwd: empty").change(at("")).refused(&["process.cwd"]),
        row("cwd: a descriptor of the runtime's")
            .change(at("/proc/self/fd/7/../../.."))
            .refused(&["/proc/self/fd/7"]),
    ]
}

fn rlimit(list: Value) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, _| spec["process"]["rlimits"] = list.clone()
}

fn limits() -> Vec<Row> {
    vec![
        row("rlimits: several")
            .change(rlimit(json!([
                {"type": "RLIMIT_NOFILE", "soft": 512, "hard": 1024},
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
                {"type": "RLIMIT_NPROC", "soft": 100, "hard": 200},
                {"type": "RLIMIT_STACK", "soft": 4_194_304, "hard": 8_388_608}
            ])))
            .sh("grep -E 'open files|core|processes|stack' /proc/self/limits")
            .same(&["512                  1024"]),
        row("rlimits: few files").change(rlimit(json!([{"type": "RLIMIT_NOFILE", "soft": 8, "hard": 8}]))).sh("ulimit -n")
            .differs("8\n[exit 0]", "[refused", "limits come last, so that they do not hit the set-up"),
        row("rlimits: an unknown one").change(rlimit(json!([{"type": "RLIMIT_NOPE", "soft": 1, "hard": 1}]))).refused(&["process.rlimits[0].type"]),
        row("rlimits: soft above hard")
            .change(rlimit(json!([{"type": "RLIMIT_NOFILE", "soft": 9, "hard": 8}])))
            .refused(&["process.rlimits[0]"]),
        row("rlimits: one twice")
            .change(rlimit(json!([{"type": "RLIMIT_CORE", "soft": 1, "hard": 3}, {"type": "RLIMIT_CORE", "soft": 1, "hard": 2}])))
            .differs("RLIMIT_CORE is there twice", "exit 0", "the specification forbids it; runc lets the last one win, if it may raise it"),
        row("rlimits: negative").change(rlimit(json!([{"type": "RLIMIT_CORE", "soft": -1, "hard": 2}]))).refused(&["process.rlimits[0].soft"]),
        row("umask: given")
            .change(|spec, _| spec["process"]["user"]["umask"] = json!(0o027))
            .sh("umask; touch /tmp/f; stat -c %a /tmp/f")
            .same(&["0027\n640"]),
        row("umask: the default").sh("umask").same(&["0022"]),
        row("oom: score").change(|spec, _| spec["process"]["oomScoreAdj"] = json!(321)).sh("cat /proc/self/oom_score_adj").same(&["321"]),
        row("oom: score too large").change(|spec, _| spec["process"]["oomScoreAdj"] = json!(2000)).refused(&["oom"]),
    ]
}

fn scheduling() -> Vec<Row> {
    let with = |key: &'static str, value: Value| {
        move |spec: &mut Value, _: &Bundle| spec["process"][key] = value.clone()
    };
    vec![
        row("io priority: best effort")
            .change(with("ioPriority", json!({"class": "IOPRIO_CLASS_BE", "priority": 6})))
            .sh("ionice -p $$")
            .same(&["best-effort: prio 6"]),
        row("io priority: idle")
            .change(with("ioPriority", json!({"class": "IOPRIO_CLASS_IDLE", "priority": 0})))
            .sh("ionice -p $$")
            .same(&["idle"]),
        row("io priority: an unknown class")
            .change(with("ioPriority", json!({"class": "IOPRIO_CLASS_X", "priority": 0})))
            .refused(&["process.ioPriority"]),
        row("scheduler: batch and nice")
            .change(with("scheduler", json!({"policy": "SCHED_BATCH", "nice": 5})))
            .sh("awk '{print $19, $41}' /proc/self/stat")
            .same(&["5 3\n"]),
        row("scheduler: idle")
            .change(with("scheduler", json!({"policy": "SCHED_IDLE"})))
            .sh("awk '{print $41}' /proc/self/stat")
            .same(&["5\n"]),
        row("scheduler: an unknown policy")
            .change(with("scheduler", json!({"policy": "SCHED_X"})))
            .refused(&["process.scheduler"]),
        row("scheduler: of a policy that takes no nice")
            .change(with("scheduler", json!({"policy": "SCHED_OTHER", "priority": 10})))
            .refused(&["scheduling"]),
    ]
}

fn more_scheduling() -> Vec<Row> {
    let with = |key: &'static str, value: Value| {
        move |spec: &mut Value, _: &Bundle| spec["process"][key] = value.clone()
    };
    vec![
        row("affinity: initial and final")
            .change(with("execCPUAffinity", json!({"initial": "0", "final": "0"})))
            .see(|bundle| {
                bundle.change(|spec| spec["process"]["args"] = json!(["sleep", "100000"]))?;
                bundle.up()?;
                Ok(bundle.exec("grep Cpus_allowed_list /proc/self/status")?.seen(bundle))
            })
            .same(&["Cpus_allowed_list:\t0\n"]),
        row("affinity: a list that is none")
            .change(with("execCPUAffinity", json!({"initial": "x"})))
            .refused(&["process.execCPUAffinity"]),
        row("memory policy: local")
            .change(|spec, _| spec["linux"]["memoryPolicy"] = json!({"mode": "MPOL_LOCAL"}))
            .sh("grep -m1 -o local /proc/self/numa_maps")
            .needs("/proc/self/numa_maps")
            .same(&["local"]),
        row("memory policy: an unknown mode")
            .change(|spec, _| spec["linux"]["memoryPolicy"] = json!({"mode": "MPOL_X"}))
            .refused(&["linux.memoryPolicy.mode"]),
        row("memory policy: bind without nodes")
            .change(|spec, _| spec["linux"]["memoryPolicy"] = json!({"mode": "MPOL_BIND"}))
            .refused(&["memory policy"]),
        row("personality: 32 bits")
            .change(|spec, _| spec["linux"]["personality"] = json!({"domain": "LINUX32"}))
            .sh("uname -m; cat /proc/self/personality 2>/dev/null")
            .same(&["i686"]),
        row("personality: unknown")
            .change(|spec, _| spec["linux"]["personality"] = json!({"domain": "BSD"}))
            .refused(&["linux.personality.domain"]),
    ]
}

fn rest() -> Vec<Row> {
    let sysctl = |name: &'static str, value: &'static str| {
        move |spec: &mut Value, _: &Bundle| spec["linux"]["sysctl"] = json!({name: value})
    };
    vec![
        row("sysctl: of the network, with dots")
            .change(sysctl("net.ipv4.ip_forward", "1"))
            .args(&["cat", "/proc/sys/net/ipv4/ip_forward"])
            .same(&["1\n"]),
        row("sysctl: with slashes")
            .change(sysctl("net/ipv4/ip_forward", "1"))
            .args(&["cat", "/proc/sys/net/ipv4/ip_forward"])
            .same(&["1\n"]),
        row("sysctl: of ipc")
            .change(sysctl("kernel.msgmax", "4096"))
            .args(&["cat", "/proc/sys/kernel/msgmax"])
            .same(&["4096\n"]),
        row("sysctl: of mqueue")
            .change(sysctl("fs.mqueue.msg_max", "20"))
            .args(&["cat", "/proc/sys/fs/mqueue/msg_max"])
            .same(&["20\n"]),
        row("sysctl: of uts")
            .change(sysctl("kernel.domainname", "dom"))
            .args(&["cat", "/proc/sys/kernel/domainname"])
            .same(&["dom\n"]),
        row("sysctl: of the whole machine")
            .change(sysctl("vm.swappiness", "1"))
            .refused(&["linux.sysctl", "vm.swappiness"]),
        row("sysctl: the hostname")
            .change(sysctl("kernel.hostname", "x"))
            .refused(&["linux.sysctl", "kernel.hostname"]),
        row("sysctl: unknown").change(sysctl("net.ipv4.nonsense", "1")).refused(&["net.ipv4.nonsense"]),
        row("sysctl: a value that is none")
            .change(sysctl("net.ipv4.ip_forward", "x"))
            .refused(&["net.ipv4.ip_forward"]),
    ]
}

fn more_rest() -> Vec<Row> {
    let sysctl = |name: &'static str, value: &'static str| {
        move |spec: &mut Value, _: &Bundle| spec["linux"]["sysctl"] = json!({name: value})
    };
    vec![
        row("sysctl: with dots that lead away")
            .change(sysctl("net/../kernel/core_pattern", "|x"))
            .refused(&["linux.sysctl"]),
        row("sysctl: of the network of the host")
            .change(|spec, _| {
                if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
                    list.retain(|namespace| namespace["type"] != "network");
                }
                spec["linux"]["sysctl"] = json!({"net.ipv4.ip_forward": "1"});
            })
            .refused(&["linux.sysctl"]),
        row("sysctl: a line end").change(sysctl("kernel.domainname", "a\nb")).args(&["true"]).differs(
            "linux.sysctl",
            "[exit 0]",
            "one value is one line; what follows it is somebody's trick",
        ),
        row("sysctl: a NUL").change(sysctl("kernel.domainname", "a\0b")).args(&["true"]).differs(
            "linux.sysctl",
            "[exit 0]",
            "the kernel reads up to the NUL and calls it a success",
        ),
        row("domain name")
            .change(|spec, _| spec["domainname"] = json!("dom"))
            .args(&["cat", "/proc/sys/kernel/domainname"])
            .same(&["dom\n"]),
        row("keyring: a session of its own, with its name")
            .change(|spec, bundle| {
                spec["linux"]["maskedPaths"] = json!([]);
                spec["process"]["args"] = json!(["grep", "-q", bundle.id(), "/proc/keys"]);
            })
            .same(&["[exit 0]"]),
    ]
}

fn further_rest() -> Vec<Row> {
    vec![
        row("signals: none blocked or ignored")
            .args(&["grep", "-E", "^(SigBlk|SigIgn)", "/proc/self/status"])
            // A signal of Go's C library that it leaves ignored.
            .normal(|bundle, ran| ran.seen(bundle).replace("0000000080000000", "0000000000000000"))
            .same(&["SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000"]),
        row("descriptors: only three").sh("ls /proc/self/fd").same(&["0\n1\n2\n3\n[exit 0]"]),
        row("affinity: all of the machine's CPUs")
            .sh("grep Cpus_allowed_list /proc/self/status")
            .same(&["Cpus_allowed_list"]),
        row("groups: in the order of the list")
            .change(|spec, _| push(&mut spec["process"]["user"]["additionalGids"], json!(50)))
            .args(&["id"])
            .same(&["groups=50(staff)"]),
    ]
}
