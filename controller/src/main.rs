//! The Task controller's program: command line, logging, leader election, signals.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgAction, Parser, ValueEnum};
use joinery_controller::{LeaseLock, LeaseTiming, TaskReconciler, run};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// How long reconciliations under way may take to finish after a signal.
const GRACE: Duration = Duration::from_secs(8);

/// kube-runtime's spans at info would put the whole reference of the Task before each line.
const DEFAULT_LOG: &str = "info,kube_runtime=warn,kube_client=warn";

/// Controls the Tasks (tasks.example.com/v1) of a cluster.
///
/// Holds each Task with the finalizer tasks.example.com/finalizer, writes Events
/// about it (TaskCreated, TaskUpdated, TaskFinished, TaskOverdue, TaskDeleted)
/// that carry its uid in the label tasks.example.com/task-uid, and keeps its
/// status. Ends on SIGTERM or Ctrl-C, after the work under way.
///
/// The environment variable RUST_LOG sets what is logged, such as
/// `joinery_controller=debug`; the default is info.
#[derive(Parser)]
#[command(name = "joinery-controller", version)]
struct Cli {
    /// The kubeconfig of the API server, its current context. When left out, the
    /// ServiceAccount of the Pod that this runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Work only while holding a Lease, so that of several processes one works
    /// and the others stand by.
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    leader_elect: bool,

    /// The namespace of the Lease. It must exist.
    #[arg(long, value_name = "NAMESPACE", default_value = "joinery-system")]
    namespace: String,

    /// The name of the Lease.
    #[arg(long, value_name = "NAME", default_value = "joinery-controller")]
    lease_name: String,

    /// How long, in seconds, others leave a Lease alone that its holder no longer
    /// renews. The holder gives up after two thirds of that.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease_duration: u32,

    /// What this process is called in the Lease and in Events. A random part is
    /// added, for no two processes may have one name.
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAME",
        default_value = "joinery-controller"
    )]
    identity: String,

    /// The form of the log, which goes to standard error.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

#[tokio::main]
async fn main() -> ExitCode {
    match start(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn start(cli: Cli) -> anyhow::Result<()> {
    start_log(cli.log_format);
    // Fails only when one is installed already, which serves as well.
    let _installed = rustls::crypto::ring::default_provider().install_default();

    let stopped = stop_signal().context("cannot listen for signals")?;
    let client = connect(&cli).await?;
    let identity = format!("{}_{}", cli.identity, uuid::Uuid::new_v4());
    tracing::info!(identity, version = env!("CARGO_PKG_VERSION"), "starts");

    if cli.leader_elect {
        let timing = LeaseTiming::of_seconds(cli.lease_duration);
        let lock = LeaseLock::new(
            client.clone(),
            &cli.namespace,
            &cli.lease_name,
            &identity,
            timing,
        );
        take_turns(lock, client, &identity, stopped).await;
    } else {
        work(client, &identity, stopped).await;
    }
    tracing::info!("ends");
    Ok(())
}

/// Works whenever this process holds the Lease, until the stop signal.
async fn take_turns(
    mut lock: LeaseLock,
    client: Client,
    identity: &str,
    stopped: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            () = until(stopped.clone()) => return,
            () = lock.acquire() => tracing::info!("holds the Lease and works"),
        }
        let lost = tokio::select! {
            () = lock.hold() => true,
            () = work(client.clone(), identity, stopped.clone()) => false,
        };
        if !lost {
            if let Err(error) = lock.release().await {
                tracing::warn!(%error, "cannot give the Lease up, it will expire");
            }
            return;
        }
        tracing::warn!("lost the Lease, stops working and stands by");
    }
}

/// Runs the controller until the stop signal, and a grace period at most from then.
async fn work(client: Client, identity: &str, stopped: watch::Receiver<bool>) {
    let reconciler = Arc::new(TaskReconciler::new(client.clone(), identity));
    let out_of_time = async {
        until(stopped.clone()).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = run(client, reconciler, until(stopped.clone())) => {}
        () = out_of_time => tracing::warn!("work under way did not finish within {} s", GRACE.as_secs()),
    }
}

async fn connect(cli: &Cli) -> anyhow::Result<Client> {
    let config = match &cli.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| {
                    format!(
                        "the kubeconfig {} names no usable API server",
                        path.display()
                    )
                })?
        }
        None => Config::incluster().context(
            "this process does not run in a Pod with a ServiceAccount: give --kubeconfig FILE",
        )?,
    };
    let server = config.cluster_url.clone();
    Client::try_from(config).with_context(|| format!("cannot set up a client for {server}"))
}

/// Becomes true with the first SIGTERM or Ctrl-C. A second one ends the process at once.
fn stop_signal() -> std::io::Result<watch::Receiver<bool>> {
    let (stop, stopped) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for time in 0.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if time > 0 {
                std::process::exit(130);
            }
            tracing::info!("was told to stop, lets the work under way finish");
            stop.send_replace(true);
        }
    });
    Ok(stopped)
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error would mean that nobody can stop this process any more: also an end.
    let _stopped = stopped.wait_for(|stopped| *stopped).await;
}

fn start_log(format: LogFormat) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(DEFAULT_LOG));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
