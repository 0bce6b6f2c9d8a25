//! Mounts: options, targets behind links, masks.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::json;

use super::Test;
use super::bundle::Bundle;

pub(crate) const TESTS: &[Test] = &[
    ("mounts::targets_behind_links", targets_behind_links),
    ("mounts::tmpfs_modes", tmpfs_modes),
    ("mounts::bind_options", bind_options),
    ("mounts::recursive_read_only", recursive_read_only),
    ("mounts::sockets_and_pipes", sockets_and_pipes),
    ("mounts::masked_and_read_only_paths", masked_and_read_only_paths),
    ("mounts::many_masked_paths", many_masked_paths),
    ("mounts::read_only_root", read_only_root),
    ("mounts::devices_and_links", devices_and_links),
    ("mounts::terminal", terminal),
    ("mounts::cgroup_mount", cgroup_mount),
    ("mounts::copy_up", copy_up),
    ("mounts::idmapped", idmapped),
    ("mounts::idmapped_in_a_user_namespace", idmapped_in_a_user_namespace),
    ("mounts::many_idmapped", many_idmapped),
    ("mounts::sysctls", sysctls),
    ("mounts::propagation_both_ways", propagation_both_ways),
    ("mounts::the_pods_own_files_win", the_pods_own_files_win),
];

fn host_dir(b: &Bundle, name: &str) -> std::path::PathBuf {
    let dir = b.dir.join(name);
    std::fs::create_dir_all(&dir).expect("mkdir");
    dir
}

fn targets_behind_links() {
    let mut b = Bundle::new("cat /run/secrets/x/token /srv/none/f /usr/share/none");
    let r = b.rootfs();
    for d in ["var", "opt", "etc"] {
        std::fs::create_dir_all(r.join(d)).expect("mkdir");
    }
    symlink("/run", r.join("var/run")).expect("link");
    symlink("v9", r.join("opt/logs")).expect("link");
    symlink("/srv/none", r.join("opt/v9")).expect("link");
    symlink("/usr/share/none", r.join("etc/localtime")).expect("link");
    let (a, c) = (host_dir(&b, "a"), host_dir(&b, "c"));
    std::fs::write(a.join("token"), "t\n").expect("write");
    std::fs::write(c.join("f"), "f\n").expect("write");
    std::fs::write(b.dir.join("time"), "z\n").expect("write");
    b.mount(
        json!({"destination": "/var/run/secrets/x", "type": "bind", "source": a, "options": ["rbind", "ro"]}),
    );
    b.mount(json!({"destination": "/opt/logs", "type": "none", "source": c, "options": ["rbind"]}));
    b.mount(json!({"destination": "/etc/localtime", "type": "bind", "source": "time", "options": ["bind"]}));
    assert_eq!(b.output(), "t\nf\nz\n");
    assert!(!Path::new("/srv/none").exists() && !Path::new("/usr/share/none").exists());
}

fn tmpfs_modes() {
    let mut b = Bundle::new("stat -c %a /scratch /kept /told");
    std::fs::create_dir(b.rootfs().join("kept")).expect("mkdir");
    std::fs::set_permissions(b.rootfs().join("kept"), std::fs::Permissions::from_mode(0o711)).expect("chmod");
    b.mount(json!({"destination": "/scratch", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}));
    b.mount(json!({"destination": "/kept", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}));
    b.mount(json!({"destination": "/told", "type": "tmpfs", "source": "tmpfs", "options": ["mode=0700"]}));
    assert_eq!(b.output(), "1777\n711\n700\n");
}

fn bind_options() {
    let mut b = Bundle::new("grep ' /v' /proc/self/mountinfo | cut -d' ' -f5,6");
    let dir = host_dir(&b, "v");
    let cases = [
        ("/v1", json!(["bind", "ro", "nosuid", "nodev", "noexec"])),
        ("/v2", json!(["bind", "rnoatime"])),
        ("/v3", json!(["bind", "rstrictatime"])),
        ("/v4", json!(["bind", "nodiratime", "nosymfollow"])),
    ];
    for (destination, options) in cases {
        b.mount(json!({"destination": destination, "source": dir, "options": options}));
    }
    let out = b.output();
    let line = |n: &str| out.lines().find(|l| l.starts_with(n)).unwrap_or_default().to_owned();
    for word in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(line("/v1").contains(word), "{out}");
    }
    assert!(line("/v2").contains("noatime"), "{out}");
    assert!(!line("/v3").contains("atime"), "{out}");
    assert!(line("/v4").contains("nodiratime") && line("/v4").contains("nosymfollow"), "{out}");
}

