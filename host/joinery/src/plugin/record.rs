//! A join that remembers how it was called.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use joinery_view::{CombineResult, Group, Join, JoinError, Selection, SharedJoin, Side, ViewSpec};
use parking_lot::Mutex;

/// One call and what it was about.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Keys(usize, Side, Vec<Bytes>),
    Combine(Vec<Group>),
}

impl Asked {
    /// The function's name.
    pub(crate) fn function(&self) -> &'static str {
        match self {
            Self::Keys(..) => "keys",
            Self::Combine(_) => "combine",
        }
    }

    /// How many objects, or groups of objects.
    pub(crate) fn inputs(&self) -> usize {
        match self {
            Self::Keys(_, _, objects) => objects.len(),
            Self::Combine(groups) => groups.len(),
        }
    }

    /// Asks again.
    pub(crate) async fn again(&self, join: &SharedJoin) -> Result<(), JoinError> {
        match self {
            Self::Keys(relation, side, objects) => {
                join.keys(*relation, *side, objects.clone()).await?;
            }
            Self::Combine(groups) => {
                join.combine(groups.clone()).await?;
            }
        }
        Ok(())
    }
}

/// What was asked, and how long the answer took.
pub(crate) type Calls = Arc<Mutex<Vec<(Asked, Duration)>>>;

/// The join of a plugin, with a record of its calls.
pub(crate) struct Recorder {
    join: SharedJoin,
    calls: Calls,
}

impl Recorder {
    /// Around this join.
    pub(crate) fn new(join: SharedJoin) -> (Arc<Self>, Calls) {
        let calls = Calls::default();
        let recorder = Arc::new(Self {
            join,
            calls: calls.clone(),
        });
        (recorder, calls)
    }

    fn record(&self, asked: Asked, begun: Instant) {
        self.calls.lock().push((asked, begun.elapsed()));
    }
}

#[async_trait]
impl Join for Recorder {
    fn spec(&self) -> &ViewSpec {
        self.join.spec()
    }

    async fn keys(
        &self,
        relation: usize,
        side: Side,
        objects: Vec<Bytes>,
    ) -> Result<Vec<Vec<String>>, JoinError> {
        let begun = Instant::now();
        let keys = self.join.keys(relation, side, objects.clone()).await;
        self.record(Asked::Keys(relation, side, objects), begun);
        keys
    }

    async fn query(&self, relation: usize, keys: Vec<String>) -> Result<Selection, JoinError> {
        self.join.query(relation, keys).await
    }

    async fn combine(&self, groups: Vec<Group>) -> Result<Vec<CombineResult>, JoinError> {
        let begun = Instant::now();
        let combined = self.join.combine(groups.clone()).await;
        self.record(Asked::Combine(groups), begun);
        combined
    }
}
