//! What an API server's refusal says and means.

use kube::Error;

/// The error in one line. kube's own text repeats the whole Status in its debug form.
pub(crate) fn brief(error: &Error) -> String {
    match error {
        Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

/// Whether the same request would be answered the same way again, until somebody
/// changes something.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Api(status) if matches!(status.code, 400 | 403 | 405 | 422))
}

/// Whether the namespace takes no new objects: NamespaceLifecycle admission answers
/// a create with 403 and this cause while the namespace is being deleted, and with
/// 404 once it is gone.
pub(crate) fn namespace_is_gone(error: &Error) -> bool {
    let Error::Api(status) = error else {
        return false;
    };
    match status.code {
        404 => true,
        403 => status.details.as_ref().is_some_and(|details| {
            details
                .causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;

    fn refused(code: u16, causes: &[&str]) -> Error {
        let causes: Vec<_> = causes
            .iter()
            .map(|reason| json!({"reason": reason}))
            .collect();
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": code, "reason": "Forbidden", "message": "not here",
            "details": {"causes": causes},
        }))
        .unwrap();
        Error::Api(status.boxed())
    }

    #[test]
    fn an_error_of_the_server_reads_as_the_server_said_it() {
        assert_eq!(brief(&refused(403, &[])), "not here (403)");
    }

    #[test]
    fn only_a_going_namespace_counts_as_gone() {
        assert!(namespace_is_gone(&refused(403, &["NamespaceTerminating"])));
        assert!(namespace_is_gone(&refused(404, &[])));
        assert!(!namespace_is_gone(&refused(403, &[])));
        assert!(!namespace_is_gone(&refused(500, &[])));
    }

    #[test]
    fn a_refusal_is_told_from_a_passing_failure() {
        assert!(is_refusal(&refused(403, &[])));
        assert!(is_refusal(&refused(422, &[])));
        for passing in [401, 408, 429, 500, 503] {
            assert!(!is_refusal(&refused(passing, &[])), "{passing}");
        }
    }
}