fn recursive_read_only() {
    let mut b = Bundle::new(
        "touch /a/x; touch /a/sub/x && echo a-sub; touch /b/x; touch /b/sub/x && echo b-sub; true",
    );
    let dir = host_dir(&b, "tree");
    host_dir(&b, "tree/sub");
    // The submount lives in the container only: a bind of the tree with a tmpfs in it, bound again.
    b.mount(json!({"destination": "/src", "source": dir, "options": ["bind"]}));
    let sub =
        std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(dir.join("sub")).status();
    assert!(sub.expect("mount").success());
    b.mount(json!({"destination": "/a", "source": dir, "options": ["rbind", "ro"]}));
    b.mount(json!({"destination": "/b", "source": dir, "options": ["rbind", "rro"]}));
    let outcome = b.try_run();
    assert!(std::process::Command::new("umount").arg(dir.join("sub")).status().expect("umount").success());
    let out = outcome.expect("run").out;
    assert!(out.contains("a-sub") && !out.contains("b-sub"), "{out}");
    assert_eq!(out.matches("Read-only").count(), 3, "{out}");
}

fn sockets_and_pipes() {
    let mut b = Bundle::new("stat -c %F /run/s /run/p");
    let socket = b.dir.join("s");
    let _listener = UnixListener::bind(&socket).expect("bind");
    rustix::fs::mknodat(rustix::fs::CWD, b.dir.join("p"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .expect("fifo");
    b.mount(json!({"destination": "/run/s", "source": socket, "options": ["bind"]}));
    b.mount(json!({"destination": "/run/p", "source": b.dir.join("p"), "options": ["rbind", "ro"]}));
    assert_eq!(b.output(), "socket\nfifo\n");
}

fn masked_and_read_only_paths() {
    let mut b = Bundle::new(
        "cat /proc/version | wc -c; ls /sys/firmware | wc -l; (echo 1 > /proc/sys/kernel/domainname) 2>/dev/null || echo ro; \
         touch /sys/firmware/x 2>/dev/null || echo masked; stat -c %t,%T /proc/version",
    );
    b.spec["linux"]["maskedPaths"] = json!(["/proc/version", "/sys/firmware", "/proc/not-there"]);
    assert_eq!(b.output(), "0\n0\nro\nmasked\n1,3\n");
}

fn many_masked_paths() {
    let mut b = Bundle::new(
        "ls /big/d1 /big/d511 | grep -c secret; cat /big/f3; grep -c ' /big/' /proc/self/mountinfo",
    );
    let dir = host_dir(&b, "big");
    let mut paths = vec![json!("/nowhere")];
    for i in 0..512 {
        std::fs::create_dir(dir.join(format!("d{i}"))).expect("mkdir");
        std::fs::write(dir.join(format!("d{i}/secret")), "").expect("write");
        paths.push(json!(format!("/big/d{i}")));
    }
    for i in 0..10 {
        std::fs::write(dir.join(format!("f{i}")), "secret").expect("write");
        paths.push(json!(format!("/big/f{i}")));
    }
    paths.extend((0..50).map(|i| json!(format!("/big/d{i}"))));
    b.mount(json!({"destination": "/big", "source": dir, "options": ["bind"]}));
    b.spec["linux"]["maskedPaths"] = json!(paths);
    assert_eq!(b.output(), "0\n522\n");
}

fn read_only_root() {
    let mut b = Bundle::new("touch /x 2>&1; touch /tmp/x && echo tmp; ls -d /made/cwd; pwd");
    b.spec["root"]["readonly"] = json!(true);
    b.spec["process"]["cwd"] = json!("/made/cwd");
    b.mount(json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}));
    let out = b.output();
    assert!(out.contains("Read-only") && out.contains("tmp\n/made/cwd\n/made/cwd\n"), "{out}");
}

