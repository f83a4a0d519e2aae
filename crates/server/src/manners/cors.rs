//! Which pages may call.

use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// What lets in pages of these origins; `None` if none are let in but our own.
pub(super) fn layer(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .expose_headers([HeaderName::from_static(super::trace::REQUEST_ID)]);
    if origins.iter().any(|origin| origin == "*") {
        return Some(layer.allow_origin(AllowOrigin::any()).allow_headers(AllowHeaders::any()));
    }
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    Some(layer.allow_origin(origins).allow_headers(AllowHeaders::mirror_request()))
}
