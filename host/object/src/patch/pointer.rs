//! JSON pointers, RFC 6901, and what a patch does at the place that one names.

use std::fmt;

use serde_json::Value;

/// The steps from the whole value to a place in it.
#[derive(Clone, Debug)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// Reads `/a/b~1c/0`. Empty is the whole value; what is before the first slash does not count.
    pub(super) fn parse(text: &str) -> Self {
        let steps = text.split('/').skip(1);
        Self(
            steps
                .map(|step| step.replace("~1", "/").replace("~0", "~"))
                .collect(),
        )
    }

    /// One step less; none for the whole value.
    pub(super) fn parent(&self) -> Option<Self> {
        let (_, up) = self.0.split_last()?;
        Some(Self(up.to_vec()))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}

/// The value at a place.
pub(super) fn at<'a>(value: &'a Value, place: &Pointer) -> Option<&'a Value> {
    place.0.iter().try_fold(value, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(index(step, items.len())?),
        _ => None,
    })
}

/// Puts a value at a place: into a list before what is there, `-` behind all.
pub(super) fn insert(value: &mut Value, place: &Pointer, new: Value) -> Option<()> {
    let Some((last, up)) = split(value, place) else {
        return replace_all(value, new);
    };
    match up? {
        Value::Object(members) => {
            members.insert(last.to_owned(), new);
        }
        Value::Array(items) if last == "-" => items.push(new),
        Value::Array(items) => {
            let at = index(last, items.len())
                .or((last == items.len().to_string()).then_some(items.len()))?;
            items.insert(at, new);
        }
        _ => return None,
    }
    Some(())
}

/// Puts a value in the place of another; a member need not be there.
pub(super) fn set(value: &mut Value, place: &Pointer, new: Value) -> Option<()> {
    let Some((last, up)) = split(value, place) else {
        return replace_all(value, new);
    };
    match up? {
        Value::Object(members) => {
            members.insert(last.to_owned(), new);
        }
        Value::Array(items) => {
            let at = index(last, items.len())?;
            items[at] = new;
        }
        _ => return None,
    }
    Some(())
}

/// Takes the value at a place away.
pub(super) fn remove(value: &mut Value, place: &Pointer) -> Option<Value> {
    let (last, up) = split(value, place)?;
    match up? {
        Value::Object(members) => members.remove(last),
        Value::Array(items) => {
            let at = index(last, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

/// The last step, and what it starts from, if that is there. None for the whole value.
fn split<'a, 'p>(
    value: &'a mut Value,
    place: &'p Pointer,
) -> Option<(&'p str, Option<&'a mut Value>)> {
    let (last, up) = place.0.split_last()?;
    let up = up.iter().try_fold(value, |value, step| match value {
        Value::Object(members) => members.get_mut(step),
        Value::Array(items) => {
            let at = index(step, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    });
    Some((last.as_str(), up))
}

/// Only an object or a list takes the place of a whole document.
fn replace_all(value: &mut Value, new: Value) -> Option<()> {
    if !(new.is_object() || new.is_array()) {
        return None;
    }
    *value = new;
    Some(())
}

/// An index into a list of this length. A negative one counts from the end.
fn index(step: &str, length: usize) -> Option<usize> {
    let at = match step.strip_prefix('-') {
        Some(back) => length.checked_sub(back.parse().ok()?)?,
        None => step.parse().ok()?,
    };
    (at < length).then_some(at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pointer_names_members_and_items() {
        let value = json!({"a/b": {"c~d": [1, 2, 3]}});
        for (text, found) in [
            ("/a~1b/c~0d/1", Some(json!(2))),
            ("/a~1b/c~0d/-1", Some(json!(3))),
            ("/a~1b/c~0d/3", None),
            ("/a~1b/x", None),
            ("", Some(value.clone())),
        ] {
            assert_eq!(at(&value, &Pointer::parse(text)), found.as_ref(), "{text}");
        }
        assert_eq!(Pointer::parse("/a~1b/c~0d").to_string(), "/a~1b/c~0d");
    }

    #[test]
    fn values_are_put_into_lists_and_taken_out() {
        let mut value = json!([1, 2]);
        let place = |text| Pointer::parse(text);
        insert(&mut value, &place("/-"), json!(4)).unwrap();
        insert(&mut value, &place("/2"), json!(3)).unwrap();
        insert(&mut value, &place("/4"), json!(5)).unwrap();
        assert_eq!(value, json!([1, 2, 3, 4, 5]));
        assert_eq!(insert(&mut value, &place("/9"), json!(0)), None);
        assert_eq!(remove(&mut value, &place("/0")), Some(json!(1)));
        set(&mut value, &place("/-1"), json!(6)).unwrap();
        assert_eq!(value, json!([2, 3, 4, 6]));
        assert_eq!(set(&mut value, &place(""), json!("x")), None);
    }
}
