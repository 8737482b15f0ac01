//! A view as a resource: get, list and watch of objects that are joined from sources.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures::future::select_all;
use futures::{FutureExt, StreamExt, stream};
use joinery_object::{
    ListOptions, Object, ObjectKey, ResourceVersion, ResourceVersionMatch, Status,
};
use joinery_source::{Query, Upstream};
use joinery_view::{
    LivePage, Prepared, Primaries, Reach, Replayed, ResumeError, View, ViewSnapshot, read_live,
};

use serde::Deserialize;

use crate::access::{Attributes, SharedAuthorizer, check};
use crate::continue_token::ContinueToken;
use crate::fields::Fields;
use crate::resource::{Caller, Definition, List, Resource, Watch, WatchItem};
use crate::selection::Selection;
use crate::stream::{added, follow, follow_from_elsewhere};

/// So long a request waits for a version that is not here yet (k8s.io/apiserver/pkg/storage/cacher blockTimeout).
const PATIENCE: Duration = Duration::from_secs(3);

/// How get and list read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// From caches that follow the sources.
    #[default]
    Cached,
    /// From upstream, for each request.
    Live,
}

/// Whose rights count on what a view is made of, as with SQL views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// The caller needs the same verb on the primary and `list` (for a watch also `watch`) on every related source.
    #[default]
    Invoker,
    /// Rights on the view suffice.
    Definer,
}

/// What a generation of the plugin and its operator decide.
pub struct ViewSettings {
    /// Names, schema, columns.
    pub definition: Arc<Definition>,
    /// How get and list read.
    pub mode: Mode,
    /// Whose rights count.
    pub security: Security,
}

struct Current {
    definition: Arc<Definition>,
    mode: Mode,
    security: Security,
    fields: Fields,
}

impl From<Replayed> for WatchItem {
    fn from(replayed: Replayed) -> Self {
        match replayed {
            Replayed::Event {
                kind,
                object,
                change,
            } => Self::Event {
                kind,
                object,
                change,
            },
            Replayed::Failure(status) => Self::Error(status),
        }
    }
}

impl From<ViewSettings> for Current {
    fn from(settings: ViewSettings) -> Self {
        Self {
            fields: Fields::new(&settings.definition.selectable_fields),
            definition: settings.definition,
            mode: settings.mode,
            security: settings.security,
        }
    }
}

/// A view that is served.
pub struct ViewResource {
    current: ArcSwap<Current>,
    view: View,
    upstream: Arc<dyn Upstream>,
    authorizer: SharedAuthorizer,
}

impl ViewResource {
    /// Begins to serve. `upstream` is where the sources come from, for what the caches do not have.
    pub fn new(
        settings: ViewSettings,
        prepared: Prepared,
        upstream: Arc<dyn Upstream>,
        authorizer: SharedAuthorizer,
    ) -> Self {
        Self {
            current: ArcSwap::from_pointee(settings.into()),
            view: View::new(prepared),
            upstream,
            authorizer,
        }
    }

    /// Exchanges the logic, see [`View::replace`].
    pub async fn replace(&self, settings: ViewSettings, prepared: Prepared) {
        self.view.replace(prepared).await;
        self.current.store(Arc::new(settings.into()));
    }

    /// The primaries whose objects cannot be made, and why.
    pub fn failures(&self) -> Vec<(ObjectKey, Status)> {
        let failures = self.view.snapshot().failures;
        failures.into_iter().collect()
    }

