//! CNI against plugins that are scripts: what they are told, and what becomes of those that misbehave.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use berth_core::{Classified, ErrorClass};
use berth_network::cni::leftover;
use berth_network::pod::{Bandwidth, Dns, PortMapping, Protocol};
use berth_network::settings::CniSettings;
use berth_network::{Attachment, Manager, Mode, Netns, NetworkError, PodNet, Settings};
use serde_json::{Value, json};

use crate::world::{World, until, world};

/// Answers every verb; ADD gives two addresses, IPv6 first.
pub(crate) const GOOD: &str = r#"case $CNI_COMMAND in
ADD) echo '{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"x","mac":"02:00:00:00:00:07"}],
"ips":[{"address":"fd00::7/64","interface":0},{"address":"10.0.0.7/24","gateway":"10.0.0.1","interface":0}]}';;
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.1.0"]}';;
esac"#;

pub(crate) fn manager(w: &World, mode: Mode, deadline: u64) -> Manager {
    fs::create_dir_all(w.path("net.d")).unwrap();
    fs::create_dir_all(w.path("bin")).unwrap();
    let cni = CniSettings {
        conf_dir: w.path("net.d"),
        bin_dirs: vec![w.path("none"), w.path("bin")],
        deadline: Duration::from_millis(deadline),
    };
    Manager::new(Settings { mode, cni, ..Settings::default() }, w.leases.clone())
}

/// A plugin that notes each call in `log/` and then does as the script says.
pub(crate) fn plugin(w: &World, name: &str, script: &str) {
    fs::create_dir_all(w.path("log")).unwrap();
    fs::create_dir_all(w.path("bin")).unwrap();
    let log = w.path("log").display().to_string();
    let note = format!(
        "#!/bin/sh\nf={log}/$(date +%s%N)-{name}-$CNI_COMMAND\ncat >$f.json; env >$f.tmp; mv $f.tmp $f.env\n"
    );
    // Written beside and moved: another test's fork may hold a file open for writing, and it could not be executed.
    let (new, path) = (w.path(&format!("bin/.{name}")), w.path(&format!("bin/{name}")));
    fs::write(&new, format!("{note}{script}\n")).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, path).unwrap();
}

pub(crate) fn conf(w: &World, file: &str, conf: &Value) {
    fs::create_dir_all(w.path("net.d")).unwrap();
    fs::write(w.path("net.d").join(file), conf.to_string()).unwrap();
}

pub(crate) fn list(plugins: &[&str]) -> Value {
    let plugins: Vec<_> = plugins.iter().map(|p| json!({"type": p})).collect();
    json!({"cniVersion": "1.1.0", "name": "net", "plugins": plugins})
}

struct Call {
    who: String,
    conf: Value,
    env: String,
}

/// The calls so far but VERSION, in order.
fn calls(w: &World) -> Vec<Call> {
    let mut files: Vec<_> = fs::read_dir(w.path("log")).unwrap().flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "env") && !f.to_string_lossy().contains("VERSION"));
    files.sort();
    let call = |file: &std::path::PathBuf| Call {
        who: file.file_stem().unwrap().to_string_lossy().split_once('-').unwrap().1.to_owned(),
        conf: serde_json::from_slice(&fs::read(file.with_extension("json")).unwrap()).unwrap(),
        env: fs::read_to_string(file).unwrap(),
    };
    files.iter().map(call).collect()
}

fn names(w: &World) -> Vec<String> {
    calls(w).into_iter().map(|c| c.who).collect()
}

fn attach(w: &World, manager: &Manager, name: &str) -> Result<Attachment, NetworkError> {
    let (_netns, pod) = w.pod(name);
    manager.setup(&manager.plan(&pod)?)
}

