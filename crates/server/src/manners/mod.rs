//! How requests are let in, and what every response has, whatever its endpoint.

mod auth;
mod cors;
mod errors;
mod origin;
mod stopping;
mod trace;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use errors::shape_errors;

use crate::error::ApiError;
use crate::front::Front;
use crate::state::{App, SharedApp};

/// Endpoints that need a key, if the server has any.
pub(crate) fn guarded(router: Router<SharedApp>, app: &Arc<App>) -> Router<SharedApp> {
    match auth::Keys::new(&app.config().api_keys) {
        Some(keys) => router.route_layer(from_fn_with_state(Arc::new(keys), auth::check)),
        None => router,
    }
}

/// What is around all endpoints; the last is the outermost.
pub(crate) fn wrapped(router: Router, front: &Arc<Front>) -> Router {
    let router = router.layer(from_fn_with_state(front.clone(), stopping::check));
    let router = router.layer(CatchPanicLayer::custom(|_| ApiError::internal().into_response()));
    let router = match cors::layer(&front.config().cors_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    let router = router.layer(from_fn_with_state(front.clone(), origin::check));
    router.layer(from_fn(shape_errors)).layer(from_fn_with_state(front.clone(), trace::trace))
}
