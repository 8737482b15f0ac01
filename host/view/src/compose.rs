//! Objects of a view, made from a primary and what is related to it.

use std::sync::Arc;

use joinery_object::{Insert, Object, ObjectKey, ResourceVersion, Status};

use crate::call::{CALL_BYTES, bisect};
use crate::join::{Composed, JoinError, ViewSpec};
use crate::joined::{Joined, Related};

/// What became of a primary: its object, none if the view has none for it, or why it cannot be made.
pub type Outcome = Result<Option<Arc<Object>>, Status>;

/// What is left to say of an object of which nothing but its name is known.
pub(crate) fn tombstone(
    spec: &ViewSpec,
    key: &ObjectKey,
    version: &ResourceVersion,
) -> Arc<Object> {
    let api_version = spec.resource.api_version();
    Arc::new(Object::bare(&api_version, &spec.kind, key, version.clone()))
}

/// Composes the objects of these primaries, each at its version. A primary that is gone has no object.
///
/// # Errors
/// [`JoinError::Busy`], when patience is at an end.
pub(crate) async fn compose(
    joined: &Joined,
    primaries: Vec<(ObjectKey, ResourceVersion)>,
) -> Result<Vec<(ObjectKey, Outcome)>, JoinError> {
    let mut outcomes = Vec::new();
    let mut batch = Vec::new();
    let mut weight = 0;
    for (key, version) in primaries {
        match joined.related(&key) {
            None => outcomes.push((key, Ok(None))),
            Some(related) => {
                weight += size(&related);
                batch.push((key, version, related));
                if weight >= CALL_BYTES {
                    run(joined, std::mem::take(&mut batch), &mut outcomes).await?;
                    weight = 0;
                }
            }
        }
    }
    run(joined, batch, &mut outcomes).await?;
    Ok(outcomes)
}

fn size(related: &Related) -> usize {
    let branches = related.group.branches.iter().flat_map(|b| &b.objects);
    related.group.primary.len() + branches.map(|o| o.len()).sum::<usize>()
}

async fn run(
    joined: &Joined,
    batch: Vec<(ObjectKey, ResourceVersion, Related)>,
    outcomes: &mut Vec<(ObjectKey, Outcome)>,
) -> Result<(), JoinError> {
    let groups = batch
        .iter()
        .map(|(_, _, related)| related.group.clone())
        .collect();
    let call = |groups| joined.join().combine(groups);
    let results = bisect(groups, joined.patience(), call).await?;
    let spec = joined.join().spec();
    let kind = (spec.resource.api_version(), spec.kind.clone());
    for ((key, version, related), result) in batch.into_iter().zip(results) {
        let outcome = match result {
            Err(trap) => Err(Status::internal(format!(
                "the plugin failed to compose {} {key}: {trap}",
                spec.resource.resource
            ))),
            Ok(Err(refused)) => Err(refused),
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(composed))) => fill(&key, &related, composed, version, (&kind.0, &kind.1))
                .map(|object| Some(Arc::new(object)))
                .map_err(|why| {
                    Status::internal(format!(
                        "the plugin composed {} {key} wrongly: {why}",
                        spec.resource.resource
                    ))
                }),
        };
        outcomes.push((key, outcome));
    }
    Ok(())
}

/// Fills the holes and checks that the result is what a view may show: an object of the view's kind with the
/// namespace, name and uid of its primary.
fn fill(
    key: &ObjectKey,
    related: &Related,
    composed: Composed,
    version: ResourceVersion,
    kind: (&str, &str),
) -> Result<Object, String> {
    let inserts = composed
        .inserts
        .into_iter()
        .map(|(at, input)| {
            let value = related
                .inputs
                .get(input as usize)
                .ok_or_else(|| {
                    format!(
                        "input {input} is none of the {} there are",
                        related.inputs.len()
                    )
                })?
                .bytes();
            Ok(Insert {
                at: at as usize,
                value,
            })
        })
        .collect::<Result<_, String>>()?;
    let object = Object::compose(composed.text, inserts, version, Some(kind))
        .map_err(|error| error.to_string())?;
    if object.key() != key {
        return Err(format!("its namespace and name are {}", object.key()));
    }
    let uid = related.inputs[0].uid();
    if object.uid() != uid {
        return Err(format!("its uid is {:?}, not {uid:?}", object.uid()));
    }
    Ok(object)
}
