//! The binary `joinery`: an aggregation host for Kubernetes whose resources are WebAssembly components.

mod api_services;
mod cli;
mod cluster;
mod config_maps;
mod delivery;
mod events;
mod host;
mod identity;
mod kept;
mod log_lines;
mod manager;
mod metrics;
mod plugin;
mod report;
mod serve;
mod service;
mod sources;
mod standalone;
mod store;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, LogFormat};
use crate::log_lines::OneLine;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Command::Compile { arguments } = cli.command {
        return joinery_plugin::compile_child_main(arguments.into_iter().map(Into::into));
    }
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("joinery: {}", terminal::harmless(&told_once(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes on one line, without the causes that were quoted already.
fn told_once(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

fn run(cli: Cli) -> Result<ExitCode> {
    log(&cli)?;
    if let Command::Store { command } = cli.command {
        store::run(command)?;
        return Ok(ExitCode::SUCCESS);
    }
    // One crypto provider for all that speaks TLS here; a second call would say that there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let stop = stop_on_signal()?;
        match cli.command {
            Command::Standalone(options) => standalone::run(options, stop).await?,
            Command::Serve(options) => serve::run(options, stop).await?,
            Command::Plugin(plugin) => {
                return tokio::select! {
                    code = plugin::run(plugin) => code,
                    () = stop.cancelled() => Ok(ExitCode::from(130)),
                };
            }
            Command::Store { .. } | Command::Compile { .. } => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn log(cli: &Cli) -> Result<()> {
    let log = cli.log.as_deref().unwrap_or(match cli.command {
        Command::Plugin(_) => "warn",
        _ => "info,fjall=warn,lsm_tree=warn",
    });
    let filter = EnvFilter::try_new(log)
        .with_context(|| format!("--log {log:?} is no filter such as info,joinery_plugin=debug"))?;
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(move || OneLine::new(colours));
    match cli.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

/// Cancelled by SIGTERM or Ctrl-C; a second one ends the process at once.
fn stop_on_signal() -> Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?,
        signal(SignalKind::interrupt()).context("cannot listen to Ctrl-C")?,
    );
    let token = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if token.is_cancelled() {
                std::process::exit(130);
            }
            token.cancel();
        }
    });
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    #[test]
    fn a_cause_that_an_error_quotes_is_not_told_twice() {
        let error = anyhow!("no entry")
            .context("cannot read a: no entry")
            .context("no certificate");
        assert_eq!(
            super::told_once(&error),
            "no certificate: cannot read a: no entry"
        );
    }
}
