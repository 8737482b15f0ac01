//! Live reading: the source article's way, a few batched queries for each request and never one per object.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use joinery_object::{Object, ObjectKey, ResourceVersion, Status};
use joinery_source::{Page, Query, Upstream, UpstreamError};

use crate::call::Patience;
use crate::compose::{Outcome, compose};
use crate::join::{JoinError, Reach, Selection, SharedJoin, SourceSpec};
use crate::joined::{Input, Joined};

/// Longest path and query of an upstream request, in bytes. What proxies before API servers commonly allow.
pub const URL_BOUND: usize = 8 * 1024;
/// Above so many requests for one relation it is cheaper to read the whole source and keep what is related: without a watch cache, as
/// for Events, kube-apiserver reads all of them from etcd for each request, whatever it selects.
const MOST_CHUNKS: usize = 4;
/// Above so many objects by name, likewise.
const MOST_NAMES: usize = 16;
/// Requests under way at once for one relation.
const AT_ONCE: usize = 4;
/// A busy plugin is asked so often before the request fails with 429.
const TRIES: u32 = 100;

/// A request that could not be answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LiveError {
    /// A source could not be read.
    #[error("{0}")]
    Upstream(#[from] UpstreamError),
    /// The plugin is busy, or could not say what to ask.
    #[error("{0}")]
    Join(#[from] JoinError),
}

impl From<LiveError> for Status {
    fn from(error: LiveError) -> Self {
        match error {
            LiveError::Upstream(error) => error.into(),
            LiveError::Join(JoinError::Busy(why)) => Self::too_many_requests(why, 1),
            LiveError::Join(JoinError::Trapped(why)) => Self::internal(why),
        }
    }
}

/// What was read.
#[derive(Debug)]
pub struct LivePage {
    /// By key: the object, none if the view has none for this primary, or why it cannot be made.
    pub outcomes: Vec<(ObjectKey, Outcome)>,
    /// A watch from here delivers all that came later.
    pub version: ResourceVersion,
    /// Upstream's token for the next page.
    pub continue_token: Option<String>,
    /// How many primaries are left, if upstream says so.
    pub remaining: Option<u64>,
}

/// Which primaries are read.
#[derive(Clone, Debug)]
pub enum Primaries {
    /// One.
    Named(ObjectKey),
    /// A page of a list: namespace, limit and token of the query count.
    Listed(Query),
}

/// Up to where a source was read.
#[derive(Default)]
struct Reached {
    /// The first of several answers is the oldest: up to there nothing of any of them is missing.
    position: Option<u64>,
    /// Versions of the objects.
    versions: Vec<u64>,
}

impl Reached {
    fn add(&mut self, page: &Page) {
        let position = self.position.unwrap_or(u64::MAX);
        self.position = Some(position.min(page.position));
        let versions = page.items.iter().map(|o| o.resource_version().position(0));
        self.versions.extend(versions);
    }

    /// What a version may say of the source.
    ///
    /// Not the position of the list itself, for a cache of the source reaches that only when something changes: who
    /// watches from there would wait in vain. But an object's own version has been told to every cache.
    fn claim(&self, known: u64) -> u64 {
        let position = self.position.unwrap_or(known);
        let versions = self.versions.iter().copied().filter(|v| *v <= position);
        versions.max().unwrap_or(0).max(known).min(position)
    }
}

/// Reads primaries and all that is related to them, from upstream.
///
/// One request for the primaries, then per relation one for every [`URL_BOUND`] bytes of keys. `known` are positions of
/// the sources that are known to be past.
///
/// # Errors
/// When upstream or the plugin gives no answer. One object's failure is its own outcome.
pub async fn read_live(
    join: SharedJoin,
    upstream: &dyn Upstream,
    primaries: &Primaries,
    known: &[u64],
) -> Result<LivePage, LiveError> {
    let spec = join.spec().clone();
    let first = &spec.sources[0];
    let page = match primaries {
        Primaries::Named(key) => {
            let found = get(first, upstream, key).await?;
            Page {
                position: u64::MAX,
                items: found.into_iter().collect(),
                ..Page::default()
            }
        }
        Primaries::Listed(query) => {
            let query = within(first, query.clone());
            if query.limit == 0 && query.continue_token.is_none() {
                upstream.list_whole(&first.gvr, &query).await?
            } else {
                upstream.list(&first.gvr, &query).await?
            }
        }
    };
    let namespace = match primaries {
        Primaries::Named(key) => key.namespace.as_deref().map(str::to_owned),
        Primaries::Listed(query) => query.namespace.clone(),
    };
    let mut reached: Vec<Reached> = spec.sources.iter().map(|_| Reached::default()).collect();
    reached[0].add(&page);
    let keys: Vec<ObjectKey> = page.items.iter().map(|o| o.key().clone()).collect();
    let mut joined = Joined::new(join.clone(), Patience::Tries(TRIES));
    joined.apply(&inputs(0, page.items)).await?;

    for (index, relation) in spec.relations.iter().enumerate() {
        let parents: Vec<String> = joined.parent_keys(index).into_iter().collect();
        if parents.is_empty() {
            continue;
        }
        let asked = Asked {
            join: &join,
            relation: index,
            source: &spec.sources[relation.source],
            upstream,
            namespace: match relation.reach {
                Reach::SameNamespace => namespace.clone(),
                Reach::AnyNamespace => None,
            },
        };
        let found = asked.children(parents, known[relation.source]).await?;
        reached[relation.source].add(&found);
        joined.apply(&inputs(relation.source, found.items)).await?;
    }

    let positions: Vec<u64> = reached
        .iter()
        .zip(known)
        .map(|(reached, known)| reached.claim(*known))
        .collect();
    let version = ResourceVersion::of_positions(&positions);
    let keys = keys.into_iter().map(|key| (key, version.clone())).collect();
    let mut outcomes: Vec<(ObjectKey, Outcome)> = compose(&joined, keys).await?;
    outcomes.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(LivePage {
        outcomes,
        version,
        continue_token: page.continue_token,
        remaining: page.remaining,
    })
}

fn inputs(source: usize, items: Vec<Arc<Object>>) -> Vec<Input> {
    items
        .into_iter()
        .map(|object| Input::now(source, object))
        .collect()
}

/// A query within a source's own selectors.
fn within(source: &SourceSpec, mut query: Query) -> Query {
    let both = |a: &str, b: &str| match (a.is_empty(), b.is_empty()) {
        (true, _) => b.to_owned(),
        (_, true) => a.to_owned(),
        _ => format!("{a},{b}"),
    };
    query.label_selector = both(&source.label_selector, &query.label_selector);
    query.field_selector = both(&source.field_selector, &query.field_selector);
    query
}

/// A question for the children of one relation.
struct Asked<'a> {
    join: &'a SharedJoin,
    relation: usize,
    source: &'a SourceSpec,
    upstream: &'a dyn Upstream,
    namespace: Option<String>,
}

