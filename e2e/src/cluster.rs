//! The real control plane: etcd, kube-apiserver and kube-controller-manager as plain processes on loopback. No kubelet, no scheduler: what
//! would run in Pods runs beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::binaries::ControlPlaneBinaries;
use crate::kubeconfig::{self, Identity};
use crate::kubectl::Kubectl;
use crate::pki::{self, Authority, FRONT_PROXY_NAME, KeyPairFiles};
use crate::ports::Port;
use crate::process::Process;
use crate::progress::say;
use crate::run_dir::RunDir;
use crate::wait;

/// Their data is thrown away: nothing needs to be written down in peace.
const GRACE: Duration = Duration::from_millis(300);
const READY: Duration = Duration::from_secs(120);

/// Those that what is tested depends on: emptying namespaces, deleting dependents, quotas, ServiceAccounts, and the roles that aggregate to
/// view, edit and admin. The others look after nodes and Pods.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,resourcequota-controller,serviceaccount-controller,\
                           clusterrole-aggregation-controller,root-ca-certificate-publisher-controller";

/// What is audited: every list by the host, so that tests can count what a read costs upstream.
const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[
  {"level":"Metadata","users":["system:serviceaccount:joinery-system:joinery"],"verbs":["list"]},
  {"level":"None"}]}
"#;

/// A running control plane.
pub(crate) struct ControlPlane {
    /// In the order of their start.
    processes: Vec<Process>,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
    server: String,
    etcd_url: String,
    authority: Authority,
    authority_file: PathBuf,
    front_proxy_authority_file: PathBuf,
    admin: KeyPairFiles,
    front_proxy: KeyPairFiles,
    audit_log: PathBuf,
    apiserver_log: PathBuf,
    controller_manager_log: PathBuf,
    _ports: [Port; 3],
}

