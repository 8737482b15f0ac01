//! The runtime of all plugins: engine, threads for guests, compiler; and loading.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use joinery_view::ViewSpec;
use sha2::{Digest, Sha256};
use wasmtime::component::Linker;

use crate::abi::{self, Adapters};
use crate::cache::Cache;
use crate::compile::{Compile, Compiler};
use crate::delivery::PluginFile;
use crate::description::{self, Shape};
use crate::engine;
use crate::error::{LoadError, SetupError};
use crate::generation::Generation;
use crate::inspect::{Inspected, inspect};
use crate::policy::Policy;
use crate::pool::{Failed, Instance, Parts, Pool, Shared};
use crate::sample;
use crate::state::State;
use crate::ticker::Ticker;

/// How the runtime is set up.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Folder for compiled plugins, made if need be. None: one that goes with the runtime.
    pub cache_dir: Option<PathBuf>,
    /// Who compiles.
    pub compile: Compile,
    /// Threads for guests. None: one per core.
    pub workers: Option<usize>,
    /// What plugins may do.
    pub policy: Policy,
    /// Memory of the instances of all plugins together, in bytes.
    pub max_memory: usize,
}

impl RuntimeOptions {
    /// The memory that all plugins have together where nobody says otherwise, in bytes.
    pub const MAX_MEMORY: usize = 2 << 30;
}

/// Runs plugins.
pub struct Runtime {
    shared: Arc<Shared>,
    adapters: Adapters,
    compiler: Compiler,
    policy: Policy,
    guests: Option<tokio::runtime::Runtime>,
}

impl Runtime {
    /// Sets up the engine and the guests' threads.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn new(options: RuntimeOptions) -> Result<Self, SetupError> {
        Self::speaking(abi::adapters(), options)
    }

    /// As [`Runtime::new`], for these versions of the contract.
    pub(crate) fn speaking(
        adapters: Adapters,
        options: RuntimeOptions,
    ) -> Result<Self, SetupError> {
        let engine_error = |error: wasmtime::Error| SetupError::Engine(format!("{error:#}"));
        let engine = engine::running().map_err(engine_error)?;
        let mut linker = Linker::<State>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(engine_error)?;
        for adapter in adapters.iter() {
            adapter.link(&mut linker).map_err(engine_error)?;
        }
        let cache = Cache::open(options.cache_dir.as_deref(), &engine)?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // Guests run here and nowhere else, so that none of them ever holds up a request of another.
        let guests = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.workers.unwrap_or(cores).max(1))
            .thread_name("guest")
            .enable_all()
            .build()
            .map_err(SetupError::Threads)?;
        let ticker = Ticker::start(&engine).map_err(SetupError::Threads)?;
        let shared = Shared::new(
            engine,
            linker,
            guests.handle().clone(),
            ticker,
            options.max_memory,
        );
        Ok(Self {
            shared,
            adapters,
            compiler: Compiler::new(options.compile, cache),
            policy: options.policy,
            guests: Some(guests),
        })
    }

    /// Loads a plugin: checks its signature and its bounds, compiles it, asks what it is, and checks that too. What is
    /// returned serves nobody yet.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub async fn load(&self, plugin: PluginFile) -> Result<Arc<Generation>, LoadError> {
        let PluginFile {
            name,
            bytes: component,
            settings,
            signature,
            ..
        } = plugin;
        let bytes = component.clone();
        // What the file says of its digest is not believed.
        let digested = tokio::task::spawn_blocking(move || digest(&bytes)).await;
        let digest = digested.map_err(|error| LoadError::Host(error.to_string()))?;
        if let Some(keys) = &self.policy.trusted_keys {
            keys.verify(&digest, signature.as_deref())?;
        }
        let (bytes, adapters) = (component.clone(), self.adapters.clone());
        let inspected = tokio::task::spawn_blocking(move || inspect(&bytes, &adapters)).await;
        let Inspected { adapter, exported } =
            inspected.map_err(|error| LoadError::Host(error.to_string()))??;
        let contract = adapter.version();
        let compiled = self
            .compiler
            .component(&self.shared.engine, &component, &digest)
            .await?;
        let link = |error: wasmtime::Error| LoadError::Link {
            contract,
            message: format!("{error:#}"),
        };
        let pre = self
            .shared
            .linker
            .instantiate_pre(&compiled)
            .map_err(link)?;
        let exports = adapter.find(&pre, exported).map_err(link)?;
        let parts = Parts {
            name: name.clone(),
            pre,
            exports,
            settings: settings.guest_text(),
            limits: settings.limits.clone(),
            pure: exported.join,
        };
        let pool = Pool::new(parts, self.shared.clone());
        let declared = pool
            .call_fresh(|Instance { store, exports, .. }: &mut Instance| {
                Box::pin(exports.describe(store))
            })
            .await
            .map_err(|failed| load_error(failed, contract))?;
        let description = description::check(&declared, exported, &settings.any_namespace)
            .map_err(LoadError::Description)?;
        let grant = self.policy.grants.of(&name);
        let denied = description.denied(&settings, &grant);
        if !denied.is_empty() {
            return Err(LoadError::NotGranted(denied));
        }
        let views: Vec<ViewSpec> = description
            .resources
            .iter()
            .filter_map(|resource| match &resource.shape {
                Shape::View(spec) => Some(ViewSpec::clone(spec)),
                Shape::Stored | Shape::Served => None,
            })
            .collect();
        if !views.is_empty() {
            deterministic(&pool, Arc::new(views), contract).await?;
        }
        Ok(Generation::new(digest, settings, description, grant, pool))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A plain drop would wait for guests, and may not be done from within another runtime.
        if let Some(guests) = self.guests.take() {
            guests.shutdown_background();
        }
    }
}

