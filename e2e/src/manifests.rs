//! The manifests of `deploy/`, applied as a user applies them, for a host that runs beside the control plane.

use anyhow::{Context, Result, ensure};

use crate::kubectl::Kubectl;
use crate::workspace::Workspace;

/// Stands in the output of `deploy/overlays/local` for what only the run knows; its kustomization.yaml says so too.
const PORT: &str = "16443";

/// `deploy/overlays/local` for one run.
pub(crate) struct Manifests {
    rendered: String,
}

impl Manifests {
    /// Renders the overlay for a host on `port`.
    pub(crate) fn render(workspace: &Workspace, kubectl: &Kubectl, port: u16) -> Result<Manifests> {
        let overlay = workspace.root().join("deploy/overlays/local");
        let rendered = kubectl.run(["kustomize".as_ref(), overlay.as_os_str()])?;
        ensure!(
            rendered.contains(PORT),
            "{} has no place holder {PORT}",
            overlay.display()
        );
        Ok(Manifests {
            rendered: rendered.replace(PORT, &port.to_string()),
        })
    }

    /// All of it, and waits for the CustomResourceDefinition.
    pub(crate) fn apply(&self, kubectl: &Kubectl) -> Result<()> {
        apply(kubectl, &self.rendered)?;
        kubectl.run([
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "customresourcedefinition/tasks.tasks.example.com",
        ])?;
        Ok(())
    }
}

/// Waits for the APIServices, which the host makes once its plugins serve.
pub(crate) fn registered(kubectl: &Kubectl) -> Result<()> {
    for name in ["v1.aggregated.tasks.example.com", "v1alpha1.joinery.dev"] {
        let service = format!("apiservice/{name}");
        kubectl.run(["wait", "--for=create", "--timeout=60s", &service])?;
        let available = "--for=condition=Available";
        kubectl.run(["wait", available, "--timeout=60s", &service])?;
    }
    Ok(())
}

fn apply(kubectl: &Kubectl, documents: &str) -> Result<()> {
    kubectl
        .run_with_input(["apply", "-f", "-"], documents)
        .context("cannot apply the manifests of deploy/overlays/local")?;
    Ok(())
}
