//! The environments, each started once for the whole binary by the first test that wants it.

use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use joinery_e2e::{Environment, Kind, Workspace};

/// An environment that tests share.
pub(crate) struct Shared {
    environment: Environment,
    gate: RwLock<()>,
}

impl std::ops::Deref for Shared {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.environment
    }
}

impl Shared {
    /// For a test that bears others beside it. Hold it to the end.
    pub(crate) fn in_common(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a test that disturbs the others: it restarts the host, or changes its plugins.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joinery with no cluster at all.
pub(crate) fn standalone() -> &'static Shared {
    static SLOT: OnceLock<Result<Shared, String>> = OnceLock::new();
    get(&SLOT, Kind::Standalone)
}

/// Joinery behind a real control plane.
pub(crate) fn cluster() -> &'static Shared {
    static SLOT: OnceLock<Result<Shared, String>> = OnceLock::new();
    get(&SLOT, Kind::Cluster)
}

/// How often a repetition is run: all of `full` with `cargo xtask test --full`, else a twentieth of it.
pub(crate) fn count(full: usize) -> usize {
    if std::env::var("JOINERY_TEST_FULL").is_ok_and(|value| value == "1") {
        full
    } else {
        full.div_ceil(20)
    }
}

fn get(slot: &'static OnceLock<Result<Shared, String>>, kind: Kind) -> &'static Shared {
    // Nothing drops a static: when the binary ends, the guardian process ends what the environment started.
    match slot.get_or_init(|| start(kind).map_err(|error| format!("{error:#}"))) {
        Ok(shared) => shared,
        Err(error) => panic!("the {} environment did not start: {error}", kind.name()),
    }
}

fn start(kind: Kind) -> anyhow::Result<Shared> {
    let workspace = Workspace::here();
    workspace.ensure_built()?;
    let environment = Environment::start(&workspace, kind, &format!("e2e-{}", kind.name()))?;
    Ok(Shared {
        environment,
        gate: RwLock::new(()),
    })
}
