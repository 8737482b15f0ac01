//! The verbs of a resource that the guest answers itself.

use bytes::Bytes;
use joinery_resource::{Entry, EntryPage};

/// Which verb, and what it is told besides.
#[derive(Debug)]
pub(crate) enum Call {
    Get {
        name: String,
    },
    List {
        label_selector: String,
        field_selector: String,
        next: Option<String>,
    },
    Create {
        object: Bytes,
    },
    Update {
        name: String,
        object: Bytes,
        etag: Option<String>,
    },
    Delete {
        name: String,
        etag: Option<String>,
    },
}

/// What it answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Entry(Entry),
    Page(EntryPage),
    Done,
}
