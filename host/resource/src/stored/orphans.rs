//! Objects that are looked after although their resource may not be open: those of namespaces that go or are gone.

use std::collections::HashMap;

use joinery_object::Status;
use joinery_store::{At, Guard, Key, KeyRange, ListOptions, Op, TxnError, Versioned};
use serde_json::Value;

use super::cache::object_key;
use super::decode::members;
use super::envelope::Envelope;
use super::metadata::timestamp;
use super::rules::has_finalizers;
use super::storage::{Storage, store_failure};
use crate::resource::{Caller, Resource};

/// Objects that are read at once.
const PAGE: usize = 1000;

impl Storage {
    /// Deletes all objects of a namespace, of all resources, also of those that no plugin serves at present. Finalizers
    /// are honoured.
    ///
    /// Returns how many are still there.
    ///
    /// # Errors
    /// When the store fails, or admission refuses a delete; the others have been deleted then.
    pub async fn empty(&self, namespace: &str, caller: &Caller) -> Result<usize, Status> {
        let mut left = 0;
        let mut refusal = None;
        let mut page = ListOptions {
            limit: Some(PAGE),
            ..ListOptions::default()
        };
        while let Some(entries) = self.page(&mut page).await? {
            for (key, stored) in entries {
                if key.namespace() != namespace {
                    continue;
                }
                match self.remove(&key, &stored, caller).await {
                    Ok(true) => {}
                    Ok(false) => left += 1,
                    Err(status) => {
                        left += 1;
                        refusal = refusal.or(Some(status));
                    }
                }
            }
        }
        match refusal {
            Some(status) => Err(status),
            None => Ok(left),
        }
    }

    /// Removes the objects whose namespace is gone, or is a namesake of the one they were created in. Their finalizers do
    /// not hold them: whoever could take those away looks into a namespace that is not there.
    ///
    /// The namespaces of this storage must be complete: an object of a namespace that they do not know is removed.
    ///
    /// Returns how many there were.
    ///
    /// # Errors
    /// When the store or the namespaces cannot be read.
    pub async fn remove_orphans(&self) -> Result<usize, Status> {
        let mut uids: HashMap<String, Option<String>> = HashMap::new();
        let mut removed = 0;
        let mut page = ListOptions {
            limit: Some(PAGE),
            ..ListOptions::default()
        };
        while let Some(entries) = self.page(&mut page).await? {
            for (key, stored) in entries {
                let namespace = key.namespace();
                if namespace.is_empty() {
                    continue;
                }
                if !uids.contains_key(namespace) {
                    let found = self.namespaces().get(namespace).await?;
                    uids.insert(namespace.to_owned(), found.map(|found| found.uid));
                }
                let (envelope, _) = Envelope::open(&stored.value).map_err(Status::internal)?;
                let uid = uids.get(namespace).and_then(Option::as_ref);
                if uid != Some(&envelope.namespace_uid) {
                    let op = Op::Delete { key: key.clone() };
                    removed += usize::from(self.change(op, &key, stored.revision).await?);
                }
            }
        }
        Ok(removed)
    }

    /// The next page of all there is.
    async fn page(
        &self,
        options: &mut ListOptions,
    ) -> Result<Option<Vec<(Key, Versioned)>>, Status> {
        let page = self.store().list(&KeyRange::all(), options.clone()).await;
        let page = page.map_err(store_failure)?;
        options.at = At::Revision(page.revision);
        options.start_after = page.entries.last().map(|(key, _)| key.clone());
        Ok(Some(page.entries).filter(|entries| !entries.is_empty()))
    }

    /// Deletes an object by the rules of its resource or, if that is not open, by those of all resources. Whether it is
    /// gone.
    async fn remove(&self, key: &Key, stored: &Versioned, caller: &Caller) -> Result<bool, Status> {
        let (envelope, text) = Envelope::open(&stored.value).map_err(Status::internal)?;
        let mut object: Value = serde_json::from_slice(&text).map_err(Status::internal)?;
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return Ok(false);
        }
        if let Some(resource) = self.resource(key.group(), key.resource()) {
            let options = joinery_object::DeleteOptions::default();
            return match resource.delete(caller, &object_key(key), &options).await {
                Ok(written) => Ok(written.removed),
                Err(status) if status.is(joinery_object::reason::NOT_FOUND) => Ok(true),
                Err(status) => Err(status),
            };
        }
        let key = key.clone();
        if !has_finalizers(&object) {
            let op = Op::Delete { key: key.clone() };
            return self.change(op, &key, stored.revision).await;
        }
        let metadata = members(&mut object["metadata"]);
        let now = timestamp(caller.now);
        metadata.insert("deletionTimestamp".to_owned(), now.into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        let text = serde_json::to_vec(&object).map_err(Status::internal)?;
        let value = envelope.seal(&text);
        let op = Op::Put {
            key: key.clone(),
            value,
        };
        self.change(op, &key, stored.revision).await?;
        Ok(false)
    }

    /// Whether the key was still at its revision, and has been changed.
    async fn change(&self, op: Op, key: &Key, revision: u64) -> Result<bool, Status> {
        let guard = Guard::KeyAtRevision {
            key: key.clone(),
            revision: Some(revision),
        };
        match self.store().txn(vec![op], vec![guard]).await {
            Ok(_) => Ok(true),
            Err(TxnError::GuardFailed(_)) => Ok(false),
            Err(TxnError::Store(error)) => Err(store_failure(error)),
        }
    }
}
