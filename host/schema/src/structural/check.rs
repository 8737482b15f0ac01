//! Checks of a schema as a whole, after each of its parts was read.

use super::node::{Additional, Node};
use super::parse::Problem;
use super::{prune, validate};

/// What clauses say of fields and items must be about fields and items that are specified outside of them.
pub(super) fn completeness(node: &Node, path: &str, problems: &mut Vec<Problem>) {
    clauses(node, Some(node), path, path, problems);
    for (name, property) in &node.properties {
        completeness(property, &format!("{path}.properties[{name}]"), problems);
    }
    if let Some(items) = &node.items {
        completeness(items, &format!("{path}.items"), problems);
    }
    if let Some(schema) = node.additional.as_ref().and_then(Additional::schema) {
        completeness(schema, &format!("{path}.additionalProperties"), problems);
    }
}

/// `at` is the path in the structure, `from` that in the clauses.
fn clauses(
    clause: &Node,
    structure: Option<&Node>,
    at: &str,
    from: &str,
    problems: &mut Vec<Problem>,
) {
    for (key, list) in [
        ("allOf", &clause.all_of),
        ("anyOf", &clause.any_of),
        ("oneOf", &clause.one_of),
    ] {
        for (index, clause) in list.iter().enumerate() {
            fields(
                clause,
                structure,
                at,
                &format!("{from}.{key}[{index}]"),
                problems,
            );
        }
    }
    if let Some(not) = &clause.not {
        fields(not, structure, at, &format!("{from}.not"), problems);
    }
}

fn fields(
    clause: &Node,
    structure: Option<&Node>,
    at: &str,
    from: &str,
    problems: &mut Vec<Problem>,
) {
    let Some(node) = structure else {
        let detail = format!("must be specified because it is defined in {from}");
        problems.push(Problem {
            field: at.to_owned(),
            detail,
        });
        return;
    };
    clauses(clause, structure, at, from, problems);
    if let Some(items) = &clause.items {
        fields(
            items,
            node.items.as_deref(),
            &format!("{at}.items"),
            &format!("{from}.items"),
            problems,
        );
    }
    for (name, property) in &clause.properties {
        let (at, from) = (
            format!("{at}.properties[{name}]"),
            format!("{from}.properties[{name}]"),
        );
        fields(property, node.properties.get(name), &at, &from, problems);
    }
}

/// A default must be valid where it stands, and have no field that would be pruned at once.
pub(super) fn defaults(node: &Node, path: &str, problems: &mut Vec<Problem>) {
    if let Some(default) = &node.default {
        let field = format!("{path}.default");
        for unknown in prune::fragment(node, &mut default.clone()) {
            problems.push(Problem {
                field: field.clone(),
                detail: format!("must not have {unknown}"),
            });
        }
        for cause in validate::root(node, default) {
            // The path is in `field` already, and there is no body.
            let at = if cause.field == "<nil>" {
                String::new()
            } else {
                format!(".{}", cause.field)
            };
            let detail = cause
                .message
                .replace(" in body ", " ")
                .replace(":  must", ": must");
            problems.push(Problem {
                field: format!("{field}{at}"),
                detail,
            });
        }
    }
    for (name, property) in &node.properties {
        defaults(property, &format!("{path}.properties[{name}]"), problems);
    }
    if let Some(items) = &node.items {
        defaults(items, &format!("{path}.items"), problems);
    }
    if let Some(schema) = node.additional.as_ref().and_then(Additional::schema) {
        defaults(schema, &format!("{path}.additionalProperties"), problems);
    }
}
