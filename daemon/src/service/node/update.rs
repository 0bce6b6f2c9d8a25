//! What the kubelet tells the runtime about the node.

use crate::app::App;
use berth_core::{Error, Result};
use std::net::IpAddr;

/// Where the node's pod range is kept.
pub(crate) const POD_CIDR: &str = "pod_cidr";

/// Keeps the node's pod range: one or two subnets with a comma between them. It is shown in the verbose status; who
/// attaches pods has ranges of its own.
///
/// # Errors
/// Not a list of subnets, or the store cannot be written.
pub async fn pod_cidr(app: &App, text: &str) -> Result<()> {
    if !text.split(',').all(is_subnet) {
        return Err(Error::invalid(format!(
            "runtime_config.network_config.pod_cidr: {text:?} is no list of subnets"
        )));
    }
    let (meta, text) = (app.store.meta(), text.to_owned());
    tracing::info!(pod_cidr = text, "the kubelet told the node's pod range");
    Ok(app.blocking.run("keep the pod range", move || meta.set(POD_CIDR, &text)).await??)
}

fn is_subnet(text: &str) -> bool {
    let Some((address, length)) = text.trim().split_once('/') else { return false };
    let width = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_of_both_families() {
        assert!(["10.1.0.0/16", "fd00::/64", " 10.0.0.0/8"].iter().all(|text| is_subnet(text)));
        assert!(["", "10.1.0.0", "10.1.0.0/33", "x/8", "fd00::/129"].iter().all(|text| !is_subnet(text)));
    }
}
