//! Fields that an applier wants and others own.

use std::collections::BTreeMap;

use joinery_object::{Cause, Status, reason};

use crate::element::Path;
use crate::managed::{ManagerId, Operation};

/// A field that somebody else owns.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub(crate) manager: ManagerId,
    pub(crate) path: Path,
}

/// 409 with a cause for each field, worded as upstream does: kubectl shows the message as it is.
pub(crate) fn status(conflicts: &[Conflict]) -> Status {
    // Sorted as in the message, so that the answer does not depend on chance.
    let mut by_manager: BTreeMap<String, Vec<&Conflict>> = BTreeMap::new();
    for conflict in conflicts {
        let identifier = conflict.manager.identifier();
        by_manager.entry(identifier).or_default().push(conflict);
    }
    let message = if let [one] = conflicts {
        let manager = shown(&one.manager);
        format!(
            "Apply failed with 1 conflict: conflict with {manager}: {}",
            one.path
        )
    } else {
        let mut lines = Vec::new();
        for conflicts in by_manager.values() {
            let manager = conflicts.first().map(|one| shown(&one.manager));
            lines.push(format!("conflicts with {}:", manager.unwrap_or_default()));
            lines.extend(conflicts.iter().map(|one| format!("- {}", one.path)));
        }
        let lines = lines.join("\n");
        format!("Apply failed with {} conflicts: {lines}", conflicts.len())
    };
    let causes = by_manager.values().flatten().map(|conflict| Cause {
        reason: "FieldManagerConflict".into(),
        message: format!("conflict with {}", shown(&conflict.manager)),
        field: conflict.path.to_string(),
    });
    causes.fold(
        Status::failure(409, reason::CONFLICT, message),
        Status::with_cause,
    )
}

fn shown(id: &ManagerId) -> String {
    let mut text = joinery_schema::quote(&id.manager);
    if !id.subresource.is_empty() {
        text.push_str(&format!(
            " with subresource {}",
            joinery_schema::quote(&id.subresource)
        ));
    }
    if id.operation == Operation::Update {
        text.push_str(&format!(" using {}", id.api_version));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(manager: &str, operation: Operation, subresource: &str, field: &str) -> Conflict {
        let api_version = match operation {
            Operation::Apply => String::new(),
            Operation::Update => "g/v1".to_owned(),
        };
        Conflict {
            manager: ManagerId {
                manager: manager.to_owned(),
                operation,
                api_version,
                subresource: subresource.to_owned(),
            },
            path: Path::fields(&["spec", field]),
        }
    }

    #[test]
    fn one_conflict_is_named_in_one_line() {
        let status = status(&[conflict("a", Operation::Apply, "", "x")]);
        assert_eq!(status.code, 409);
        assert_eq!(
            status.message,
            r#"Apply failed with 1 conflict: conflict with "a": .spec.x"#
        );
    }

    #[test]
    fn several_conflicts_are_listed_by_manager() {
        let status = status(&[
            conflict("b", Operation::Update, "", "x"),
            conflict("a", Operation::Update, "status", "x"),
            conflict("b", Operation::Update, "", "y"),
        ]);
        assert_eq!(
            status.message,
            "Apply failed with 3 conflicts: conflicts with \"a\" with subresource \"status\" using g/v1:\n- .spec.x\n\
             conflicts with \"b\" using g/v1:\n- .spec.x\n- .spec.y"
        );
        let causes = &status.details.as_ref().unwrap().causes;
        let causes: Vec<_> = causes
            .iter()
            .map(|c| (&*c.reason, &*c.message, &*c.field))
            .collect();
        let of_b = (
            "FieldManagerConflict",
            r#"conflict with "b" using g/v1"#,
            ".spec.y",
        );
        assert_eq!(causes[2], of_b);
    }
}