fn devices_and_links() {
    let mut b = Bundle::new(
        "stat -c '%n %a %t,%T' /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/fuse; \
         for l in fd stdin ptmx; do readlink /dev/$l; done; echo x > /dev/null; head -c 3 /dev/zero | wc -c",
    );
    b.spec["linux"]["devices"] =
        json!([{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 0o640, "gid": 7}]);
    let out = b.output();
    assert!(out.contains("/dev/null 666 1,3") && out.contains("/dev/fuse 640 a,e5"), "{out}");
    assert!(out.contains("/proc/self/fd\n/proc/self/fd/0\npts/ptmx\n3\n"), "{out}");
}

fn terminal() {
    let mut b = Bundle::new("tty; stty size; test -c /dev/console && echo console; tty < /dev/console");
    b.spec["process"]["terminal"] = json!(true);
    b.spec["process"]["consoleSize"] = json!({"height": 33, "width": 101});
    let mut created = b.create_with(berth_runtime::Stdio::Terminal).expect("create");
    let master = created.console.take().expect("master");
    berth_runtime::start(&mut created).expect("start");
    let mut out = Vec::new();
    let mut buffer = [0; 512];
    // A terminal whose other end is closed answers EIO.
    while let Ok(n @ 1..) = rustix::io::read(&master, &mut buffer) {
        out.extend_from_slice(&buffer[..n]);
    }
    assert_eq!(super::bundle::finish(&created), 0);
    let out = String::from_utf8_lossy(&out).replace("\r\n", "\n");
    assert!(out.starts_with("/dev/pts/0\n33 101\nconsole\n"), "{out}");
}

fn cgroup_mount() {
    let mut b = Bundle::new(
        "ls /sys/fs/cgroup; cat /sys/fs/cgroup/pids/cgroup.procs /sys/fs/cgroup/cgroup.procs 2>/dev/null | head -1; touch /sys/fs/cgroup/x 2>&1",
    );
    b.mount(json!({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]}));
    let out = b.run().out;
    assert!(out.contains("\n1\n"), "its own group holds process 1: {out}");
    assert!(out.contains("Read-only"), "{out}");
}

fn copy_up() {
    let mut b = Bundle::new("cat /data/f /data/d/g; stat -c %a /data/d; touch /data/new && ls /data | wc -l");
    std::fs::create_dir_all(b.rootfs().join("data/d")).expect("mkdir");
    std::fs::write(b.rootfs().join("data/f"), "f\n").expect("write");
    std::fs::write(b.rootfs().join("data/d/g"), "g\n").expect("write");
    std::fs::set_permissions(b.rootfs().join("data/d"), std::fs::Permissions::from_mode(0o705))
        .expect("chmod");
    b.mount(json!({"destination": "/data", "type": "tmpfs", "source": "tmpfs", "options": ["tmpcopyup"]}));
    assert_eq!(b.output(), "f\ng\n705\n3\n");
    assert!(!b.rootfs().join("data/new").exists());
}

fn idmapped() {
    let mut b = Bundle::new("stat -c %u:%g /m/f");
    let dir = host_dir(&b, "m");
    std::fs::write(dir.join("f"), "").expect("write");
    std::os::unix::fs::chown(dir.join("f"), Some(1000), Some(1000)).expect("chown");
    let map = json!([{"containerID": 1000, "hostID": 5000, "size": 10}]);
    b.mount(json!({"destination": "/m", "source": dir, "options": ["bind", "idmap"], "uidMappings": map, "gidMappings": map}));
    assert_eq!(b.output(), "5000:5000\n");
}

fn sysctls() {
    let mut b = Bundle::new("cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/msgmax");
    b.spec["linux"]["sysctl"] = json!({"net.ipv4.ip_forward": "1", "kernel.msgmax": "9000"});
    assert_eq!(b.output(), "1\n9000\n");
}

fn run_mount(args: &[&str], path: &Path) {
    let (program, rest) = args.split_first().expect("program");
    assert!(std::process::Command::new(program).args(rest).arg(path).status().expect("run").success());
}

/// A shared tmpfs on the host; gone when dropped.
struct Shared(std::path::PathBuf);

impl Shared {
    fn new(b: &Bundle) -> Self {
        let dir = host_dir(b, "shared");
        run_mount(&["mount", "-t", "tmpfs", "tmpfs"], &dir);
        run_mount(&["mount", "--make-shared"], &dir);
        for name in ["in", "out"] {
            std::fs::create_dir(dir.join(name)).expect("mkdir");
        }
        Self(dir)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for path in [self.0.join("in"), self.0.join("out"), self.0.clone()] {
            let _ =
                std::process::Command::new("umount").arg(path).stderr(std::process::Stdio::null()).status();
        }
    }
}