/// SHA-256 in hex.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn load_error(failed: Failed, contract: &'static str) -> LoadError {
    match failed {
        Failed::Link(message) => LoadError::Link { contract, message },
        Failed::Configure(message) => LoadError::Configure(message),
        // In wasmtime's words, which do not say whose limits.
        Failed::Trapped(message) if message.contains("exceeds memory limits") => LoadError::Failed(
            format!("{message}: limits.memoryMiB of its settings is less than it begins with"),
        ),
        Failed::Trapped(message) => LoadError::Failed(message),
        Failed::TimedOut(limit) => LoadError::TimedOut(limit),
        Failed::Busy(message) => LoadError::Host(message.to_owned()),
    }
}

/// Asks two instances, one of them twice. A guest that fails on the sample must fail each time.
async fn deterministic(
    pool: &Arc<Pool>,
    views: Arc<Vec<ViewSpec>>,
    contract: &'static str,
) -> Result<(), LoadError> {
    let mut rounds: Vec<Result<Vec<String>, String>> = Vec::new();
    for times in [1, 2] {
        let views = views.clone();
        let asked = pool
            .call_fresh(move |instance: &mut Instance| {
                Box::pin(async move {
                    let mut rounds = Vec::new();
                    for _ in 0..times {
                        rounds.push(sample::answers(instance, &views).await?);
                    }
                    Ok(rounds)
                })
            })
            .await;
        match asked {
            Ok(answers) => rounds.extend(answers.into_iter().map(Ok)),
            Err(Failed::Trapped(message)) => rounds.push(Err(message)),
            Err(failed) => return Err(load_error(failed, contract)),
        }
    }
    let first = &rounds[0];
    let Some(other) = rounds[1..].iter().find(|round| *round != first) else {
        return Ok(());
    };
    Err(LoadError::NotDeterministic(match (first, other) {
        (Ok(first), Ok(other)) => {
            let differing = first.iter().zip(other).find(|(a, b)| a != b);
            let question = differing
                .and_then(|(a, _)| a.split_once(": "))
                .map_or("describe", |(q, _)| q);
            question.to_owned()
        }
        _ => "the same objects: one of them failed".to_owned(),
    }))
}
