//! Whole lists of a Kubernetes API server, with a stand-in for it.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use joinery_object::GroupVersionResource;
use joinery_source::{KubernetesUpstream, Page, Query, Upstream, UpstreamError};
use kube::client::Body;
use parking_lot::Mutex;

/// What the stand-in has: two pages and a half.
const ALL: usize = 25_000;

/// How the page that begins at an object goes wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Expired,
    Broken,
    NoObject,
}

/// Parameters of a request.
type Parameters = Vec<(String, String)>;

/// A list of Events, of which each page is cut where the query wants it.
#[derive(Clone, Default)]
struct Events {
    fault: Option<(usize, Fault)>,
    asked: Arc<Mutex<Vec<Parameters>>>,
}

impl Events {
    fn page(&self, query: &[(String, String)]) -> (u16, String) {
        let number = |name: &str| {
            let found = query.iter().find(|(known, _)| known == name);
            found.map_or(0, |(_, value)| value.parse().unwrap())
        };
        let (limit, start) = (number("limit"), number("continue"));
        let fault = self.fault.filter(|(at, _)| limit > 0 && *at == start);
        if let Some((_, Fault::Expired)) = fault {
            let expired = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"gone","reason":"Expired","code":410}"#;
            return (410, expired.to_owned());
        }
        let end = match limit {
            0 => ALL,
            limit => ALL.min(start + limit),
        };
        let items: Vec<String> = (start..end)
            .map(|i| {
                format!(
                    r#"{{"metadata":{{"name":"e{i:05}","namespace":"n","resourceVersion":"{i}"}}}}"#
                )
            })
            .collect();
        let token = if end < ALL {
            format!(r#","continue":"{end}""#)
        } else {
            String::new()
        };
        let mut list = format!(
            r#"{{"kind":"EventList","apiVersion":"v1","metadata":{{"resourceVersion":"99999"{token}}},"items":[{}]}}"#,
            items.join(",")
        );
        match fault {
            Some((_, Fault::Broken)) => list.truncate(list.len() / 2),
            Some((_, Fault::NoObject)) => list = list.replace("\"name\"", "\"nome\""),
            _ => {}
        }
        (200, list)
    }

    fn upstream(&self) -> KubernetesUpstream {
        let events = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let query: Parameters = url::form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect();
            let (code, text) = events.page(&query);
            events.asked.lock().push(query);
            let response = Response::builder()
                .status(code)
                .body(Full::new(Bytes::from(text)));
            std::future::ready(Ok::<_, Infallible>(response.unwrap()))
        });
        KubernetesUpstream::new(kube::Client::new(service, "default"))
    }

    async fn whole(&self) -> Result<Page, UpstreamError> {
        // What the query says of pages does not count.
        let query = Query {
            label_selector: "a=b".to_owned(),
            limit: 7,
            continue_token: Some("3".to_owned()),
            ..Query::default()
        };
        let events = GroupVersionResource::new("", "v1", "events");
        self.upstream().list_whole(&events, &query).await
    }

    fn asked(&self, name: &str) -> Vec<String> {
        let asked = self.asked.lock();
        let value = |query: &Parameters| {
            let found = query.iter().find(|(known, _)| known == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        asked.iter().map(value).collect()
    }
}

fn assert_whole(page: &Page) {
    assert_eq!(page.items.len(), ALL);
    for (i, object) in page.items.iter().enumerate() {
        assert_eq!(*object.key().name, format!("e{i:05}"));
    }
    assert_eq!(
        page.items[7].bytes(),
        r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e00007","namespace":"n","resourceVersion":"7"}}"#
    );
    assert_eq!((page.position, &page.continue_token), (99_999, &None));
}

#[tokio::test]
async fn a_whole_list_comes_in_pages_and_is_put_together() {
    let events = Events::default();
    assert_whole(&events.whole().await.unwrap());
    assert_eq!(events.asked("continue"), ["", "10000", "20000"]);
    assert_eq!(events.asked("labelSelector"), ["a=b"; 3]);
}

#[tokio::test]
async fn a_list_whose_version_is_forgotten_between_pages_is_asked_for_in_one() {
    let events = Events {
        fault: Some((20_000, Fault::Expired)),
        ..Events::default()
    };
    assert_whole(&events.whole().await.unwrap());
    assert_eq!(events.asked("limit"), ["10000", "10000", "10000", ""]);
    assert_eq!(events.asked("continue")[3], "");
}

#[tokio::test]
async fn a_page_that_cannot_be_read_is_an_error_and_not_a_shorter_list() {
    for fault in [Fault::Broken, Fault::NoObject] {
        for at in [0, 10_000, 20_000] {
            let events = Events {
                fault: Some((at, fault)),
                ..Events::default()
            };
            let error = events.whole().await.unwrap_err();
            assert!(matches!(error, UpstreamError::Unreachable(_)), "{error}");
        }
    }
}
