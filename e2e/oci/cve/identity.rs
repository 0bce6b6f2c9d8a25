//! Who a process runs as: what was asked for, neither more by inheritance nor by arithmetic, and nothing an image can stretch.

use super::race::{bundle, once, story};
use anyhow::{Context, Result};
use berth_e2e::bundle::{Bundle, Ran};
use berth_e2e::check;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// Does something in a thread of its own, whose capabilities and groups may be changed.
fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(outcome) => outcome,
        Err(_) => anyhow::bail!("the thread panicked"),
    })
}

fn sleeper() -> Result<Bundle> {
    let bundle = bundle("exec sleep 1000")?;
    bundle.up()?;
    Ok(bundle)
}

/// A caller with inheritable capabilities: neither the first process nor a later one has any.
pub(super) fn inheritable_capabilities() -> Result<()> {
    const SHOW: &str = "grep CapInh /proc/self/status";
    const NONE: &str = "CapInh:\t0000000000000000\n";
    apart(|| {
        let own = capabilities(None)?;
        let inheritable = own.permitted & (CapabilitySet::CHOWN | CapabilitySet::SYS_ADMIN);
        set_capabilities(None, CapabilitySets { inheritable, ..own })?;
        // The trap is real: whoever is started without care has them.
        let plain = Command::new("sh").args(["-c", SHOW]).output()?;
        check!(String::from_utf8_lossy(&plain.stdout) != NONE, "the caller has none itself");
        let ran = once(&bundle(SHOW)?)?;
        check!(ran.out == NONE, "{}", story(&ran));
        let bundle = sleeper()?;
        let ran = bundle.exec(SHOW)?;
        check!(ran.out == NONE, "exec: {}", story(&ran));
        let ran = bundle.call_with("exec", &["--cap", "CAP_NET_ADMIN"], &["sh", "-c", SHOW])?;
        check!(ran.out == NONE, "exec --cap: {}", story(&ran));
        Ok(())
    })
}

/// A caller in groups of its own: the container is in those of its configuration, and in no other.
pub(super) fn groups_are_those_asked_for() -> Result<()> {
    apart(|| {
        let groups = [4, 27, 44].map(rustix::fs::Gid::from_raw);
        set_thread_groups(&groups)?;
        let plain = Command::new("id").arg("-G").output()?;
        check!(String::from_utf8_lossy(&plain.stdout).contains("27"), "the caller is not in the group");
        for (asked, expected) in [(json!([]), "1001\n"), (json!([50, 7]), "1001 7 50\n")] {
            let bundle = bundle("id -G")?;
            bundle.change(|c| {
                c["process"]["user"] = json!({"uid": 1000, "gid": 1001, "additionalGids": asked});
            })?;
            let ran = once(&bundle)?;
            check!(sorted(&ran.out) == sorted(expected), "{}", story(&ran));
            bundle.change(|c| c["process"]["args"] = json!(["sleep", "1000"]))?;
            bundle.up()?;
            let ran = bundle.exec("id -G")?;
            check!(sorted(&ran.out) == sorted(expected), "exec: {}", story(&ran));
        }
        Ok(())
    })
}

fn sorted(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.sort_unstable();
    words
}

/// Numbers that some program takes for another one, root's among them.
const STRANGE: [&str; 9] = [
    "4294967296",
    "4294967295",
    "-1",
    "0x0",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "1e0",
    "00000000000000000000000000x",
    "2147483648",
];

/// They are refused, or are exactly themselves: never root.
pub(super) fn ids_that_wrap() -> Result<()> {
    let bundle = sleeper()?;
    let fine = |ran: &Ran, id: &str| ran.code != 0 || ran.out.trim() == id;
    for id in STRANGE {
        for user in [id.to_owned(), format!("{id}:{id}"), format!("1:{id}")] {
            let show = if user.starts_with("1:") { "-g" } else { "-u" };
            let ran = bundle.call_with("exec", &["--user", &user], &["id", show])?;
            check!(fine(&ran, id), "--user {user}: {}", story(&ran));
        }
    }
    bundle.call_with("delete", &["--force"], &[])?;
    let text = serde_json::to_string(&bundle.config()?)?;
    for id in ["4294967296", "4294967295", "-1", "1e30", "0.5", "\"0\"", "null", "18446744073709551616"] {
        let spec = text.replace("\"uid\":0", &format!("\"uid\":{id}"));
        check!(spec != text, "the configuration names no uid");
        bundle.raw(spec.as_bytes())?;
        let ran = once(&bundle)?;
        check!(ran.code != 0 && ran.error.is_some(), "uid {id}: {}", story(&ran));
        check!(bundle.left_after_all().is_empty(), "left: {:?}", bundle.left());
    }
    Ok(())
}

