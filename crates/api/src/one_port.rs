//! Serves REST and gRPC on one port, distinguished by the content type of the request.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Bytes;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use http::Request;
use tower_service::Service;

use crate::rest::is_grpc;

/// The routers of a port.
#[derive(Debug, Clone)]
pub(crate) struct OnePort {
    pub(crate) rest: Router,
    pub(crate) grpc: Router,
}

impl<B> Service<Request<B>> for OnePort
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routers are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let router = if is_grpc(request.headers()) { &mut self.grpc } else { &mut self.rest };
        router.call(request)
    }
}