impl Asked<'_> {
    fn query(&self, label_selector: String, field_selector: String) -> Query {
        let query = Query {
            namespace: self.namespace.clone(),
            label_selector,
            field_selector,
            ..Query::default()
        };
        within(self.source, query)
    }

    fn length(&self, query: &Query) -> usize {
        joinery_source::url_length(&self.source.gvr, query)
    }

    /// What to ask upstream for the children of all parents that have these keys: queries, and objects by name.
    async fn queries(&self, keys: Vec<String>) -> Result<(Vec<Query>, Vec<ObjectKey>), JoinError> {
        let everything = || (vec![self.query(String::new(), String::new())], Vec::new());
        let mut queries = Vec::new();
        let mut names = Vec::new();
        let mut chunks = vec![keys];
        while let Some(chunk) = chunks.pop() {
            if queries.len() + chunks.len() >= MOST_CHUNKS {
                return Ok(everything());
            }
            match self.join.query(self.relation, chunk.clone()).await? {
                Selection::All => return Ok(everything()),
                Selection::Names(more) => {
                    names.extend(more);
                    if names.len() > MOST_NAMES {
                        return Ok(everything());
                    }
                }
                Selection::Selector {
                    label_selector,
                    field_selector,
                } => {
                    let query = self.query(label_selector, field_selector);
                    let length = self.length(&query);
                    if length <= URL_BOUND || chunk.len() == 1 {
                        queries.push(query);
                        continue;
                    }
                    let fitting = self.fitting(&chunk, length).await?;
                    chunks.extend(chunk.chunks(fitting).map(<[_]>::to_vec));
                }
            }
        }
        Ok((queries, names))
    }

    /// How many keys of a chunk whose query is too long go into one of the right length.
    async fn fitting(&self, chunk: &[String], length: usize) -> Result<usize, JoinError> {
        let one = self.join.query(self.relation, chunk[..1].to_vec()).await?;
        let shortest = match one {
            Selection::Selector {
                label_selector,
                field_selector,
            } => self.length(&self.query(label_selector, field_selector)),
            _ => 0,
        };
        let each = length
            .saturating_sub(shortest)
            .div_ceil(chunk.len() - 1)
            .max(1);
        let fitting = 1 + URL_BOUND.saturating_sub(shortest) / each;
        // Keys of unlike length may need another round; each is shorter.
        Ok(fitting.min(chunk.len() - 1))
    }

    /// Asks upstream.
    async fn children(&self, keys: Vec<String>, known: u64) -> Result<Page, LiveError> {
        let (queries, names) = self.queries(keys).await?;
        let (source, upstream) = (self.source, self.upstream);
        let mut whole = Page {
            position: u64::MAX,
            ..Page::default()
        };
        let requests = queries
            .into_iter()
            .map(|query| async move { list_all(source, upstream, &query).await }.boxed())
            .collect::<Vec<_>>();
        let mut pages = stream::iter(requests).buffered(AT_ONCE);
        while let Some(page) = pages.try_next().await? {
            whole.position = whole.position.min(page.position);
            whole.items.extend(page.items);
        }
        let named = names
            .into_iter()
            .map(|name| async move { get(source, upstream, &name).await }.boxed())
            .collect::<Vec<_>>();
        let mut named = stream::iter(named).buffered(AT_ONCE);
        while let Some(found) = named.try_next().await? {
            // One object tells its own version, which may be long past, and not the source's.
            whole.position = whole.position.min(known);
            whole.items.extend(found);
        }
        Ok(whole)
    }
}

