//! Small inputs that other runtimes got wrong, each tested as the kind it is of.

use anyhow::Result;
use berth_e2e::bundle::{Bundle, Ran, Runtime, mount, push};
use berth_e2e::harness::Context;
use berth_e2e::{check, tests};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

tests![; minutes 5 [targets_behind_links, affinity_of_the_caller, memory_runs_out, init_in_another_group, never_started, hooks_around_a_read_only_root]];

async fn blocking(work: fn() -> Result<()>) -> Result<()> {
    tokio::task::spawn_blocking(work).await?
}

fn bundle(script: &str) -> Result<Bundle> {
    let bundle = Bundle::new(Runtime::Berth)?;
    bundle.change(|c| c["process"]["args"] = json!(["sh", "-c", script]))?;
    Ok(bundle)
}

fn story(ran: &Ran) -> String {
    format!("exit {}, {:?}, {:?}, {:?}", ran.code, ran.error, ran.out, ran.err)
}

const SHAPES: [&str; 8] =
    ["/run", "run", "./run", "../../../run", "/none/deep/er", "none2", "/link-to-link", "/run/../tmp/./y/"];

/// Links of every shape below and at the target of a mount: it is made where the link points, inside.
async fn targets_behind_links(_context: Context) -> Result<()> {
    blocking(|| {
        let bundle = bundle("cat /d*/x/probe /f*")?;
        let root = bundle.rootfs();
        fs::create_dir(bundle.path("dir"))?;
        fs::write(bundle.path("dir/probe"), "d\n")?;
        fs::write(bundle.path("file"), "f\n")?;
        symlink("/chain", root.join("link-to-link"))?;
        symlink("not/yet/there", root.join("chain"))?;
        for (at, text) in SHAPES.iter().enumerate() {
            symlink(text, root.join(format!("d{at}")))?;
            symlink(format!("/files/{at}/dangling"), root.join(format!("f{at}")))?;
        }
        bundle.change(|c| {
            let (dir, file) = (bundle.text("dir"), bundle.text("file"));
            for at in 0..SHAPES.len() {
                push(&mut c["mounts"], mount(&format!("/d{at}/x"), "none", &dir, &["rbind"]));
                push(&mut c["mounts"], mount(&format!("/f{at}"), "bind", &file, &["bind", "ro"]));
                push(&mut c["mounts"], mount(&format!("/d{at}/tmpfs"), "tmpfs", "tmpfs", &[]));
            }
        })?;
        let ran = bundle.run()?;
        check!(ran.out == "d\n".repeat(8) + &"f\n".repeat(8), "{}", story(&ran));
        for made in ["/none", "/chain", "/files", "/none2"] {
            check!(!fs::exists(made)?, "{made} was made on the host");
        }
        a_loop(&bundle)
    })
    .await
}

/// A link to itself ends with an error that says so.
fn a_loop(bundle: &Bundle) -> Result<()> {
    symlink("loop", bundle.rootfs().join("loop"))?;
    bundle.change(|c| push(&mut c["mounts"], mount("/loop/x", "tmpfs", "tmpfs", &[])))?;
    bundle.call_with("delete", &["--force"], &[])?;
    let ran = bundle.run()?;
    let error = ran.error.clone().unwrap_or_default();
    check!(error.contains("/loop/x") && error.contains("ELOOP"), "{}", story(&ran));
    Ok(())
}

