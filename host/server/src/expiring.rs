//! A small cache of answers that are good for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Remembers answers for a fixed time, up to a number of them.
pub(crate) struct Expiring<K, V> {
    entries: Mutex<HashMap<K, (Instant, V)>>,
    capacity: usize,
    lifetime: Duration,
}

impl<K: Hash + Eq + Clone, V: Clone> Expiring<K, V> {
    pub(crate) fn new(capacity: usize, lifetime: Duration) -> Self {
        Self {
            entries: Mutex::new(HashMap::new()),
            capacity,
            lifetime,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock();
        let (at, value) = entries.get(key)?;
        (at.elapsed() < self.lifetime).then(|| value.clone())
    }

    pub(crate) fn put(&self, key: K, value: V) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            entries.retain(|_, (at, _)| at.elapsed() < self.lifetime);
            if entries.len() >= self.capacity {
                // All are fresh. Half of them go at once, so that the next thousands of calls need no sweep; to ask
                // again costs a call, nothing else.
                let mut keep = false;
                entries.retain(|_, _| {
                    keep = !keep;
                    keep
                });
            }
        }
        entries.insert(key, (Instant::now(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_forgotten_in_time_and_never_exceed_the_capacity() {
        let cache = Expiring::new(10, Duration::from_secs(60));
        for i in 0..100 {
            cache.put(i, i);
            assert_eq!(cache.get(&i), Some(i));
        }
        assert!(cache.entries.lock().len() <= 10);
        let brief = Expiring::new(10, Duration::ZERO);
        brief.put(1, 1);
        assert_eq!(brief.get(&1), None);
    }
}
