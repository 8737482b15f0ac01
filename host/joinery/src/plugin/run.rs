//! `joinery plugin run`: one answer of a plugin, printed.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use joinery_object::{GroupVersionResource, Status};
use joinery_plugin::Generation;
use joinery_resource::{Review, Serve, ServeRequest, Verdict};
use serde_json::{Value, json};

use super::Target;
use super::inputs::{Asked, Files, Inputs};
use super::lookup::FileLookup;
use super::requests::{self, Verb};
use super::view::{Shown, refused, show};
use crate::terminal::harmless;

/// Ask a plugin once, with objects from files, and print its answer.
///
/// A view is joined by the host's own engine, from what --objects hold. Of a stored resource, a write is admitted:
/// --create OBJECT, or --review FILE for all else. A served one answers a verb: --create OBJECT, or --request FILE; with
/// --http, from recorded answers of the service behind it. The answer goes to stdout as YAML; how long it took, and how much memory
/// the plugin had, to stderr. Exits with 1 when the plugin refuses or fails.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  joinery plugin run combined_tasks.wasm -f tasks.yaml -f events.yaml
  kubectl get pods,events -o yaml | joinery plugin run pod_story.wasm -f /dev/stdin
  joinery plugin run custom_task.wasm --create customtask.yaml -f clustertasks.yaml
  joinery plugin run custom_task.wasm --review update.yaml
  joinery plugin run notes.wasm --request list.yaml --http answers.yaml")]
pub(crate) struct Run {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    files: Files,
}

impl Run {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (_runtime, generation) = self.target.load().await?;
        let inputs = self.files.read(&generation)?;
        let answer = ask(&generation, inputs).await?;
        print!("{}", harmless(&serde_saphyr::to_string(&answer.value)?));
        for line in &answer.timings {
            eprintln!("{line}");
        }
        let memory = generation.stats().memory;
        eprintln!("memory of the instance: {} KiB", memory >> 10);
        Ok(if answer.good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// What a plugin answered.
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// Nothing was refused, and nothing failed.
    pub(crate) good: bool,
    timings: Vec<String>,
}

/// Said where the files ask nothing.
pub(super) const NOTHING: &str = "there is nothing to ask: say --objects for a view, --create or --review for a stored \
                                  resource, --create or --request for a served one";

/// Asks a plugin what the inputs ask.
pub(crate) async fn ask(generation: &Arc<Generation>, inputs: Inputs) -> Result<Answer> {
    match &inputs.asked {
        Some(Asked::Review(resource, review)) => {
            let (resource, review) = (resource.clone(), Review::clone(review));
            admit(generation, resource, review, inputs.objects).await
        }
        Some(Asked::Verb(request, verb)) => {
            let serve = requests::serve(generation, &inputs);
            Ok(answer(generation, &serve, request, verb).await)
        }
        None if !inputs.has_objects => bail!(NOTHING),
        None => {
            let shown = show(generation, &inputs.objects).await?;
            if shown.is_empty() {
                bail!("the plugin has no view: say --create, --review or --request");
            }
            Ok(Answer {
                good: shown.iter().all(|shown| shown.failures.is_empty()),
                timings: shown.iter().flat_map(timings).collect(),
                value: match &*shown {
                    [one] => one.answer(),
                    several => several
                        .iter()
                        .map(|shown| (shown.spec.resource.resource.to_string(), shown.answer()))
                        .collect(),
                },
            })
        }
    }
}

fn timings(shown: &Shown) -> Vec<String> {
    let line = |(asked, took): &(super::record::Asked, Duration)| {
        format!(
            "{}: {} inputs in {took:.1?}",
            asked.function(),
            asked.inputs()
        )
    };
    shown.calls.lock().iter().map(line).collect()
}

async fn answer(
    generation: &Generation,
    serve: &Arc<dyn Serve>,
    request: &ServeRequest,
    verb: &Verb,
) -> Answer {
    let begun = Instant::now();
    let answered = verb.ask(serve, request).await;
    let timings = vec![format!("{}: {:.1?}", verb.name(), begun.elapsed())];
    let resources = &generation.description().resources;
    let (value, good) = match answered {
        Ok(mut value) => {
            let of = resources
                .iter()
                .find(|r| r.definition.gvr == request.resource);
            let faults = of.map_or_else(Vec::new, |of| requests::faults(of, &value));
            let good = faults.is_empty();
            if !good {
                value["invalid"] = faults.into();
            }
            (value, good)
        }
        Err(status) => (json!({"refused": refused(&status)}), false),
    };
    Answer {
        value,
        good,
        timings,
    }
}

async fn admit(
    generation: &Arc<Generation>,
    resource: GroupVersionResource,
    review: Review,
    objects: Vec<Value>,
) -> Result<Answer> {
    let schema = generation
        .description()
        .resources
        .iter()
        .find(|r| r.definition.gvr == resource)
        .map(|r| r.schema.clone());
    let asked = review.object.clone();
    let begun = Instant::now();
    let verdict = generation
        .admit()
        .admit(&resource, review, Arc::new(FileLookup(objects)))
        .await;
    let took = begun.elapsed();
    let checked = verdict.and_then(|verdict| {
        let object = verdict.object.as_ref().or(asked.as_ref());
        let object = object
            .map(|object| {
                serde_json::from_slice::<Value>(object).map_err(|error| {
                    Status::internal(format!("the plugin's object is no JSON: {error}"))
                })
            })
            .transpose()?;
        Ok((object, verdict))
    });
    let (value, good) = match checked {
        Ok((object, verdict)) => admitted(object, &verdict, schema.as_ref()),
        Err(status) => (json!({"refused": refused(&status)}), false),
    };
    Ok(Answer {
        value,
        good,
        timings: vec![format!("admit: {took:.1?}")],
    })
}

/// As the host does: what the plugin made must fit the schema.
fn admitted(
    object: Option<Value>,
    verdict: &Verdict,
    schema: Option<&joinery_schema::StructuralSchema>,
) -> (Value, bool) {
    let mut value = json!({});
    let mut good = true;
    if let Some(object) = object {
        let causes = schema
            .map(|schema| schema.validate(&object))
            .unwrap_or_default();
        if !causes.is_empty() {
            good = false;
            let causes = causes.iter().map(|c| format!("{}: {}", c.field, c.message));
            value["invalid"] = causes.map(Value::from).collect();
        }
        value["object"] = object;
    }
    if !verdict.warnings.is_empty() {
        value["warnings"] = json!(verdict.warnings);
    }
    (value, good)
}
