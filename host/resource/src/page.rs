//! One page of a list that is read from memory.

use std::sync::Arc;

use joinery_object::{Object, ObjectKey, Objects};

use crate::continue_token::{ContinueToken, Left};
use crate::selection::Selection;

/// Objects of a list, and where it goes on.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Object>>,
    /// None: that was the last one.
    pub(crate) rest: Option<Rest>,
}

/// What comes after a page.
pub(crate) struct Rest {
    /// The page's last object.
    pub(crate) after: ObjectKey,
    /// How many objects there are. As upstream, with selectors nobody counts.
    pub(crate) left: Option<Left>,
}

impl Page {
    /// At most `limit` objects, 0 for all, of the list that `begun` is the token of. A page costs what it has, however long the
    /// list is: the rest is not looked at, for how many come after the page before is known from there.
    pub(crate) fn of(
        selection: &Selection,
        objects: &Objects,
        begun: Option<&ContinueToken>,
        limit: usize,
    ) -> Self {
        let after = begun.map(|token| &token.after);
        let mut selected = selection.of(objects, after);
        if limit == 0 {
            let items = selected.cloned().collect();
            return Self { items, rest: None };
        }
        let items: Vec<_> = selected.by_ref().take(limit).cloned().collect();
        let more = selected.next().is_some();
        let rest = items.last().filter(|_| more).map(|last| Rest {
            after: last.key().clone(),
            left: selection.has_no_selectors().then(|| {
                let all = selection.count(objects);
                let known = match begun.map(|token| token.left.as_ref()) {
                    None => Some(all),
                    Some(left) => left
                        .filter(|left| left.of.as_deref() == selection.namespace())
                        .map(|left| left.count),
                };
                let known = known
                    .filter(|known| *known <= all)
                    .and_then(|known| known.checked_sub(items.len() as u64));
                Left {
                    count: match known {
                        Some(count @ 1..) => count,
                        // The token is of a version that is gone, of another list, or not as it was handed out.
                        _ => selected.count() as u64 + 1,
                    },
                    of: selection.namespace().map(str::to_owned),
                }
            }),
        });
        Self { items, rest }
    }
}

#[cfg(test)]
mod tests {
    use joinery_object::ResourceVersion;

    use super::*;
    use crate::fields::Fields;

    fn objects() -> Objects {
        let named = |namespace: &str, number: usize| {
            let text =
                format!(r#"{{"metadata":{{"name":"o{number}","namespace":"{namespace}"}}}}"#);
            let object = Object::parse_at(text.into(), ResourceVersion::single(1)).unwrap();
            (object.key().clone(), Arc::new(object))
        };
        let of = |namespace| (0..7).map(move |number| named(namespace, number));
        of("a").chain(of("b")).collect()
    }

    /// The items of each page and what it says is left, with tokens as they are made, or as `change` makes them.
    fn pages(
        namespace: Option<&str>,
        labels: &str,
        limit: usize,
        change: impl Fn(&mut ContinueToken),
    ) -> Vec<(usize, Option<u64>)> {
        let (labels, fields) = (labels.parse().unwrap(), "".parse().unwrap());
        let selection = Selection::new(namespace, labels, fields, &Fields::default()).unwrap();
        let (objects, mut begun, mut pages) = (objects(), None, Vec::new());
        loop {
            let page = Page::of(&selection, &objects, begun.as_ref(), limit);
            pages.push((
                page.items.len(),
                page.rest
                    .as_ref()
                    .and_then(|rest| Some(rest.left.as_ref()?.count)),
            ));
            let Some(Rest { after, left }) = page.rest else {
                return pages;
            };
            let mut token = ContinueToken {
                version: None,
                after,
                left,
                upstream: None,
            };
            change(&mut token);
            begun = Some(token);
        }
    }

    #[test]
    fn each_page_says_how_many_are_left() {
        let as_made = |_: &mut ContinueToken| {};
        let thirds = [(3, Some(4)), (3, Some(1)), (1, None)];
        assert_eq!(pages(Some("b"), "", 3, as_made), thirds);
        assert_eq!(pages(None, "", 0, as_made), [(14, None)]);
        assert_eq!(pages(None, "", 14, as_made), [(14, None)]);
        assert_eq!(pages(None, "", 13, as_made), [(13, Some(1)), (1, None)]);
        assert_eq!(pages(Some("c"), "", 3, as_made), [(0, None)]);
        assert_eq!(pages(Some("a"), "!x", 4, as_made), [(4, None), (3, None)]);
        // What is not known, or cannot be, is counted.
        let left = |count, of: Option<&str>| {
            Some(Left {
                count,
                of: of.map(str::to_owned),
            })
        };
        let b = Some("b");
        for wrong in [
            None,
            left(0, b),
            left(2, b),
            left(8, b),
            left(u64::MAX, b),
            left(5, Some("a")),
            left(5, None),
        ] {
            assert_eq!(
                pages(b, "", 3, |token| token.left.clone_from(&wrong)),
                thirds
            );
        }
    }
}