/// A caller that is pinned to a processor: its containers and execs are not.
async fn affinity_of_the_caller(_context: Context) -> Result<()> {
    blocking(|| {
        const SHOW: &str = "grep Cpus_allowed_list /proc/self/status";
        let online = fs::read_to_string("/sys/devices/system/cpu/online")?;
        let all = format!("Cpus_allowed_list:\t{}\n", online.trim());
        let bundle = bundle(&format!("{SHOW}; exec sleep 1000"))?;
        let pinned = |words: &[&str]| {
            let mut step = bundle.step(words)?;
            let plain = step.command();
            let mut command = std::process::Command::new("taskset");
            command
                .args(["-c", "0"])
                .arg(plain.get_program())
                .args(plain.get_args())
                .current_dir(bundle.dir());
            let output = command.output()?;
            check!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let number = bundle.id();
        bundle.change(|c| c["process"]["args"] = json!(["sh", "-c", SHOW]))?;
        let seen = pinned(&["run", number])?;
        check!(seen == all, "{seen} instead of {all}");
        bundle.change(|c| c["process"]["args"] = json!(["sleep", "1000"]))?;
        bundle.call_with("delete", &["--force"], &[])?;
        bundle.up()?;
        let seen = pinned(&["exec", number, "sh", "-c", SHOW])?;
        check!(seen == all, "exec: {seen} instead of {all}");
        let last = online.trim().rsplit(['-', ',']).next().unwrap_or("0").to_owned();
        bundle.call_with("delete", &["--force"], &[])?;
        bundle.change(|c| c["linux"]["resources"]["cpu"] = json!({"cpus": last}))?;
        bundle.up()?;
        let seen = pinned(&["exec", number, "sh", "-c", SHOW])?;
        check!(seen == format!("Cpus_allowed_list:\t{last}\n"), "with a cpuset: {seen}");
        Ok(())
    })
    .await
}

/// A program that wants more memory than it may have is killed, and does not hang.
async fn memory_runs_out(_context: Context) -> Result<()> {
    blocking(|| {
        for extra in [json!({}), json!({"disableOOMKiller": false})] {
            let bundle = bundle("")?;
            bundle.change(|c| {
                c["process"]["args"] =
                    json!(["sh", "-c", "exec dd if=/dev/zero of=/dev/null bs=200M count=1"]);
                c["linux"]["resources"]["memory"] = json!({"limit": 32 << 20, "swap": 32 << 20});
                let memory = c["linux"]["resources"]["memory"].as_object_mut();
                memory.into_iter().for_each(|m| m.extend(extra.as_object().cloned().unwrap_or_default()));
            })?;
            let ran = bundle.run()?;
            check!(ran.code == 137, "{}", story(&ran));
        }
        Ok(())
    })
    .await
}

/// A privileged program that makes a group below its own and moves there: later processes still come in.
async fn init_in_another_group(_context: Context) -> Result<()> {
    blocking(|| {
        let script = "for d in /sys/fs/cgroup /sys/fs/cgroup/*; do
            [ -L $d ] || [ ! -e $d/cgroup.procs ] || { mkdir $d/q && echo 1 > $d/q/cgroup.procs; } 2>/dev/null; done; exec sleep 1000";
        let bundle = bundle(script)?;
        bundle.change(|c| {
            for mount in c["mounts"].as_array_mut().into_iter().flatten() {
                if mount["destination"] == "/sys/fs/cgroup" {
                    mount["options"] = json!(["nosuid", "noexec", "nodev", "rw"]);
                }
            }
        })?;
        bundle.up()?;
        let moved = || Ok(bundle.exec("grep -c /q$ /proc/1/cgroup")?.out.trim() != "0");
        berth_e2e::bundle::wait_for("the first process to move", moved)?;
        let ran = bundle.exec("exit 5")?;
        check!(ran.code == 5, "{}", story(&ran));
        bundle.must("kill", &["KILL"])?;
        bundle.until("stopped")?;
        bundle.must("delete", &[])?;
        check!(bundle.left_after_all().is_empty(), "left: {:?}", bundle.left());
        Ok(())
    })
    .await
}

/// Files that cannot be executed, each for a reason of its own.
fn programs(bundle: &Bundle) -> Result<()> {
    let files =
        [("plain", "x", 0o644), ("script", "#!/no/such/interpreter\n", 0o755), ("a\"b\u{1}\n", "x", 0o600)];
    for (name, text, mode) in files {
        let path = bundle.rootfs().join("bin").join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// What cannot be executed: the error names it and why in proper text, the code is not 0, nothing stays.
async fn never_started(_context: Context) -> Result<()> {
    blocking(|| {
        let cases: [(&str, &str, &str); 6] = [
            ("/missing", "/missing", "ENOENT"),
            ("missing-in-path", "missing-in-path", "ENOENT"),
            ("/bin/plain", "/bin/plain", "EACCES"),
            ("/etc", "/etc", "EACCES"),
            ("/bin/script", "/bin/script", "ENOENT"),
            ("/bin/a\"b\u{1}\n", "/bin/a", "EACCES"),
        ];
        let running = bundle("exec sleep 1000")?;
        programs(&running)?;
        running.up()?;
        for (program, named, errno) in cases {
            let bundle = bundle("")?;
            programs(&bundle)?;
            bundle.change(|c| c["process"]["args"] = json!([program]))?;
            for (what, ran) in [("run", bundle.run()?), ("exec", running.call("exec", &[program])?)] {
                let error = ran.error.clone().unwrap_or_default();
                check!(
                    ran.code != 0 && error.contains(named) && error.contains(errno),
                    "{what}: {}",
                    story(&ran)
                );
            }
            bundle.call_with("delete", &["--force"], &[])?;
            check!(bundle.left_after_all().is_empty(), "left: {:?}", bundle.left());
        }
        check!(running.processes().len() == 1, "{:?}", running.processes());
        Ok(())
    })
    .await
}

/// createContainer may still write, sees the mounts and an absolute bundle; poststart comes when the program runs; a poststop that fails
/// is only a warning.
async fn hooks_around_a_read_only_root(_context: Context) -> Result<()> {
    blocking(|| {
        let bundle = bundle("echo program >> /mnt/order; test -e /made && echo made; touch /x 2>/dev/null || echo read-only")?;
        let volume = bundle.path("volume");
        fs::create_dir(&volume)?;
        let script = |kind: &str, more: &str| {
            let order = volume.join("order").display().to_string();
            json!([{"path": "/bin/sh", "args": ["sh", "-c", format!(
                "cat > {}/{kind}; echo {kind} >> {order}; {more}", volume.display())]}])
        };
        let root = bundle.rootfs().display().to_string();
        bundle.change(|c| {
            c["root"]["readonly"] = json!(true);
            push(&mut c["mounts"], mount("/mnt", "bind", &volume.display().to_string(), &["rbind"]));
            c["hooks"] = json!({
                "createRuntime": script("createRuntime", ""),
                "createContainer": script("createContainer", &format!("touch {root}/made; test -e {root}/proc/self || exit 3")),
                "poststop": script("poststop", "exit 1"),
            });
        })?;
        let ran = bundle.run()?;
        check!(ran.code == 0 && ran.out == "made\nread-only\n", "{}", story(&ran));
        let order = fs::read_to_string(volume.join("order"))?;
        check!(order == "createRuntime\ncreateContainer\nprogram\npoststop\n", "{order:?}");
        for kind in ["createRuntime", "createContainer", "poststop"] {
            let state: Value = serde_json::from_slice(&fs::read(volume.join(kind))?)?;
            check!(state["bundle"] == bundle.dir().display().to_string(), "{kind}: {state}");
        }
        check!(bundle.left_after_all().is_empty(), "left: {:?}", bundle.left());
        Ok(())
    })
    .await
}
