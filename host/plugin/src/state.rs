//! What belongs to one instance besides its memory: a WASI that gives nothing, a bound, and the look-ups of one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use joinery_resource::Lookup;
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};

use crate::outbound::OutboundClient;
use crate::output::{Level, Output, Stream};

/// Bytes that a guest's random source repeats for ever. Any will do, as long as they are always the same: Rust's
/// HashMap, for one, orders by them.
const RANDOM: [u8; 16] = *b"joinery-constant";

/// The data of a store.
pub(crate) struct State {
    table: ResourceTable,
    wasi: WasiCtx,
    pub(crate) memory: Memory,
    pub(crate) output: Arc<Output>,
    stderr: Stream,
    /// Set while `admit` or a verb runs.
    pub(crate) lookups: Option<Lookups>,
    /// Set while a verb runs.
    pub(crate) outbound: Option<Outbound>,
}

/// Calls of one verb to other hosts. They run where the request runs.
#[derive(Clone)]
pub(crate) struct Outbound {
    pub(crate) client: Arc<OutboundClient>,
    pub(crate) host: tokio::runtime::Handle,
}

/// Look-ups of one review. They run where the request runs, for they may open connections that outlive the guest.
#[derive(Clone)]
pub(crate) struct Lookups {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) host: tokio::runtime::Handle,
}

impl State {
    /// `pure`: also the random bytes are constant, as they must be for views.
    pub(crate) fn new(output: &Arc<Output>, memory: Memory, pure: bool) -> Self {
        let stderr = Stream::new(output.clone(), Level::Warn);
        let mut wasi = WasiCtx::builder();
        wasi.stdout(Stream::new(output.clone(), Level::Info))
            .stderr(stderr.clone())
            .wall_clock(Stopped)
            .monotonic_clock(Stopped)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(1 << 20);
        if pure {
            wasi.secure_random(Deterministic::new(RANDOM.to_vec()))
                .insecure_random(Deterministic::new(RANDOM.to_vec()))
                .insecure_random_seed(u128::from_le_bytes(RANDOM));
        }
        Self {
            table: ResourceTable::new(),
            wasi: wasi.build(),
            memory,
            output: output.clone(),
            stderr,
            lookups: None,
            outbound: None,
        }
    }

    /// What looks things up for the call that runs.
    pub(crate) fn lookups(&self) -> wasmtime::Result<Lookups> {
        self.lookups.clone().ok_or_else(|| {
            wasmtime::Error::msg(
                "joinery:plugin/kubernetes may be called while a write is admitted or a verb is answered, and never else",
            )
        })
    }

    /// The end of what the guest wrote to stderr.
    pub(crate) fn last_words(&self) -> String {
        self.stderr.last_words()
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

/// The clock of guests: it stands. The only time is the one that a review brings along.
struct Stopped;

impl HostWallClock for Stopped {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Stopped {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Counts the memory of an instance, and refuses more than its plugin may have, or all together.
pub(crate) struct Memory {
    pub(crate) used: usize,
    limit: usize,
    budget: Arc<MemoryBudget>,
    /// The bound that was met last.
    met: Option<&'static str>,
}

impl Memory {
    /// Of an instance that may have `limit` bytes.
    pub(crate) fn new(limit: usize, budget: Arc<MemoryBudget>) -> Self {
        Self {
            used: 0,
            limit,
            budget,
            met: None,
        }
    }

    /// The setting whose bound kept the instance from growing, if one did.
    pub(crate) fn met(&self) -> Option<&'static str> {
        self.met
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.budget.give_back(self.used);
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired - current;
        self.met = if self.used + more > self.limit {
            Some("limits.memoryMiB of the plugin's settings")
        } else if !self.budget.take(more) {
            Some("--max-plugin-memory, for all plugins together")
        } else {
            self.used += more;
            None
        };
        Ok(self.met.is_none())
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= 20_000)
    }
}

/// What the instances of all plugins may have together, in bytes.
pub(crate) struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
        })
    }

    fn take(&self, more: usize) -> bool {
        let within = |used: usize| used.checked_add(more).filter(|sum| *sum <= self.limit);
        let ordering = Ordering::Relaxed;
        self.used.fetch_update(ordering, ordering, within).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether so much is used that no instance should be kept for later.
    pub(crate) fn is_tight(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_at_most_what_is_its_own_and_what_all_may_have() {
        let budget = MemoryBudget::new(100);
        let mut one = Memory::new(80, budget.clone());
        assert!(one.memory_growing(0, 60, None).unwrap());
        assert!(!one.memory_growing(60, 90, None).unwrap());
        assert!(one.met().unwrap().contains("memoryMiB"));
        let mut other = Memory::new(80, budget.clone());
        assert!(!other.memory_growing(0, 50, None).unwrap());
        assert!(other.met().unwrap().contains("--max-plugin-memory"));
        drop(one);
        assert!(other.memory_growing(0, 50, None).unwrap() && !budget.is_tight());
        assert!(other.memory_growing(50, 80, None).unwrap() && budget.is_tight());
    }
}