impl ControlPlane {
    /// Starts the three servers and waits until namespace `default` is there. `durable`: etcd answers when the disk has it, as in
    /// production.
    pub(crate) fn start(
        binaries: &ControlPlaneBinaries,
        run_dir: &RunDir,
        durable: bool,
    ) -> Result<ControlPlane> {
        let logs = run_dir.logs();
        let ports = [Port::reserve()?, Port::reserve()?, Port::reserve()?];
        let [etcd_port, peer_port, api_port] =
            [ports[0].number(), ports[1].number(), ports[2].number()];

        let authority = Authority::new("cluster")?;
        let authority_file = run_dir.write("pki/cluster-ca.crt", authority.pem())?;
        let front_proxy_authority = Authority::new("front-proxy")?;
        let front_proxy_authority_file =
            run_dir.write("pki/front-proxy-ca.crt", front_proxy_authority.pem())?;
        let front_proxy =
            front_proxy_authority.client(run_dir, "front-proxy", FRONT_PROXY_NAME, None)?;
        let admin = authority.client(run_dir, "admin", "joinery-admin", Some("system:masters"))?;
        let manager = authority.client(
            run_dir,
            "controller-manager",
            "system:kube-controller-manager",
            None,
        )?;
        let serving = authority.server(
            run_dir,
            "kube-apiserver",
            &[
                "localhost",
                "kubernetes",
                "kubernetes.default.svc",
                "127.0.0.1",
                "10.0.0.1",
            ],
        )?;
        let (public_key, private_key) = pki::service_account_key(run_dir)?;
        let server = format!("https://127.0.0.1:{api_port}");
        let kubeconfig = kubeconfig::write(
            run_dir,
            "kubeconfig",
            &server,
            authority.pem(),
            &Identity::Certificate(&admin),
        )?;
        let manager_kubeconfig = kubeconfig::write(
            run_dir,
            "pki/controller-manager.kubeconfig",
            &server,
            authority.pem(),
            &Identity::Certificate(&manager),
        )?;
        let kubectl = Kubectl::new(
            binaries.kubectl(),
            kubeconfig.clone(),
            run_dir.path().join("kubectl-cache"),
        );

        say("starting etcd, kube-apiserver and kube-controller-manager");
        let mut processes = Vec::new();
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let mut etcd = Command::new(binaries.etcd());
        etcd.arg("--data-dir").arg(run_dir.create("data/etcd")?);
        etcd.args([
            "--listen-client-urls",
            &etcd_url,
            "--advertise-client-urls",
            &etcd_url,
        ]);
        etcd.args([
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
        ]);
        etcd.arg("--initial-cluster")
            .arg(format!("default={peer_url}"));
        etcd.arg("--log-level=warn");
        if !durable {
            // Nothing here outlives the run, so nothing needs to survive a power cut.
            etcd.arg("--unsafe-no-fsync");
        }
        processes.push(Process::start("etcd", &logs, GRACE, &mut etcd)?);

        let mut apiserver = Command::new(binaries.kube_apiserver());
        apiserver
            .arg(format!("--etcd-servers={etcd_url}"))
            .arg(format!("--secure-port={api_port}"));
        apiserver
            .arg("--cert-dir")
            .arg(run_dir.create("pki/kube-apiserver-own")?);
        for (flag, file) in [
            ("tls-cert-file", &serving.certificate),
            ("tls-private-key-file", &serving.key),
            ("client-ca-file", &authority_file),
            ("requestheader-client-ca-file", &front_proxy_authority_file),
            ("proxy-client-cert-file", &front_proxy.certificate),
            ("proxy-client-key-file", &front_proxy.key),
            ("service-account-key-file", &public_key),
            ("service-account-signing-key-file", &private_key),
        ] {
            apiserver.arg(format!("--{flag}={}", file.display()));
        }
        let audit_policy = run_dir.write("pki/audit-policy.json", AUDIT_POLICY)?;
        let audit_log = logs.join("audit.log");
        apiserver
            .arg(format!("--audit-policy-file={}", audit_policy.display()))
            .arg(format!("--audit-log-path={}", audit_log.display()))
            .arg("--audit-log-mode=blocking");
        apiserver.arg(format!("--requestheader-allowed-names={FRONT_PROXY_NAME}"));
        apiserver.args([
            "--bind-address=127.0.0.1",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        ]);
        let apiserver = Process::start("kube-apiserver", &logs, GRACE, &mut apiserver)?;
        let apiserver_log = apiserver.log().to_owned();
        processes.push(apiserver);
        wait::until("kube-apiserver to be ready", READY, || {
            check(&mut processes)?;
            Ok(kubectl
                .run(["get", "--raw", "/readyz", "--request-timeout=5s"])
                .is_ok()
                .then_some(()))
        })?;

        let mut manager = Command::new(binaries.kube_controller_manager());
        for flag in [
            "kubeconfig",
            "authentication-kubeconfig",
            "authorization-kubeconfig",
        ] {
            manager.arg(format!("--{flag}={}", manager_kubeconfig.display()));
        }
        manager.arg(format!(
            "--service-account-private-key-file={}",
            private_key.display()
        ));
        manager.arg(format!("--root-ca-file={}", authority_file.display()));
        manager.arg(format!("--controllers={CONTROLLERS}"));
        manager.args([
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
        ]);
        let manager = Process::start("kube-controller-manager", &logs, GRACE, &mut manager)?;
        let controller_manager_log = manager.log().to_owned();
        processes.push(manager);
        wait::until("namespace default", READY, || {
            check(&mut processes)?;
            Ok(kubectl
                .run(["get", "namespace", "default"])
                .is_ok()
                .then_some(()))
        })?;

        Ok(ControlPlane {
            processes,
            kubeconfig,
            kubectl,
            server,
            etcd_url,
            authority,
            authority_file,
            front_proxy_authority_file,
            admin,
            front_proxy,
            audit_log,
            apiserver_log,
            controller_manager_log,
            _ports: ports,
        })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    pub(crate) fn admin(&self) -> &KeyPairFiles {
        &self.admin
    }

    pub(crate) fn front_proxy(&self) -> &KeyPairFiles {
        &self.front_proxy
    }

    pub(crate) fn audit_log(&self) -> &Path {
        &self.audit_log
    }

    pub(crate) fn apiserver_log(&self) -> &Path {
        &self.apiserver_log
    }

    pub(crate) fn controller_manager_log(&self) -> &Path {
        &self.controller_manager_log
    }

    /// A kubeconfig with which a process is that ServiceAccount, and so has the rights that the manifests give it.
    pub(crate) fn service_account(
        &self,
        run_dir: &RunDir,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf> {
        let token = self
            .kubectl
            .run(["create", "token", name, "-n", namespace, "--duration=24h"])
            .context("cannot get a ServiceAccount's token")?;
        kubeconfig::write(
            run_dir,
            &format!("pki/{name}.kubeconfig"),
            &self.server,
            self.authority.pem(),
            &Identity::Token(token.trim()),
        )
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        check(&mut self.processes)
    }

    pub(crate) fn named_ids(&self) -> impl Iterator<Item = (String, u32)> {
        self.processes
            .iter()
            .map(|process| (process.name().to_owned(), process.id()))
    }

    pub(crate) fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// PEM files of the authorities of clients and of the front proxy.
    pub(crate) fn client_authorities(&self) -> [&Path; 2] {
        [&self.authority_file, &self.front_proxy_authority_file]
    }
}

impl Drop for ControlPlane {
    /// The last one first: a server whose store went away would only complain.
    fn drop(&mut self) {
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }
}

fn check(processes: &mut [Process]) -> Result<()> {
    processes.iter_mut().try_for_each(Process::check)
}