fn propagation_both_ways() {
    let mut b = Bundle::new(
        "mount -t tmpfs tmpfs /both/out && touch /both/out/made; mount -t tmpfs tmpfs /private/in && touch /private/in/hidden; \
         echo ready; until test -e /down/in/later; do sleep 0.05; done; test -e /none/in/later || echo cut-off",
    );
    let shared = Shared::new(&b);
    for (destination, option) in
        [("/both", "rshared"), ("/down", "rslave"), ("/private", "rprivate"), ("/none", "rprivate")]
    {
        b.mount(json!({"destination": destination, "source": shared.0, "options": ["rbind", option]}));
    }
    let admin = json!(["CAP_SYS_ADMIN"]);
    b.spec["process"]["capabilities"] = json!({"bounding": admin, "permitted": admin, "effective": admin});
    let (created, reader) = b.launch().expect("launch");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
    assert_eq!(lines.next().expect("line").expect("text"), "ready");
    assert!(shared.0.join("out/made").exists(), "a mount made inside a shared volume reaches the host");
    assert!(!shared.0.join("in/hidden").exists(), "a private one does not");
    run_mount(&["mount", "-t", "tmpfs", "tmpfs"], &shared.0.join("in"));
    std::fs::write(shared.0.join("in/later"), "").expect("write");
    assert_eq!(lines.next().expect("line").expect("text"), "cut-off");
    assert_eq!(super::bundle::finish(&created), 0);
}

fn the_pods_own_files_win() {
    let mut b = Bundle::new("cat /etc/passwd /etc/hosts; ls /dev/shm").with_overlay();
    for name in ["passwd", "hosts"] {
        std::fs::write(b.dir.join(name), format!("{name} of the pod\n")).expect("write");
        b.mount(json!({"destination": format!("/etc/{name}"), "source": name, "options": ["bind", "ro"]}));
    }
    std::fs::write(host_dir(&b, "shm").join("mine"), "").expect("write");
    b.mount(json!({"destination": "/dev/shm", "source": b.dir.join("shm"), "options": ["rbind"]}));
    b.spec["process"]["user"] = json!({"uid": 12345, "gid": 0});
    assert_eq!(b.output(), "passwd of the pod\nhosts of the pod\nmine\n");
    assert!(std::fs::read_to_string(b.rootfs().join("etc/passwd")).expect("read").contains("root:x"));
}

fn idmapped_in_a_user_namespace() {
    let mut b = Bundle::new("stat -c %u /m/f /m/sub /plain/f; touch /m/mine && stat -c %u /m/mine");
    let dir = host_dir(&b, "m");
    host_dir(&b, "m/sub");
    std::fs::write(dir.join("f"), "").expect("write");
    // A mount below the source: locked to it inside the namespace, so that only outside it can be left out.
    let _shared = Shared::new(&b);
    let map = json!([{"containerID": 0, "hostID": 300_000, "size": 65536}]);
    b.spec["linux"]["namespaces"].as_array_mut().expect("list").push(json!({"type": "user"}));
    b.spec["linux"]["uidMappings"] = map.clone();
    b.spec["linux"]["gidMappings"] = map;
    b.mount(json!({"destination": "/m", "source": dir, "options": ["bind", "idmap"]}));
    b.mount(json!({"destination": "/plain", "source": dir, "options": ["rbind"]}));
    b.mount(json!({"destination": "/over", "source": b.dir, "options": ["bind"]}));
    std::fs::set_permissions(&b.dir, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    std::os::unix::fs::chown(b.rootfs(), Some(300_000), Some(300_000)).expect("chown");
    assert_eq!(b.output(), "0\n0\n65534\n0\n");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(dir.join("mine")).expect("written").uid(), 0);
}

fn many_idmapped() {
    let mut b = Bundle::new("stat -c %u /m0/f /m79/f");
    let dir = host_dir(&b, "m");
    std::fs::write(dir.join("f"), "").expect("write");
    let map = json!([{"containerID": 0, "hostID": 7, "size": 10}]);
    for i in 0..80 {
        b.mount(json!({"destination": format!("/m{i}"), "source": dir, "options": ["bind", "idmap"], "uidMappings": map, "gidMappings": map}));
    }
    assert_eq!(b.output(), "7\n7\n");
}
