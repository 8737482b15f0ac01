//! Where stored objects live: revisioned keys, transactions with guards, consistent lists and
//! watches from a revision.
//!
//! [`Store`] is the contract. It is small enough to stand on etcd as well as on a folder, and
//! [`testing::contract`] is the suite that each engine passes, as `pkg/storage/testing` is for
//! the engines of k8s.io/apiserver. [`Embedded`] is the engine that needs nothing but a folder.
//!
//! This crate moves bytes: it neither knows what a value holds nor what a resource is.

mod embedded;
mod error;
mod key;
mod store;
pub mod testing;

pub use embedded::{
    Backup, BackupError, BackupServer, Embedded, OnlineError, OpenError, Options, Report,
    RestoreError, Restored, check, online_backup, read_backup, restore, verify,
};
pub use error::{GuardFailure, StoreError, TxnError};
pub use key::{Key, KeyError, KeyRange};
pub use store::{
    At, Change, Committed, FIRST_REVISION, Guard, ListOptions, Op, Page, Query, Store, Versioned,
    WatchEvent, WatchStream,
};
