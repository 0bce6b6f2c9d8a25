//! Which of the two services a call belongs to.

use super::Cri;
use berth_proto::cri::image_service_server::ImageServiceServer;
use berth_proto::cri::runtime_service_server::RuntimeServiceServer;
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};

/// Largest message either way, as the kubelet and every CRI runtime have it.
pub const MESSAGE_MAX: usize = 16 << 20;

/// Both services behind one socket. tonic's own router would bring a web framework along for this one question.
#[derive(Clone)]
pub struct Services {
    runtime: RuntimeServiceServer<Cri>,
    image: ImageServiceServer<Cri>,
}

impl Services {
    /// Both services of `cri`.
    #[must_use]
    pub fn new(cri: Cri) -> Self {
        Self {
            runtime: RuntimeServiceServer::new(cri.clone())
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(MESSAGE_MAX),
            image: ImageServiceServer::new(cri)
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(MESSAGE_MAX),
        }
    }
}

impl Service<http::Request<Body>> for Services {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path().starts_with("/runtime.v1.ImageService/") {
            true => self.image.call(request),
            // It answers UNIMPLEMENTED to whatever it does not know.
            false => self.runtime.call(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_proto::cri::ExecSyncResponse;
    use prost::Message;

    #[test]
    fn the_longest_output_of_an_exec_fits() {
        let stream = vec![b'x'; usize::try_from(crate::container::EXEC_OUTPUT_MAX).unwrap()];
        let answer = ExecSyncResponse { stdout: stream.clone(), stderr: stream, exit_code: i32::MIN };
        assert!(answer.encoded_len() <= MESSAGE_MAX, "{}", answer.encoded_len());
    }
}
