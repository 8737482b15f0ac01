//! Managed fields of one kind: the field manager of k8s.io/apimachinery/pkg/util/managedfields, all its layers in one.

use joinery_object::Status;
use joinery_schema::StructuralSchema;
use serde_json::{Value, json};

use crate::cap;
use crate::conflict::{self, Conflict};
use crate::element::Path;
use crate::last_applied;
use crate::managed::{self, MANAGED_FIELDS, Managed, ManagerId, Operation, Owned};
use crate::set::FieldSet;
use crate::typed::{self, Duplicates, TypedError};
use crate::types::Types;
use crate::updater::{Refused, Updater, Writable};

const STATUS: &str = "status";

/// Who owns what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager of who gives no name.
const UNKNOWN: &str = "unknown";

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager: that of the options, else made of the User-Agent.
    pub manager: &'a str,
    /// What is written to, e.g. `status`. None: the resource itself.
    pub subresource: Option<&'a str>,
    /// Milliseconds since 1970.
    pub now: u64,
}

impl Writer<'_> {
    fn id(&self, operation: Operation, api_version: &str) -> ManagerId {
        let manager = if self.manager.is_empty() {
            UNKNOWN
        } else {
            self.manager
        };
        ManagerId {
            manager: manager.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: self.subresource.unwrap_or_default().to_owned(),
        }
    }

    fn seconds(&self) -> i64 {
        i64::try_from(self.now / 1000).unwrap_or(i64::MAX)
    }
}

/// The objects could not be compared, so who owns what of the new one is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to update managedFields: {0}")]
pub struct Untracked(String);

/// Keeps the managed fields of the objects of one kind, and merges what is applied to them.
///
/// All functions are pure: they neither default nor validate, nor do they know of resource versions. Fields of status
/// that a write to the resource itself cannot change (and the other way round) are nobody's by it, but resetting them
/// is up to the caller.
#[derive(Clone, Debug)]
pub struct FieldManager {
    types: Types,
    api_version: String,
    kind: String,
    status_subresource: bool,
}

impl FieldManager {
    /// For a kind in one version. Without a schema, lists are owned as a whole and maps member by member.
    ///
    /// `status_subresource`: status is written to by the subresource alone.
    #[must_use]
    pub fn new(
        schema: Option<&StructuralSchema>,
        api_version: &str,
        kind: &str,
        status_subresource: bool,
    ) -> Self {
        Self {
            types: Types::new(schema),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            status_subresource,
        }
    }

    /// Brings the managedFields of `new` up to date: an object that is about to replace `live` by a create, an update
    /// or a patch other than apply. `live` None: it is created.
    ///
    /// Who changes or adds a field owns it then, alone. The managedFields that `new` comes with hold as the state
    /// before, so that clients can edit them; those of `live` do where `new` has none or such as make no sense.
    ///
    /// # Errors
    /// When one of the objects is not as the schema has it. Then `new` has no managedFields; it can be stored so.
    pub fn update(
        &self,
        live: Option<&Value>,
        new: &mut Value,
        writer: &Writer<'_>,
    ) -> Result<(), Untracked> {
        let managed = managed::of_request(live, new, writer.subresource.is_some());
        managed::strip(new);
        // Who has no owners when it is updated has reset them, or is from before they were kept.
        if managed.is_empty() && live.is_some() {
            return Ok(());
        }
        let live = self.live(live);
        let managed = self
            .track(&live, new, managed, writer)
            .map_err(|error| Untracked(error.to_string()))?;
        managed::encode(new, &managed);
        Ok(())
    }

