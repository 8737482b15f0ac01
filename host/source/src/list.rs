//! Lists as upstream sends them, from text to objects.

use std::borrow::Cow;
use std::sync::Arc;

use joinery_object::{Object, ObjectError, ObjectKey};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::upstream::{Page, UpstreamError};

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    metadata: RawListMeta<'a>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// A list of which only the names are read.
#[derive(Deserialize)]
struct RawKeyList<'a> {
    #[serde(borrow)]
    metadata: RawListMeta<'a>,
    #[serde(borrow)]
    items: Vec<RawNamed<'a>>,
}

#[derive(Deserialize)]
struct RawNamed<'a> {
    #[serde(borrow)]
    metadata: RawKey<'a>,
}

#[derive(Deserialize)]
struct RawKey<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

/// The metadata of a list, or of a bookmark.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawListMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default, rename = "continue")]
    continue_token: Cow<'a, str>,
    #[serde(default)]
    remaining_item_count: Option<u64>,
}

impl RawListMeta<'_> {
    /// # Errors
    /// When it is no version of a single source.
    pub(crate) fn position(&self) -> Result<u64, UpstreamError> {
        let text = &self.resource_version;
        text.parse()
            .map_err(|_| unreadable(format!("resourceVersion {text:?} is no decimal integer")))
    }

    /// Of the next page.
    fn token(&self) -> Option<String> {
        Some(&*self.continue_token)
            .filter(|token| !token.is_empty())
            .map(str::to_owned)
    }
}

/// The error of what upstream sent and nobody understands.
pub(crate) fn unreadable(error: impl std::fmt::Display) -> UpstreamError {
    UpstreamError::Unreachable(format!("upstream sent what cannot be read: {error}"))
}

/// Reads an object; `api_version` and `kind` are those of a text that has none.
///
/// # Errors
/// When it is none.
pub(crate) fn object(
    text: &[u8],
    api_version: &str,
    kind: &str,
) -> Result<Arc<Object>, UpstreamError> {
    Object::of_source(text, api_version, kind)
        .map(Arc::new)
        .map_err(|error: ObjectError| unreadable(error))
}

/// Reads a page. `next` is told the token of the next one before the objects are read, which takes most of the time.
///
/// # Errors
/// When it is no list, or one of its items no object.
pub(crate) fn page(body: &[u8], next: impl FnOnce(Option<String>)) -> Result<Page, UpstreamError> {
    let list: RawList<'_> = serde_json::from_slice(body).map_err(unreadable)?;
    let position = list.metadata.position()?;
    next(list.metadata.token());
    // Items of built-in lists lack their kind: it is the list's, without its ending.
    let kind = list.kind.strip_suffix("List").unwrap_or(&list.kind);
    let items = list
        .items
        .iter()
        .map(|item| object(item.get().as_bytes(), &list.api_version, kind))
        .collect::<Result<_, _>>()?;
    Ok(Page {
        items,
        position,
        continue_token: list.metadata.token(),
        remaining: list.metadata.remaining_item_count,
    })
}

/// Reads the keys of a page, and the token of the next one.
///
/// # Errors
/// When it is no list.
pub(crate) fn keys(body: &[u8]) -> Result<(Vec<ObjectKey>, Option<String>), UpstreamError> {
    let list: RawKeyList<'_> = serde_json::from_slice(body).map_err(unreadable)?;
    let named = list.items.iter().map(|RawNamed { metadata }| {
        let namespace = Some(&*metadata.namespace).filter(|name| !name.is_empty());
        ObjectKey::new(namespace, &metadata.name)
    });
    Ok((named.collect(), list.metadata.token()))
}
