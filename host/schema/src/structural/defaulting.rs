//! Defaults (apiextensions-apiserver, pkg/apiserver/schema/defaulting).

use serde_json::Value;

use super::node::{Additional, Node};

/// Removes nulls that the schema does not allow and has no default for. Those with a default stay for [`apply`].
pub(super) fn drop_nulls(schema: &Node, value: &mut Value) {
    walk(Some(schema), value);

    fn walk(schema: Option<&Node>, value: &mut Value) {
        let Some(schema) = schema else { return };
        match value {
            Value::Object(fields) => fields.retain(|key, value| {
                let field = schema.field(key);
                let dropped = value.is_null()
                    && field.is_some_and(|field| !field.nullable && field.default.is_none());
                if !dropped {
                    walk(field, value);
                }
                !dropped
            }),
            Value::Array(items) => {
                for item in items {
                    walk(schema.items.as_deref(), item);
                }
            }
            _ => {}
        }
    }
}

pub(super) fn apply(schema: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default {
                    let wanted = fields
                        .get(name)
                        .is_none_or(|value| value.is_null() && !property.nullable);
                    if wanted {
                        fields.insert(name.clone(), default.clone());
                    }
                }
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    apply(property, value);
                } else if let Some(additional) =
                    schema.additional.as_ref().and_then(Additional::schema)
                {
                    replace_null(additional, value);
                    apply(additional, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items.as_deref() {
                for item in items {
                    replace_null(schema, item);
                    apply(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Node, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::StructuralSchema;

    #[test]
    fn defaults_fill_what_is_absent_or_null_and_nothing_else() {
        let schema = StructuralSchema::from_value(json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "default": {},
            "properties": {
                "priority": {"type": "integer", "default": 5},
                "note": {"type": "string", "nullable": true, "default": "n"},
                "plain": {"type": "string"},
                "nested": {"type": "object", "properties": {"deep": {"type": "boolean", "default": true}}},
                "list": {"type": "array", "items": {
                    "type": "object", "properties": {"mode": {"type": "string", "default": "auto"}}}},
                "map": {"type": "object", "additionalProperties": {
                    "type": "object", "properties": {"on": {"type": "boolean", "default": false}}}},
            },
        }}}))
        .unwrap();

        let mut absent = json!({});
        schema.default(&mut absent);
        assert_eq!(absent, json!({"spec": {"note": "n", "priority": 5}}));

        let mut given = json!({"spec": {
            "priority": null, "note": null, "plain": null, "nested": {}, "list": [{}, {"mode": "x"}], "map": {"k": {}},
        }});
        schema.default(&mut given);
        assert_eq!(
            given,
            json!({"spec": {
                "priority": 5, "note": null, "nested": {"deep": true},
                "list": [{"mode": "auto"}, {"mode": "x"}], "map": {"k": {"on": false}},
            }})
        );
    }
}