    /// Applies a configuration to `live` and returns the object with its managedFields. `live` None: it is created.
    ///
    /// The configuration has all that the manager wants to own: what it has no longer is removed, unless others own it.
    /// What others own and it wants otherwise is a conflict, or taken from them if `force`.
    ///
    /// What is applied may name a uid and a resourceVersion: they are merged like all else, so `live` should have its
    /// own, and the caller compares. Applied once more the same is no change: the object and all times are `live`'s.
    ///
    /// # Errors
    /// - 409 for conflicts, with a `FieldManagerConflict` cause for each field.
    /// - 400 for a configuration of another kind or version, one with managedFields, and one that is not as the schema
    ///   has it: fields that it does not have, values of another type, equal items in a list of type `set` or `map`.
    /// - 500 if `live` is not as the schema has it.
    pub fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<Value, Status> {
        let managed = match live {
            Some(live) => managed::decode(live).map_err(|error| {
                Status::internal(format!("failed to decode managed fields: {error}"))
            })?,
            None => Managed::new(),
        };
        self.check_kind(applied)?;
        let attempt = |force: bool| self.apply_once(live, managed.clone(), applied, writer, force);
        let is_kubectl = writer.manager == last_applied::KUBECTL;
        let result = match attempt(force) {
            Err(Failure::Conflicts(conflicts)) if is_kubectl => {
                match self.not_of_client_side(live, &conflicts) {
                    Some(conflicts) if conflicts.is_empty() => attempt(true),
                    Some(conflicts) => Err(Failure::Conflicts(conflicts)),
                    None => Err(Failure::Conflicts(conflicts)),
                }
            }
            result => result,
        };
        let (mut object, managed) = result.map_err(|failure| match failure {
            Failure::Conflicts(conflicts) => conflict::status(&conflicts),
            Failure::Status(status) => *status,
        })?;
        if is_kubectl {
            last_applied::refresh(&mut object, applied);
        }
        managed::encode(&mut object, &managed);
        Ok(object)
    }

    /// What a manager applied last, as it is in the object now. None: it owns nothing by applying.
    ///
    /// Follows `ExtractInto` of k8s.io/apimachinery/pkg/util/managedfields: what controllers start their next apply from.
    #[must_use]
    pub fn extract(
        &self,
        object: &Value,
        manager: &str,
        subresource: Option<&str>,
    ) -> Option<Value> {
        let managed = managed::decode(object).ok()?;
        let id = ManagerId {
            manager: manager.to_owned(),
            operation: Operation::Apply,
            api_version: String::new(),
            subresource: subresource.unwrap_or_default().to_owned(),
        };
        let leaves = managed.get(&id)?.set.leaves();
        let mut object = object.clone();
        managed::strip(&mut object);
        let mut extracted = typed::extract_items(&self.types, &object, &leaves);
        if !extracted.is_object() {
            extracted = json!({});
        }
        extracted["apiVersion"] = self.api_version.as_str().into();
        extracted["kind"] = self.kind.as_str().into();
        Some(extracted)
    }