#[test]
fn results_are_chained_and_del_needs_neither_conf_nor_namespace() {
    world(|w| {
        let m = manager(w, Mode::Cni, 5000);
        plugin(w, "one", GOOD);
        plugin(w, "two", GOOD);
        conf(w, "10.conflist", &list(&["one", "two"]));
        let got = attach(w, &m, "a").unwrap();
        let addresses: Vec<_> = got.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["fd00::7", "10.0.0.7"], "in the order of the result");
        assert_eq!(got.mac.as_deref(), Some("02:00:00:00:00:07"));
        m.check(&got).unwrap();
        fs::remove_file(w.path("net.d/10.conflist")).unwrap();
        Netns::remove(&got.pod.netns).unwrap();
        // As after a restart: only what was saved is known.
        let saved: Attachment = serde_json::from_str(&serde_json::to_string(&got).unwrap()).unwrap();
        assert_eq!(saved, got);
        manager(w, Mode::Cni, 5000).teardown(&saved).unwrap();
        assert_eq!(names(w), ["one-ADD", "two-ADD", "one-CHECK", "two-CHECK", "two-DEL", "one-DEL"]);
        let calls = calls(w);
        assert_eq!(calls[0].conf.get("prevResult"), None);
        for call in &calls[1..] {
            assert_eq!(call.conf["prevResult"]["ips"][1]["address"], "10.0.0.7/24", "{}", call.who);
            assert_eq!((&call.conf["name"], &call.conf["cniVersion"]), (&json!("net"), &json!("1.1.0")));
        }
        assert!(calls[5].env.contains("CNI_NETNS=\n"), "{}", calls[5].env);
    });
}

#[test]
fn plugins_get_only_the_capabilities_they_ask_for() {
    world(|w| {
        let m = manager(w, Mode::Cni, 5000);
        plugin(w, "one", GOOD);
        plugin(w, "two", GOOD);
        let mut both = list(&["one", "two"]);
        both["plugins"][1]["capabilities"] =
            json!({"portMappings": true, "dns": true, "aliases": false, "mac": true});
        conf(w, "10.conflist", &both);
        let (_netns, pod) = w.pod("a");
        let pod = PodNet {
            ports: vec![PortMapping {
                protocol: Protocol::Tcp,
                host_port: 80,
                container_port: 8080,
                host_ip: None,
            }],
            dns: Dns { searches: vec!["x".into()], ..Dns::default() },
            bandwidth: Some(Bandwidth::default()),
            aliases: vec!["y".into()],
            ..pod
        };
        m.setup(&m.plan(&pod).unwrap()).unwrap();
        let calls = calls(w);
        assert_eq!(calls[0].conf.get("runtimeConfig"), None);
        assert_eq!(
            calls[1].conf["runtimeConfig"],
            json!({
                "portMappings": [{"hostPort": 80, "containerPort": 8080, "protocol": "tcp", "hostIP": ""}],
                "dns": {"servers": [], "searches": ["x"], "options": []},
            })
        );
    });
}

#[test]
fn plugins_are_told_who_the_pod_is() {
    world(|w| {
        let m = manager(w, Mode::Cni, 5000);
        plugin(w, "one", GOOD);
        conf(w, "10.conflist", &list(&["one"]));
        let pod = attach(w, &m, "a").unwrap().pod;
        let calls = calls(w);
        for wanted in [
            format!("CNI_CONTAINERID={}\n", pod.sandbox),
            format!("CNI_NETNS={}\n", pod.netns.display()),
            "CNI_IFNAME=eth0\n".into(),
            format!("CNI_PATH={}:{}\n", w.path("none").display(), w.path("bin").display()),
            format!(
                "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=a;\
                 K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID=uid-a\n",
                pod.sandbox
            ),
        ] {
            assert!(calls[0].env.contains(&wanted), "{wanted} in {}", calls[0].env);
        }
    });
}

