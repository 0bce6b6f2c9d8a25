//! ImageService: one line a call.

use super::convert::image as words;
use super::subject::{About, Subject};
use super::{Cost, Cri, missing, required};
use crate::app::App;
use crate::service::image;
use berth_core::Result;
use berth_proto::cri::image_service_server::ImageService;
use berth_proto::cri::*;
use tokio_stream::Empty;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl ImageService for Cri {
    async fn list_images(
        &self,
        request: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        let request = request.into_inner();
        self.call("ListImages", Cost::Cheap, &request.subject(), list(&self.app, request)).await
    }

    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let request = request.into_inner();
        self.call("ImageStatus", Cost::Cheap, &request.subject(), status(&self.app, request)).await
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        let request = request.into_inner();
        self.call("PullImage", Cost::Pull, &request.subject(), pull(&self.app, request)).await
    }

    async fn remove_image(
        &self,
        request: Request<RemoveImageRequest>,
    ) -> Result<Response<RemoveImageResponse>, Status> {
        let request = request.into_inner();
        self.call("RemoveImage", Cost::Free, &request.subject(), remove(&self.app, request)).await
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        self.call("ImageFsInfo", Cost::Cheap, &Subject::default(), fs_info(&self.app)).await
    }

    type StreamImagesStream = Empty<Result<StreamImagesResponse, Status>>;
    async fn stream_images(
        &self,
        _: Request<StreamImagesRequest>,
    ) -> Result<Response<Self::StreamImagesStream>, Status> {
        Err(missing("StreamImages"))
    }
}

async fn list(app: &App, request: ListImagesRequest) -> Result<ListImagesResponse> {
    let wanted = request.filter.and_then(|filter| filter.image).map(|spec| spec.image).unwrap_or_default();
    let images = image::list(app, &wanted).await?;
    Ok(ListImagesResponse { images: images.iter().map(words::image).collect() })
}

async fn status(app: &App, request: ImageStatusRequest) -> Result<ImageStatusResponse> {
    let spec = required(request.image, "image")?;
    let found = image::status(app, &words::name(&spec)?).await?;
    let info = match &found {
        Some(record) if request.verbose => words::info(record),
        _ => Default::default(),
    };
    Ok(ImageStatusResponse { image: found.as_ref().map(words::image), info })
}

async fn pull(app: &App, request: PullImageRequest) -> Result<PullImageResponse> {
    let spec = required(request.image, "image")?;
    let auth = request.auth.map(words::auth).unwrap_or_default();
    Ok(PullImageResponse { image_ref: image::pull(app, &words::name(&spec)?, auth).await? })
}

async fn remove(app: &App, request: RemoveImageRequest) -> Result<RemoveImageResponse> {
    let spec = required(request.image, "image")?;
    image::remove(app, &words::name(&spec)?).await?;
    Ok(RemoveImageResponse {})
}

async fn fs_info(app: &App) -> Result<ImageFsInfoResponse> {
    Ok(words::fs_info(&image::fs_info(app).await?))
}
