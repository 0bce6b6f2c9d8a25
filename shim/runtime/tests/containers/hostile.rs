//! Images and processes that mean harm: each attack is made, and fails.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::Test;
use super::bundle::{Bundle, argv, exec, finish};

pub(crate) const TESTS: &[Test] = &[
    ("hostile::proc_behind_a_link", proc_behind_a_link),
    ("hostile::volumes_over_proc_and_sys", volumes_over_proc_and_sys),
    ("hostile::an_id_that_means_no_change", an_id_that_means_no_change),
    ("hostile::dev_behind_a_link", dev_behind_a_link),
    ("hostile::a_volume_that_becomes_dev", a_volume_that_becomes_dev),
    ("hostile::links_out_of_the_root", links_out_of_the_root),
    ("hostile::working_directory_by_descriptor", working_directory_by_descriptor),
    ("hostile::the_runtimes_binary", the_runtimes_binary),
    ("hostile::a_console_that_is_a_link", a_console_that_is_a_link),
    ("hostile::an_exec_cannot_be_traced", an_exec_cannot_be_traced),
];

fn proc_behind_a_link() {
    let mut b = Bundle::new("true");
    std::fs::remove_dir(b.rootfs().join("proc")).expect("rmdir");
    symlink("/etc", b.rootfs().join("proc")).expect("link");
    let error = b.try_run().expect_err("refused").to_string();
    assert!(error.contains("/proc"), "{error}");
    std::fs::remove_file(b.rootfs().join("proc")).expect("rm");
    std::fs::create_dir(b.rootfs().join("proc")).expect("mkdir");
    std::fs::remove_dir(b.rootfs().join("sys")).expect("rmdir");
    symlink("/etc", b.rootfs().join("sys")).expect("link");
    b.spec["process"]["args"] = json!(["true"]);
    assert!(b.try_run().expect_err("refused").to_string().contains("/sys"));
    // A link that dangles is no better, relative or not.
    for (name, text) in [("proc", "/srv/p"), ("proc", "srv/p"), ("sys", "/srv/s"), ("sys", "./srv/s")] {
        let b = Bundle::new("true");
        std::fs::remove_dir(b.rootfs().join(name)).expect("rmdir");
        symlink(text, b.rootfs().join(name)).expect("link");
        let error = b.try_run().expect_err("refused").to_string();
        assert!(error.contains(&format!("/{name}")), "{error}");
    }
}

fn dev_behind_a_link() {
    let b = Bundle::new("ls /etc/null /etc/shm -d; readlink /dev");
    std::fs::remove_dir(b.rootfs().join("dev")).expect("rmdir");
    symlink("../../../../../../etc", b.rootfs().join("dev")).expect("link");
    // All of it happens inside the root: the devices are where the link points.
    let outcome = b.run();
    assert!(!std::path::Path::new("/etc/null").exists() && !std::path::Path::new("/etc/shm").exists());
    assert!(outcome.out.contains("/etc/null"), "{}", outcome.out);
}

fn links_out_of_the_root() {
    let mut b = Bundle::new("ls /victim");
    let target = std::env::temp_dir().join(format!("{}-outside", b.id));
    symlink(&target, b.rootfs().join("out")).expect("link");
    b.mount(json!({"destination": "/out/a/b", "type": "tmpfs", "source": "x"}));
    b.spec["process"]["args"] = json!(["true"]);
    b.spec["process"]["cwd"] = json!("/out/cwd");
    assert_eq!(b.run().code, 0);
    assert!(!target.exists(), "made on the host");
}

