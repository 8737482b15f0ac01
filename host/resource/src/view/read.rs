//! How a view is read: from what is cached, or from upstream for each request.

use std::sync::Arc;

use joinery_object::{
    ListOptions, Object, ObjectKey, ResourceVersion, ResourceVersionMatch, Status,
};
use joinery_source::Query;
use joinery_view::{LivePage, Primaries, ViewSnapshot, read_live};

use super::{Current, PATIENCE, ViewResource, not_held};
use crate::continue_token::ContinueToken;
use crate::page::{Page, Rest};
use crate::resource::List;
use crate::selection::Selection;

impl ViewResource {
    async fn read_live(&self, primaries: &Primaries) -> Result<LivePage, Status> {
        // Taken before anything is read, so that nothing which comes later is skipped.
        let (join, known) = self.view.join_and_version();
        Ok(read_live(join, &*self.upstream, primaries, known.positions()).await?)
    }

    pub(super) async fn get_live(
        &self,
        current: &Current,
        key: &ObjectKey,
    ) -> Result<Arc<Object>, Status> {
        let page = self.read_live(&Primaries::Named(key.clone())).await?;
        match page.outcomes.into_iter().next() {
            Some((_, Ok(Some(object)))) => Ok(object),
            Some((_, Err(failure))) => Err(failure),
            _ => Err(self.not_found(current, key)),
        }
    }

    pub(super) async fn get_cached(
        &self,
        current: &Current,
        key: &ObjectKey,
    ) -> Result<Arc<Object>, Status> {
        if let Some(found) = find(&self.view.snapshot(), key) {
            return found;
        }
        // What was written just now may not have arrived: upstream knows, and says up to where to wait.
        let gvr = self.view.join().spec().sources[0].gvr.clone();
        let Some(primary) = self.upstream.get(&gvr, key).await? else {
            return Err(self.not_found(current, key));
        };
        let mut positions = vec![0; self.view.sources().len()];
        positions[0] = primary.resource_version().position(0);
        let version = ResourceVersion::of_positions(&positions);
        let arrived = self.view.wait_for(&version, PATIENCE).await;
        let snapshot = self.view.snapshot();
        match find(&snapshot, key) {
            Some(found) => found,
            None if snapshot.suspended => Err(not_held()),
            None if arrived => Err(self.not_found(current, key)),
            None => Err(Status::service_unavailable(format!(
                "{gvr} {key} is there, but has not arrived in the cache"
            ))
            .with_retry_after(1)),
        }
    }

    pub(super) async fn list_live(
        &self,
        selection: &Selection,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        if options.resource_version_match == Some(ResourceVersionMatch::Exact) {
            return Err(Status::expired(
                "this view is read from its sources as they are now: no other version can be had",
            ));
        }
        let token = options
            .continue_token
            .as_deref()
            .map(|token| ContinueToken::decode(token, namespace))
            .transpose()?;
        // Begun while the view was held: upstream cannot go on from there.
        if token.as_ref().is_some_and(|token| token.upstream.is_none()) {
            return Err(Status::continue_expired(None));
        }
        let name = options.field_selector.requires_exact_match("metadata.name");
        let page = self
            .read_live(&Primaries::Listed(Query {
                namespace: namespace.map(str::to_owned),
                // The name is the one thing that the object has from its primary for certain.
                field_selector: name.map_or(String::new(), |name| format!("metadata.name={name}")),
                limit: u32::try_from(options.limit).unwrap_or(u32::MAX),
                continue_token: token.as_ref().and_then(|token| token.upstream.clone()),
                ..Query::default()
            }))
            .await?;
        // All pages of a list carry the version of the first: from there on a watch misses nothing of any of them.
        let version = match token.and_then(|token| token.version) {
            Some(version) => self.parse_version(&version)?,
            None => page.version,
        };
        let last = page.outcomes.last().map(|(key, _)| key.clone());
        let continue_token = page.continue_token.zip(last).map(|(upstream, after)| {
            let token = ContinueToken {
                version: Some(version.to_string()),
                left: None,
                after,
                upstream: Some(upstream),
            };
            token.encode()
        });
        let mut list = List {
            items: Vec::with_capacity(page.outcomes.len()),
            resource_version: version,
            continue_token,
            remaining: page.remaining.filter(|_| selection.has_no_selectors()),
            warnings: Vec::new(),
        };
        for (key, outcome) in page.outcomes {
            match outcome {
                Ok(Some(object)) if selection.matches(&object) => {
                    let within = list.resource_version.covers(object.resource_version());
                    list.items.push(match within {
                        true => object,
                        // No item is younger than its list; a later page is read later.
                        false => Arc::new(object.at(list.resource_version.clone())),
                    });
                }
                Ok(_) => {}
                Err(failure) => list.warnings.push(left_out(&key, &failure)),
            }
        }
        Ok(list)
    }

    pub(super) async fn list_cached(
        &self,
        selection: &Selection,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let mut begun = None;
        let snapshot = if let Some(token) = &options.continue_token {
            let token = ContinueToken::decode(token, namespace)?;
            let snapshot = match &token.version {
                None => self.view.snapshot(),
                Some(version) => {
                    self.view
                        .kept(&self.parse_version(version)?)
                        .ok_or_else(|| {
                            let rest = ContinueToken {
                                version: None,
                                left: None,
                                ..token.clone()
                            };
                            Status::continue_expired(Some(&rest.encode()))
                        })?
                }
            };
            begun = Some(token);
            snapshot
        } else {
            let version = self.wait_for(options.resource_version.as_deref()).await?;
            match version {
                Some(version)
                    if options.resource_version_match == Some(ResourceVersionMatch::Exact) =>
                {
                    self.view.kept(&version).ok_or_else(|| {
                        // As upstream of a version that is compacted.
                        Status::expired("The resourceVersion for the provided list is too old.")
                    })?
                }
                _ => self.view.snapshot(),
            }
        };
        // It may have let go since it was asked how it reads.
        if snapshot.suspended {
            return Err(not_held());
        }
        let page = Page::of(selection, &snapshot.objects, begun.as_ref(), options.limit);
        let left = page.rest.as_ref().and_then(|rest| rest.left.as_ref());
        let remaining = left.map(|left| left.count);
        let continue_token = page.rest.map(|Rest { after, left }| {
            self.view.keep(&snapshot);
            let token = ContinueToken {
                version: Some(snapshot.version.to_string()),
                after,
                left,
                upstream: None,
            };
            token.encode()
        });
        let in_scope =
            |key: &ObjectKey| namespace.is_none_or(|n| key.namespace.as_deref() == Some(n));
        Ok(List {
            items: page.items,
            warnings: snapshot
                .failures
                .iter()
                .filter(|(key, _)| in_scope(key))
                .map(|(key, failure)| left_out(key, failure))
                .collect(),
            resource_version: snapshot.version,
            remaining,
            continue_token,
        })
    }
}

fn find(snapshot: &ViewSnapshot, key: &ObjectKey) -> Option<Result<Arc<Object>, Status>> {
    if let Some(failure) = snapshot.failures.get(key) {
        return Some(Err(failure.clone()));
    }
    snapshot.objects.get(key).cloned().map(Ok)
}

fn left_out(key: &ObjectKey, failure: &Status) -> String {
    format!("{key} is left out: {}", failure.message)
}
