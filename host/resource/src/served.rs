//! A resource whose plugin answers the verbs itself. What is around them is the host's: selectors, resource versions,
//! patches, schema, and a watch that compares lists at an interval while somebody watches.

#[cfg(test)]
mod tests;
mod write;

use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use joinery_object::{
    DeleteOptions, ListOptions, Object, ObjectKey, PatchOptions, ResourceVersion, Status,
    WriteOptions, reason,
};
use joinery_schema::StructuralSchema;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::access::{MASTERS, User};
use crate::fields::Fields;
use crate::observed::Observed;
use crate::resource::{Caller, Definition, List, PatchType, Resource, Watch, WatchItem, Written};
use crate::selection::Selection;
use crate::serve::{Entry, Serve, ServeRequest};
use crate::stored::Namespaces;

/// Most objects of a list, over all its pages: all of them are held.
const MAX_OBJECTS: usize = 50_000;
/// Bytes of all objects of a list.
const MAX_BYTES: usize = 64 << 20;
/// So many comparisons in a row may fail before those who watch are told.
const PATIENCE: u32 = 3;

/// What a generation of the plugin and its operator decide.
pub struct ServedSettings {
    /// Names, schema, columns, verbs.
    pub definition: Arc<Definition>,
    /// The schema, compiled.
    pub schema: StructuralSchema,
    /// The plugin.
    pub serve: Arc<dyn Serve>,
    /// Between two lists that are compared, while somebody watches.
    pub interval: Duration,
}

struct Current {
    definition: Arc<Definition>,
    schema: StructuralSchema,
    serve: Arc<dyn Serve>,
    interval: Duration,
    fields: Fields,
}

impl From<ServedSettings> for Current {
    fn from(settings: ServedSettings) -> Self {
        Self {
            fields: Fields::new(&settings.definition.selectable_fields),
            definition: settings.definition,
            schema: settings.schema,
            serve: settings.serve,
            interval: settings.interval,
        }
    }
}

/// A resource that is served so.
pub struct ServedResource {
    shared: Arc<Shared>,
    poller: Mutex<Weak<Poller>>,
}

impl Drop for ServedResource {
    fn drop(&mut self) {
        // As long as somebody watches, the plugin would be asked; and the resource may come again as another.
        self.shared.observed.end();
    }
}

struct Shared {
    current: ArcSwap<Current>,
    observed: Observed,
    namespaces: Arc<dyn Namespaces>,
    exchanged: Notify,
}

/// Compares lists for as long as one watch holds it.
struct Poller {
    task: JoinHandle<()>,
    failing: watch::Receiver<Option<Status>>,
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The host itself, where it compares lists.
fn host() -> Caller {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Caller {
        user: User {
            name: "system:joinery".to_owned(),
            groups: vec![MASTERS.to_owned(), "system:authenticated".to_owned()],
            ..User::default()
        },
        now: since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        }),
    }
}

impl ServedResource {
    /// Begins to serve. `namespaces` says where something may be created.
    pub fn new(settings: ServedSettings, namespaces: Arc<dyn Namespaces>) -> Self {
        Self {
            shared: Arc::new(Shared {
                current: ArcSwap::from_pointee(settings.into()),
                observed: Observed::new(),
                namespaces,
                exchanged: Notify::new(),
            }),
            poller: Mutex::default(),
        }
    }

    /// Exchanges the plugin. Who watches is told what is another with it.
    pub fn replace(&self, settings: ServedSettings) {
        self.shared.current.store(Arc::new(settings.into()));
        self.shared.exchanged.notify_waiters();
    }

    fn poller(&self) -> Arc<Poller> {
        let mut kept = self.poller.lock();
        if let Some(poller) = kept.upgrade() {
            return poller;
        }
        let (sender, failing) = watch::channel(None);
        let poller = Arc::new(Poller {
            task: tokio::spawn(poll(self.shared.clone(), sender)),
            failing,
        });
        *kept = Arc::downgrade(&poller);
        poller
    }
}