/// One object of a source, if there is one within the source's own selectors.
async fn get(
    source: &SourceSpec,
    upstream: &dyn Upstream,
    key: &ObjectKey,
) -> Result<Option<Arc<Object>>, UpstreamError> {
    let found = if source.label_selector.is_empty() && source.field_selector.is_empty() {
        upstream.get(&source.gvr, key).await
    } else {
        let query = Query {
            namespace: key.namespace.as_deref().map(str::to_owned),
            field_selector: format!("metadata.name={}", key.name),
            ..Query::default()
        };
        let page = upstream.list(&source.gvr, &within(source, query)).await;
        page.map(|page| page.items.into_iter().next())
    };
    match found {
        Err(UpstreamError::NoSuchResource(_)) if source.optional => Ok(None),
        other => other,
    }
}

/// A whole list; nothing where an optional source is missing upstream.
async fn list_all(
    source: &SourceSpec,
    upstream: &dyn Upstream,
    query: &Query,
) -> Result<Page, UpstreamError> {
    match upstream.list_whole(&source.gvr, query).await {
        // It says nothing of a position: what is known of it stands.
        Err(UpstreamError::NoSuchResource(_)) if source.optional => Ok(Page {
            position: u64::MAX,
            ..Page::default()
        }),
        other => other,
    }
}
