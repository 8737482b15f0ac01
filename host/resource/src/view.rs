//! A view as a resource: get, list and watch of objects that are joined from sources.

mod read;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures::future::select_all;
use futures::{FutureExt, StreamExt, stream};
use joinery_object::{ListOptions, Object, ObjectKey, ResourceVersion, Status};
use joinery_source::{SourceCache, Upstream};
use joinery_view::{Prepared, Reach, Replayed, ResumeError, View};
use serde::{Deserialize, Serialize};

use crate::access::{Attributes, SharedAuthorizer, check};
use crate::fields::Fields;
use crate::resource::{Caller, Definition, List, Resource, Watch, WatchItem};
use crate::selection::Selection;
use crate::stream::{Settling, added, follow_settling};

/// So long a request waits for a version that is not here yet (k8s.io/apiserver/pkg/storage/cacher blockTimeout).
const PATIENCE: Duration = Duration::from_secs(3);

/// Between two of such waits of a watch.
const PAUSE: Duration = Duration::from_millis(100);
/// More sources than a view has.
const MOST_SOURCES: usize = 16;

/// How get and list read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// From caches that follow the sources.
    #[default]
    Cached,
    /// From upstream, for each request.
    Live,
}

/// Whose rights count on what a view is made of, as with SQL views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
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
    view: Arc<View>,
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
            view: Arc::new(View::new(prepared)),
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

    /// How long the last changes took from their arrival until they could be read.
    pub fn lag(&self) -> Duration {
        self.view.lag()
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
            // clients do after 410 only. One that no view ever hands out is a mistake.
            let of_others = |sources| ResourceVersion::parse(text, sources).is_ok();
            match (2..=MOST_SOURCES).any(of_others) {
                true => Status::expired(why),
                false => Status::bad_request(why),
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

    /// How get and list read now: what is too large to be held is read live.
    fn mode(&self, current: &Current) -> Mode {
        match self.view.suspended() {
            true => Mode::Live,
            false => current.mode,
        }
    }

    /// Whether it can only be read live and not watched now, see [`View::suspended`].
    pub fn suspended(&self) -> bool {
        self.view.suspended()
    }
}

/// A watch from a version that the view has reached.
async fn resume(
    view: &View,
    version: &ResourceVersion,
    selection: Selection,
    options: &ListOptions,
) -> Result<Watch, Status> {
    let resumed = match view
        .resume(version, &selection.scope(), |object| {
            selection.matches(object)
        })
        .await
    {
        Ok(resumed) => resumed,
        Err(ResumeError::TooOld(error)) => {
            return Ok(stream::iter([WatchItem::from(error)]).boxed());
        }
        Err(ResumeError::Upstream(error)) => return Err(error.into()),
        Err(ResumeError::Suspended) => return Err(not_held()),
    };
    let head = resumed.events.into_iter().map(WatchItem::from).collect();
    Ok(follow_settling(
        Some(Settling::new(resumed.elsewhere)),
        selection.scope(),
        head,
        resumed.version,
        resumed.follower,
        move |object| selection.matches(object),
        options,
    ))
}

/// A watch from a version that has not come yet. As upstream it is open and silent until then: the version may be of
/// another replica that is ahead of this one.
fn resume_later(
    view: &Arc<View>,
    version: ResourceVersion,
    selection: Selection,
    options: ListOptions,
) -> Watch {
    // Who only waits does not keep the view.
    let view = Arc::downgrade(view);
    let later = async move {
        let view = loop {
            let Some(view) = view.upgrade() else {
                let why = Status::expired("the view is not served any more");
                return stream::iter([WatchItem::Error(why)]).boxed();
            };
            if view.wait_for(&version, PATIENCE).await {
                break view;
            }
            drop(view);
            tokio::time::sleep(PAUSE).await;
        };
        match resume(&view, &version, selection, &options).await {
            Ok(watch) => watch,
            Err(status) => stream::iter([WatchItem::Error(status)]).boxed(),
        }
    };
    stream::once(later).flatten().boxed()
}

/// Ends a watch when a source has not been heard of for so long that silence says nothing any more, or is not held any
/// more.
fn until_stale(sources: Vec<Arc<SourceCache>>, watch: Watch) -> Watch {
    let sources = sources.into_iter().map(|source| {
        let (mut state, gvr) = (source.watch_state(), source.spec().gvr.clone());
        async move {
            match state.wait_for(|state| state.stale || state.too_large).await {
                Ok(state) if state.too_large => not_held(),
                Ok(_) => Status::service_unavailable(format!("{gvr} cannot be watched now"))
                    .with_retry_after(1),
                Err(_) => Status::expired(format!(
                    "{gvr} is not read any more: the plugin that was watched has gone or reads something else; list again"
                )),
            }
        }
        .boxed()
    });
    let stale = select_all(sources);
    stream::unfold(Some((watch, stale)), |state| async move {
        let (mut watch, mut stale) = state?;
        tokio::select! {
            biased;
            (why, ..) = &mut stale => Some((WatchItem::Error(why), None)),
            item = watch.next() => Some((item?, Some((watch, stale)))),
        }
    })
    .boxed()
}

fn not_held() -> Status {
    Status::service_unavailable(
        "what this view is made of is larger than the host's bound for it (--max-source-bytes): it can be read, but not \
         watched",
    )
    .with_retry_after(30)
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
        match self.mode(&current) {
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
        let selection = Selection::from_options(namespace, options, &current.fields)?;
        match self.mode(&current) {
            Mode::Live => self.list_live(&selection, namespace, options).await,
            Mode::Cached => self.list_cached(&selection, namespace, options).await,
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
        let selection = Selection::from_options(namespace, options, &current.fields)?;
        if self.view.suspended() {
            return Err(not_held());
        }
        let sources = self.view.sources();
        let asked = options
            .resource_version
            .as_deref()
            .filter(|text| *text != "0");
        let initial = options.send_initial_events.unwrap_or(asked.is_none());
        if let Some(text) = asked.filter(|_| !initial) {
            let version = self.parse_version(text)?;
            let watch = if self.view.wait_for(&version, Duration::ZERO).await {
                resume(&self.view, &version, selection, options).await?
            } else {
                resume_later(&self.view, version, selection, options.clone())
            };
            return Ok(until_stale(sources, watch));
        }
        self.wait_for(asked).await?;
        let (snapshot, follower) = self.view.subscribe();
        if snapshot.suspended {
            return Err(not_held());
        }
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
        let watch = follow_settling(
            None,
            selection.scope(),
            head,
            snapshot.version,
            follower,
            move |object| selection.matches(object),
            options,
        );
        Ok(until_stale(sources, watch))
    }
}
