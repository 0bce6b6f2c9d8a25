//! Calls about the node itself.

use crate::app::App;
use crate::cri::convert::node as words;
use crate::service::node;
use berth_core::Result;
use berth_proto::cri::*;

pub(super) async fn version(_: &App, _: VersionRequest) -> Result<VersionResponse> {
    let version = node::version();
    Ok(VersionResponse {
        version: version.kubelet_api.to_owned(),
        runtime_name: version.name.to_owned(),
        runtime_version: version.version.to_owned(),
        runtime_api_version: version.cri.to_owned(),
    })
}

pub(super) async fn status(app: &App, request: StatusRequest) -> Result<StatusResponse> {
    let status = node::status::status(app).await?;
    let info = match request.verbose {
        true => node::info::info(app, &status).await?,
        false => Default::default(),
    };
    Ok(words::status(&status, info))
}

pub(super) async fn runtime_config(app: &App, _: RuntimeConfigRequest) -> Result<RuntimeConfigResponse> {
    Ok(words::runtime_config(app.driver))
}

pub(super) async fn update_runtime_config(
    app: &App,
    request: UpdateRuntimeConfigRequest,
) -> Result<UpdateRuntimeConfigResponse> {
    let network = request.runtime_config.and_then(|config| config.network_config);
    if let Some(network) = network.filter(|network| !network.pod_cidr.is_empty()) {
        node::update::pod_cidr(app, &network.pod_cidr).await?;
    }
    Ok(UpdateRuntimeConfigResponse {})
}
