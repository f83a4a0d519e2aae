//! All endpoints: each dialect adds its own, and a table of them is kept.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use tower::Service;

use crate::error::ApiError;
use crate::front::Front;
use crate::manners;
use crate::state::{App, SharedApp};
use crate::{anthropic, graph, health, llama_cpp, metrics, ollama, openai, pages};

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
}

/// Endpoints that are being put together.
#[derive(Default)]
pub(crate) struct Routes {
    /// Those that need a key, if any does.
    guarded: Router<SharedApp>,
    public: Router<SharedApp>,
    endpoints: Vec<Endpoint>,
}

impl Routes {
    /// Adds one that is asked with GET.
    pub(crate) fn get<H: Handler<T, SharedApp>, T: 'static>(
        mut self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.note(Method::GET, path);
        self.guarded = self.guarded.route(path, on(MethodFilter::GET, handler));
        self
    }

    /// Adds one that is asked with POST.
    pub(crate) fn post<H: Handler<T, SharedApp>, T: 'static>(
        mut self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.note(Method::POST, path);
        self.guarded = self.guarded.route(path, on(MethodFilter::POST, handler));
        self
    }

    /// Adds one that is asked with GET and needs no key.
    pub(crate) fn public<H: Handler<T, SharedApp>, T: 'static>(
        mut self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.note(Method::GET, path);
        self.public = self.public.route(path, on(MethodFilter::GET, handler));
        self
    }

    fn note(&mut self, method: Method, path: &'static str) {
        self.endpoints.push(Endpoint { method, path });
    }
}

/// All that there is. Another dialect is one more line.
fn all() -> Routes {
    let routes = Routes::default();
    let routes = health::routes(routes);
    let routes = metrics::routes(routes);
    let routes = pages::routes(routes);
    let routes = graph::routes(routes);
    let routes = openai::routes(routes);
    let routes = anthropic::routes(routes);
    let routes = ollama::routes(routes);
    llama_cpp::routes(routes)
}

/// All endpoints of a model.
pub(crate) fn endpoints(app: &Arc<App>) -> Router {
    let Routes { guarded, public, endpoints: _ } = all();
    let router = manners::guarded(guarded, app).merge(public);
    let router = router.fallback(nowhere).method_not_allowed_fallback(wrong_method);
    router.with_state(app.clone())
}

/// The whole server as one service: the endpoints, if they are there yet, and what is around them.
pub(crate) fn router(front: &Arc<Front>) -> Router {
    manners::wrapped(Router::new().fallback(door).with_state(front.clone()), front)
}

async fn door(State(front): State<Arc<Front>>, request: Request) -> Response {
    match front.endpoints() {
        // A router is always ready, and what it gives is no error.
        Some(mut endpoints) => endpoints.call(request).await.unwrap_or_else(|never| match never {}),
        None => loading(&request),
    }
}

/// What is said before the model is there. A browser asks again by itself.
fn loading(request: &Request) -> Response {
    let mut response = ApiError::loading().into_response();
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/html")) {
        response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("1"));
    }
    response
}

async fn nowhere(request: Request) -> ApiError {
    let path = crate::state::elided(request.uri().path());
    ApiError::new(StatusCode::NOT_FOUND, "unknown_path", format!("there is nothing at {path}"))
}

async fn wrong_method(request: Request) -> ApiError {
    let message = format!("{} is not asked with {}", request.uri().path(), request.method());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_document_has_the_routes_and_no_others() {
        let document: Value = serde_json::from_str(crate::OPENAPI).unwrap();
        let mut documented = BTreeSet::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                documented.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
        let endpoint = |it: &Endpoint| format!("{} {}", it.method, it.path.replace("{*", "{"));
        // What the pages are made of, and what they ask, is theirs.
        let is_of_pages =
            |path: &str| path == "/" || path.starts_with("/assets/") || path.starts_with("/graph");
        let public = all().endpoints.into_iter().filter(|it| !is_of_pages(it.path));
        let there: BTreeSet<String> = public.map(|it| endpoint(&it)).collect();
        assert_eq!(documented, there);
    }

    #[test]
    fn the_document_refers_to_what_it_has() {
        let document: Value = serde_json::from_str(crate::OPENAPI).unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
