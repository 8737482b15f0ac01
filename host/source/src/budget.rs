//! How much the caches of a host may hold together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tracing::warn;

use crate::cache::Shared;

/// A bound for the bytes of all objects that a set of caches holds.
///
/// When it is passed, the largest cache lets go of everything it holds, so that one source that grows cannot starve the
/// others. It tries again later, and stays when it then fits.
pub struct ByteBudget {
    limit: usize,
    used: AtomicUsize,
    caches: Mutex<Vec<Weak<Shared>>>,
}

impl ByteBudget {
    /// A bound in bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            caches: Mutex::default(),
        })
    }

    /// No bound.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// The bound, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// What is held now, in bytes.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn join(&self, cache: &Arc<Shared>) {
        let mut caches = self.caches.lock();
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Makes the largest caches let go until what is left fits. No lock of a cache may be held.
    pub(crate) fn enforce(&self) {
        while self.used() > self.limit {
            let largest = {
                let caches = self.caches.lock();
                let living = caches.iter().filter_map(Weak::upgrade);
                living.max_by_key(|cache| cache.bytes())
            };
            let Some(largest) = largest.filter(|cache| cache.bytes() > 0) else {
                return;
            };
            let bytes = largest.let_go();
            warn!(
                source = %largest.spec.gvr, selector = %largest.spec.label_selector, bytes, bound = self.limit,
                "the sources are larger than the bound for their bytes: the largest is not held any more, views of it \
                 are read live and cannot be watched"
            );
        }
    }

    /// Whether there is room to spare: what has let go once comes back only with some, or it would go again at once.
    pub(crate) fn has_room(&self) -> bool {
        self.used() <= self.limit - self.limit / 10
    }
}
