//! What a guest says of itself.

use super::setup;
use crate::declared::{
    Declared, DeclaredColumn, DeclaredRelation, DeclaredResource, DeclaredShape, DeclaredSource,
};

impl From<setup::Description> for Declared {
    fn from(description: setup::Description) -> Self {
        Self {
            resources: description.resources.into_iter().map(Into::into).collect(),
            sources: description.sources.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<setup::ApiResource> for DeclaredResource {
    fn from(r: setup::ApiResource) -> Self {
        let column = |c: setup::Column| DeclaredColumn {
            name: c.name,
            kind: c.type_,
            format: c.format,
            description: c.description,
            json_path: c.json_path,
            priority: c.priority,
        };
        let relation = |r: setup::Relation| DeclaredRelation {
            name: r.name,
            source: r.source,
            parent: r.parent,
            any_namespace: matches!(r.reach, setup::Reach::AnyNamespace),
            limit: r.limit,
        };
        Self {
            group: r.group,
            version: r.version,
            kind: r.kind,
            list_kind: r.list_kind,
            plural: r.plural,
            singular: r.singular,
            short_names: r.short_names,
            categories: r.categories,
            namespaced: r.namespaced,
            schema: r.schema,
            columns: r.columns.into_iter().map(column).collect(),
            selectable_fields: r.selectable_fields,
            status: r
                .subresources
                .iter()
                .any(|s| matches!(s, setup::Subresource::Status)),
            scale: r
                .subresources
                .iter()
                .any(|s| matches!(s, setup::Subresource::Scale(_))),
            shape: match r.shape {
                setup::Shape::Stored => DeclaredShape::Stored,
                setup::Shape::View(view) => DeclaredShape::View {
                    primary: view.primary,
                    relations: view.relations.into_iter().map(relation).collect(),
                },
                setup::Shape::Served(verbs) => DeclaredShape::Served(verbs),
            },
            options: r.options.into_iter().map(|(name, _)| name).collect(),
        }
    }
}

impl From<setup::Source> for DeclaredSource {
    fn from(s: setup::Source) -> Self {
        Self {
            name: s.name,
            group: s.gvr.group,
            version: s.gvr.version,
            resource: s.gvr.resource,
            label_selector: s.label_selector,
            field_selector: s.field_selector,
            reads: s.reads,
            optional: s.optional,
            options: s.options.into_iter().map(|(name, _)| name).collect(),
        }
    }
}