async fn poll(shared: Arc<Shared>, failing: watch::Sender<Option<Status>>) {
    let mut failures = 0;
    loop {
        let interval = shared.current.load().interval;
        let exchanged = shared.exchanged.notified();
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = exchanged => {}
        }
        let current = shared.current.load_full();
        match shared.read_all(&current, &host(), None).await {
            Ok(()) => {
                failures = 0;
                failing.send_if_modified(|status| status.take().is_some());
            }
            Err(status) => {
                failures += 1;
                tracing::warn!(resource = %current.definition.gvr, %status, "cannot be listed for those who watch");
                if failures >= PATIENCE {
                    failing.send_replace(Some(status));
                }
            }
        }
    }
}

impl Shared {
    fn request(
        current: &Current,
        caller: &Caller,
        namespace: Option<&str>,
        dry_run: bool,
    ) -> ServeRequest {
        ServeRequest {
            resource: current.definition.gvr.clone(),
            namespace: namespace.map(str::to_owned),
            user: caller.user.clone(),
            dry_run,
            now: caller.now,
        }
    }

    /// What the plugin gave, as an object, if it is one of this resource in this scope.
    fn object(
        current: &Current,
        entry: &Entry,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Object, Status> {
        let definition = &current.definition;
        let gvr = &definition.gvr;
        let (api_version, kind) = (gvr.api_version(), definition.kind.as_str());
        let wrong = |detail: String| {
            Status::internal(format!(
                "the plugin of {gvr} gave no object of it: {detail}"
            ))
        };
        let object = Object::compose(
            entry.object.clone(),
            Vec::new(),
            ResourceVersion::single(0),
            Some((&api_version, kind)),
        )
        .map_err(|error| wrong(error.to_string()))?;
        let key = object.key();
        if definition.namespaced != key.namespace.is_some() {
            return Err(wrong(format!("{key} has no namespace, or one too many")));
        }
        if namespace.is_some() && key.namespace.as_deref() != namespace {
            return Err(wrong(format!("{key} is in another namespace")));
        }
        if name.is_some_and(|name| *key.name != *name) {
            return Err(wrong(format!("{key} has another name")));
        }
        if object.uid().is_empty() {
            return Err(wrong(format!("{key} has no metadata.uid")));
        }
        Ok(object)
    }

    /// All objects, as the plugin has them now; what is selected is a hint to it.
    async fn read(
        &self,
        current: &Current,
        caller: &Caller,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Vec<Object>, Status> {
        let (mut objects, mut bytes, mut next) = (Vec::new(), 0, None);
        loop {
            let request = Self::request(current, caller, namespace, false);
            let (labels, fields) = (labels.to_owned(), fields.to_owned());
            let page = current.serve.list(request, labels, fields, next).await?;
            let empty = page.entries.is_empty();
            for entry in page.entries {
                bytes += entry.object.len();
                if objects.len() == MAX_OBJECTS || bytes > MAX_BYTES {
                    return Err(Status::internal(format!(
                        "a list of {} is longer than {MAX_OBJECTS} objects or {MAX_BYTES} bytes",
                        current.definition.gvr
                    )));
                }
                objects.push(Self::object(current, &entry, namespace, None)?);
            }
            next = page.next;
            // A page of nothing that promises more would be asked for for ever.
            if next.is_none() || empty {
                return Ok(objects);
            }
        }
    }

    async fn read_all(
        &self,
        current: &Current,
        caller: &Caller,
        namespace: Option<&str>,
    ) -> Result<(), Status> {
        let ticket = self.observed.ticket();
        let objects = self.read(current, caller, namespace, "", "").await?;
        self.observed.saw_all(ticket, namespace, objects);
        Ok(())
    }

    /// One object as the plugin has it now, and its etag.
    async fn read_one(
        &self,
        current: &Current,
        caller: &Caller,
        key: &ObjectKey,
    ) -> Result<(Arc<Object>, String), Status> {
        let ticket = self.observed.ticket();
        let namespace = key.namespace.as_deref();
        let request = Self::request(current, caller, namespace, false);
        let not_found = || Status::not_found(&current.definition.gvr, &key.name);
        match current.serve.get(request, key.name.to_string()).await {
            Ok(entry) => {
                let object = Self::object(current, &entry, namespace, Some(&key.name))?;
                let known = self.observed.saw(ticket, key, Some(object));
                Ok((known.ok_or_else(not_found)?, entry.etag))
            }
            Err(status) if status.is(reason::NOT_FOUND) => {
                self.observed.saw(ticket, key, None);
                Err(status)
            }
            Err(status) => Err(status),
        }
    }
}

#[async_trait]
impl Resource for ServedResource {
    fn definition(&self) -> Arc<Definition> {
        self.shared.current.load().definition.clone()
    }

    async fn get(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        resource_version: Option<&str>,
    ) -> Result<Arc<Object>, Status> {
        let current = self.shared.current.load_full();
        self.shared.observed.asked(resource_version)?;
        Ok(self.shared.read_one(&current, caller, key).await?.0)
    }

    async fn list(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let current = self.shared.current.load_full();
        let selection = Selection::from_options(namespace, options, &current.fields)?;
        self.shared
            .observed
            .asked(options.resource_version.as_deref())?;
        self.shared.read_all(&current, caller, namespace).await?;
        self.shared.observed.list(&selection, options)
    }

    async fn watch(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        let current = self.shared.current.load_full();
        let selection = Selection::from_options(namespace, options, &current.fields)?;
        let poller = self.poller();
        // What changed while nobody watched is seen before the watch begins, and told to who has not seen it.
        self.shared.read_all(&current, caller, namespace).await?;
        let watch = self.shared.observed.watch(selection, options)?;
        Ok(until_failing(watch, poller))
    }

    async fn create(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        name: Option<&str>,
        body: Bytes,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let current = self.shared.current.load_full();
        self.shared
            .write_new(&current, caller, namespace, name, &body, options)
            .await
    }

    async fn update(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        subresource: Option<&str>,
        body: Bytes,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        if subresource.is_some() {
            return Err(Status::path_not_found());
        }
        let current = self.shared.current.load_full();
        self.shared
            .write_change(&current, caller, key, &body, options)
            .await
    }

    async fn patch(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch: PatchType,
        body: Bytes,
        options: &PatchOptions,
    ) -> Result<Written, Status> {
        if subresource.is_some() {
            return Err(Status::path_not_found());
        }
        let current = self.shared.current.load_full();
        self.shared
            .write_patch(&current, caller, key, patch, &body, &options.write)
            .await
    }

    async fn delete(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Written, Status> {
        let current = self.shared.current.load_full();
        self.shared
            .write_delete(&current, caller, key, options)
            .await
    }

    async fn delete_collection(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        selection: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, Status> {
        let current = self.shared.current.load_full();
        let mut list = self.list(caller, namespace, selection).await?;
        let mut deleted = Vec::new();
        for object in std::mem::take(&mut list.items) {
            let delete = self
                .shared
                .write_delete(&current, caller, object.key(), options);
            match delete.await {
                Ok(written) => deleted.push(written.object),
                // Somebody else was faster.
                Err(status) if status.is(reason::NOT_FOUND) => {}
                Err(status) => return Err(status),
            }
        }
        list.items = deleted;
        Ok(list)
    }
}

/// Ends a watch when the lists have failed for so long that silence says nothing any more.
fn until_failing(watch: Watch, poller: Arc<Poller>) -> Watch {
    let failing = poller.failing.clone();
    stream::unfold(Some((watch, failing, poller)), |state| async move {
        let (mut watch, mut failing, poller) = state?;
        let failed = async {
            match failing.wait_for(Option::is_some).await {
                Ok(status) => status.clone(),
                Err(_) => None,
            }
        };
        tokio::select! {
            biased;
            item = watch.next() => Some((item?, Some((watch, failing, poller)))),
            status = failed => {
                let status = status.unwrap_or_else(|| Status::expired("it is not served any more"));
                Some((WatchItem::Error(status), None))
            }
        }
    })
    .boxed()
}
