//! A view over the objects of files: the host's own join engine, fed from memory.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use joinery_object::{FieldSelector, Status};
use joinery_plugin::{Generation, Shape};
use joinery_source::testing::MemoryUpstream;
use joinery_source::{ByteBudget, SourceCache, SourceSpec};
use joinery_view::{Prepared, View, ViewSpec};
use serde_json::{Value, json};

use super::inputs::is_of;
use super::lookup::fields_match;
use super::record::{Calls, Recorder};

/// What a view shows, and the calls that it took.
pub(crate) struct Shown {
    pub(crate) spec: Arc<ViewSpec>,
    pub(crate) objects: Vec<Value>,
    /// Primaries of which there is no object, and why.
    pub(crate) failures: Vec<(String, Status)>,
    pub(crate) calls: Calls,
}

/// All views of a plugin over these objects.
pub(crate) async fn show(generation: &Generation, objects: &[Value]) -> Result<Vec<Shown>> {
    let views: Vec<Arc<ViewSpec>> = generation
        .description()
        .resources
        .iter()
        .filter_map(|resource| match &resource.shape {
            Shape::View(spec) => Some(spec.clone()),
            _ => None,
        })
        .collect();
    if views.is_empty() {
        return Ok(Vec::new());
    }
    for object in objects {
        check(&views, object)?;
    }
    let mut shown = Vec::new();
    for spec in views {
        shown.push(one(generation, spec, objects).await?);
    }
    Ok(shown)
}

/// An object that no view reads is a slip, not a silence.
fn check(views: &[Arc<ViewSpec>], object: &Value) -> Result<()> {
    let mut sources = views.iter().flat_map(|view| &view.sources);
    if !sources.any(|source| is_of(&source.gvr, object)) {
        let sources: Vec<String> = views
            .iter()
            .flat_map(|view| &view.sources)
            .map(|source| source.gvr.to_string())
            .collect();
        bail!(
            "{} {} is of no source of the plugin: those are {}",
            object["apiVersion"],
            object["kind"],
            sources.join("; ")
        );
    }
    if !object["metadata"]["name"].is_string() {
        bail!("{} without metadata.name", object["kind"]);
    }
    Ok(())
}

async fn one(generation: &Generation, spec: Arc<ViewSpec>, objects: &[Value]) -> Result<Shown> {
    let join = generation
        .join(&spec.resource)
        .ok_or_else(|| anyhow!("{} has no join", spec.resource))?;
    let (recorder, calls) = Recorder::new(join);
    let mut caches = Vec::new();
    for source in &spec.sources {
        // An upstream for each: two sources of one resource may have different field selectors, which are applied here,
        // for the upstream in memory knows those of metadata only.
        let fields: FieldSelector = source.field_selector.parse()?;
        let mut of_source = objects.iter().filter(|object| is_of(&source.gvr, object));
        let kind = of_source.clone().next().and_then(|o| o["kind"].as_str());
        let upstream = MemoryUpstream::new().with(&source.gvr, kind.unwrap_or("Object"), 0);
        for object in of_source.by_ref().filter(|o| fields_match(&fields, o)) {
            upstream.put(&source.gvr, object.clone());
        }
        caches.push(Arc::new(SourceCache::start(
            Arc::new(upstream),
            SourceSpec {
                gvr: source.gvr.clone(),
                label_selector: source.label_selector.clone(),
                field_selector: String::new(),
                optional: source.optional,
            },
            ByteBudget::unlimited(),
        )));
    }
    let view = View::new(Prepared::new(recorder, caches).await);
    let snapshot = view.snapshot();
    let shown = snapshot.objects.values().map(|object| {
        let mut object: Value = serde_json::from_slice(&object.bytes())?;
        // The view's own version is of no meaning outside of a host.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        Ok(object)
    });
    Ok(Shown {
        objects: shown.collect::<Result<_>>()?,
        failures: snapshot
            .failures
            .iter()
            .map(|(key, status)| (key.to_string(), status.clone()))
            .collect(),
        spec,
        calls,
    })
}

impl Shown {
    /// As it is printed and recorded.
    pub(crate) fn answer(&self) -> Value {
        let failures: Vec<Value> = self
            .failures
            .iter()
            .map(|(key, status)| json!({"object": key, "refused": refused(status)}))
            .collect();
        if failures.is_empty() {
            json!({"items": self.objects})
        } else {
            json!({"items": self.objects, "failures": failures})
        }
    }
}

/// What matters of a failure.
pub(crate) fn refused(status: &Status) -> Value {
    let mut refused = json!({
        "code": status.code,
        "reason": status.reason,
        "message": status.message,
    });
    let causes = status.details.as_ref().map(|details| &details.causes);
    if let Some(causes) = causes.filter(|causes| !causes.is_empty()) {
        let cause = |c: &joinery_object::Cause| json!({"field": c.field, "reason": c.reason, "message": c.message});
        refused["causes"] = causes.iter().map(cause).collect();
    }
    refused
}
