//! Changes that the host itself makes to its objects, without admission.

use joinery_object::{ObjectKey, Status};
use serde_json::Value;

use super::resource::StoredResource;
use super::write::{ATTEMPTS, Outcome, text};

impl StoredResource {
    /// Changes an object as the host's own controllers do: neither admission nor schema are asked. If nothing holds the
    /// object any more that is to be deleted, it goes.
    ///
    /// # Errors
    /// 404 when there is no such object, 409 when others write it all the time.
    pub(crate) async fn amend(
        &self,
        key: &ObjectKey,
        now: u64,
        change: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<(), Status> {
        for _ in 0..ATTEMPTS {
            let current = self.stored(key).await?;
            let mut object = current.value.clone();
            change(&mut object);
            let changed = text(&object)?;
            if changed == current.text {
                return Ok(());
            }
            let op = self.put_or_delete(&current, &object, &changed, now);
            let guards = vec![current.guard()];
            if let Outcome::Committed { revision } = self.commit(op, guards, false).await? {
                self.visible(revision).await;
                return Ok(());
            }
        }
        Err(self.contended(key))
    }
}
