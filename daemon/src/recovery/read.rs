//! Records from the store. One that cannot be read becomes one that can be removed.

use super::{BySandbox, Stored};
use crate::container::{ContainerConfig, ContainerRecord, ContainerState};
use crate::pod::{Error, Ground, Row};
use crate::sandbox::{SandboxConfig, SandboxNetwork, SandboxRecord, SandboxState, identity};
use berth_core::{ContainerId, SandboxId, Timestamp};
use serde_json::Value;

/// Reads everything; also gives the rows that name no pod.
pub(super) fn read(ground: &Ground) -> Result<(Vec<Stored>, Vec<Row>), Error> {
    let failed = |error: berth_store::StoreError| Error::step("read the records", &error);
    let mut strays = Vec::new();
    let mut containers = BySandbox::new();
    for (key, bytes) in ground.store.containers().all_raw().map_err(failed)? {
        match container(&key, &bytes) {
            Some(record) => containers.entry(record.sandbox).or_default().push(record),
            None => strays.extend(ContainerId::parse(&key).ok().map(Row::NoContainer)),
        }
    }
    let mut all = Vec::new();
    for (key, bytes) in ground.store.sandboxes().all_raw().map_err(failed)? {
        match sandbox(&key, &bytes) {
            Some(sandbox) => {
                let containers = containers.remove(&sandbox.id).unwrap_or_default();
                all.push(Stored { sandbox, containers });
            }
            None => strays.push(Row::Stray(key)),
        }
    }
    strays.extend(containers.into_values().flatten().map(|record| Row::NoContainer(record.id)));
    Ok((all, strays))
}

fn sandbox(key: &str, bytes: &[u8]) -> Option<SandboxRecord> {
    let id = SandboxId::parse(key).ok()?;
    let problem = match serde_json::from_slice::<SandboxRecord>(bytes) {
        Ok(record) if record.id == id => match identity(&record.config) {
            Ok(()) => return Some(record),
            Err(error) => error.to_string(),
        },
        Ok(record) => format!("it says that it is {}", record.id),
        Err(error) => error.to_string(),
    };
    tracing::error!(sandbox = key, problem, "a sandbox's record cannot be read; it is shown as not ready");
    Some(damaged_sandbox(id, &serde_json::from_slice(bytes).unwrap_or_default(), &problem))
}

/// As much as can be read, and enough to be listed and removed.
fn damaged_sandbox(id: SandboxId, value: &Value, problem: &str) -> SandboxRecord {
    let config = value.get("config").unwrap_or(&Value::Null);
    let text = |field: &str| match config.get(field).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => format!("damaged-{}", id.short()),
    };
    let network = value.get("network").cloned().and_then(|value| serde_json::from_value(value).ok());
    let cgroup = value.get("cgroup").and_then(Value::as_str).unwrap_or_default().to_owned();
    let config = SandboxConfig {
        name: text("name"),
        uid: text("uid"),
        namespace: text("namespace"),
        labels: config
            .get("labels")
            .cloned()
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default(),
        ..SandboxConfig::default()
    };
    SandboxRecord {
        id,
        handler: String::new(),
        config,
        created_at: created_at(value),
        boot_id: String::new(),
        cgroup,
        network: network.unwrap_or(SandboxNetwork::Released),
        state: SandboxState::NotReady {
            at: Timestamp::now(),
            cause: Some(format!("damaged record: {problem}")),
        },
    }
}

fn created_at(value: &Value) -> Timestamp {
    value.get("created_at").and_then(Value::as_i64).map_or_else(Timestamp::now, Timestamp)
}

fn container(key: &str, bytes: &[u8]) -> Option<ContainerRecord> {
    let id = ContainerId::parse(key).ok()?;
    let problem = match serde_json::from_slice::<ContainerRecord>(bytes) {
        Ok(record) if record.id == id && !record.config.name.is_empty() => return Some(record),
        Ok(_) => "it names another container, or none".to_owned(),
        Err(error) => error.to_string(),
    };
    tracing::error!(container = key, problem, "a container's record cannot be read; it is shown as unknown");
    damaged_container(id, &serde_json::from_slice(bytes).unwrap_or_default(), &problem)
}

fn damaged_container(id: ContainerId, value: &Value, problem: &str) -> Option<ContainerRecord> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let sandbox = SandboxId::parse(value.get("sandbox")?.as_str()?).ok()?;
    let config = value.get("config").unwrap_or(&Value::Null);
    let name = match text(config.get("name")) {
        name if name.is_empty() => format!("damaged-{}", id.short()),
        name => name,
    };
    Some(ContainerRecord {
        id,
        sandbox,
        config: ContainerConfig { name, ..ContainerConfig::default() },
        image_id: text(value.get("image_id")),
        image_ref: text(value.get("image_ref")),
        created_at: created_at(value),
        boot_id: String::new(),
        cgroup: text(value.get("cgroup")),
        log: None,
        stop_signal: crate::container::DEFAULT_STOP_SIGNAL,
        user: None,
        state: ContainerState::Unknown { cause: format!("damaged record: {problem}") },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> String {
        "a".repeat(64)
    }

    #[test]
    fn a_damaged_sandbox_is_still_listed_under_what_can_be_read() {
        for bytes in [&b"{\"config\":{\"name\":\"web\"},\"created_at\":7}"[..], b"not json", b"[]", b""] {
            let record = sandbox(&key(), bytes).unwrap();
            assert!(matches!(record.state, SandboxState::NotReady { .. }));
            assert_eq!(identity(&record.config), Ok(()));
            assert!(record.is_damaged(), "what it does not say would be freed");
        }
        let known = sandbox(&key(), b"{\"config\":{\"name\":\"web\"},\"created_at\":7}").unwrap();
        assert_eq!((known.config.name.as_str(), known.created_at), ("web", Timestamp(7)));
        assert!(sandbox("zz", b"{}").is_none());
    }

    #[test]
    fn a_damaged_container_is_unknown_if_its_sandbox_can_be_read() {
        let bytes = format!("{{\"sandbox\":\"{}\",\"config\":{{\"name\":3}}}}", key());
        let record = container(&key(), bytes.as_bytes()).unwrap();
        assert!(matches!(record.state, ContainerState::Unknown { .. }));
        assert!(record.config.name.starts_with("damaged-"));
        assert!(container(&key(), b"{}").is_none());
    }
}