/// An image's passwd that gives names of digits to root.
pub(super) fn numbers_are_no_names() -> Result<()> {
    let bundle = bundle("exec sleep 1000")?;
    let trap =
        "1000:x:0:0::/:/bin/sh\n4294967296:x:0:0::/:/bin/sh\n-1:x:0:0::/:/bin/sh\nroot:x:0:0::/:/bin/sh\n";
    fs::write(bundle.rootfs().join("etc/passwd"), trap)?;
    fs::write(bundle.rootfs().join("etc/group"), "1000:x:0:\n-1:x:0:\n")?;
    bundle.up()?;
    for (user, expected) in [("1000", "1000 0"), ("1000:1000", "1000 1000"), ("33:1000", "33 1000")] {
        let ran = bundle.call_with("exec", &["--user", user], &["sh", "-c", "echo $(id -u) $(id -g)"])?;
        check!(ran.out.trim() == expected, "{user}: {}", story(&ran));
    }
    for user in ["4294967296", "-1", "33:-1"] {
        let ran = bundle.call_with("exec", &["--user", user], &["id", "-u"])?;
        check!(ran.code != 0, "{user}: {}", story(&ran));
    }
    Ok(())
}

/// Two containers of one rootfs, and a caller with an environment of its own: each sees its own alone.
pub(super) fn environments_are_apart() -> Result<()> {
    let bundle = bundle("env")?;
    for (name, other) in [("ONE", "TWO"), ("TWO", "ONE")] {
        bundle.change(|c| c["process"]["env"] = json!(["PATH=/bin", format!("{name}=1")]))?;
        let mut step = bundle.step(&["run", bundle.id()])?;
        step.command().env("CALLER", "secret");
        let ran = step.run()?;
        bundle.call_with("delete", &["--force"], &[])?;
        check!(ran.out.contains(&format!("{name}=1")), "{}", story(&ran));
        check!(!ran.out.contains(other) && !ran.out.contains("CALLER"), "{}", story(&ran));
    }
    Ok(())
}

/// A home directory, of the environment or of passwd, that would be a line of its own in a file: no file of the rootfs changes.
pub(super) fn a_home_with_a_line_end() -> Result<()> {
    let bundle = bundle("printenv HOME 2>/dev/null || env | grep -A1 HOME; cat /etc/passwd | wc -l")?;
    let passwd = bundle.rootfs().join("etc/passwd");
    let before = fs::read(&passwd)?;
    let home = "HOME=/root\nevil::0:0::/:/bin/sh";
    bundle.change(|c| {
        c["process"]["env"] = json!(["PATH=/bin", home, "X=a\r\nb"]);
        c["process"]["user"] = json!({"uid": 4242, "gid": 4242});
    })?;
    let ran = once(&bundle)?;
    check!(ran.code == 0 && ran.out.contains("evil::0"), "the value is kept as it is: {}", story(&ran));
    check!(fs::read(&passwd)? == before, "passwd changed");
    Ok(())
}

/// A passwd of a gibibyte, a pipe, a link to a pipe, a device: nobody waits, nobody grows, a name is not found.
pub(super) fn files_without_end() -> Result<()> {
    for kind in ["huge", "pipe", "link", "device"] {
        let bundle = bundle("exec sleep 1000")?;
        for name in ["etc/passwd", "etc/group"] {
            let path = bundle.rootfs().join(name);
            fs::remove_file(&path)?;
            lay(kind, &path, &bundle)?;
        }
        // Both look HOME up.
        bundle.up().with_context(|| kind.to_owned())?;
        let ran = bundle.exec("echo $HOME")?;
        check!(ran.code == 0 && ran.out == "/\n", "{kind}: {}", story(&ran));
        for user in ["somebody", "0:somebody"] {
            let ran = bundle.call_with("exec", &["--user", user], &["true"])?;
            check!(ran.code != 0, "{kind}, --user {user}: {}", story(&ran));
        }
    }
    Ok(())
}

fn lay(kind: &str, path: &std::path::Path, bundle: &Bundle) -> Result<()> {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    match kind {
        "huge" => fs::File::create(path)?.set_len(1 << 30)?,
        "pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0)?,
        "device" => mknodat(CWD, path, FileType::CharacterDevice, Mode::RUSR, makedev(1, 5))?,
        _ => {
            let pipe = bundle.rootfs().join("pipe");
            if !pipe.exists() {
                mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0)?;
            }
            symlink("/pipe", path)?;
        }
    }
    Ok(())
}
