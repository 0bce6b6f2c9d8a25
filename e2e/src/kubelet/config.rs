//! The kubelet's configuration file.

use super::api::PORT;
use crate::node::Node;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The text; JSON is YAML.
pub(super) fn text(node: &Node, dir: &Path, gates: &[(&str, bool)]) -> String {
    let gates: Map<String, Value> = gates.iter().map(|(name, on)| ((*name).to_owned(), json!(on))).collect();
    json!({
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "address": "127.0.0.1",
        "port": PORT,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "containerRuntimeEndpoint": format!("unix://{}", node.socket().display()),
        "staticPodPath": dir.join("manifests"),
        "podLogsDir": dir.join("logs"),
        "volumePluginDir": dir.join("plugins"),
        "fileCheckFrequency": "1s",
        "syncFrequency": "5s",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup().child("").trim_end_matches('/'),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        // Pods of other tests use the machine too.
        "evictionHard": { "memory.available": "20Mi" },
        "imageGCHighThresholdPercent": 100,
        "protectKernelDefaults": false,
        "makeIPTablesUtilChains": false,
        "oomScoreAdj": 0,
        "crashLoopBackOff": { "maxContainerRestartPeriod": "1s" },
        "featureGates": gates,
    })
    .to_string()
}
