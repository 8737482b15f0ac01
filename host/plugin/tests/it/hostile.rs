//! What a hostile plugin answers, seen through the engine of views: one clear failure each, and the others stay.

use std::sync::Arc;

use joinery_object::{GroupVersionResource, ObjectKey};
use joinery_source::testing::MemoryUpstream;
use joinery_source::{ByteBudget, SourceCache, SourceSpec};
use joinery_view::{Prepared, View};
use serde_json::json;

use crate::guests::things;

#[tokio::test]
async fn each_result_that_cannot_be_is_one_failure_and_the_good_ones_are_shown() {
    let (_, join) = things(json!({})).await;
    let hostile = [
        (
            "wrong-kind",
            "the object is a test.example.com/v1, Secret, not",
        ),
        ("wrong-name", "another"),
        ("wrong-json", ""),
        ("wrong-utf8", ""),
        ("wrong-type", ""),
        ("giant-result", "fuel"),
        ("bomb", "memory allocation"),
        ("recurse", "call stack exhausted"),
        ("trap", "told to trap"),
        ("refused", "this one is not shown"),
    ];
    let pods = MemoryUpstream::new();
    let gvr = |resource: &str| GroupVersionResource::new("", "v1", resource);
    let pods = pods.with(&gvr("pods"), "Pod", 0);
    let pods = pods.with(&gvr("secrets"), "Secret", 0);
    let names = hostile
        .iter()
        .map(|(name, _)| *name)
        .chain(["whole", "none"]);
    for name in names {
        let object = json!({"metadata": {"name": name, "namespace": "default"}});
        pods.put(&gvr("pods"), object);
    }
    let caches = join.spec().sources.iter().map(|source| {
        let spec = SourceSpec {
            gvr: source.gvr.clone(),
            label_selector: String::new(),
            field_selector: String::new(),
            optional: false,
        };
        let pods = Arc::new(pods.connect());
        Arc::new(SourceCache::start(pods, spec, ByteBudget::unlimited()))
    });
    let view = View::new(Prepared::new(join.clone(), caches.collect()).await);
    let shown = view.snapshot();
    let names: Vec<_> = shown
        .objects
        .keys()
        .map(|key| key.name.to_string())
        .collect();
    assert_eq!(names, ["whole"]);
    let mut unclear = Vec::new();
    for (name, words) in hostile {
        let key = ObjectKey::new(Some("default"), name);
        let failure = shown.failures.get(&key);
        let failure = failure.unwrap_or_else(|| panic!("{name} is no failure"));
        eprintln!("{name}: {} {}", failure.code, failure.message);
        if !failure.message.contains(words) {
            unclear.push(format!("{name}: {failure}"));
        }
        assert!(failure.message.len() < 2_000, "{name}: one clear message");
    }
    assert!(unclear.is_empty(), "{unclear:#?}");
    assert_eq!(shown.failures.len(), hostile.len());
}
