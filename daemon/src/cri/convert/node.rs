//! The node's status: plain values to wire words.

use crate::service::node::status::{Condition, NodeStatus};
use berth_cgroup::Driver;
use berth_proto::cri;
use std::collections::HashMap;

/// The status, with `info` only when it was asked for.
#[must_use]
pub fn status(status: &NodeStatus, info: HashMap<String, String>) -> cri::StatusResponse {
    cri::StatusResponse {
        status: Some(cri::RuntimeStatus { conditions: status.conditions.iter().map(condition).collect() }),
        info,
        runtime_handlers: status
            .handlers
            .iter()
            .map(|handler| cri::RuntimeHandler {
                name: handler.name.to_owned(),
                features: Some(cri::RuntimeHandlerFeatures {
                    recursive_read_only_mounts: handler.recursive_read_only_mounts,
                    user_namespaces: handler.user_namespaces,
                }),
            })
            .collect(),
        features: Some(cri::RuntimeFeatures {
            supplemental_groups_policy: status.supplemental_groups_policy,
            user_namespaces_host_network: false,
            mount_options: false,
        }),
    }
}

fn condition(condition: &Condition) -> cri::RuntimeCondition {
    cri::RuntimeCondition {
        r#type: condition.kind.to_owned(),
        status: condition.holds,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}

/// The cgroup driver.
#[must_use]
pub fn runtime_config(driver: Driver) -> cri::RuntimeConfigResponse {
    let word = match driver {
        Driver::Systemd => cri::CgroupDriver::Systemd,
        Driver::Cgroupfs => cri::CgroupDriver::Cgroupfs,
    };
    cri::RuntimeConfigResponse { linux: Some(cri::LinuxRuntimeConfiguration { cgroup_driver: word.into() }) }
}
