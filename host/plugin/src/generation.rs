//! One loaded version of a plugin, and what it implements.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_resource::{
    Admit, Entry, EntryPage, Lookup, LookupList, Review, Serve, ServeRequest, Verdict,
};
use joinery_view::{CombineResult, Group, Join, JoinError, Selection, SharedJoin, Side, ViewSpec};

use crate::abi::{Answer, Call};
use crate::description::{Description, Shape};
use crate::error::CallError;
use crate::outbound::{OutboundClient, RecordedAnswer};
use crate::policy::{Grant, source_name};
use crate::pool::{Instance, Pool, Stats};
use crate::settings::HostSettings;
use crate::state::{Lookups, Outbound};

/// Bytes that go into one call. More would only make a call long, and its results could pass the fuel.
const BATCH_BYTES: usize = 1 << 20;
/// Inputs of one call.
const BATCH_INPUTS: usize = 4_096;

/// One loaded version of a plugin. A call holds the generation that it began with; when nobody holds it any more, its
/// instances are gone.
pub struct Generation {
    digest: String,
    settings: HostSettings,
    description: Description,
    grant: Arc<Grant>,
    pool: Arc<Pool>,
}

impl Generation {
    pub(crate) fn new(
        digest: String,
        settings: HostSettings,
        description: Description,
        grant: Grant,
        pool: Arc<Pool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            digest,
            settings,
            description,
            grant: Arc::new(grant),
            pool,
        })
    }

    /// Name of the plugin.
    pub fn name(&self) -> &str {
        &self.pool.name
    }

    /// SHA-256 of the component, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The operator's settings.
    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// What it serves and reads.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What the operator grants it.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// How its calls have gone.
    pub fn stats(&self) -> Stats {
        self.pool.stats()
    }

    /// The logic of one of its views; none when it has no such view.
    pub fn join(&self, resource: &GroupVersionResource) -> Option<SharedJoin> {
        self.description
            .resources
            .iter()
            .find_map(|r| match &r.shape {
                Shape::View(spec) if r.definition.gvr == *resource => Some(Arc::new(PluginJoin {
                    pool: self.pool.clone(),
                    spec: spec.clone(),
                })
                    as SharedJoin),
                _ => None,
            })
    }

    /// What answers the verbs of its served resources. `lookup`: how the plugin reads other resources.
    pub fn serve(&self, lookup: MakeLookup) -> Arc<dyn Serve> {
        self.serve_with(lookup, OutboundClient::new(self.name(), self.grant.clone()))
    }

    /// As [`Generation::serve`], without a network: calls over HTTP get these answers, and those that have none fail.
    pub fn serve_recorded(
        &self,
        lookup: MakeLookup,
        answers: Vec<RecordedAnswer>,
    ) -> Arc<dyn Serve> {
        self.serve_with(
            lookup,
            OutboundClient::recorded(self.name(), self.grant.clone(), answers),
        )
    }

    fn serve_with(&self, lookup: MakeLookup, outbound: Arc<OutboundClient>) -> Arc<dyn Serve> {
        let resources = self.description.resources.iter();
        Arc::new(PluginServe {
            pool: self.pool.clone(),
            grant: self.grant.clone(),
            outbound,
            lookup,
            kinds: resources
                .map(|r| (r.definition.gvr.clone(), r.definition.kind.as_str().into()))
                .collect(),
        })
    }

    /// The rules of its stored resources.
    pub fn admit(&self) -> Arc<dyn Admit> {
        let kinds = self.description.resources.iter();
        Arc::new(PluginAdmit {
            pool: self.pool.clone(),
            grant: self.grant.clone(),
            kinds: kinds
                .map(|r| (r.definition.gvr.clone(), r.definition.kind.as_str().into()))
                .collect(),
        })
    }
}

/// Makes look-ups for one call.
pub type MakeLookup = Arc<dyn Fn() -> Arc<dyn Lookup> + Send + Sync>;

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation")
            .field("name", &self.pool.name)
            .field("digest", &self.digest)
            .finish()
    }
}

struct PluginJoin {
    pool: Arc<Pool>,
    spec: Arc<ViewSpec>,
}

