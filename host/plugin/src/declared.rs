//! What a plugin says of itself, before it is checked, and whichever version of the contract it was said in.

/// All that a plugin serves and reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Declared {
    pub(crate) resources: Vec<DeclaredResource>,
    pub(crate) sources: Vec<DeclaredSource>,
}

/// One resource that it serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: Option<String>,
    pub(crate) plural: String,
    pub(crate) singular: Option<String>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) schema: String,
    pub(crate) columns: Vec<DeclaredColumn>,
    pub(crate) selectable_fields: Vec<String>,
    pub(crate) status: bool,
    pub(crate) scale: bool,
    pub(crate) shape: DeclaredShape,
    pub(crate) options: Vec<String>,
}

/// One column of its Table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) json_path: String,
    pub(crate) priority: i32,
}

/// Who answers its verbs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DeclaredShape {
    Stored,
    View {
        primary: String,
        relations: Vec<DeclaredRelation>,
    },
    /// The verbs that it answers.
    Served(Vec<String>),
}

/// One relation of a view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredRelation {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) parent: Option<String>,
    pub(crate) any_namespace: bool,
    pub(crate) limit: u32,
}

/// One resource that it reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredSource {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) reads: Vec<String>,
    pub(crate) optional: bool,
    pub(crate) options: Vec<String>,
}
