//! The web pages: built from `web/`, and part of the program.

use std::hash::{DefaultHasher, Hasher};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::routes::Routes;

/// A page loads its own files and asks its own server; whatever a model wrote, nothing else is loaded or sent anywhere.
const POLICY: &str =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the pages.
struct Page {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! pages {
    ($($path:literal $file:literal $content_type:literal,)*) => {
        &[$(Page {
            path: $path,
            content_type: $content_type,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/", $file)),
        },)*]
    };
}

const PAGES: &[Page] = pages![
    "/" "chat.html" "text/html; charset=utf-8",
    "/assets/chat.css" "chat.css" "text/css; charset=utf-8",
    "/assets/chat.js" "chat.js" "text/javascript; charset=utf-8",
    "/graph" "graph.html" "text/html; charset=utf-8",
    "/assets/graph.css" "graph.css" "text/css; charset=utf-8",
    "/assets/graph.js" "graph.js" "text/javascript; charset=utf-8",
    "/assets/icon.svg" "icon.svg" "image/svg+xml",
    "/assets/licences.txt" "licences.txt" "text/plain; charset=utf-8",
    "/assets/theme.js" "theme.js" "text/javascript; charset=utf-8",
];

/// Adds the pages. They need no key: they hold nothing, and ask for one if it is needed.
pub(crate) fn routes(routes: Routes) -> Routes {
    PAGES.iter().fold(routes, |routes, page| {
        let tag = page.tag();
        routes.public(page.path, move |headers: HeaderMap| {
            let response = page.response(&tag, &headers);
            async move { response }
        })
    })
}

impl Page {
    /// Changes when the file does.
    fn tag(&self) -> HeaderValue {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.bytes);
        // Hexadecimal digits in quotes are always a header's value.
        HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish()))
            .unwrap_or(HeaderValue::from_static("\"\""))
    }

    fn response(&self, tag: &HeaderValue, headers: &HeaderMap) -> Response {
        let common: [(HeaderName, HeaderValue); 6] = [
            (header::ETAG, tag.clone()),
            // A new version of the program shows at once.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (header::CONTENT_TYPE, HeaderValue::from_static(self.content_type)),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ];
        if headers.get(header::IF_NONE_MATCH) == Some(tag) {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        (common, self.bytes).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_a_page_names_is_there() {
        for page in PAGES.iter().filter(|page| page.content_type.starts_with("text/html")) {
            let text = std::str::from_utf8(page.bytes).unwrap();
            let named: Vec<_> =
                text.split("assets/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            assert!(named.len() >= 3, "{}", page.path);
            for name in named {
                let path = format!("/assets/{name}");
                assert!(PAGES.iter().any(|page| page.path == path), "{} names {path}", page.path);
            }
        }
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let page = &PAGES[0];
        let tag = page.tag();
        assert_eq!(page.response(&tag, &HeaderMap::new()).status(), StatusCode::OK);
        let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, tag.clone())]);
        assert_eq!(page.response(&tag, &headers).status(), StatusCode::NOT_MODIFIED);
    }
}