impl PluginJoin {
    /// Cuts the inputs into calls, makes some of them at once, and puts the answers together.
    async fn batched<T, R>(
        &self,
        inputs: Vec<T>,
        size: impl Fn(&T) -> usize,
        call: impl Fn(Arc<Self>, Vec<T>) -> BoxFuture<'static, Result<Vec<R>, CallError>>,
    ) -> Result<Vec<R>, JoinError> {
        let this = Arc::new(Self {
            pool: self.pool.clone(),
            spec: self.spec.clone(),
        });
        let mut batches = batches(inputs, size);
        if batches.len() <= 1 {
            let batch = batches.pop().unwrap_or_default();
            return call(this, batch).await.map_err(join_error);
        }
        let answers: Vec<Vec<R>> =
            stream::iter(batches.into_iter().map(|batch| call(this.clone(), batch)))
                .buffered(self.pool.width())
                .try_collect()
                .await
                .map_err(join_error)?;
        Ok(answers.into_iter().flatten().collect())
    }
}

fn batches<T>(inputs: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for input in inputs {
        let more = size(&input);
        if !batch.is_empty() && (bytes + more > BATCH_BYTES || batch.len() == BATCH_INPUTS) {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += more;
        batch.push(input);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

#[async_trait]
impl Join for PluginJoin {
    fn spec(&self) -> &ViewSpec {
        &self.spec
    }

    fn related_bytes(&self) -> usize {
        self.pool.related_bytes()
    }

    async fn keys(
        &self,
        relation: usize,
        side: Side,
        objects: Vec<Bytes>,
    ) -> Result<Vec<Vec<String>>, JoinError> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let call = move |this: Arc<Self>, objects: Vec<Bytes>| -> BoxFuture<'static, _> {
            Box::pin(async move {
                let spec = this.spec.clone();
                this.pool
                    .call(
                        None,
                        move |Instance { store, exports, .. }: &mut Instance| {
                            Box::pin(async move {
                                exports
                                    .keys(store, &spec.relations[relation].name, side, &objects)
                                    .await
                            })
                        },
                    )
                    .await
            })
        };
        self.batched(objects, Bytes::len, call).await
    }

    async fn query(&self, relation: usize, keys: Vec<String>) -> Result<Selection, JoinError> {
        let spec = self.spec.clone();
        self.pool
            .call(
                None,
                move |Instance { store, exports, .. }: &mut Instance| {
                    Box::pin(async move {
                        exports
                            .query(store, &spec.relations[relation].name, &keys)
                            .await
                    })
                },
            )
            .await
            .map_err(join_error)
    }

    async fn combine(&self, groups: Vec<Group>) -> Result<Vec<CombineResult>, JoinError> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let size = |group: &Group| {
            let objects = group.branches.iter().flat_map(|branch| &branch.objects);
            group.primary.len() + objects.map(Bytes::len).sum::<usize>()
        };
        let call = |this: Arc<Self>, groups: Vec<Group>| -> BoxFuture<'static, _> {
            Box::pin(async move {
                let spec = this.spec.clone();
                this.pool
                    .call(
                        None,
                        move |Instance { store, exports, .. }: &mut Instance| {
                            Box::pin(async move {
                                exports.combine(store, &spec.resource, &groups).await
                            })
                        },
                    )
                    .await
            })
        };
        self.batched(groups, size, call).await
    }
}

fn join_error(error: CallError) -> JoinError {
    match error {
        CallError::Busy { .. } => JoinError::Busy(error.to_string()),
        CallError::Trapped { .. } | CallError::TimedOut { .. } => {
            JoinError::Trapped(error.to_string())
        }
    }
}

struct PluginAdmit {
    pool: Arc<Pool>,
    grant: Arc<Grant>,
    kinds: Vec<(GroupVersionResource, Arc<str>)>,
}

#[async_trait]
impl Admit for PluginAdmit {
    async fn admit(
        &self,
        resource: &GroupVersionResource,
        review: Review,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let Some((resource, kind)) = self.kinds.iter().find(|(gvr, _)| gvr == resource).cloned()
        else {
            return Err(Status::internal(format!(
                "plugin {} does not serve {resource}",
                self.pool.name
            )));
        };
        let own = self.kinds.iter().map(|(gvr, _)| gvr.clone()).collect();
        let lookups = Lookups {
            lookup: Arc::new(GrantedLookup {
                lookup,
                plugin: self.pool.name.clone(),
                grant: self.grant.clone(),
                own,
            }),
            host: tokio::runtime::Handle::current(),
        };
        let admitted = self
            .pool
            .call(
                Some(lookups),
                move |Instance { store, exports, .. }: &mut Instance| {
                    Box::pin(async move { exports.admit(store, &resource, &kind, &review).await })
                },
            )
            .await;
        admitted.map_err(status)?
    }
}

struct PluginServe {
    pool: Arc<Pool>,
    grant: Arc<Grant>,
    outbound: Arc<OutboundClient>,
    lookup: MakeLookup,
    kinds: Vec<(GroupVersionResource, Arc<str>)>,
}

