//! The documentation of all REST APIs: an OpenAPI document, and a page that shows it. Both are public.

use axum::Router;
use axum::extract::{Path, Request};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use http::{HeaderName, HeaderValue, StatusCode, header};
use swagger_ui_redist::{SwaggerUi, SwaggerUiStaticFile};

use crate::rest;
use crate::serve::PublicRoute;

/// The OpenAPI document of all REST APIs; a test compares it with the routes and messages.
pub const OPENAPI: &str = include_str!("../openapi.json");

const PAGE: &str = include_str!("docs/page.html");
const SCRIPT: &str = include_str!("docs/start.js");

/// The content security policy of the page: it may load files from this server only.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'");

/// Returns the routes, without middleware.
pub(crate) fn routes() -> Router {
    Router::new()
        .route("/openapi.json", get(async || typed("application/json", OPENAPI.as_bytes())))
        .route("/docs", get(page))
        .route("/docs/", get(page))
        .route("/docs/{file}", get(file))
        // The KubeRay API server has its page at this path.
        .route("/swagger-ui", get(async || Redirect::permanent("/docs")))
        .route("/swagger-ui/", get(async || Redirect::permanent("/docs")))
}

/// Marks requests for the documentation as public.
pub(crate) fn mark(request: &mut Request) {
    let path = request.uri().path();
    let is_below =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if path == "/openapi.json" || is_below("/docs") || is_below("/swagger-ui") {
        request.extensions_mut().insert(PublicRoute);
    }
}

async fn page() -> Response {
    let mut response = typed("text/html; charset=utf-8", PAGE.as_bytes());
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}

async fn file(Path(name): Path<String>, request: Request) -> Response {
    if name == "start.js" {
        return typed("text/javascript", SCRIPT.as_bytes());
    }
    let is_named = |(file, _): &&(SwaggerUiStaticFile, &'static [u8])| file.file_name() == name;
    match SwaggerUi::static_files().iter().find(is_named) {
        Some((_, bytes)) => typed(content_type(&name), bytes),
        None => rest::unknown_path(request).await,
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        _ => "image/png",
    }
}

fn typed(content_type: &'static str, body: &'static [u8]) -> Response {
    const NO_SNIFFING: (HeaderName, HeaderValue) =
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    (StatusCode::OK, [content_type, NO_SNIFFING], body).into_response()
}
