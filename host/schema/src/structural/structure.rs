//! What makes a schema structural, checked for each schema outside of `allOf`, `anyOf`, `oneOf` and `not`.

use super::node::{Node, Type};
use super::parse::{Place, Reader};

impl Reader {
    /// What must hold for every schema outside of clauses.
    pub(super) fn structure(&mut self, node: &Node, path: &str, place: Place) {
        let type_field = format!("{path}.type");
        match node.type_ {
            Some(Type::Object) => {}
            _ if node.embedded_resource => {
                self.problem(
                    &type_field,
                    "must be object if x-kubernetes-embedded-resource is true",
                );
            }
            Some(_) if place == Place::Root => {
                self.problem(&type_field, "must be object at the root")
            }
            Some(_) => {}
            None if node.int_or_string || node.preserve_unknown_fields => {}
            None => {
                let detail = match place {
                    Place::Root => "must not be empty at the root",
                    Place::Item => "must not be empty for specified array items",
                    _ => "must not be empty for specified object fields",
                };
                self.problem(&type_field, format!("{detail}, allowed: {}", Type::ALLOWED));
            }
        }
        if node.type_ == Some(Type::Array) && node.items.is_none() && !node.preserve_unknown_fields
        {
            self.problem(format!("{path}.items"), "must be specified");
        }
        if node.int_or_string {
            if node.type_.is_some() {
                self.problem(
                    &type_field,
                    "must be absent if x-kubernetes-int-or-string is true",
                );
            }
            for (set, name) in [
                (
                    node.preserve_unknown_fields,
                    "x-kubernetes-preserve-unknown-fields",
                ),
                (node.embedded_resource, "x-kubernetes-embedded-resource"),
            ] {
                if set {
                    self.problem(
                        format!("{path}.{name}"),
                        "must be absent if x-kubernetes-int-or-string is true",
                    );
                }
            }
        }
        if node.embedded_resource && !node.preserve_unknown_fields && node.properties.is_empty() {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.problem(format!("{path}.properties"), detail);
        }
        if place == Place::Root || node.embedded_resource {
            for (name, wanted) in [
                ("kind", Type::String),
                ("apiVersion", Type::String),
                ("metadata", Type::Object),
            ] {
                if node
                    .properties
                    .get(name)
                    .is_some_and(|property| property.type_ != Some(wanted))
                {
                    self.problem(
                        format!("{path}.properties[{name}].type"),
                        format!("must be {}", wanted.name()),
                    );
                }
            }
        }
        if place == Place::Root
            && let Some(metadata) = node.properties.get("metadata")
            && metadata
                .properties
                .keys()
                .any(|name| name != "name" && name != "generateName")
        {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                          specified";
            self.problem(format!("{path}.properties[metadata]"), detail);
        }
        self.map_keys(node, path);
    }

    /// The keys of a list of type `map` are scalar fields of its items, always present.
    fn map_keys(&mut self, node: &Node, path: &str) {
        let Some(items) = &node.items else { return };
        for key in &node.list_map_keys {
            let field = format!("{path}.items.properties[{key}]");
            match items.properties.get(key) {
                None => self.problem(
                    field,
                    "must be specified: x-kubernetes-list-map-keys names it",
                ),
                Some(key) if matches!(key.type_, Some(Type::Array | Type::Object)) => {
                    self.problem(
                        format!("{field}.type"),
                        "must be a scalar type if x-kubernetes-list-map-keys names it",
                    );
                }
                Some(property) if property.default.is_none() && !items.required.contains(key) => {
                    let detail =
                        "must be required or have a default: x-kubernetes-list-map-keys names it";
                    self.problem(field, detail);
                }
                Some(_) => {}
            }
        }
    }
}
