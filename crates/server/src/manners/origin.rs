//! Whose pages may call, on the server's side: a page of any website can make its reader's browser send requests to this
//! machine. Browsers say in `Origin` which page asks; and a name that was made to point here says in `Host` that it is not
//! one of this machine's (DNS rebinding).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::error::ApiError;
use crate::front::Front;

/// Lets in what no browser sends, and pages of our own or of the listed origins.
pub(super) async fn check(
    State(front): State<Arc<Front>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let config = front.config();
    // An address in its absolute form has the host, too, and may disagree with the header: all of them count.
    let mut hosts = hosts(&request);
    if config.host.is_loopback() && hosts.iter().any(|host| !is_this_machine(host)) {
        return Err(refused("host_not_allowed", "this server answers to localhost and its addresses only"));
    }
    let host = hosts.pop();
    if hosts.iter().any(|other| Some(*other) != host) {
        return Err(ApiError::bad("invalid_host", "the request names more than one host"));
    }
    match text(request.headers(), header::ORIGIN) {
        Some(origin) if !may_call(origin, host, &config.cors_origins) => {
            Err(refused("origin_not_allowed", "pages of this origin may not call: see --cors-origins"))
        }
        _ => Ok(next.run(request).await),
    }
}

/// What the request says whom it is for: its headers first, then its address.
fn hosts(request: &Request) -> Vec<&str> {
    let headers = request.headers().get_all(header::HOST);
    let in_headers = headers.iter().map(|value| value.to_str().unwrap_or(UNREADABLE));
    in_headers.chain(request.uri().authority().map(|authority| authority.as_str())).collect()
}

fn refused(code: &'static str, message: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, code, message)
}

/// Stands for a header that is no text; it is nobody's name.
const UNREADABLE: &str = "?";

/// A header that is no text is as one that nobody knows.
fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or(UNREADABLE))
}

fn may_call(origin: &str, host: Option<&str>, listed: &[String]) -> bool {
    let is_own = origin.split_once("://").is_some_and(|(_, authority)| Some(authority) == host);
    is_own || listed.iter().any(|listed| listed == "*" || listed == origin)
}

/// Whether a host, with or without a port, is a name or an address of the loopback.
fn is_this_machine(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
        return address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_told_from_others() {
        for host in
            ["localhost", "LOCALHOST:8080", "a.localhost:1", "127.0.0.1", "127.0.0.1:80", "[::1]:8080"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:8080", "10.0.0.1", "[::2]:80", "[::1", "", "?"] {
            assert_eq!(is_this_machine(host), host == "[::1", "{host}");
        }
    }

    #[test]
    fn own_pages_and_listed_ones_may_call() {
        let host = Some("127.0.0.1:8080");
        let listed = ["https://a.example".to_owned()];
        assert!(may_call("http://127.0.0.1:8080", host, &[]));
        assert!(may_call("https://a.example", host, &listed));
        assert!(may_call("https://b.example", host, &["*".to_owned()]));
        for origin in ["https://b.example", "http://127.0.0.1:9090", "null", "?", ""] {
            assert!(!may_call(origin, host, &listed), "{origin}");
        }
    }
}
