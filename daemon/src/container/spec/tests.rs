//! Tables of requests and the specs they give.

use super::*;
use crate::container::{EnvValue, Mount, Propagation};
use crate::sandbox::{
    Live, NamespaceMode, NamespacePaths, Resources, SandboxConfig, SandboxNetwork, SandboxState,
    SecurityProfile,
};
use berth_core::oci::{LinuxDevice, LinuxDeviceType};
use berth_core::{SandboxId, Timestamp};
use std::collections::BTreeSet;

fn sandbox() -> SandboxRecord {
    let namespaces = NamespacePaths {
        net: "/run/netns/berth-1".into(),
        ipc: "/proc/7/fd/1".into(),
        uts: "/proc/7/fd/2".into(),
        pid: "/proc/7/fd/3".into(),
    };
    SandboxRecord {
        id: SandboxId::parse(&"a".repeat(64)).unwrap(),
        handler: String::new(),
        config: SandboxConfig { name: "web".into(), ..SandboxConfig::default() },
        created_at: Timestamp(1),
        boot_id: "b".into(),
        cgroup: String::new(),
        network: SandboxNetwork::Host,
        state: SandboxState::Ready(Live { shim_pid: 7, socket: "/s".into(), namespaces }),
    }
}

fn facts() -> Facts {
    let bounding = ["CHOWN", "NET_RAW", "NET_BIND_SERVICE", "SYS_ADMIN", "KILL", "SETUID"];
    Facts {
        pod_files: vec![("/p/hosts".into(), "/etc/hosts".into()), ("/p/shm".into(), "/dev/shm".into())],
        bounding: bounding.iter().map(|name| format!("CAP_{name}")).collect(),
        hostname: "web".into(),
        nofile_hard: 20_000,
        swap: true,
        ..Facts::default()
    }
}

fn image() -> ImageForContainer {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    ImageForContainer {
        env: text(&["PATH=/bin", "A=image", "B=1"]),
        entrypoint: text(&["/entry"]),
        cmd: text(&["default"]),
        working_dir: "/work".into(),
        user: "www:staff".into(),
        ..ImageForContainer::default()
    }
}

struct Case {
    sandbox: SandboxRecord,
    config: ContainerConfig,
    image: ImageForContainer,
    facts: Facts,
}

impl Case {
    fn new() -> Self {
        let config = ContainerConfig { name: "c".into(), ..ContainerConfig::default() };
        Self { sandbox: sandbox(), config, image: image(), facts: facts() }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut case = Self::new();
        change(&mut case);
        case
    }

