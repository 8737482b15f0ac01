//! Who is related to whom: the join keys of both sides of a relation.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use joinery_object::ObjectKey;

/// A join key, with the namespace in it where parent and child must share theirs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JoinKey {
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) key: Arc<str>,
}

/// One side of a relation: from objects to their keys and back.
#[derive(Debug, Default)]
pub(crate) struct SideIndex {
    keys: HashMap<ObjectKey, Box<[JoinKey]>>,
    objects: HashMap<JoinKey, BTreeSet<ObjectKey>>,
}

impl SideIndex {
    /// Exchanges the keys of an object; none when it is gone.
    pub(crate) fn set(&mut self, object: &ObjectKey, keys: Vec<JoinKey>) {
        if let Some(old) = self.keys.remove(object) {
            for key in &old {
                if let Some(objects) = self.objects.get_mut(key) {
                    objects.remove(object);
                    if objects.is_empty() {
                        self.objects.remove(key);
                    }
                }
            }
        }
        if keys.is_empty() {
            return;
        }
        // Those of one key share its text.
        let keys: Box<[JoinKey]> = keys
            .into_iter()
            .map(|key| match self.objects.get_key_value(&key) {
                Some((known, _)) => known.clone(),
                None => key,
            })
            .collect();
        for key in &keys {
            self.objects
                .entry(key.clone())
                .or_default()
                .insert(object.clone());
        }
        self.keys.insert(object.clone(), keys);
    }

    /// The keys of an object.
    pub(crate) fn keys(&self, object: &ObjectKey) -> &[JoinKey] {
        self.keys.get(object).map_or(&[], |keys| keys)
    }

    /// The objects that have a key.
    pub(crate) fn objects(&self, key: &JoinKey) -> impl Iterator<Item = &ObjectKey> {
        self.objects.get(key).into_iter().flatten()
    }
}

/// Both sides of a relation.
#[derive(Debug, Default)]
pub(crate) struct RelationIndex {
    pub(crate) parents: SideIndex,
    pub(crate) children: SideIndex,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str) -> JoinKey {
        JoinKey {
            namespace: None,
            key: key.into(),
        }
    }

    #[test]
    fn an_object_is_found_by_its_keys_of_now_only() {
        let mut index = SideIndex::default();
        let (a, b) = (ObjectKey::new(None, "a"), ObjectKey::new(None, "b"));
        index.set(&a, vec![key("1"), key("2")]);
        index.set(&b, vec![key("2")]);
        index.set(&a, vec![key("3")]);
        let found = |k: &str| {
            index
                .objects(&key(k))
                .map(|o| o.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (found("1"), found("2"), found("3")),
            (vec![], vec!["b".into()], vec!["a".into()])
        );
        index.set(&a, Vec::new());
        index.set(&b, Vec::new());
        assert!(index.objects.is_empty() && index.keys.is_empty());
    }
}
