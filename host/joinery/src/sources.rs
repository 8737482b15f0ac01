//! One cache per source, shared by all views that read the same.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use joinery_source::{ByteBudget, SourceCache, SourceSpec, Upstream};
use parking_lot::Mutex;

/// The caches that are in use. One that no view holds any more ends.
pub(crate) struct Sources {
    upstream: Arc<dyn Upstream>,
    budget: Arc<ByteBudget>,
    caches: Mutex<HashMap<SourceSpec, Weak<SourceCache>>>,
}

impl Sources {
    /// Caches of this upstream, which together hold at most so many bytes of objects.
    pub(crate) fn new(upstream: Arc<dyn Upstream>, max_bytes: usize) -> Self {
        Self {
            upstream,
            budget: ByteBudget::new(max_bytes),
            caches: Mutex::default(),
        }
    }

    /// Where the caches are fed from.
    pub(crate) fn upstream(&self) -> &Arc<dyn Upstream> {
        &self.upstream
    }

    /// The cache of a source, begun if there is none. Must be called in a tokio runtime.
    pub(crate) fn cache(&self, spec: SourceSpec) -> Arc<SourceCache> {
        let mut caches = self.caches.lock();
        caches.retain(|_, cache| cache.strong_count() > 0);
        if let Some(cache) = caches.get(&spec).and_then(Weak::upgrade) {
            return cache;
        }
        let cache = SourceCache::start(self.upstream.clone(), spec.clone(), self.budget.clone());
        let cache = Arc::new(cache);
        caches.insert(spec, Arc::downgrade(&cache));
        cache
    }

    /// The cache of a source, if it is in use.
    pub(crate) fn find(&self, spec: &SourceSpec) -> Option<Arc<SourceCache>> {
        self.caches.lock().get(spec).and_then(Weak::upgrade)
    }

    /// All that are in use.
    pub(crate) fn caches(&self) -> Vec<Arc<SourceCache>> {
        self.caches
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }
}
