//! The manifests of `deploy/`, applied as a user applies them, for a host that runs beside the control plane.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::kubectl::Kubectl;
use crate::workspace::Workspace;

/// Stand in the output of `deploy/overlays/local` for what only the run knows; its kustomization.yaml says so too.
const PORT: &str = "16443";
const CA_BUNDLE: &str = "Q0FfQlVORExF";

/// `deploy/overlays/local` for one run.
pub(crate) struct Manifests {
    registration: String,
    rest: String,
}

impl Manifests {
    /// Renders the overlay for a host on `port` whose serving certificate `authority` (PEM) signed.
    pub(crate) fn render(
        workspace: &Workspace,
        kubectl: &Kubectl,
        port: u16,
        authority: &str,
    ) -> Result<Manifests> {
        let overlay = workspace.root().join("deploy/overlays/local");
        let rendered = kubectl.run(["kustomize".as_ref(), overlay.as_os_str()])?;
        for holder in [PORT, CA_BUNDLE] {
            ensure!(
                rendered.contains(holder),
                "{} has no place holder {holder}",
                overlay.display()
            );
        }
        let rendered = rendered
            .replace(PORT, &port.to_string())
            .replace(CA_BUNDLE, &STANDARD.encode(authority));
        let (registration, rest): (Vec<&str>, Vec<&str>) = rendered
            .split("\n---\n")
            .partition(|document| document.lines().any(|line| line == "kind: APIService"));
        Ok(Manifests {
            registration: registration.join("\n---\n"),
            rest: rest.join("\n---\n"),
        })
    }

    /// Everything but the APIService, and waits for the CustomResourceDefinition.
    pub(crate) fn apply(&self, kubectl: &Kubectl) -> Result<()> {
        apply(kubectl, &self.rest)?;
        kubectl.run([
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "customresourcedefinition/tasks.tasks.example.com",
        ])?;
        Ok(())
    }

    /// The APIService, once the host answers: an APIService with nobody behind it disturbs every client's discovery.
    pub(crate) fn register(&self, kubectl: &Kubectl) -> Result<()> {
        apply(kubectl, &self.registration)?;
        kubectl.run([
            "wait",
            "--for=condition=Available",
            "--timeout=60s",
            "apiservice/v1.aggregated.tasks.example.com",
        ])?;
        Ok(())
    }
}

fn apply(kubectl: &Kubectl, documents: &str) -> Result<()> {
    kubectl
        .run_with_input(["apply", "-f", "-"], documents)
        .context("cannot apply the manifests of deploy/overlays/local")?;
    Ok(())
}
