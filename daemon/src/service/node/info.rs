//! What a verbose status says besides: JSON for people and scripts.

use crate::app::App;
use crate::blocking::Room;
use crate::service::node::status::NodeStatus;
use berth_core::Result;
use serde_json::json;
use std::collections::HashMap;

/// The `info` map.
///
/// # Errors
/// The daemon ends.
pub async fn info(app: &App, status: &NodeStatus) -> Result<HashMap<String, String>> {
    let (network, meta) = (app.network.clone(), app.store.meta());
    let look = move || (network.status(), meta.get(super::update::POD_CIDR).ok().flatten());
    let (network, pod_cidr) = app.blocking.run_in(Room::Look, "look at the node", look).await?;
    let node = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "startedAt": app.started_at.nanos(),
        "bootId": app.host.boot_id,
        "kernel": app.host.kernel,
        "cgroupDriver": crate::driver::name(app.driver),
        "cgroupMode": format!("{:?}", app.hierarchies.mode()).to_lowercase(),
        "sharesHostMounts": app.host.shares_host_mounts,
        "network": { "message": network.message, "skipped": network.skipped },
        "podCidr": pod_cidr,
        "pods": app.pods.views().len(),
        "handlers": status.handlers.iter().map(|handler| handler.name).collect::<Vec<_>>(),
    });
    let config = serde_json::to_string(&app.config).unwrap_or_default();
    Ok(HashMap::from([("berth".to_owned(), node.to_string()), ("config".to_owned(), config)]))
}
