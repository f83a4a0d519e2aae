//! The description of all endpoints in OpenAPI: written by hand in `docs/openapi.json`, and checked against the routes.

/// The document.
pub const OPENAPI: &str = include_str!("../../../docs/openapi.json");