    fn updater(&self, subresource: Option<&str>) -> Updater<'_> {
        let writable = match subresource {
            None if self.status_subresource => Writable::AllButStatus,
            Some(STATUS) => Writable::OnlyStatus,
            _ => Writable::All,
        };
        Updater {
            types: &self.types,
            api_version: &self.api_version,
            writable,
        }
    }

    /// An object before the write, without managedFields.
    fn live(&self, live: Option<&Value>) -> Value {
        match live {
            Some(live) => {
                let mut live = live.clone();
                managed::strip(&mut live);
                live
            }
            None => json!({"apiVersion": self.api_version, "kind": self.kind}),
        }
    }

    /// Owners after an update from `live` to `new`.
    fn track(
        &self,
        live: &Value,
        new: &Value,
        mut managed: Managed,
        writer: &Writer<'_>,
    ) -> Result<Managed, TypedError> {
        typed::validate(&self.types, new, Duplicates::Allowed)?;
        typed::validate(&self.types, live, Duplicates::Allowed)?;
        let changed = self
            .updater(writer.subresource)
            .update(live, new, &mut managed)?;
        let set = strip_metadata(&changed);
        if !set.is_empty() {
            let id = writer.id(Operation::Update, &self.api_version);
            let owned = managed.entry(id).or_insert_with(|| Owned {
                set: FieldSet::default(),
                api_version: self.api_version.clone(),
                time: None,
            });
            owned.set.extend(&set);
            owned.time = Some(writer.seconds());
        }
        cap::updaters(&mut managed);
        Ok(managed)
    }

    fn apply_once(
        &self,
        live: Option<&Value>,
        mut managed: Managed,
        applied: &Value,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<(Value, Managed), Failure> {
        let live = self.live(live);
        if managed.is_empty() {
            let before = Writer {
                manager: BEFORE_FIRST_APPLY,
                ..*writer
            };
            managed = self
                .track(&self.live(None), &live, managed, &before)
                .map_err(|error| live_error(&error))?;
        }
        let applied = self.live(Some(applied));
        typed::validate(&self.types, &applied, Duplicates::Refused).map_err(|error| {
            let what = self.name_of(&applied);
            let text = format!("failed to create typed patch object ({what}): {error}");
            Failure::status(Status::bad_request(text))
        })?;
        typed::validate(&self.types, &live, Duplicates::Allowed)
            .map_err(|error| live_error(&error))?;
        let id = writer.id(Operation::Apply, &self.api_version);
        let updater = self.updater(writer.subresource);
        let new = updater.apply(&live, &applied, &mut managed, &id, force);
        let new = new.map_err(|refused| match refused {
            Refused::Conflicts(conflicts) => Failure::Conflicts(conflicts),
            Refused::Typed(error) => live_error(&error),
        })?;
        if let Some(owned) = managed.get_mut(&id) {
            owned.set = strip_metadata(&owned.set);
            if new.is_some() {
                owned.time = Some(writer.seconds());
            }
            if owned.set.is_empty() {
                managed.remove(&id);
            }
        }
        Ok((new.unwrap_or(live), managed))
    }

    /// Conflicts without those with what the same kubectl applied client-side. None: it is not known what that was.
    fn not_of_client_side(
        &self,
        live: Option<&Value>,
        conflicts: &[Conflict],
    ) -> Option<Vec<Conflict>> {
        let live = self.live(live);
        let own = last_applied::applied_client_side(&self.types, &self.api_version, &live)?;
        let others = conflicts
            .iter()
            .filter(|c| !own.contains(c.path.elements()));
        Some(others.cloned().collect())
    }

    fn check_kind(&self, applied: &Value) -> Result<(), Status> {
        if applied["apiVersion"] != self.api_version.as_str()
            || applied["kind"] != self.kind.as_str()
        {
            let text = format!("invalid object type: {}", kind_of(applied));
            return Err(Status::bad_request(text));
        }
        if !applied["metadata"][MANAGED_FIELDS].is_null() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        Ok(())
    }

    fn name_of(&self, object: &Value) -> String {
        let member = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        format!(
            "{}/{}; {}",
            member("namespace"),
            member("name"),
            kind_of(object)
        )
    }
}

/// Why an apply failed.
enum Failure {
    Conflicts(Vec<Conflict>),
    Status(Box<Status>),
}

impl Failure {
    fn status(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

fn live_error(error: &TypedError) -> Failure {
    let text = format!("failed to create typed live object: {error}");
    Failure::status(Status::internal(text))
}

/// Group, version and kind as upstream shows them.
fn kind_of(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [group, version] => format!("{group}/{version}, Kind={kind}"),
        [version] => format!("/{version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

/// A set without the fields that are nobody's: those that name the object, and those that only the server writes.
fn strip_metadata(set: &FieldSet) -> FieldSet {
    const OF_THE_SERVER: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        MANAGED_FIELDS,
        "resourceVersion",
    ];
    let top = ["apiVersion", "kind", "metadata"].map(|name| Path::fields(&[name]));
    let metadata = OF_THE_SERVER.map(|name| Path::fields(&["metadata", name]));
    set.difference(&top.into_iter().chain(metadata).collect())
}
