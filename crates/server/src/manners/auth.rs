//! API keys.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::{Choice, ConstantTimeEq};

use crate::error::ApiError;

/// The keys that let in.
pub(super) struct Keys(Vec<String>);

impl Keys {
    /// `None` if there are none, and everybody is let in.
    pub(super) fn new(keys: &[String]) -> Option<Self> {
        (!keys.is_empty()).then(|| Self(keys.to_vec()))
    }

    /// How long it takes does not depend on what of a key is right.
    fn has(&self, key: &str) -> bool {
        let equal = |own: &String| own.as_bytes().ct_eq(key.as_bytes());
        self.0.iter().map(equal).fold(Choice::from(0), |any, equal| any | equal).into()
    }
}

/// Lets in who has a key.
pub(super) async fn check(
    State(keys): State<Arc<Keys>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    match given(request.headers()) {
        Some(key) if keys.has(key) => Ok(next.run(request).await),
        Some(_) => Err(refused("the API key is not one of this server's")),
        None => Err(refused("an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY")),
    }
}

fn refused(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
}

/// As OpenAI's clients send it, or Anthropic's.
fn given(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_keys_let_in() {
        let keys = Keys::new(&["alpha".into(), "beta".into()]).unwrap();
        assert!(keys.has("alpha") && keys.has("beta"));
        for key in ["", "alph", "alphabeta", "Alpha"] {
            assert!(!keys.has(key), "{key}");
        }
        assert!(Keys::new(&[]).is_none());
    }

    #[test]
    fn keys_come_in_two_headers() {
        let of = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            given(&headers).map(str::to_owned)
        };
        assert_eq!(of("authorization", "Bearer k"), Some("k".into()));
        assert_eq!(of("authorization", "bearer k"), Some("k".into()));
        assert_eq!(of("authorization", "Basic k"), None);
        assert_eq!(of("x-api-key", "k"), Some("k".into()));
    }
}
