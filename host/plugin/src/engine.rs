//! The engine that all plugins share, and the bounds of its pool.

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Instances that may exist at once, warm ones included, of whichever plugins ask first. A slot is taken before one is made, so that
/// the engine's own pool is never found empty.
pub(crate) const SHARED_INSTANCES: u32 = 64;

/// Instances beside them, one a plugin: who finds the shared ones taken by others has this one.
pub(crate) const RESERVED_INSTANCES: u32 = 16;

/// All that the engine has room for.
const INSTANCES: u32 = SHARED_INSTANCES + RESERVED_INSTANCES;

/// The largest memory that any plugin may be given, in bytes.
pub(crate) const MAX_MEMORY: usize = 256 << 20;

/// Core instances of one component. One of Python has 43: each of its libraries is one.
const CORE_INSTANCES: u32 = 64;

/// What a guest may hand to the host in one call, in bytes.
pub(crate) const HOSTCALL_FUEL: usize = 16 << 20;

/// The engine that runs guests: instances come from a pool of fixed size.
pub(crate) fn running() -> wasmtime::Result<Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(INSTANCES)
        .total_memories(INSTANCES)
        .total_stacks(INSTANCES)
        .total_core_instances(CORE_INSTANCES * INSTANCES)
        .total_tables(4 * INSTANCES)
        .max_core_instances_per_component(CORE_INSTANCES)
        // Only their count is bounded ahead; what one takes, besides its memory, is allocated when it is made.
        .max_core_instance_size(512 << 10)
        .max_memories_per_component(1)
        .max_tables_per_component(4)
        .max_memory_size(MAX_MEMORY)
        .max_unused_warm_slots(8);
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config)
}

/// The engine that compiles: what it makes loads into the [`running`] one, but it reserves nothing to run in.
pub(crate) fn compiling() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .wasm_memory64(false)
        // A view must give the same bytes on every machine.
        .relaxed_simd_deterministic(true)
        .cranelift_nan_canonicalization(true);
    config
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use super::*;

    #[test]
    fn what_the_one_compiles_the_other_runs() {
        let hash = |engine: &Engine| {
            let mut hasher = DefaultHasher::new();
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&running().unwrap()), hash(&compiling().unwrap()));
    }
}
