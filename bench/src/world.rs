//! The cluster that most benchmarks share: kube-apiserver with Tasks and Events, Joinery behind it, and the Go join server beside it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use joinery_e2e::{Environment, Kind, Peer, SideHost, Workspace, go_peers, say};

use crate::client::{Ask, Identity, JSON, Target};
use crate::data::Data;
use crate::process::{Measured, quiet};

/// Joinery's resource, and the Go server's.
pub(crate) const OURS: &str = "/apis/aggregated.tasks.example.com/v1";
pub(crate) const GO: &str = "/apis/joined.bench.example.com/v1";
const READY: Duration = Duration::from_secs(180);

/// Registers a server on a port of this machine: as deploy/overlays/local does it.
const REGISTRATION: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: joinery-system}
spec: {type: ExternalName, externalName: localhost, ports: [{name: https, port: PORT}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.joined.bench.example.com}
spec:
  group: joined.bench.example.com
  version: v1
  groupPriorityMinimum: 10
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {name: NAME, namespace: joinery-system, port: PORT}
"#;

/// The running cluster. What depends on others comes first, since fields are dropped in that order.
pub(crate) struct World {
    pub(crate) go: Peer,
    live: Option<SideHost>,
    pub(crate) environment: Environment,
    pub(crate) identity: Identity,
    pub(crate) data: Data,
    /// Joinery's resident memory before there was any data.
    pub(crate) at_rest: f64,
    /// And once it held all of it.
    pub(crate) loaded: f64,
    /// Its most while it took the data in.
    pub(crate) loading_peak: f64,
    peers: PathBuf,
}

impl World {
    /// Starts everything and creates so many Tasks with so many Events each.
    pub(crate) async fn start(workspace: &Workspace, tasks: usize, events: usize) -> Result<World> {
        let peers = go_peers(workspace)?;
        let environment = Environment::start_to_measure(workspace, Kind::Cluster, "bench")?;
        let identity = Identity::of(environment.kubectl(), &[environment.direct()])?;
        let joinery = process(&environment, "joinery")?;
        quiet(std::slice::from_ref(&joinery)).await?;
        let at_rest = joinery.resident()?;
        say(format!("creating {tasks} Tasks with {events} Events each"));
        let data = Data::create(&identity.own(), tasks, events).await?;
        let go = environment.peer("go-join", |files| {
            let mut command = Command::new(&peers);
            let [clients, front_proxy] = &files.client_authorities;
            command
                .arg("serve")
                .arg(format!("--listen=127.0.0.1:{}", files.port))
                .arg(format!("--kubeconfig={}", files.kubeconfig.display()))
                .arg(format!("--tls-cert-file={}", files.certificate.display()))
                .arg(format!("--tls-private-key-file={}", files.key.display()))
                .arg(format!(
                    "--client-ca-files={},{}",
                    clients.display(),
                    front_proxy.display()
                ));
            command
        })?;
        let registration = REGISTRATION
            .replace("NAME", "go-join")
            .replace("PORT", &go.port().to_string());
        environment
            .kubectl()
            .run_with_input(["apply", "-f", "-"], &registration)?;
        let ready = "condition=Available";
        environment.kubectl().run([
            "wait",
            "--for",
            ready,
            "--timeout=60s",
            "apiservice/v1.joined.bench.example.com",
        ])?;
        let mut world = World {
            go,
            live: None,
            environment,
            identity,
            data,
            at_rest,
            loaded: 0.0,
            loading_peak: 0.0,
            peers,
        };
        world.wait_for(&world.direct(), tasks * events).await?;
        quiet(&world.everything()?).await?;
        world.loaded = joinery.resident()?;
        world.loading_peak = joinery.peak()?;
        Ok(world)
    }

    /// Waits until a host shows so many Events.
    async fn wait_for(&self, target: &Target, events: usize) -> Result<()> {
        let mut connection = target.connect().await?;
        let ask = Ask::get(format!("{OURS}/combinedtasks"), JSON);
        let end = Instant::now() + READY;
        loop {
            let list = connection.must(&ask).await?;
            let needle: &[u8] = br#""involvedObject""#;
            let found = list.windows(needle.len()).filter(|w| *w == needle).count();
            if found == events {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "the view shows {found} Events of {events}"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Straight to Joinery.
    pub(crate) fn direct(&self) -> Target {
        self.identity.target(self.environment.url())
    }

    /// kube-apiserver.
    pub(crate) fn apiserver(&self) -> Target {
        self.identity.own()
    }

    /// Straight to the Go server.
    pub(crate) fn go(&self) -> Target {
        self.identity.target(&self.go.url())
    }

    /// A further Joinery whose views read live. It is started once.
    pub(crate) fn live(&mut self) -> Result<(Target, Measured)> {
        if self.live.is_none() {
            let host = self.environment.side_host_with("live", |plugins| {
                std::fs::write(plugins.join("combined_tasks.yaml"), "mode: live\n")
                    .context("cannot write settings")
            })?;
            self.live = Some(host);
        }
        let live = self.live.as_ref().context("it was just started")?;
        let id = live.id().context("the live host does not run")?;
        Ok((
            self.identity.target(live.url()),
            Measured::new("joinery (live)", id),
        ))
    }

    /// Ends the host that reads live.
    pub(crate) fn end_live(&mut self) {
        self.live = None;
    }

    pub(crate) fn joinery(&self) -> Result<Measured> {
        process(&self.environment, "joinery")
    }

    pub(crate) fn go_process(&self) -> Measured {
        Measured::new("go-join", self.go.id())
    }

    /// kube-apiserver and etcd, whose work for a request counts.
    pub(crate) fn upstream(&self) -> Result<Vec<Measured>> {
        Ok(vec![
            process(&self.environment, "kube-apiserver")?,
            process(&self.environment, "etcd")?,
        ])
    }

    /// A process and those upstream of it.
    pub(crate) fn with_upstream(&self, process: Measured) -> Result<Vec<Measured>> {
        let mut processes = vec![process];
        processes.extend(self.upstream()?);
        Ok(processes)
    }

    /// All that must be quiet before a measurement.
    pub(crate) fn everything(&self) -> Result<Vec<Measured>> {
        self.with_upstream(self.joinery()?)
    }

    /// The program that joins by itself, with its arguments.
    pub(crate) fn go_client(&self, rounds: usize) -> Command {
        let mut command = Command::new(&self.peers);
        command.arg("client").arg(format!("--rounds={rounds}"));
        command.arg(format!(
            "--kubeconfig={}",
            self.environment.kubeconfig().display()
        ));
        command
    }
}

pub(crate) fn process(environment: &Environment, name: &str) -> Result<Measured> {
    let found = environment
        .processes()
        .into_iter()
        .find(|(known, _)| known == name);
    let (name, id) = found.with_context(|| format!("there is no process {name}"))?;
    Ok(Measured::new(name, id))
}