#[test]
fn failures_name_plugin_network_and_what_it_wrote() {
    world(|w| {
        let m = manager(w, Mode::Cni, 5000);
        conf(w, "10.conflist", &list(&["bad"]));
        for (script, words) in [
            (
                r#"echo '{"code":11,"msg":"no room","details":"really"}'; echo oops >&2; exit 1"#,
                "no room; really; stderr: oops",
            ),
            ("echo trace >&2; kill -SEGV $$", "signal: 11"),
            ("echo not json; exit 3", "exit status: 3, it printed \"not json\""),
            ("echo '{}x'", "gave no valid result"),
            ("true", "it printed nothing"),
            (r#"echo '{"ips":[{"address":"10.0.0.300/24"}]}'"#, "10.0.0.300/24"),
            (r#"echo '{"cniVersion":"1.1.0"}'"#, "gave the pod no address"),
        ] {
            plugin(w, "bad", script);
            let (netns, pod) = w.pod("a");
            let error = m.setup(&m.plan(&pod).unwrap()).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("net"), "{script}: {error}");
            drop(netns);
            Netns::remove(&pod.netns).unwrap();
        }
        fs::remove_file(w.path("bin/bad")).unwrap();
        let error = attach(w, &m, "b").unwrap_err();
        assert!(error.plugin_gone(), "{error}");
        assert!(error.to_string().contains(&w.path("bin").display().to_string()), "{error}");
    });
}

#[test]
fn a_hanging_plugin_is_killed_with_its_children() {
    world(|w| {
        let m = manager(w, Mode::Cni, 400);
        let pid = w.path("child");
        plugin(w, "hang", &format!("echo begun >&2; sleep 1000 & echo $! >{}; wait", pid.display()));
        conf(w, "10.conf", &json!({"cniVersion": "1.0.0", "name": "net", "type": "hang"}));
        let started = Instant::now();
        let error = attach(w, &m, "a").unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert_eq!(error.class(), ErrorClass::DeadlineExceeded, "{error}");
        assert!(error.to_string().contains("begun"), "{error}");
        let child = fs::read_to_string(&pid).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        until("its child is dead", || fs::read_to_string(&stat).map_or(true, |s| s.contains(") Z ")));
    });
}

#[test]
fn what_a_plugin_leaves_running_or_never_stops_writing_holds_nobody() {
    world(|w| {
        let m = manager(w, Mode::Cni, 3000);
        let pid = w.path("child");
        plugin(w, "fork", &format!("sleep 20 & echo $! >{}\n{GOOD}", pid.display()));
        conf(w, "10.conf", &json!({"cniVersion": "1.1.0", "name": "net", "type": "fork"}));
        let started = Instant::now();
        attach(w, &m, "a").unwrap();
        assert!(started.elapsed() < Duration::from_secs(2), "the child holds stdout, not us");
        let child =
            fs::read_to_string(&pid).unwrap().trim().parse().ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(child.unwrap(), rustix::process::Signal::KILL).unwrap();
        let m = manager(w, Mode::Cni, 500);
        plugin(w, "fork", "exec yes");
        let error = attach(w, &m, "b").unwrap_err().to_string();
        assert!(error.contains("did not end"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(6));
    });
}

#[test]
fn a_plugin_that_does_not_read_its_configuration_is_no_trouble() {
    world(|w| {
        let m = manager(w, Mode::Cni, 3000);
        fs::write(
            w.path("bin/deaf"),
            "#!/bin/sh\nexec <&-\necho '{\"ips\":[{\"address\":\"10.0.0.7/24\"}]}'\n",
        )
        .unwrap();
        fs::set_permissions(w.path("bin/deaf"), fs::Permissions::from_mode(0o755)).unwrap();
        let big = "x".repeat(300_000);
        conf(w, "10.conf", &json!({"cniVersion": "1.0.0", "name": "net", "type": "deaf", "big": big}));
        assert_eq!(attach(w, &m, "a").unwrap().ips.len(), 1);
    });
}

#[test]
fn bad_files_are_named_and_skipped_and_a_type_with_a_path_is_bad() {
    world(|w| {
        let m = manager(w, Mode::Cni, 3000);
        assert!(!m.status().ready);
        plugin(w, "good", GOOD);
        conf(w, "00.conf", &json!({"cniVersion": "1.1.0", "name": "evil", "type": "../bin/good"}));
        fs::write(w.path("net.d/05.conflist"), "garbage").unwrap();
        let status = m.status();
        assert!(!status.ready && status.message.contains("05.conflist"), "{status:?}");
        conf(w, "10.conflist", &list(&["good"]));
        let status = m.status();
        assert!(status.ready, "{status:?}");
        assert_eq!(status.skipped.len(), 2);
        assert!(status.skipped[0].contains("00.conf") && status.skipped[0].contains("is no file name"));
        assert_eq!(attach(w, &m, "a").unwrap().ips.len(), 2);
    });
}

#[test]
fn status_answers_at_once_whatever_plugins_and_files_do() {
    world(|w| {
        let m = manager(w, Mode::Cni, 8000);
        plugin(w, "slow", &format!("[ $CNI_COMMAND = STATUS ] && sleep 2\n{GOOD}"));
        plugin(
            w,
            "down",
            r#"[ $CNI_COMMAND = STATUS ] && { echo '{"code":50,"msg":"not yet"}'; exit 1; }; exit 0"#,
        );
        conf(w, "10.conflist", &list(&["slow"]));
        conf(w, "20.conflist", &list(&["down"]));
        fs::write(w.path("net.d/30.json"), "garbage").unwrap();
        let mut longest = Duration::ZERO;
        let mut ask = || {
            let started = Instant::now();
            let status = m.status();
            longest = longest.max(started.elapsed());
            status
        };
        assert_eq!(ask().reason, "NetworkStatusUnknown");
        for i in 0..100 {
            let mut changed = list(&["slow"]);
            changed["round"] = json!(i);
            conf(w, "10.conflist", &changed);
            ask();
        }
        until("ready", || ask().ready);
        assert_eq!(ask().skipped.len(), 1);
        fs::remove_file(w.path("net.d/10.conflist")).unwrap();
        until("not ready", || ask().message.contains("not yet"));
        assert!(longest < Duration::from_secs(1), "{longest:?}");
        assert!(
            names(w).iter().filter(|n| *n == "slow-STATUS").count() <= 3,
            "STATUS is not run for each question"
        );
    });
}

#[test]
fn status_knows_missing_plugins_and_versions_that_are_not_spoken() {
    world(|w| {
        let m = manager(w, Mode::Cni, 3000);
        conf(w, "10.conf", &json!({"cniVersion": "0.4.0", "name": "net", "type": "gone"}));
        let status = m.status();
        assert!(!status.ready && status.message.contains("gone"), "{status:?}");
        plugin(w, "good", GOOD);
        conf(w, "10.conf", &json!({"cniVersion": "1.0.0", "name": "net", "type": "good"}));
        until("the version is refused", || {
            m.status().message.contains("it speaks 0.4.0, 1.1.0 and not 1.0.0")
        });
        assert_eq!(names(w), [""; 0], "no STATUS before 1.1");
    });
}

#[test]
fn a_failing_check_is_only_reported_and_old_versions_have_none() {
    world(|w| {
        let m = manager(w, Mode::Cni, 3000);
        plugin(w, "p", &format!("[ $CNI_COMMAND = CHECK ] && kill -SEGV $$\n{GOOD}"));
        conf(w, "10.conflist", &list(&["p"]));
        let pod = attach(w, &m, "a").unwrap();
        assert!(m.check(&pod).unwrap_err().to_string().contains("CHECK"));
        let mut quiet = list(&["p"]);
        quiet["disableCheck"] = json!(true);
        conf(w, "10.conflist", &quiet);
        m.check(&attach(w, &m, "b").unwrap()).unwrap();
        m.teardown(&pod).unwrap();
    });
}

#[test]
fn gc_tells_every_plugin_what_is_valid() {
    world(|w| {
        let m = manager(w, Mode::Cni, 3000);
        plugin(w, "one", "[ $CNI_COMMAND = GC ] && exit 1");
        plugin(w, "two", GOOD);
        conf(w, "10.conflist", &list(&["two"]));
        let pod = attach(w, &m, "a").unwrap();
        conf(w, "10.conflist", &list(&["one", "two"]));
        let error = m.gc(std::slice::from_ref(&pod)).unwrap_err().to_string();
        assert!(error.contains("one") && error.contains("GC"), "{error}");
        let calls = calls(w);
        assert_eq!(names(w), ["two-ADD", "one-GC", "two-GC"]);
        let valid = json!([{"containerID": pod.pod.sandbox, "ifname": "eth0"}]);
        assert_eq!(calls[2].conf["cni.dev/valid-attachments"], valid);
        assert!(!calls[2].env.contains("CNI_CONTAINERID"));
        conf(w, "10.conflist", &json!({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "one"}]}));
        m.gc(&[]).unwrap();
    });
}

#[test]
fn a_missing_plugin_keeps_no_other_from_del_and_parks_the_attachment() {
    world(|w| {
        let m = manager(w, Mode::Cni, 3000);
        plugin(w, "one", GOOD);
        plugin(w, "two", GOOD);
        conf(w, "10.conflist", &list(&["one", "two"]));
        let pod = attach(w, &m, "a").unwrap();
        fs::remove_file(w.path("bin/two")).unwrap();
        let error = m.teardown(&pod).unwrap_err();
        assert_eq!(names(w).last().unwrap(), "one-DEL");
        let failures = leftover::Failures::note(None, 1, &error);
        assert_eq!(failures.next(false), leftover::Next::Park);
    });
}
