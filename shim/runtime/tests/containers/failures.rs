//! What cannot work says why, and leaves nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use super::Test;
use super::bundle::{Bundle, groups_named};

pub(crate) const TESTS: &[Test] = &[
    ("failures::programs_that_cannot_run", programs_that_cannot_run),
    ("failures::mounts_that_cannot_be_made", mounts_that_cannot_be_made),
    ("failures::users_that_are_not_there", users_that_are_not_there),
    ("failures::nothing_is_left", nothing_is_left),
    ("failures::hooks", hooks),
    ("failures::hooks_in_order", hooks_in_order),
];

/// Programs with their errno.
pub(crate) const CASES: [(&str, &str); 6] = [
    ("/bin/missing", "ENOENT"),
    ("/plain", "EACCES"),
    ("/bin", "EACCES"),
    ("/script", "ENOENT"),
    ("/text", "ENOEXEC"),
    ("nowhere-in-path", "ENOENT"),
];

/// Puts them into a rootfs.
pub(crate) fn programs(rootfs: &Path) {
    let files = [("plain", "x", 0o644), ("script", "#!/bin/nothing\n", 0o755), ("text", "no program", 0o755)];
    for (name, content, mode) in files {
        std::fs::write(rootfs.join(name), content).expect("write");
        std::fs::set_permissions(rootfs.join(name), std::fs::Permissions::from_mode(mode)).expect("chmod");
    }
}

fn programs_that_cannot_run() {
    for (path, errno) in CASES {
        let mut b = Bundle::new("");
        programs(&b.rootfs());
        b.spec["process"]["args"] = json!([path]);
        let (_, stdio) = super::bundle::pipes();
        let mut created = b.create_with(stdio).expect("create");
        let error = berth_runtime::start(&mut created).expect_err(path).to_string();
        assert!(error.contains(path) && error.contains(errno), "{error}");
        assert_ne!(super::bundle::finish(&created), 0);
    }
}

fn mounts_that_cannot_be_made() {
    let cases = [
        (json!({"destination": "/x", "source": "/not/there", "options": ["bind"]}), "/not/there: ENOENT"),
        (json!({"destination": "/x", "type": "nofs", "source": "x"}), "nofs: ENODEV"),
        (
            json!({"destination": "/x", "type": "tmpfs", "source": "x", "options": ["size=banana"]}),
            "size=banana",
        ),
        (json!({"destination": "/etc/passwd/x", "type": "tmpfs", "source": "x"}), "/etc/passwd/x: ENOTDIR"),
    ];
    for (mount, wanted) in cases {
        let mut b = Bundle::new("true");
        b.mount(mount);
        let error = b.try_run().expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

fn users_that_are_not_there() {
    let mut b = Bundle::new("true");
    b.user = Some(berth_runtime::UserLookup { name: "nobody-here".into(), ..Default::default() });
    let error = b.try_run().expect_err("unknown").to_string();
    assert!(error.contains("nobody-here") && error.contains("/etc/passwd"), "{error}");
}

fn nothing_is_left() {
    let mut b = Bundle::new("true");
    b.mount(json!({"destination": "/x", "source": "/not/there", "options": ["bind"]}));
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("fds").count();
    let open = descriptors();
    b.try_run().expect_err("failure");
    assert_eq!(descriptors(), open);
    assert_eq!(groups_named(&b.id), Vec::<std::path::PathBuf>::new());
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    assert!(!table.contains(&b.id), "a mount is left on the host");
    assert_eq!(berth_sys::process::ended_child().expect("waitid"), None, "an unreaped child");
}

fn hook(script: &str) -> serde_json::Value {
    json!([{"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"]}])
}

fn hooks() {
    for kind in ["prestart", "createRuntime", "createContainer", "startContainer", "poststart"] {
        let mut b = Bundle::new("exec sleep 30");
        b.spec["hooks"] = json!({kind: hook("echo sorry >&2; exit 1")});
        let error = match b.create_with(super::bundle::pipes().1) {
            Err(error) => error.to_string(),
            Ok(mut created) => {
                let error = berth_runtime::start(&mut created).expect_err(kind).to_string();
                berth_runtime::kill(&created.pidfd, 9).expect("kill");
                super::bundle::finish(&created);
                error
            }
        };
        assert!(error.contains(kind) && error.contains("sorry"), "{error}");
    }
}

fn hooks_in_order() {
    let mut b = Bundle::new("echo program >> /log; exec sleep 30");
    let log = b.rootfs().join("log");
    let outside = |name: &str| {
        hook(&format!(
            "echo {name} $(grep -o '\"bundle\":\"/[^\"]*' | grep -c berth-rt) $(pwd | grep -c .) >> {}",
            log.display()
        ))
    };
    let inside = |name: &str| hook(&format!("echo {name} $(grep -o '\"pid\":[0-9]*') >> /log"));
    b.spec["hooks"] = json!({
        "poststart": outside("poststart"), "createRuntime": outside("createRuntime"),
        "createContainer": hook(&format!("test -e {}/proc/self && echo createContainer >> {}", b.rootfs().display(), log.display())),
        "prestart": outside("prestart"), "startContainer": inside("startContainer"),
        "poststop": hook(&format!("echo poststop >> {}; exit 1", log.display()))
    });
    let (created, _reader) = b.launch().expect("launch");
    std::thread::sleep(std::time::Duration::from_millis(100));
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    berth_sys::pidfd::wait(&created.pidfd).expect("wait");
    let warnings = berth_runtime::delete(&created).expect("a failing poststop hook is only a warning");
    assert_eq!(warnings.len(), 1);
    let text = std::fs::read_to_string(&log).expect("log");
    let words: Vec<&str> = text.lines().map(|l| l.split(' ').next().unwrap_or_default()).collect();
    let mut sorted = words.clone();
    sorted.retain(|w| *w != "program" && *w != "poststart");
    assert_eq!(
        sorted,
        ["prestart", "createRuntime", "createContainer", "startContainer", "poststop"],
        "{text}"
    );
    assert!(words.contains(&"program") && words.contains(&"poststart"), "{text}");
    assert!(text.contains("startContainer \"pid\":1") && text.contains("prestart 1 1"), "{text}");
}
