//! `/version`, as `version.Info` of k8s.io/apimachinery.

use serde::Serialize;

/// What `/version` says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    major: &'static str,
    minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

impl Version {
    /// The Kubernetes version whose behaviour this server follows, with its own as build metadata: clients compare
    /// the former with theirs.
    pub(crate) fn current() -> Self {
        Self {
            major: "1",
            minor: "36",
            git_version: concat!("v1.36.3+joinery-", env!("CARGO_PKG_VERSION")),
            git_commit: "",
            git_tree_state: "",
            build_date: "",
            go_version: "",
            compiler: "rustc",
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}
