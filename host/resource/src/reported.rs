//! What the host tells of itself, as a resource that can be read and watched.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{ListOptions, Object, ObjectError, ObjectKey, ResourceVersion, Status};

use crate::fields::Fields;
use crate::observed::Observed;
use crate::resource::{Caller, Definition, List, Resource, Watch};
use crate::selection::Selection;

/// Objects that the host makes and nobody writes: get, list and watch.
pub struct ReportedResource {
    definition: Arc<Definition>,
    fields: Fields,
    observed: Observed,
}

impl ReportedResource {
    /// With nothing to tell yet.
    pub fn new(definition: Definition) -> Self {
        Self {
            fields: Fields::new(&definition.selectable_fields),
            definition: Arc::new(definition),
            observed: Observed::new(),
        }
    }

    /// All objects as they are now, as JSON without a resourceVersion. Those that are other than before are changes.
    ///
    /// # Errors
    /// When one of them is no object.
    pub fn report(&self, objects: impl IntoIterator<Item = Bytes>) -> Result<(), ObjectError> {
        let ticket = self.observed.ticket();
        let objects = objects
            .into_iter()
            .map(|text| Object::parse_at(text, ResourceVersion::single(0)));
        let objects: Vec<_> = objects.collect::<Result<_, _>>()?;
        self.observed.saw_all(ticket, None, objects);
        Ok(())
    }
}

#[async_trait]
impl Resource for ReportedResource {
    fn definition(&self) -> Arc<Definition> {
        self.definition.clone()
    }

    async fn get(
        &self,
        _caller: &Caller,
        key: &ObjectKey,
        resource_version: Option<&str>,
    ) -> Result<Arc<Object>, Status> {
        self.observed.asked(resource_version)?;
        let found = self.observed.get(key);
        found.ok_or_else(|| Status::not_found(&self.definition.gvr, &key.name))
    }

    async fn list(
        &self,
        _caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        self.observed.list(
            &Selection::from_options(namespace, options, &self.fields)?,
            options,
        )
    }

    async fn watch(
        &self,
        _caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        self.observed.watch(
            Selection::from_options(namespace, options, &self.fields)?,
            options,
        )
    }
}