impl PluginServe {
    async fn call(&self, request: ServeRequest, call: Call) -> Result<Answer, Status> {
        let found = self.kinds.iter().find(|(gvr, _)| *gvr == request.resource);
        let Some((_, kind)) = found.cloned() else {
            return Err(Status::internal(format!(
                "plugin {} does not serve {}",
                self.pool.name, request.resource
            )));
        };
        let host = tokio::runtime::Handle::current();
        let lookups = Lookups {
            lookup: Arc::new(GrantedLookup {
                lookup: (self.lookup)(),
                plugin: self.pool.name.clone(),
                grant: self.grant.clone(),
                own: Vec::new(),
            }),
            host: host.clone(),
        };
        let outbound = Outbound {
            client: self.outbound.clone(),
            host,
        };
        let answered = self
            .pool
            .call_outbound(
                Some(lookups),
                Some(outbound),
                move |Instance { store, exports, .. }: &mut Instance| {
                    Box::pin(async move { exports.serve(store, &kind, &request, &call).await })
                },
            )
            .await;
        answered.map_err(status)?
    }

    async fn entry(&self, request: ServeRequest, call: Call) -> Result<Entry, Status> {
        match self.call(request, call).await? {
            Answer::Entry(entry) => Ok(entry),
            other => Err(Status::internal(format!("not an entry: {other:?}"))),
        }
    }
}

#[async_trait]
impl Serve for PluginServe {
    async fn get(&self, request: ServeRequest, name: String) -> Result<Entry, Status> {
        self.entry(request, Call::Get { name }).await
    }

    async fn list(
        &self,
        request: ServeRequest,
        label_selector: String,
        field_selector: String,
        next: Option<String>,
    ) -> Result<EntryPage, Status> {
        let list = Call::List {
            label_selector,
            field_selector,
            next,
        };
        match self.call(request, list).await? {
            Answer::Page(page) => Ok(page),
            other => Err(Status::internal(format!("not a page: {other:?}"))),
        }
    }

    async fn create(&self, request: ServeRequest, object: Bytes) -> Result<Entry, Status> {
        self.entry(request, Call::Create { object }).await
    }

    async fn update(
        &self,
        request: ServeRequest,
        name: String,
        object: Bytes,
        etag: Option<String>,
    ) -> Result<Entry, Status> {
        self.entry(request, Call::Update { name, object, etag })
            .await
    }

    async fn delete(
        &self,
        request: ServeRequest,
        name: String,
        etag: Option<String>,
    ) -> Result<(), Status> {
        self.call(request, Call::Delete { name, etag }).await?;
        Ok(())
    }
}

/// What a client is told whose request the plugin did not answer.
fn status(error: CallError) -> Status {
    match &error {
        CallError::Busy { .. } => Status::too_many_requests(error.to_string(), 1),
        CallError::TimedOut { .. } => Status::timeout(&error.to_string()),
        CallError::Trapped { .. } => Status::internal(error),
    }
}

/// Look-ups within the grants, and of the plugin's own resources.
struct GrantedLookup {
    lookup: Arc<dyn Lookup>,
    plugin: String,
    grant: Arc<Grant>,
    own: Vec<GroupVersionResource>,
}

impl GrantedLookup {
    fn check(&self, gvr: &GroupVersionResource) -> Result<(), Status> {
        if self.grant.allows_source(gvr) || self.own.contains(gvr) {
            return Ok(());
        }
        let message = format!(
            "the operator has not granted plugin {} the source {:?}",
            self.plugin,
            source_name(gvr)
        );
        Err(Status::forbidden(gvr, "", &message))
    }
}

#[async_trait]
impl Lookup for GrantedLookup {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Bytes>, Status> {
        self.check(gvr)?;
        self.lookup.get(gvr, key).await
    }

    async fn list(
        &self,
        gvr: &GroupVersionResource,
        options: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        self.check(gvr)?;
        self.lookup.list(gvr, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_the_order_and_stay_small() {
        let inputs: Vec<usize> = (0..20_000).map(|n| n % 700).collect();
        let batches = batches(inputs.clone(), |n| *n);
        assert!(
            batches
                .iter()
                .all(|b| b.len() <= BATCH_INPUTS && b.iter().sum::<usize>() <= BATCH_BYTES)
        );
        assert!(batches.len() > 4);
        assert_eq!(batches.concat(), inputs);
        let large = super::batches(vec![BATCH_BYTES * 2, 1, BATCH_BYTES * 2], |n| *n);
        assert_eq!(large.len(), 3, "what is too large stands alone");
        assert!(super::batches(Vec::<usize>::new(), |n| *n).is_empty());
    }
}
