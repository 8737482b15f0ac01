//! What a plugin says of itself: the WIT's `setup.description`, with defaults.

/// All that a plugin serves and reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// At least one.
    pub resources: Vec<ApiResource>,
    /// What the views read. Empty without views.
    pub sources: Vec<Source>,
}

/// Names a resource as its path does: `/apis/{group}/{version}/{resource}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupVersionResource {
    /// Empty for the core group.
    pub group: String,
    /// E.g. `v1`.
    pub version: String,
    /// Plural, lower case.
    pub resource: String,
}

impl GroupVersionResource {
    /// From its three parts.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        resource: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }
}

/// One resource that the plugin serves, in the words of a CRD's `spec.names` and `spec.versions[]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiResource {
    /// Not the core group and none of Kubernetes' own.
    pub group: String,
    /// E.g. `v1`.
    pub version: String,
    /// Upper camel case, singular.
    pub kind: String,
    /// None: kind + "List".
    pub list_kind: Option<String>,
    /// The resource's name in paths.
    pub plural: String,
    /// None: kind in lower case.
    pub singular: Option<String>,
    /// What kubectl takes for the plural.
    pub short_names: Vec<String>,
    /// What kubectl groups resources by. `all` is refused.
    pub categories: Vec<String>,
    /// False: cluster-scoped.
    pub namespaced: bool,
    /// A structural OpenAPI v3 schema as JSON.
    pub schema: String,
    /// What a Table shows after the name.
    pub columns: Vec<Column>,
    /// JSON paths, as in a CRD's `selectableFields`.
    pub selectable_fields: Vec<String>,
    /// Served beside the resource itself.
    pub subresources: Vec<Subresource>,
    /// Who answers the verbs.
    pub shape: Shape,
    /// Named options of later hosts. One that the host does not know refuses the load.
    pub options: Vec<(String, String)>,
}

/// As a CRD's `additionalPrinterColumns`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: String,
    /// An OpenAPI format; may be empty.
    pub format: String,
    /// For people.
    pub description: String,
    /// A simple JSON path into the object.
    pub json_path: String,
    /// Above 0: only with `-o wide`.
    pub priority: i32,
}

impl Column {
    /// A column that is always shown.
    pub fn new(name: &str, kind: &str, json_path: &str, description: &str) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            json_path: json_path.into(),
            description: description.into(),
            ..Self::default()
        }
    }
}

/// A path below an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Subresource {
    /// `/status`.
    Status,
    /// `/scale`.
    Scale(Scale),
}

/// As a CRD's `subresources.scale`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scale {
    /// JSON path below `.spec`.
    pub spec_replicas_path: String,
    /// JSON path below `.status`.
    pub status_replicas_path: String,
    /// JSON path of a string below `.spec` or `.status`.
    pub label_selector_path: Option<String>,
}

/// Who answers a resource's verbs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shape {
    /// The host stores, [`Admission`](crate::Admission) decides. All verbs.
    #[default]
    Stored,
    /// [`View`](crate::View) composes. get, list, watch.
    View(ViewShape),
    /// [`Verbs`](crate::Verbs) answers these, from get, list, create, update and delete; get must be among them. The host
    /// derives watch from list, patch from update, and deletecollection from list and delete.
    Served(Vec<String>),
}

/// An upstream resource, or one that Joinery serves itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The plugin's name for it.
    pub name: String,
    /// Which resource.
    pub gvr: GroupVersionResource,
    /// The narrowest that holds for all that is ever wanted; empty for all.
    pub label_selector: String,
    /// As above.
    pub field_selector: String,
    /// JSON pointers the plugin wants to read. Empty: whole objects.
    pub reads: Vec<String>,
    /// True: the view works, with no such objects, while the resource does not exist upstream.
    pub optional: bool,
    /// Named options of later hosts.
    pub options: Vec<(String, String)>,
}

/// A tree of sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewShape {
    /// Name of the source whose objects the view's correspond to.
    pub primary: String,
    /// Parents before children.
    pub relations: Vec<Relation>,
}

/// One step from parents to the children that share a key with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relation {
    /// Unique in the plugin.
    pub name: String,
    /// Name of the source whose objects are the children.
    pub source: String,
    /// Name of the relation whose objects are the parents; none: the primary.
    pub parent: Option<String>,
    /// Across which namespaces.
    pub reach: Reach,
    /// At most so many children per primary: those created last, the rest is counted.
    pub limit: u32,
}

/// Where a parent's children may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// In the parent's own namespace.
    #[default]
    SameNamespace,
    /// Anywhere. Needs the operator's grant.
    AnyNamespace,
}