fn working_directory_by_descriptor() {
    for fd in 3..12 {
        let mut b = Bundle::new("pwd; ls ../../../../../etc/shadow");
        b.spec["process"]["cwd"] = json!(format!("/proc/self/fd/{fd}"));
        match b.try_run() {
            Ok(outcome) => assert_ne!(outcome.code, 0, "{}", outcome.out),
            Err(error) => assert!(error.to_string().contains("working directory"), "{error}"),
        }
    }
    let b = Bundle::new("exec sleep 30");
    symlink("/proc/self/fd/4", b.rootfs().join("wd")).expect("link");
    let (created, _reader) = b.launch().expect("launch");
    let process = json!({"args": ["pwd"], "cwd": "/wd", "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}});
    let process =
        berth_runtime::ExecProgram::Process(Box::new(serde_json::from_value(process).expect("process")));
    assert!(exec(&created, process).is_err());
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

fn the_runtimes_binary() {
    let b = Bundle::new("exec sleep 30");
    let (created, _reader) = b.launch().expect("launch");
    // What /proc/<init>/exe of an exec leads to while it is still the runtime: not to be opened for writing when it is a
    // read-only mount, not to be written when it is a sealed copy.
    let path = format!("/proc/self/fd/{}", super::bundle::exe().as_raw_fd());
    let error = match File::options().write(true).open(path) {
        Ok(mut file) => file.write_all(b"x").expect_err("written"),
        Err(error) => error,
    };
    assert!(matches!(error.raw_os_error(), Some(30 | 26 | 1)), "{error}");
    let outcome = exec(&created, argv(&["/proc/self/exe"]));
    assert!(outcome.is_err() || outcome.is_ok_and(|o| o.code != 0));
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

fn a_console_that_is_a_link() {
    let mut b = Bundle::new("true");
    // /dev of the image's own, with a link where the console goes.
    b.spec["mounts"].as_array_mut().expect("mounts").retain(|m| m["destination"] != "/dev");
    symlink("/etc/passwd", b.rootfs().join("dev/console")).expect("link");
    b.spec["process"]["terminal"] = json!(true);
    b.spec["process"]["args"] = json!(["true"]);
    let mut created = b.create_with(berth_runtime::Stdio::Terminal).expect("create");
    berth_runtime::start(&mut created).expect("start");
    finish(&created);
    let text = std::fs::read_to_string("/etc/passwd").expect("passwd");
    assert!(text.contains("root:"), "the host's file is as it was");
}

fn an_exec_cannot_be_traced() {
    // A process of the container sees a joining one, but may not look at its descriptors before it runs its own program.
    let mut b = Bundle::new(
        "while true; do for p in /proc/[0-9]*; do case $(cat $p/cmdline 2>/dev/null) in berth-shim*) ls -l $p/fd/ 2>/dev/null | grep -q ' 3 -> ' && echo LEAK;; esac; done; done",
    );
    let ptrace = json!(["CAP_CHOWN", "CAP_KILL"]);
    b.spec["process"]["capabilities"] = json!({"bounding": ptrace, "permitted": ptrace, "effective": ptrace});
    let (created, mut reader) = b.launch().expect("launch");
    for _ in 0..30 {
        exec(&created, argv(&["true"])).expect("exec");
    }
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
    let mut out = String::new();
    std::io::Read::read_to_string(&mut reader, &mut out).expect("read");
    assert!(!out.contains("LEAK"), "{out}");
}

fn volumes_over_proc_and_sys() {
    for destination in ["/proc", "/proc/sys/kernel", "/sys", "/sys/../proc", "//proc/"] {
        let mut b = Bundle::new("true");
        std::fs::create_dir(b.dir.join("v")).expect("mkdir");
        b.mount(json!({"destination": destination, "source": b.dir.join("v"), "options": ["bind"]}));
        let error = b.try_run().expect_err(destination).to_string();
        assert!(error.contains("procfs") || error.contains("sysfs"), "{error}");
    }
    // What lxcfs does, and the host's own, are fine.
    let mut b = Bundle::new("cat /proc/uptime");
    std::fs::write(b.dir.join("uptime"), "1 1\n").expect("write");
    b.mount(json!({"destination": "/proc/uptime", "source": b.dir.join("uptime"), "options": ["bind"]}));
    b.mount(json!({"destination": "/sys", "source": "/sys", "options": ["rbind", "ro"]}));
    assert_eq!(b.output(), "1 1\n");
}

fn an_id_that_means_no_change() {
    let mut b = Bundle::new("id -u; id -g");
    std::fs::write(b.rootfs().join("etc/passwd"), "app:x:4294967295:4294967295::/:/bin/sh\n")
        .expect("passwd");
    b.user = Some(berth_runtime::UserLookup { name: "app".into(), ..Default::default() });
    let error = b.try_run().expect_err("refused").to_string();
    assert!(error.contains("4294967295"), "{error}");
    b.user = Some(berth_runtime::UserLookup { name: "0".into(), gid: Some(u32::MAX), ..Default::default() });
    assert!(b.try_run().is_err());
}

fn a_volume_that_becomes_dev() {
    for destination in ["/data", "dev", "/dev"] {
        let mut b = Bundle::new("true");
        let volume = b.dir.join("volume");
        std::fs::create_dir(&volume).expect("mkdir");
        std::fs::write(volume.join("ptmx"), "the volume's own").expect("write");
        symlink("/dev", b.rootfs().join("data")).expect("link");
        // Nothing else mounted in it, so that all that is found there is the runtime's.
        b.spec["mounts"]
            .as_array_mut()
            .expect("mounts")
            .retain(|m| !m["destination"].as_str().is_some_and(|d| d.starts_with("/dev/")));
        b.mount(json!({"destination": destination, "source": volume, "options": ["bind"]}));
        assert_eq!(b.run().code, 0);
        let names: Vec<_> =
            std::fs::read_dir(&volume).expect("dir").flatten().map(|e| e.file_name()).collect();
        assert_eq!(names, ["ptmx"], "{destination}");
    }
}
