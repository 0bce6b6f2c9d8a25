//! What a call is about, for the log: the ids that its request names, and those that its answer gives.

use berth_proto::cri::*;
use tracing::Span;

/// Ids of a message, each empty where it has none.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Subject {
    /// A sandbox id.
    pub sandbox: String,
    /// A container id.
    pub container: String,
    /// `namespace/name` of a pod, or the name of a container.
    pub name: String,
}

impl Subject {
    /// Puts what is known into the span of the call.
    pub fn record(&self, span: &Span) {
        for (field, value) in
            [("sandbox", &self.sandbox), ("container", &self.container), ("about", &self.name)]
        {
            match value.as_str() {
                "" => {}
                plain if is_plain(plain) => drop(span.record(field, plain)),
                // Whatever a caller sends must not look like lines of the log.
                other => drop(span.record(field, tracing::field::debug(other))),
            }
        }
    }
}

fn is_plain(value: &str) -> bool {
    value.len() <= 512 && value.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A message that is about something.
pub trait About {
    /// What it is about.
    fn subject(&self) -> Subject;
}

macro_rules! about {
    ($($field:ident as $place:ident: $($message:ident)*;)*) => {
        $($(impl About for $message {
            fn subject(&self) -> Subject {
                Subject { $place: self.$field.clone(), ..Subject::default() }
            }
        })*)*
    };
}

macro_rules! about_nothing {
    ($($message:ident)*) => {
        $(impl About for $message {
            fn subject(&self) -> Subject {
                Subject::default()
            }
        })*
    };
}

about! {
    pod_sandbox_id as sandbox: StopPodSandboxRequest RemovePodSandboxRequest PodSandboxStatusRequest PodSandboxStatsRequest
        UpdatePodSandboxResourcesRequest RunPodSandboxResponse;
    container_id as container: StartContainerRequest StopContainerRequest RemoveContainerRequest ContainerStatusRequest
        UpdateContainerResourcesRequest ReopenContainerLogRequest ExecSyncRequest ContainerStatsRequest CreateContainerResponse;
}

about_nothing! {
    VersionRequest StatusRequest RuntimeConfigRequest UpdateRuntimeConfigRequest ListPodSandboxRequest ListContainersRequest
    ListContainerStatsRequest ListPodSandboxStatsRequest ListImagesRequest ImageFsInfoRequest
    VersionResponse StatusResponse RuntimeConfigResponse UpdateRuntimeConfigResponse StopPodSandboxResponse
    RemovePodSandboxResponse PodSandboxStatusResponse ListPodSandboxResponse StartContainerResponse StopContainerResponse
    RemoveContainerResponse ListContainersResponse ContainerStatusResponse UpdateContainerResourcesResponse
    ReopenContainerLogResponse ExecSyncResponse ContainerStatsResponse ListContainerStatsResponse PodSandboxStatsResponse
    ListPodSandboxStatsResponse UpdatePodSandboxResourcesResponse ListImagesResponse ImageStatusResponse PullImageResponse
    RemoveImageResponse ImageFsInfoResponse
}

impl About for RunPodSandboxRequest {
    fn subject(&self) -> Subject {
        let metadata = self.config.as_ref().and_then(|config| config.metadata.as_ref());
        let name = metadata.map(|metadata| format!("{}/{}", metadata.namespace, metadata.name));
        Subject { name: name.unwrap_or_default(), ..Subject::default() }
    }
}

impl About for CreateContainerRequest {
    fn subject(&self) -> Subject {
        let metadata = self.config.as_ref().and_then(|config| config.metadata.as_ref());
        let name = metadata.map(|metadata| metadata.name.clone()).unwrap_or_default();
        Subject { sandbox: self.pod_sandbox_id.clone(), name, ..Subject::default() }
    }
}

macro_rules! about_an_image {
    ($($message:ident)*) => {
        $(impl About for $message {
            fn subject(&self) -> Subject {
                let name = self.image.as_ref().map(|image| image.image.clone()).unwrap_or_default();
                Subject { name, ..Subject::default() }
            }
        })*
    };
}

about_an_image! { ImageStatusRequest PullImageRequest RemoveImageRequest }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_say_what_they_are_about() {
        let request = StopContainerRequest { container_id: "c1".into(), timeout: 3 };
        assert_eq!(request.subject(), Subject { container: "c1".into(), ..Subject::default() });
        let metadata =
            PodSandboxMetadata { name: "web".into(), namespace: "shop".into(), ..Default::default() };
        let config = PodSandboxConfig { metadata: Some(metadata), ..Default::default() };
        let request = RunPodSandboxRequest { config: Some(config), ..Default::default() };
        assert_eq!(request.subject().name, "shop/web");
        let answer = CreateContainerResponse { container_id: "c2".into() };
        assert_eq!(answer.subject().container, "c2");
    }

    #[test]
    fn what_could_look_like_a_line_is_not_plain() {
        assert!(is_plain("0123abc") && !is_plain("a\nlevel=error") && !is_plain(&"x".repeat(600)));
    }
}
