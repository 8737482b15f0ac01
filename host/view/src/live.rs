//! Live reading: the source article's way, a few batched queries for each request and never one per object.

use std::collections::BTreeSet;
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
/// Above so many requests for one relation it is cheaper to read the whole source and keep what is related.
const MOST_CHUNKS: usize = 16;
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
    pub outcomes: Vec<(ObjectKey, Result<Option<Arc<Object>>, Status>)>,
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

/// Reads primaries and all that is related to them, from upstream.
///
/// One request for the primaries, then per relation one for every [`URL_BOUND`] bytes of keys. `known` are positions of
/// the sources that are known to be past; they stand in the version for sources that need not be asked.
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
    let page = match primaries {
        Primaries::Named(key) => {
            let found = upstream.get(&spec.sources[0].gvr, key).await?;
            Page {
                position: found
                    .as_ref()
                    .map_or(known[0], |o| o.resource_version().position(0)),
                items: found.into_iter().collect(),
                ..Page::default()
            }
        }
        Primaries::Listed(query) => {
            let query = within(&spec.sources[0], query.clone());
            upstream.list(&spec.sources[0].gvr, &query).await?
        }
    };
    let namespace = match primaries {
        Primaries::Named(key) => key.namespace.as_deref().map(str::to_owned),
        Primaries::Listed(query) => query.namespace.clone(),
    };
    let mut positions = known.to_vec();
    positions[0] = page.position;
    let mut joined = Joined::new(join.clone(), Patience::Tries(TRIES));
    joined.apply(inputs(0, page.items)).await?;

    let mut asked = BTreeSet::new();
    for (index, relation) in spec.relations.iter().enumerate() {
        let keys: Vec<String> = joined.parent_keys(index).into_iter().collect();
        if keys.is_empty() {
            continue;
        }
        let source = &spec.sources[relation.source];
        let scope = match relation.reach {
            Reach::SameNamespace => namespace.clone(),
            Reach::AnyNamespace => None,
        };
        let found = ask(
            &join,
            index,
            source,
            upstream,
            scope,
            keys,
            known[relation.source],
        )
        .await?;
        // The first of several answers is the oldest: from there on nothing of any of them is missing.
        let position = if asked.insert(relation.source) {
            found.position
        } else {
            positions[relation.source].min(found.position)
        };
        positions[relation.source] = position;
        joined.apply(inputs(relation.source, found.items)).await?;
    }

    let version = ResourceVersion::of_positions(&positions);
    let keys = joined.primaries();
    let mut outcomes: Vec<(ObjectKey, Outcome)> =
        compose(&joined, keys, |_| version.clone()).await?;
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
        .map(|object| Input {
            source,
            key: object.key().clone(),
            new: Some(object),
        })
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

/// Asks upstream for the children of all parents that have these keys.
async fn ask(
    join: &SharedJoin,
    relation: usize,
    source: &SourceSpec,
    upstream: &dyn Upstream,
    namespace: Option<String>,
    keys: Vec<String>,
    known: u64,
) -> Result<Page, LiveError> {
    let everything = within(
        source,
        Query {
            namespace: namespace.clone(),
            ..Query::default()
        },
    );
    let mut queries = Vec::new();
    let mut names = Vec::new();
    let mut chunks = vec![keys];
    while let Some(chunk) = chunks.pop() {
        let selection = join.query(relation, chunk.clone()).await?;
        let query = match selection {
            Selection::All => {
                queries = vec![everything.clone()];
                names.clear();
                break;
            }
            Selection::Names(more) => {
                names.extend(more);
                continue;
            }
            Selection::Selector {
                label_selector,
                field_selector,
            } => within(
                source,
                Query {
                    namespace: namespace.clone(),
                    label_selector,
                    field_selector,
                    ..Query::default()
                },
            ),
        };
        let length = joinery_source::url_length(&source.gvr, &query);
        if length > URL_BOUND && chunk.len() > 1 {
            let pieces = length.div_ceil(URL_BOUND).min(chunk.len());
            let size = chunk.len().div_ceil(pieces);
            chunks.extend(chunk.chunks(size).map(<[_]>::to_vec));
        } else {
            queries.push(query);
        }
        if queries.len() + chunks.len() > MOST_CHUNKS {
            queries = vec![everything.clone()];
            break;
        }
    }
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
    for name in names {
        // One object tells its own version, which may be long past, and not the source's.
        whole.position = whole.position.min(known);
        whole.items.extend(upstream.get(&source.gvr, &name).await?);
    }
    if whole.position == u64::MAX {
        whole.position = known;
    }
    Ok(whole)
}

/// A whole list; nothing where an optional source is missing upstream.
async fn list_all(
    source: &SourceSpec,
    upstream: &dyn Upstream,
    query: &Query,
) -> Result<Page, UpstreamError> {
    match upstream.list(&source.gvr, query).await {
        Err(UpstreamError::NoSuchResource(_)) if source.optional => Ok(Page::default()),
        other => other,
    }
}