    fn build(&self) -> Result<Spec, Error> {
        let Self { sandbox, config, image, facts } = self;
        build(&Input { sandbox, config, image, cgroup: "/berth/c", facts })
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn args(command: &[&str], args: &[&str]) -> Vec<String> {
    let case = Case::with(|case| {
        case.config.command = strings(command);
        case.config.args = strings(args);
    });
    case.build().unwrap().process().clone().unwrap().args().clone().unwrap()
}

#[test]
fn command_and_args_follow_the_image_only_where_nothing_is_said() {
    assert_eq!(args(&[], &[]), ["/entry", "default"]);
    assert_eq!(args(&[], &["x"]), ["/entry", "x"]);
    assert_eq!(args(&["/run"], &[]), ["/run"]);
    assert_eq!(args(&["/run"], &["x"]), ["/run", "x"]);
    let nothing = Case::with(|case| case.image = ImageForContainer::default());
    assert!(nothing.build().unwrap_err().to_string().contains("nothing to run"));
}

fn text(name: &str, value: &str) -> (String, EnvValue) {
    (name.into(), EnvValue::Text(value.into()))
}

#[test]
fn values_that_are_no_text_travel_beside_the_environment() {
    let case =
        Case::with(|case| case.config.envs = vec![("X".into(), vec![0xff, b'a'].into()), text("Y", "1")]);
    let spec = case.build().unwrap();
    let env = spec.process().clone().unwrap().env().clone().unwrap();
    assert!(env.contains(&"Y=1".to_owned()) && !env.iter().any(|entry| entry.starts_with("X=")));
    assert_eq!(spec.annotations().clone().unwrap()["dev.berth.env-bytes"], "[\"583dff61\"]");
    assert!(!Case::new().build().unwrap().annotations().clone().unwrap().contains_key("dev.berth.env-bytes"));
}

#[test]
fn later_variables_win_in_the_place_of_the_first() {
    let case = Case::with(|case| case.config.envs = vec![text("A", "request=1"), text("C", "")]);
    let env = case.build().unwrap().process().clone().unwrap().env().clone().unwrap();
    assert_eq!(env, ["PATH=/bin", "A=request=1", "B=1", "HOSTNAME=web", "C="]);
    let bare = Case::with(|case| case.image.env.clear());
    let env = bare.build().unwrap().process().clone().unwrap().env().clone().unwrap();
    assert!(env[0].starts_with("PATH=/usr/local/sbin:"));
    for name in ["", "A=B", "A\0"] {
        let bad = Case::with(|case| case.config.envs = vec![text(name, "")]);
        assert!(bad.build().is_err(), "{name:?}");
    }
}

#[test]
fn working_directory_is_the_requests_the_images_the_root() {
    let cwd = |case: Case| case.build().unwrap().process().clone().unwrap().cwd().clone();
    assert_eq!(cwd(Case::new()).to_str(), Some("/work"));
    assert_eq!(cwd(Case::with(|case| case.config.working_dir = "/here".into())).to_str(), Some("/here"));
    assert_eq!(cwd(Case::with(|case| case.image.working_dir.clear())).to_str(), Some("/"));
    assert_eq!(cwd(Case::with(|case| case.image.working_dir = "rel".into())).to_str(), Some("/rel"));
}

fn capabilities(change: impl FnOnce(&mut Case)) -> BTreeSet<String> {
    let process = Case::with(change).build().unwrap().process().clone().unwrap();
    let sets = process.capabilities().clone().unwrap();
    assert_eq!(sets.bounding(), sets.permitted());
    assert_eq!(sets.bounding(), sets.effective());
    sets.bounding().clone().unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn capabilities_are_added_and_dropped_within_the_hosts() {
    let names = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    let default = names(&["CHOWN", "KILL", "NET_BIND_SERVICE", "NET_RAW", "SETUID"]);
    assert_eq!(capabilities(|_| {}), default);
    let drop_all = |case: &mut Case| {
        case.config.security.drop_capabilities = strings(&["ALL"]);
        case.config.security.add_capabilities = strings(&["net_raw", "CAP_SYS_ADMIN", "SYS_TIME"]);
    };
    // SYS_TIME is not in this daemon's own bounding set.
    assert_eq!(capabilities(drop_all), names(&["NET_RAW", "SYS_ADMIN"]));
    let add_all = |case: &mut Case| {
        case.config.security.add_capabilities = strings(&["ALL"]);
        case.config.security.drop_capabilities = strings(&["KILL"]);
    };
    let all = names(&["CHOWN", "NET_BIND_SERVICE", "NET_RAW", "SETUID", "SYS_ADMIN"]);
    assert_eq!(capabilities(add_all), all);
    let privileged = |case: &mut Case| {
        case.config.security.privileged = true;
        case.config.security.drop_capabilities = strings(&["KILL"]);
    };
    assert_eq!(capabilities(privileged).len(), 6);
    let both = |case: &mut Case| {
        case.config.security.add_capabilities = strings(&["ALL", "NET_RAW"]);
        case.config.security.drop_capabilities = strings(&["ALL"]);
    };
    assert_eq!(capabilities(both), names(&["NET_RAW"]), "dropping all wins over adding all");
    let unknown = Case::with(|case| case.config.security.add_capabilities = strings(&["FLY"]));
    assert!(unknown.build().unwrap_err().to_string().contains("FLY"));
}

#[test]
fn nothing_is_inheritable_unless_it_is_ambient() {
    let sets = |case: Case| case.build().unwrap().process().clone().unwrap().capabilities().clone().unwrap();
    assert!(sets(Case::new()).inheritable().clone().unwrap().is_empty());
    let ambient =
        sets(Case::with(|case| case.config.security.add_ambient_capabilities = strings(&["NET_RAW"])));
    assert_eq!(ambient.ambient().clone().unwrap().len(), 1);
    assert_eq!(ambient.inheritable(), ambient.ambient());
}

fn destinations(case: &Case) -> Vec<(String, Vec<String>)> {
    let mounts = case.build().unwrap().mounts().clone().unwrap();
    let one = |mount: &berth_core::oci::Mount| {
        (mount.destination().display().to_string(), mount.options().clone().unwrap_or_default())
    };
    mounts.iter().map(one).collect()
}

fn bound(destination: &str) -> BoundMount {
    BoundMount { source: "/src".into(), destination: destination.into(), ..BoundMount::default() }
}

#[test]
fn the_requests_own_mounts_win_and_parents_come_first() {
    let case = Case::with(|case| {
        case.facts.mounts =
            vec![bound("/data/sub//x/"), bound("/data"), bound("/etc/hosts"), bound("/dev/shm")];
    });
    let found = destinations(&case);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "/proc",
        "/dev",
        "/dev/pts",
        "/dev/mqueue",
        "/sys",
        "/sys/fs/cgroup",
        "/data",
        "/etc/hosts",
        "/dev/shm",
        "/data/sub/x",
    ];
    assert_eq!(names, wanted);
    assert!(destinations(&Case::new()).iter().any(|(name, _)| name == "/dev/shm"));
}

#[test]
fn a_mount_at_dev_takes_what_is_below_it_along() {
    let case = Case::with(|case| case.facts.mounts = vec![bound("/dev")]);
    let found = destinations(&case);
    assert_eq!(found.iter().filter(|(name, _)| name.starts_with("/dev")).count(), 1);
}

#[test]
fn mount_options_say_access_and_propagation() {
    let options = |change: fn(&mut BoundMount)| {
        let mut mount = bound("/x");
        change(&mut mount);
        let case = Case::with(|case| case.facts.mounts = vec![mount]);
        let propagation = case.build().unwrap().linux().clone().unwrap().rootfs_propagation().clone();
        let found = destinations(&case).into_iter().find(|(name, _)| name == "/x").unwrap();
        (found.1.join(","), propagation)
    };
    assert_eq!(options(|_| {}), ("rbind,rprivate,rw".into(), None));
    assert_eq!(options(|m| m.readonly = true).0, "rbind,rprivate,ro");
    let recursive = |m: &mut BoundMount| (m.readonly, m.recursive) = (true, true);
    assert_eq!(options(recursive).0, "rbind,rprivate,rro");
    let slave = |m: &mut BoundMount| m.propagation = Propagation::HostToContainer;
    assert_eq!(options(slave), ("rbind,rslave,rw".into(), Some("rslave".into())));
    let shared = |m: &mut BoundMount| m.propagation = Propagation::Bidirectional;
    assert_eq!(options(shared), ("rbind,rshared,rw".into(), Some("rshared".into())));
    assert_eq!(options(|m| m.options = vec!["noexec".into()]).0, "rbind,rprivate,rw,noexec");
    for bad in ["", "x", "/", "/..", "/a\0b"] {
        let case = Case::with(|case| case.facts.mounts = vec![bound(bad)]);
        assert!(case.build().is_err(), "{bad:?}");
    }
}

#[test]
fn sys_and_cgroup_are_writable_only_when_privileged() {
    for (privileged, access) in [(false, "ro"), (true, "rw")] {
        let case = Case::with(|case| case.config.security.privileged = privileged);
        for (name, options) in destinations(&case) {
            if name.starts_with("/sys") {
                assert_eq!(options.last().map(String::as_str), Some(access), "{name}");
            }
        }
    }
}

fn namespace_words(change: impl FnOnce(&mut Case)) -> String {
    let linux = Case::with(change).build().unwrap().linux().clone().unwrap();
    let word = |namespace: &berth_core::oci::LinuxNamespace| {
        let path =
            namespace.path().as_ref().map_or_else(|| "own".to_owned(), |path| path.display().to_string());
        format!("{}:{path}", namespace.typ())
    };
    linux.namespaces().clone().unwrap().iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn namespaces_follow_the_modes() {
    let pod = "mount:own network:/run/netns/berth-1 ipc:/proc/7/fd/1 uts:/proc/7/fd/2";
    let pid = |mode: NamespaceMode| move |case: &mut Case| case.config.security.namespaces.pid = mode;
    assert_eq!(namespace_words(pid(NamespaceMode::Pod)), format!("{pod} pid:/proc/7/fd/3"));
    assert_eq!(namespace_words(pid(NamespaceMode::Container)), format!("{pod} pid:own"));
    assert_eq!(namespace_words(pid(NamespaceMode::Node)), pod);
    let target = |case: &mut Case| {
        case.config.security.namespaces.pid = NamespaceMode::Target;
        case.facts.target_pid = Some(Target::at("/proc/99/ns/pid"));
    };
    assert_eq!(namespace_words(target), format!("{pod} pid:/proc/99/ns/pid"));
    let host = |case: &mut Case| {
        case.sandbox.config.security.namespaces.pid = NamespaceMode::Node;
        if let SandboxState::Ready(live) = &mut case.sandbox.state {
            live.namespaces = NamespacePaths::default();
        }
    };
    assert_eq!(namespace_words(host), "mount:own");
    let unified = |case: &mut Case| case.facts.unified = true;
    assert!(namespace_words(unified).ends_with("cgroup:own"));
}

#[test]
fn limits_are_left_out_where_nothing_is_set() {
    let plain = resources(&Resources::default(), true);
    assert_eq!((plain.cpu(), plain.memory(), plain.hugepage_limits()), (&None, &None, &None));
    let asked = Resources { cpu_shares: 512, cpu_quota: -1, memory_limit: 64 << 20, ..Resources::default() };
    let limits = resources(&asked, true);
    let (cpu, memory) = (limits.cpu().clone().unwrap(), (*limits.memory()).unwrap());
    assert_eq!((cpu.shares(), cpu.quota(), cpu.period()), (Some(512), Some(-1), None));
    assert_eq!((memory.limit(), memory.swap()), (Some(64 << 20), Some(64 << 20)));
    assert_eq!((*resources(&asked, false).memory()).unwrap().swap(), None);
    let swap = Resources { memory_swap_limit: 128 << 20, ..asked };
    assert_eq!((*resources(&swap, true).memory()).unwrap().swap(), Some(128 << 20));
}

#[test]
fn oom_score_is_clamped_to_what_can_be_given() {
    let score = |asked: i64, floor: Option<i64>| {
        let case = Case::with(|case| {
            case.config.resources.oom_score_adj = asked;
            case.facts.oom_floor = floor;
        });
        case.build().unwrap().process().clone().unwrap().oom_score_adj()
    };
    assert_eq!(score(-5000, None), Some(-1000));
    assert_eq!(score(-998, Some(0)), Some(0));
    assert_eq!(score(500, Some(0)), Some(500));
    assert_eq!(score(9999, None), Some(1000));
}

#[test]
fn paths_are_masked_once_and_exactly_as_sent() {
    let case = Case::with(|case| {
        case.config.security.masked_paths = strings(&["/proc/kcore", "/proc/keys", "/proc/kcore"]);
    });
    let linux = case.build().unwrap().linux().clone().unwrap();
    assert_eq!(linux.masked_paths().clone().unwrap(), ["/proc/kcore", "/proc/keys"]);
    assert_eq!(linux.readonly_paths(), &None);
    let privileged = Case::with(|case| {
        case.config.security.masked_paths = strings(&["/proc/kcore"]);
        case.config.security.privileged = true;
    });
    assert_eq!(privileged.build().unwrap().linux().clone().unwrap().masked_paths(), &None);
}

#[test]
fn seccomp_is_what_was_asked_for() {
    let profile = |asked: Option<SecurityProfile>, privileged: bool| {
        let case = Case::with(|case| {
            case.config.security.seccomp = asked;
            case.config.security.privileged = privileged;
        });
        case.build().unwrap().linux().clone().unwrap().seccomp().clone()
    };
    assert!(profile(Some(SecurityProfile::RuntimeDefault), false).is_some());
    assert!(profile(Some(SecurityProfile::RuntimeDefault), true).is_none());
    assert!(profile(Some(SecurityProfile::Unconfined), false).is_none());
    assert!(profile(None, false).is_none());
}

#[test]
fn device_rules_deny_first_and_then_name_what_is_allowed() {
    let node = LinuxDevice {
        path: "/dev/fuse".into(),
        typ: LinuxDeviceType::C,
        major: 10,
        minor: 229,
        ..LinuxDevice::default()
    };
    let case = Case::with(|case| case.facts.devices = vec![(node, "rw".into())]);
    let linux = case.build().unwrap().linux().clone().unwrap();
    let rules = linux.resources().clone().unwrap().devices().clone().unwrap();
    assert!(!rules[0].allow() && rules[1..].iter().all(|rule| rule.allow()));
    let last = rules.last().unwrap();
    assert_eq!((last.major(), last.minor(), last.access().as_deref()), (Some(10), Some(229), Some("rw")));
    assert_eq!(linux.devices().clone().unwrap().len(), 1);
    let privileged = Case::with(|case| case.config.security.privileged = true).build().unwrap();
    let rules = privileged.linux().clone().unwrap().resources().clone().unwrap().devices().clone().unwrap();
    assert!(rules.len() == 1 && rules[0].allow());
}

#[test]
fn the_user_is_the_requests_or_the_images() {
    let user = |change: fn(&mut ContainerConfig)| {
        let mut config = ContainerConfig::default();
        change(&mut config);
        run_as(&config, &image())
    };
    assert_eq!(user(|_| {}).unwrap().name, "www:staff");
    assert!(user(|_| {}).unwrap().merge);
    assert_eq!(user(|c| c.security.run_as_user = Some(33)).unwrap().name, "33");
    assert_eq!(user(|c| c.security.run_as_username = "bin".into()).unwrap().name, "bin");
    let both =
        |c: &mut ContainerConfig| (c.security.run_as_user, c.security.run_as_group) = (Some(1), Some(2));
    assert_eq!(user(both).unwrap().gid, Some(2));
    for id in [-1, i64::from(u32::MAX), 1 << 40] {
        let mut config = ContainerConfig::default();
        config.security.run_as_user = Some(id);
        assert!(run_as(&config, &image()).is_err(), "{id}");
    }
    assert!(user(|c| c.security.run_as_group = Some(2)).is_err());
    assert!(user(|c| c.security.run_as_username = "a:b".into()).is_err());
}

#[test]
fn unused_request_mounts_are_not_in_the_spec() {
    // The builder takes resolved mounts only; what the request says is resolved by those who may look.
    let case = Case::with(|case| {
        case.config.mounts = vec![Mount { container_path: "/never".into(), ..Mount::default() }];
    });
    assert!(destinations(&case).iter().all(|(name, _)| name != "/never"));
}
