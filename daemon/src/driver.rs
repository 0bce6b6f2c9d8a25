//! The node's cgroup driver.
//!
//! Since Kubernetes 1.34 every kubelet takes its driver from the answer to RuntimeConfig, so it must never flip under
//! running pods. The order: the configuration's word; the answer given before, while any pod exists; the kubelet's own
//! file, as the administrator's wish; systemd if it is PID 1; plain directories.

use berth_cgroup::Driver;
use berth_config::{Cgroup, CgroupDriver};
use berth_store::{Store, StoreError};
use std::path::Path;

/// Where kubeadm and most distributions keep the kubelet's settings.
const KUBELET_FILE: &str = "/var/lib/kubelet/config.yaml";

/// What the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    configured: CgroupDriver,
    stored: Option<Driver>,
    pods_exist: bool,
    kubelet: Option<Driver>,
    systemd: bool,
}

/// Chooses, and keeps the answer.
///
/// # Errors
/// The store cannot be read.
pub fn choose(config: &Cgroup, store: &Store) -> Result<Driver, StoreError> {
    let stored = store.meta().cgroup_driver()?;
    let facts = Facts {
        configured: config.driver,
        stored: stored.as_deref().and_then(parse),
        pods_exist: !store.sandboxes().all_raw()?.is_empty(),
        kubelet: kubelet_wish(Path::new(KUBELET_FILE)),
        systemd: std::fs::read_to_string("/proc/1/comm").is_ok_and(|name| name.trim() == "systemd"),
    };
    let driver = decide(facts);
    if facts.pods_exist && facts.stored.is_some_and(|stored| stored != driver) {
        tracing::warn!(
            driver = name(driver),
            "cgroup.driver was changed while pods exist: drain the node and restart the kubelet"
        );
    }
    if stored.as_deref() != Some(name(driver)) {
        // On a full disk the node starts all the same; the answer is found anew the same way, and noted then.
        if let Err(error) = store.meta().set_cgroup_driver(name(driver)) {
            tracing::error!(%error, driver = name(driver), "the cgroup driver's name could not be kept");
        }
    }
    Ok(driver)
}

fn decide(facts: Facts) -> Driver {
    match facts.configured {
        CgroupDriver::Systemd => return Driver::Systemd,
        CgroupDriver::Cgroupfs => return Driver::Cgroupfs,
        CgroupDriver::Auto => {}
    }
    let sticky = facts.stored.filter(|_| facts.pods_exist);
    let fallback = if facts.systemd { Driver::Systemd } else { Driver::Cgroupfs };
    sticky.or(facts.kubelet).unwrap_or(fallback)
}

/// The driver's name as configuration, store and kubelet write it.
#[must_use]
pub fn name(driver: Driver) -> &'static str {
    match driver {
        Driver::Systemd => "systemd",
        Driver::Cgroupfs => "cgroupfs",
    }
}

fn parse(text: &str) -> Option<Driver> {
    match text {
        "systemd" => Some(Driver::Systemd),
        "cgroupfs" => Some(Driver::Cgroupfs),
        _ => None,
    }
}

/// `cgroupDriver:` at the top level of the kubelet's YAML or JSON file.
fn kubelet_wish(path: &Path) -> Option<Driver> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| {
        let line = line.trim_start_matches(['"', ' ', '{']);
        line.strip_prefix("cgroupDriver")?.trim_start_matches('"').trim_start().strip_prefix(':')
    })?;
    let value = line.split('#').next().unwrap_or_default();
    parse(value.trim_matches([' ', '"', '\'', ',', '\t', '\r']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Facts = Facts {
        configured: CgroupDriver::Auto,
        stored: None,
        pods_exist: false,
        kubelet: None,
        systemd: false,
    };

    #[test]
    fn the_order_of_the_reasons() {
        use Driver::{Cgroupfs, Systemd};
        assert_eq!(decide(NOTHING), Cgroupfs);
        assert_eq!(decide(Facts { systemd: true, ..NOTHING }), Systemd);
        assert_eq!(decide(Facts { systemd: true, kubelet: Some(Cgroupfs), ..NOTHING }), Cgroupfs);
        let stored = Facts { systemd: true, stored: Some(Cgroupfs), ..NOTHING };
        assert_eq!(decide(stored), Systemd, "an old answer binds nobody without pods");
        assert_eq!(decide(Facts { pods_exist: true, kubelet: Some(Systemd), ..stored }), Cgroupfs);
        let configured = Facts { pods_exist: true, configured: CgroupDriver::Systemd, ..stored };
        assert_eq!(decide(configured), Systemd);
    }

    #[test]
    fn the_kubelets_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let wish = |text: &str| {
            std::fs::write(&path, text).unwrap();
            kubelet_wish(&path)
        };
        assert_eq!(wish("apiVersion: v1\ncgroupDriver: systemd\n"), Some(Driver::Systemd));
        assert_eq!(wish("cgroupDriver: \"cgroupfs\"  # why\n"), Some(Driver::Cgroupfs));
        assert_eq!(wish("{\n  \"cgroupDriver\": \"systemd\",\n}"), Some(Driver::Systemd));
        assert_eq!(wish("cgroupDriver: other\n"), None);
        assert_eq!(wish("x: 1\n"), None);
        assert_eq!(kubelet_wish(Path::new("/nowhere")), None);
    }

    #[test]
    fn an_answer_sticks_while_pods_exist() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let auto = Cgroup { driver: CgroupDriver::Auto };
        let first = choose(&Cgroup { driver: CgroupDriver::Systemd }, &store).unwrap();
        store.sandboxes().put("s", &"pod").unwrap();
        assert_eq!(choose(&auto, &store).unwrap(), first);
        let changed = choose(&Cgroup { driver: CgroupDriver::Cgroupfs }, &store).unwrap();
        assert_eq!((first, changed), (Driver::Systemd, Driver::Cgroupfs));
        assert_eq!(store.meta().cgroup_driver().unwrap().as_deref(), Some("cgroupfs"));
    }
}
