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
use serde_json::Value;

/// What the stand-in has: two pages and a half.
const ALL: usize = 25_000;

/// How the page that begins at an object goes wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Expired,
    TooMany,
    Broken,
    NoObject,
}

/// Parameters of a request.
type Parameters = Vec<(String, String)>;

/// A list of Events, of which each page is cut where the query wants it.
#[derive(Clone, Default)]
struct Events {
    fault: Option<(usize, Fault)>,
    /// Whether it can do protobuf, and what each Event has in it besides.
    protobuf: Option<Vec<u8>>,
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
        if let Some((_, Fault::TooMany)) = fault {
            let busy = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"busy","reason":"TooManyRequests","details":{"retryAfterSeconds":7},"code":429}"#;
            return (429, busy.to_owned());
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

    /// The same page in protobuf.
    fn encoded(&self, text: &str, more: &[u8]) -> Vec<u8> {
        let list: Value = serde_json::from_str(text).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().as_bytes().to_vec();
        let metadata = &list["metadata"];
        let mut message = field(
            1,
            &[
                field(2, &text(&metadata["resourceVersion"])),
                field(3, &text(&metadata["continue"])),
            ]
            .concat(),
        );
        for item in list["items"].as_array().unwrap() {
            let metadata = &item["metadata"];
            let named = [(1, "name"), (3, "namespace"), (6, "resourceVersion")]
                .map(|(number, name)| field(number, &text(&metadata[name])))
                .concat();
            message.extend(field(2, &[&field(1, &named), more].concat()));
        }
        let kind = [field(1, b"v1"), field(2, b"EventList")].concat();
        [b"k8s\0".to_vec(), field(1, &kind), field(2, &message)].concat()
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
            let accept = request.headers()["accept"].to_str().unwrap();
            let (content_type, body) = match &events.protobuf {
                Some(more) if accept.starts_with(PROTOBUF) => match code {
                    200 => (PROTOBUF, events.encoded(&text, more)),
                    _ => (PROTOBUF, encoded_status(&text)),
                },
                _ => ("application/json", text.into_bytes()),
            };
            let response = Response::builder()
                .status(code)
                .header("content-type", content_type)
                .body(Full::new(Bytes::from(body)));
            std::future::ready(Ok::<_, Infallible>(response.unwrap()))
        });
        KubernetesUpstream::new(kube::Client::new(service, "default"))
    }

    async fn whole(&self) -> Result<Page, UpstreamError> {
        self.selected("a=b").await
    }

    async fn selected(&self, label_selector: &str) -> Result<Page, UpstreamError> {
        // What the query says of pages does not count.
        let query = Query {
            label_selector: label_selector.to_owned(),
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

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A field of bytes.
fn field(number: usize, contents: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    varint(number << 3 | 2, &mut field);
    varint(contents.len(), &mut field);
    field.extend(contents);
    field
}

fn varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number % 0x80) as u8 | 0x80);
        number /= 0x80;
    }
    out.push(number as u8);
}

/// A Status in protobuf.
fn encoded_status(text: &str) -> Vec<u8> {
    let status: Value = serde_json::from_str(text).unwrap();
    let text = |name: &str| status[name].as_str().unwrap().as_bytes().to_vec();
    let code = status["code"].as_u64().unwrap() as usize;
    let mut message = [
        field(2, b"Failure"),
        field(3, &text("message")),
        field(4, &text("reason")),
        // retryAfterSeconds: 7
        field(5, &[5 << 3, 7]),
        vec![6 << 3],
    ]
    .concat();
    varint(code, &mut message);
    let kind = [field(1, b"v1"), field(2, b"Status")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, &message)].concat()
}

fn names(page: &Page) -> Vec<&str> {
    page.items
        .iter()
        .map(|object| &*object.key().name)
        .collect()
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
async fn a_long_selector_leaves_no_room_for_a_token() {
    let events = Events::default();
    let long = format!("a in ({})", "b".repeat(5000));
    assert_whole(&events.selected(&long).await.unwrap());
    assert_eq!(events.asked("limit"), [""]);
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

#[tokio::test]
async fn events_are_read_as_protobuf_where_upstream_has_it() {
    let events = Events {
        protobuf: Some(field(3, "a<b \u{2028}\n".as_bytes())),
        ..Events::default()
    };
    let page = events.whole().await.unwrap();
    assert_eq!((page.items.len(), page.position), (ALL, 99_999));
    assert!(names(&page).is_sorted());
    assert_eq!(events.asked("continue"), ["", "10000", "20000"]);
    assert_eq!(
        page.items[24_999].bytes(),
        concat!(
            r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e24999","namespace":"n","resourceVersion":"24999"},"#,
            r#""involvedObject":{},"reason":"a\u003cb \u2028\n","source":{},"firstTimestamp":null,"lastTimestamp":null,"#,
            r#""eventTime":null,"reportingComponent":"","reportingInstance":""}"#
        )
    );
    // What Go takes for a string may be no UTF-8: each byte of that is one U+FFFD.
    let odd = Events {
        protobuf: Some(field(4, b"\xff\xe2\x82 ok")),
        ..Events::default()
    };
    let page = odd.whole().await.unwrap();
    let text = String::from_utf8(page.items[0].bytes().to_vec()).unwrap();
    assert!(
        text.contains(r#""message":"\ufffd\ufffd\ufffd ok""#),
        "{text}"
    );
    assert_eq!(odd.asked("continue").len(), 3);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_as_protobuf_is_read_as_json() {
    // 9999-12-31T23:59:59Z, a day after the calendar here ends; and half a message.
    let late = field(6, &[&[1 << 3][..], b"\xff\x82\xd1\xff\xaf\x07"].concat());
    for more in [late, vec![0xff]] {
        let events = Events {
            protobuf: Some(more),
            ..Events::default()
        };
        assert_whole(&events.whole().await.unwrap());
        // The next one is tried again.
        assert_whole(&events.whole().await.unwrap());
    }
}

#[tokio::test]
async fn refusals_in_protobuf_are_understood() {
    for protobuf in [None, Some(Vec::new())] {
        let events = |fault| Events {
            fault: Some((0, fault)),
            protobuf: protobuf.clone(),
            ..Events::default()
        };
        let expired = events(Fault::Expired);
        assert_whole(&expired.whole().await.unwrap());
        assert_eq!(expired.asked("limit"), ["10000", ""]);
        match events(Fault::TooMany).whole().await.unwrap_err() {
            UpstreamError::Refused(status) => {
                assert_eq!((status.code, &*status.message), (429, "busy"));
                assert_eq!(status.details.unwrap().retry_after_seconds, 7);
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn an_upstream_whose_events_have_more_than_is_known_is_asked_for_json() {
    let events = Events {
        protobuf: Some(field(20, b"new")),
        ..Events::default()
    };
    let upstream = events.upstream();
    let gvr = GroupVersionResource::new("", "v1", "events");
    for _ in 0..2 {
        let page = upstream.list_whole(&gvr, &Query::default()).await.unwrap();
        assert_whole(&page);
    }
    // Once in vain, and never again.
    let first_pages = events.asked("continue");
    let first_pages = first_pages.iter().filter(|token| token.is_empty()).count();
    assert_eq!(first_pages, 3);
}
