//! What belongs to one instance besides its memory: a WASI that gives nothing, a bound, and the look-ups of one call.

use std::sync::Arc;
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
    pub(crate) fn new(output: &Arc<Output>, memory_limit: usize, pure: bool) -> Self {
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
            memory: Memory {
                used: 0,
                limit: memory_limit,
            },
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

/// Counts the memory of an instance, and refuses more than its plugin may have.
pub(crate) struct Memory {
    pub(crate) used: usize,
    limit: usize,
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used = self.used - current + desired;
        if used > self.limit {
            return Ok(false);
        }
        self.used = used;
        Ok(true)
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