    /// Checks the caller's rights on what the view is made of.
    async fn check_sources(
        &self,
        current: &Current,
        caller: &Caller,
        verb: &'static str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), Status> {
        if current.security == Security::Definer {
            return Ok(());
        }
        let join = self.view.join();
        let spec = join.spec();
        let mut asked = vec![(0, verb, namespace, name)];
        for relation in &spec.relations {
            let scope = match relation.reach {
                Reach::SameNamespace => namespace,
                Reach::AnyNamespace => None,
            };
            asked.push((relation.source, "list", scope, None));
            if verb == "watch" {
                asked.push((relation.source, "watch", scope, None));
            }
        }
        for (source, verb, namespace, name) in asked {
            let gvr = &spec.sources[source].gvr;
            let attributes = Attributes::Resource {
                verb: verb.to_owned(),
                group: gvr.group.to_string(),
                version: gvr.version.to_string(),
                resource: gvr.resource.to_string(),
                subresource: String::new(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                label_selector: String::new(),
                field_selector: String::new(),
            };
            check(&*self.authorizer, &caller.user, &attributes).await?;
        }
        Ok(())
    }

    fn not_found(&self, current: &Current, key: &ObjectKey) -> Status {
        Status::not_found(&current.definition.gvr, &key.name)
    }

    /// Reads a version: one of this view, or a plain one of its primary.
    fn parse_version(&self, text: &str) -> Result<ResourceVersion, Status> {
        let count = self.view.sources().len();
        if let Some(plain) = text.parse::<u64>().ok().filter(|n| *n < 1 << 63) {
            let mut positions = vec![0; count];
            positions[0] = plain;
            return Ok(ResourceVersion::of_positions(&positions));
        }
        ResourceVersion::parse(text, count).map_err(|error| {
            let why = format!("resourceVersion: {error}");
            // A number may be from a time when the view read other sources: who brings it must list again, which
            // clients do after 410 only.
            match text.bytes().all(|b| b.is_ascii_digit()) {
                true if !text.is_empty() => Status::expired(why),
                _ => Status::bad_request(why),
            }
        })
    }

    /// Waits for a version; `0` is always there.
    async fn wait_for(&self, text: Option<&str>) -> Result<Option<ResourceVersion>, Status> {
        let Some(text) = text.filter(|text| *text != "0") else {
            return Ok(None);
        };
        let version = self.parse_version(text)?;
        if self.view.wait_for(&version, PATIENCE).await {
            return Ok(Some(version));
        }
        let current = self.view.snapshot().version;
        Err(Status::too_large_resource_version(text, current))
    }

    /// Ends a watch when a source has not been heard of for so long that silence says nothing any more.
    fn until_stale(&self, watch: Watch) -> Watch {
        let sources = self.view.sources().into_iter().map(|source| {
            let (mut state, gvr) = (source.watch_state(), source.spec().gvr.clone());
            async move {
                match state.wait_for(|state| state.stale).await {
                    Ok(_) => Status::service_unavailable(format!("{gvr} cannot be watched now"))
                        .with_retry_after(1),
                    Err(_) => Status::expired(format!("{gvr} is not read any more")),
                }
            }
            .boxed()
        });
        let stale = select_all(sources);
        stream::unfold(Some((watch, stale)), |state| async move {
            let (mut watch, mut stale) = state?;
            tokio::select! {
                biased;
                item = watch.next() => Some((item?, Some((watch, stale)))),
                (why, ..) = &mut stale => Some((WatchItem::Error(why), None)),
            }
        })
        .boxed()
    }

    async fn read_live(&self, primaries: &Primaries) -> Result<LivePage, Status> {
        // Taken before anything is read, so that nothing which comes later is skipped.
        let known = self.view.snapshot().version;
        let join = self.view.join();
        Ok(read_live(join, &*self.upstream, primaries, known.positions()).await?)
    }

    async fn get_live(&self, current: &Current, key: &ObjectKey) -> Result<Arc<Object>, Status> {
        let page = self.read_live(&Primaries::Named(key.clone())).await?;
        match page.outcomes.into_iter().next() {
            Some((_, Ok(Some(object)))) => Ok(object),
            Some((_, Err(failure))) => Err(failure),
            _ => Err(self.not_found(current, key)),
        }
    }

    async fn get_cached(&self, current: &Current, key: &ObjectKey) -> Result<Arc<Object>, Status> {
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
        match find(&self.view.snapshot(), key) {
            Some(found) => found,
            None if arrived => Err(self.not_found(current, key)),
            None => Err(Status::service_unavailable(format!(
                "{gvr} {key} is there, but has not arrived in the cache"
            ))
            .with_retry_after(1)),
        }
    }

    async fn list_live(
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
        let page = self
            .read_live(&Primaries::Listed(Query {
                namespace: namespace.map(str::to_owned),
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
                Ok(Some(object)) if selection.matches(&object) => list.items.push(object),
                Ok(_) => {}
                Err(failure) => list.warnings.push(left_out(&key, &failure)),
            }
        }
        Ok(list)
    }

    async fn list_cached(
        &self,
        current: &Current,
        selection: &Selection,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let mut after = None;
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
                                ..token.clone()
                            };
                            Status::continue_expired(Some(&rest.encode()))
                        })?
                }
            };
            after = Some(token.after);
            snapshot
        } else {
            let version = self.wait_for(options.resource_version.as_deref()).await?;
            match version {
                Some(version)
                    if options.resource_version_match == Some(ResourceVersionMatch::Exact) =>
                {
                    self.view.kept(&version).ok_or_else(|| {
                        Status::expired(format!(
                            "{} of this version are not kept any more: {version}",
                            current.definition.gvr.resource
                        ))
                    })?
                }
                _ => self.view.snapshot(),
            }
        };
        let mut selected = selection.of(&snapshot.objects, after.as_ref());
        let mut items: Vec<Arc<Object>> = Vec::new();
        let mut remaining = 0;
        if options.limit == 0 {
            items.extend(selected.cloned());
        } else {
            items.extend(selected.by_ref().take(options.limit).cloned());
            // Whether there is more must be known; how much, only where counting is asked of nobody.
            remaining = if selection.has_no_selectors() {
                selected.count() as u64
            } else {
                u64::from(selected.next().is_some())
            };
        }
        let continue_token = items.last().filter(|_| remaining > 0).map(|last| {
            self.view.keep(&snapshot);
            let token = ContinueToken {
                version: Some(snapshot.version.to_string()),
                after: last.key().clone(),
                upstream: None,
            };
            token.encode()
        });
        let in_scope =
            |key: &ObjectKey| namespace.is_none_or(|n| key.namespace.as_deref() == Some(n));
        Ok(List {
            items,
            warnings: snapshot
                .failures
                .iter()
                .filter(|(key, _)| in_scope(key))
                .map(|(key, failure)| left_out(key, failure))
                .collect(),
            resource_version: snapshot.version,
            remaining: continue_token
                .is_some()
                .then_some(remaining)
                .filter(|_| selection.has_no_selectors()),
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

#[async_trait]
impl Resource for ViewResource {
    fn definition(&self) -> Arc<Definition> {
        self.current.load().definition.clone()
    }

    async fn get(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        resource_version: Option<&str>,
    ) -> Result<Arc<Object>, Status> {
        let current = self.current.load_full();
        let namespace = key.namespace.as_deref();
        self.check_sources(&current, caller, "get", namespace, Some(&key.name))
            .await?;
        match current.mode {
            Mode::Live => self.get_live(&current, key).await,
            Mode::Cached => {
                self.wait_for(resource_version).await?;
                self.get_cached(&current, key).await
            }
        }
    }

    async fn list(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let current = self.current.load_full();
        self.check_sources(&current, caller, "list", namespace, None)
            .await?;
        let selection = Selection::new(
            namespace,
            options.label_selector.clone(),
            options.field_selector.clone(),
            &current.fields,
        )?;
        match current.mode {
            Mode::Live => self.list_live(&selection, namespace, options).await,
            Mode::Cached => {
                self.list_cached(&current, &selection, namespace, options)
                    .await
            }
        }
    }

    async fn watch(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        let current = self.current.load_full();
        self.check_sources(&current, caller, "watch", namespace, None)
            .await?;
        let selection = Selection::new(
            namespace,
            options.label_selector.clone(),
            options.field_selector.clone(),
            &current.fields,
        )?;
        let version = self.wait_for(options.resource_version.as_deref()).await?;
        let initial = options.send_initial_events.unwrap_or(version.is_none());
        if let Some(version) = version.filter(|_| !initial) {
            let resumed = match self
                .view
                .resume(&version, |object| selection.matches(object))
                .await
            {
                Ok(resumed) => resumed,
                Err(ResumeError::TooOld(error)) => {
                    let error = WatchItem::from(error);
                    return Ok(stream::iter([error]).boxed());
                }
                Err(ResumeError::Upstream(error)) => return Err(error.into()),
            };
            let head = resumed.events.into_iter().map(WatchItem::from).collect();
            let watch = follow_from_elsewhere(
                head,
                resumed.version,
                resumed.follower,
                move |object| selection.matches(object),
                options,
            );
            return Ok(self.until_stale(watch));
        }
        let (snapshot, follower) = self.view.subscribe();
        let mut head = Vec::new();
        if initial {
            head = added(selection.of(&snapshot.objects, None).cloned());
            if options.send_initial_events == Some(true) && options.allow_watch_bookmarks {
                head.push(WatchItem::Bookmark {
                    version: snapshot.version.clone(),
                    initial_events_end: true,
                });
            }
        }
        let watch = follow(
            head,
            snapshot.version,
            follower,
            move |object| selection.matches(object),
            options,
        );
        Ok(self.until_stale(watch))
    }
}
