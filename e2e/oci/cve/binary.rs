//! The runtime's own program must not be written to by what it runs: a container that executes /proc/self/exe holds it open.

use super::race::{bundle, once, outputs, story};
use anyhow::{Context, Result};
use berth_e2e::bundle::{Bundle, wait_for};
use berth_e2e::{check, paths};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the program is before and after.
fn program() -> Result<Vec<u8>> {
    Ok(fs::read(paths::product("berth-shim")?)?)
}

/// Opens a file for writing and writes: the error, or nothing if it worked.
fn write(path: &Path) -> Option<i32> {
    let outcome = File::options().write(true).open(path).and_then(|mut file| file.write_all(b"#!"));
    outcome.err().map(|error| error.raw_os_error().unwrap_or(-1))
}

/// The first process is the runtime's program. Whoever is root outside of it, as in a privileged container, cannot write it, neither
/// while it runs nor, by a descriptor kept, when it has ended and is no longer busy.
pub(super) fn the_runtime_as_entrypoint() -> Result<()> {
    let bundle = bundle("")?;
    bundle.change(|c| c["process"]["args"] = json!(["/proc/self/exe", "init", "hold"]))?;
    libraries(&bundle)?;
    // A copy of its own, which no other test keeps busy.
    let program = bundle.path("berth-shim");
    fs::copy(paths::product("berth-shim")?, &program)?;
    let before = fs::read(&program)?;
    let state = bundle.state_dir();
    let call = |verb: &str| {
        let mut command = Command::new(&program);
        command.arg("oci").arg("--root").arg(&state).args([verb, bundle.id()]).current_dir(bundle.dir());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut create = call("create").stdin(Stdio::piped()).spawn()?;
    let input = create.stdin.take();
    check!(create.wait()?.success() && call("start").status()?.success(), "it does not start");
    let exe = format!("/proc/{}/exe", bundle.pid()?);
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let kept = rustix::fs::open(&exe, flags, rustix::fs::Mode::empty())?;
    let held = format!("/proc/self/fd/{}", kept.as_raw_fd());
    check!(write(Path::new(&exe)).is_some(), "written while it runs");
    drop(input);
    bundle.until("stopped")?;
    let errno = write(Path::new(&held)).context("written through a descriptor kept")?;
    check!([30, 1].contains(&errno), "refused by errno {errno}: by chance");
    check!(fs::read(&program)? == before, "the program changed");
    springs(&bundle)
}

/// What a program of this build needs to run in the rootfs.
fn libraries(bundle: &Bundle) -> Result<()> {
    let listed = Command::new("ldd").arg(paths::product("berth-shim")?).output()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for path in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let target = bundle.rootfs().join(path.trim_start_matches('/'));
        fs::create_dir_all(target.parent().context("a library without a directory")?)?;
        fs::copy(path, &target).with_context(|| format!("copying {path}"))?;
    }
    Ok(())
}

/// A program that is executed as it is can be written once it has ended.
fn springs(bundle: &Bundle) -> Result<()> {
    let copy = bundle.path("plain");
    fs::copy("/bin/true", &copy)?;
    Command::new(&copy).status()?;
    check!(write(&copy).is_none(), "a plain file cannot be written either");
    Ok(())
}

/// A process of the container opens what it sees of joining ones, all the time, for writing. Privileged, so that the kernel lets it
/// look.
pub(super) fn a_joining_process_from_inside() -> Result<()> {
    let before = program()?;
    let script = "while true; do for p in /proc/[0-9]*; do
        case $(readlink $p/exe) in */berth-shim*|/memfd*) echo seen; echo x 2>/dev/null >> $p/exe && echo WRITTEN;; esac
        done; done";
    let bundle = bundle(script)?;
    let all = ["CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_KILL"];
    bundle.change(|c| {
        for set in ["bounding", "permitted", "effective"] {
            c["process"]["capabilities"][set] = json!(all);
        }
    })?;
    let mut step = bundle.step(&["create", bundle.id()])?;
    let child = step.spawn()?;
    check!(step.end(child)?.code == 0, "create");
    bundle.must("start", &[])?;
    for _ in 0..40 {
        let ran = bundle.call("exec", &["true"])?;
        check!(ran.code == 0, "{}", story(&ran));
    }
    let out = outputs(&bundle);
    check!(!out.contains("WRITTEN"), "{out}");
    check!(program()? == before, "the program changed");
    Ok(())
}

/// `#!/proc/self/exe` makes the runtime's program the interpreter of a script of the container's.
pub(super) fn a_script_that_names_the_runtime() -> Result<()> {
    let before = program()?;
    let bundle = bundle("")?;
    let script = bundle.rootfs().join("bin/evil");
    fs::write(&script, "#!/proc/self/exe\n")?;
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    bundle.change(|c| c["process"]["args"] = json!(["evil"]))?;
    let ran = once(&bundle)?;
    check!(ran.code != 0, "{}", story(&ran));
    bundle.change(|c| c["process"]["args"] = json!(["sleep", "1000"]))?;
    bundle.up()?;
    let ran = bundle.call("exec", &["evil"])?;
    check!(ran.code != 0, "{}", story(&ran));
    bundle.call("kill", &["KILL"])?;
    wait_for("the container to end", || Ok(bundle.status()? == "stopped"))?;
    check!(program()? == before, "the program changed");
    Ok(())
}
