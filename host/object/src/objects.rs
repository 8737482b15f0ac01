//! The objects of a resource at one moment.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::key::ObjectKey;
use crate::object::Object;

/// Objects by namespace and name, with how many each namespace has. Clones share what they have in common.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_key: OrdMap<ObjectKey, Arc<Object>>,
    /// Of each namespace that has any.
    counts: OrdMap<Option<Arc<str>>, u64>,
}

impl Objects {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.by_key.get(key)
    }

    /// Whether there is an object of this key.
    pub fn contains_key(&self, key: &ObjectKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// How many there are in a namespace; none for all of them. Costs the same however many these are.
    pub fn count(&self, namespace: Option<&Arc<str>>) -> u64 {
        match namespace {
            None => self.by_key.len() as u64,
            namespace => self
                .counts
                .get(&namespace.cloned())
                .copied()
                .unwrap_or_default(),
        }
    }

    /// With their keys, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Object>)> {
        self.by_key.iter()
    }

    /// Their keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_key.keys()
    }

    /// In the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.by_key.values()
    }

    /// Those whose keys are at or after `start`, in their order.
    pub fn from(&self, start: Bound<ObjectKey>) -> impl Iterator<Item = &Arc<Object>> {
        let range = self.by_key.range((start, Bound::Unbounded));
        range.map(|(_, object)| object)
    }

    /// Puts an object in its place, and gives the one that was there.
    pub fn insert(&mut self, key: ObjectKey, object: Arc<Object>) -> Option<Arc<Object>> {
        let namespace = key.namespace.clone();
        let old = self.by_key.insert(key, object);
        if old.is_none() {
            *self.counts.entry(namespace).or_default() += 1;
        }
        old
    }

    /// Takes an object away, and gives it.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        let old = self.by_key.remove(key)?;
        if let Some(count) = self.counts.get_mut(&key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.namespace);
            }
        }
        Some(old)
    }
}

impl FromIterator<(ObjectKey, Arc<Object>)> for Objects {
    fn from_iter<T: IntoIterator<Item = (ObjectKey, Arc<Object>)>>(objects: T) -> Self {
        let mut all = Self::new();
        for (key, object) in objects {
            all.insert(key, object);
        }
        all
    }
}

impl<'a> IntoIterator for &'a Objects {
    type Item = (&'a ObjectKey, &'a Arc<Object>);
    type IntoIter =
        imbl::ordmap::Iter<'a, ObjectKey, Arc<Object>, imbl::shared_ptr::DefaultSharedPtr>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_key.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource_version::ResourceVersion;

    fn object(namespace: &str, name: &str) -> (ObjectKey, Arc<Object>) {
        let text = format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#);
        let object = Object::parse_at(text.into(), ResourceVersion::single(1)).unwrap();
        (object.key().clone(), Arc::new(object))
    }

    #[test]
    fn each_namespace_is_counted_whatever_comes_and_goes() {
        let count = |objects: &Objects, namespace: &str| objects.count(Some(&namespace.into()));
        let mut objects: Objects = [("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")]
            .map(|(namespace, name)| object(namespace, name))
            .into_iter()
            .collect();
        assert_eq!((count(&objects, "a"), count(&objects, "b")), (2, 1));
        assert_eq!((objects.len(), objects.count(None)), (3, 3));
        let before = objects.clone();
        let (gone, _) = object("b", "x");
        assert!(objects.remove(&gone).is_some() && objects.remove(&gone).is_none());
        let (key, another) = object("a", "y");
        assert!(objects.insert(key, another).is_some());
        assert_eq!((count(&objects, "a"), count(&objects, "b")), (2, 0));
        assert_eq!((count(&before, "b"), objects.counts.len()), (1, 1));
    }
}
