//! Calls into a plugin: instances, how many, for how long, and what becomes of them.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use wasmtime::component::{InstancePre, Linker};
use wasmtime::{Engine, Store, Trap};

use crate::abi::{Exports, Guest};
use crate::engine::{HOSTCALL_FUEL, RESERVED_INSTANCES, SHARED_INSTANCES};
use crate::error::CallError;
use crate::output::Output;
use crate::settings::{Limits, Reuse};
use crate::state::{Lookups, Memory, MemoryBudget, Outbound, State};
use crate::ticker::Ticker;

/// Instances that a plugin keeps between calls.
const WARM: usize = 2;
/// An instance that has come to more memory than it began with, by so much, is not kept: one large call must not cost for
/// ever. What it begins with is the component's own: an interpreter with its heap is tens of MiB, most of which instances
/// share with the compiled file.
const WARM_MEMORY: usize = 8 << 20;
/// Calls after which an instance is not kept.
const WARM_CALLS: u32 = 10_000;
/// Callers that may wait for one plugin.
const QUEUE: u32 = 64;
/// How long they wait.
const QUEUE_TIME: Duration = Duration::from_secs(2);
/// What a caller is told who waited in vain.
const ALL_IN_USE: &str =
    "all instances of the host are in use by the calls of plugins, its own one among them";
/// Between two looks for warm instances, while somebody waits for a slot.
const EVICT_TIME: Duration = Duration::from_millis(20);

/// What all plugins share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    guests: Handle,
    ticker: Ticker,
    slots: Arc<Semaphore>,
    /// What plugins have of their own, while `slots` are taken.
    reserve: Arc<Semaphore>,
    /// What all instances may have.
    memory: Arc<MemoryBudget>,
    /// Callers that wait for a slot.
    wanted: AtomicU32,
    pools: Mutex<Vec<Weak<Pool>>>,
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        linker: Linker<State>,
        guests: Handle,
        ticker: Ticker,
        max_memory: usize,
    ) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(SHARED_INSTANCES as usize));
        let reserve = Arc::new(Semaphore::new(RESERVED_INSTANCES as usize));
        Arc::new(Self {
            engine,
            linker,
            guests,
            ticker,
            slots,
            reserve,
            memory: MemoryBudget::new(max_memory),
            wanted: AtomicU32::new(0),
            pools: Mutex::default(),
        })
    }

    /// The right to have one more instance. Warm ones of any plugin make room for it; if none does, the plugin's own may be free.
    async fn slot(&self, own: &Arc<Semaphore>) -> Option<Slot> {
        while self.memory.is_tight() && self.evict_one() {}
        if let Ok(shared) = self.slots.clone().try_acquire_owned() {
            return Some(Slot(shared, None));
        }
        // From now on no instance is kept; those that were kept until now go one by one.
        let _wanted = Counted::one(&self.wanted);
        let shared = pin!(self.slots.clone().acquire_owned());
        let reserved = pin!(async {
            let own = own.clone().acquire_owned().await.ok()?;
            let reserved = self.reserve.clone().acquire_owned().await.ok()?;
            Some(Slot(reserved, Some(own)))
        });
        let evict = async {
            loop {
                self.evict_one();
                tokio::time::sleep(EVICT_TIME).await;
            }
        };
        tokio::select! {
            biased;
            slot = shared => slot.ok().map(|shared| Slot(shared, None)),
            slot = reserved => slot,
            () = evict => None,
            () = tokio::time::sleep(QUEUE_TIME) => None,
        }
    }

    /// Whether there was one.
    fn evict_one(&self) -> bool {
        let pools: Vec<_> = self.pools.lock().iter().filter_map(Weak::upgrade).collect();
        let warm = pools.iter().find_map(|pool| pool.idle.lock().pop());
        warm.is_some()
    }
}

/// Room for one instance; with the second permit it is the plugin's own.
struct Slot(
    #[expect(dead_code, reason = "held for as long as the instance is")] OwnedSemaphorePermit,
    #[expect(dead_code, reason = "likewise")] Option<OwnedSemaphorePermit>,
);

/// One generation of a plugin, ready to be called.
pub(crate) struct Pool {
    pub(crate) name: String,
    pre: InstancePre<State>,
    exports: Box<dyn Exports>,
    settings: String,
    limits: Limits,
    pure: bool,
    output: Arc<Output>,
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    /// Its one instance beside the shared ones.
    own: Arc<Semaphore>,
    waiting: AtomicU32,
    idle: Mutex<Vec<Instance>>,
    counters: Counters,
}

/// What a pool is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Box<dyn Exports>,
    /// The guest's own settings.
    pub(crate) settings: String,
    pub(crate) limits: Limits,
    /// It has views: nothing that it can ask for differs from one instance to the next.
    pub(crate) pure: bool,
}

#[derive(Default)]
struct Counters {
    calls: AtomicU64,
    trapped: AtomicU64,
    timed_out: AtomicU64,
    busy: AtomicU64,
    instances: AtomicU64,
    microseconds: AtomicU64,
    memory: AtomicU64,
    /// In nanoseconds.
    inside: AtomicU64,
}

/// How a plugin's calls have gone since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that were begun.
    pub calls: u64,
    /// Calls that trapped.
    pub trapped: u64,
    /// Calls that took too long.
    pub timed_out: u64,
    /// Calls that were turned away.
    pub busy: u64,
    /// Instances that were made.
    pub instances: u64,
    /// How long calls took, together, those included that failed.
    pub time: Duration,
    /// The most memory that an instance had after a call, in bytes.
    pub memory: u64,
    /// Instances that wait for their next call.
    pub warm: u64,
    /// How long all calls together took on the guests' threads, without the way there and back.
    pub inside: Duration,
}

/// A configured instance.
pub(crate) struct Instance {
    // Dropped in this order: the slot is free once the instance is gone.
    pub(crate) store: Store<State>,
    pub(crate) exports: Box<dyn Guest>,
    calls: u32,
    /// Memory before the first call, in bytes.
    began_with: usize,
    _slot: Slot,
}

/// Why a call gave no answer, before it is put into words.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Imports or exports have other types than the contract's.
    Link(String),
    /// The guest refused its settings.
    Configure(String),
    Trapped(String),
    TimedOut(Duration),
    Busy(&'static str),
}

/// Ends a guest whose caller has gone.
struct Abort<R>(JoinHandle<R>);

impl<R> Drop for Abort<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Pool {
    /// An eighth of an instance's memory: the guest holds what it is given, what it reads out of it, and its answer.
    pub(crate) fn related_bytes(&self) -> usize {
        self.limits.memory() / 8
    }

    pub(crate) fn new(parts: Parts, shared: Arc<Shared>) -> Arc<Self> {
        let Parts {
            name,
            pre,
            exports,
            settings,
            limits,
            pure,
        } = parts;
        let pool = Arc::new(Self {
            output: Output::new(&name),
            permits: Arc::new(Semaphore::new(limits.concurrent_calls as usize)),
            own: Arc::new(Semaphore::new(1)),
            waiting: AtomicU32::new(0),
            idle: Mutex::default(),
            counters: Counters::default(),
            name,
            pre,
            exports,
            settings,
            limits,
            pure,
            shared,
        });
        let mut pools = pool.shared.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        drop(pools);
        pool
    }

    /// Calls the guest on an instance that may have been called before.
    pub(crate) async fn call<R, F>(
        self: &Arc<Self>,
        lookups: Option<Lookups>,
        call: F,
    ) -> Result<R, CallError>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<R>> + Send + 'static,
    {
        self.call_outbound(lookups, None, call).await
    }

    /// As [`Pool::call`], of a guest that may also call other hosts.
    pub(crate) async fn call_outbound<R, F>(
        self: &Arc<Self>,
        lookups: Option<Lookups>,
        outbound: Option<Outbound>,
        call: F,
    ) -> Result<R, CallError>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<R>> + Send + 'static,
    {
        self.run(true, lookups, outbound, call)
            .await
            .map_err(|failed| self.worded(failed))
    }

    /// Calls the guest on a new instance.
    pub(crate) async fn call_fresh<R, F>(self: &Arc<Self>, call: F) -> Result<R, Failed>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<R>> + Send + 'static,
    {
        self.run(false, None, None, call).await
    }

    /// `warm`: an instance will do that has been called before.
    async fn run<R, F>(
        self: &Arc<Self>,
        warm: bool,
        lookups: Option<Lookups>,
        outbound: Option<Outbound>,
        call: F,
    ) -> Result<R, Failed>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<R>> + Send + 'static,
    {
        let permit = self.enter().await?;
        let mut work = (permit, lookups, outbound, call);
        let mut may_wait = warm;
        loop {
            // Calls take an instance when their turn comes and not before: of many that wait for the guests' threads a few run
            // at once, and as many instances serve them all.
            let slot = if may_wait && !self.idle.lock().is_empty() {
                None
            } else {
                let slot = self.shared.slot(&self.own).await;
                Some(slot.ok_or_else(|| self.busy(ALL_IN_USE))?)
            };
            let pool = self.clone();
            let turn = async move {
                let kept = warm.then(|| pool.idle.lock().pop()).flatten();
                let instance = match (kept, slot) {
                    (Some(instance), _) => Ok(instance),
                    (None, Some(slot)) => Err(slot),
                    // Others were quicker.
                    (None, None) => return Ok(Err(work)),
                };
                let (_permit, lookups, outbound, call) = work;
                let _running = pool.shared.ticker.run();
                pool.counters.calls.fetch_add(1, Ordering::Relaxed);
                let instance = match instance {
                    Ok(kept) => kept,
                    Err(slot) => pool.instance(slot).await?,
                };
                let answer = pool.on(instance, lookups, outbound, call).await;
                answer.map(Ok)
            };
            work = match self.within_time(turn).await? {
                Ok(answer) => return Ok(answer),
                Err(work) => work,
            };
            may_wait = false;
        }
    }

    /// Calls the guest on this instance, and keeps it for the next call.
    async fn on<R, F>(
        &self,
        mut instance: Instance,
        lookups: Option<Lookups>,
        outbound: Option<Outbound>,
        call: F,
    ) -> Result<R, Failed>
    where
        F: for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<R>> + Send,
    {
        instance.calls += 1;
        instance.store.data_mut().lookups = lookups;
        instance.store.data_mut().outbound = outbound;
        instance.store.set_epoch_deadline(1);
        let began = Instant::now();
        let outcome = call(&mut instance).await;
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counters.inside.fetch_add(nanos, Ordering::Relaxed);
        let memory = instance.store.data().memory.used as u64;
        self.counters.memory.fetch_max(memory, Ordering::Relaxed);
        instance.store.data_mut().lookups = None;
        instance.store.data_mut().outbound = None;
        match outcome {
            Ok(answer) => {
                self.keep(instance);
                Ok(answer)
            }
            Err(error) => Err(Failed::Trapped(self.trap(&error, &instance.store))),
        }
    }

    /// Runs on the guests' threads, for as long as a call may take.
    async fn within_time<R: Send + 'static>(
        &self,
        work: impl Future<Output = Result<R, Failed>> + Send + 'static,
    ) -> Result<R, Failed> {
        let limit = self.limits.call_time();
        let started = Instant::now();
        // The timer is this side's: there, guests could hold it up.
        let mut task = Abort(self.shared.guests.spawn(work));
        let outcome = match tokio::time::timeout(limit, &mut task.0).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panicked)) => Err(Failed::Trapped(format!("the host failed: {panicked}"))),
            Err(_) => Err(Failed::TimedOut(limit)),
        };
        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let time = &self.counters.microseconds;
        time.fetch_add(took, Ordering::Relaxed);
        match &outcome {
            Err(Failed::TimedOut(_)) => self.counters.timed_out.fetch_add(1, Ordering::Relaxed),
            Err(_) => self.counters.trapped.fetch_add(1, Ordering::Relaxed),
            Ok(_) => 0,
        };
        outcome
    }

    /// A place among the plugin's calls, perhaps after a short wait.
    async fn enter(&self) -> Result<OwnedSemaphorePermit, Failed> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = Counted::one(&self.waiting);
        if self.waiting.load(Ordering::SeqCst) > QUEUE {
            return Err(self.busy("too many calls wait already"));
        }
        let permit = tokio::time::timeout(QUEUE_TIME, self.permits.clone().acquire_owned()).await;
        drop(waiting);
        match permit {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.busy("no call ended in time")),
        }
    }

    fn busy(&self, message: &'static str) -> Failed {
        self.counters.busy.fetch_add(1, Ordering::Relaxed);
        Failed::Busy(message)
    }

    async fn instance(&self, slot: Slot) -> Result<Instance, Failed> {
        self.counters.instances.fetch_add(1, Ordering::Relaxed);
        let memory = Memory::new(self.limits.memory(), self.shared.memory.clone());
        let state = State::new(&self.output, memory, self.pure);
        let mut store = Store::new(&self.shared.engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(HOSTCALL_FUEL);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        let instance = match self.pre.instantiate_async(&mut store).await {
            Ok(instance) => instance,
            Err(error) => return Err(Failed::Trapped(self.trap(&error, &store))),
        };
        let began_with = store.data().memory.used;
        let exports = self
            .exports
            .load(&mut store, &instance)
            .map_err(|error| Failed::Link(format!("{error:#}")))?;
        match exports.configure(&mut store, &self.settings).await {
            Ok(Ok(())) => Ok(Instance {
                store,
                exports,
                calls: 0,
                began_with,
                _slot: slot,
            }),
            Ok(Err(message)) => Err(Failed::Configure(message)),
            Err(error) => Err(Failed::Trapped(self.trap(&error, &store))),
        }
    }

    fn keep(&self, instance: Instance) {
        if self.limits.reuse == Reuse::Never
            || self.shared.wanted.load(Ordering::SeqCst) > 0
            || self.shared.memory.is_tight()
            || instance.calls >= WARM_CALLS
            || instance.store.data().memory.used - instance.began_with > WARM_MEMORY
        {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < WARM {
            idle.push(instance);
        }
    }

    /// One line about a trap, and all of it into the log.
    fn trap(&self, error: &wasmtime::Error, store: &Store<State>) -> String {
        tracing::debug!(plugin = self.name, "trap: {error:?}");
        let mut message = match error.downcast_ref::<Trap>() {
            Some(trap) => trap.to_string(),
            None => error.root_cause().to_string(),
        };
        if let Some(bound) = store.data().memory.met() {
            message = format!("{message}; it had no more memory, by {bound}");
        }
        let words = store.data().last_words();
        if !words.is_empty() {
            message = format!("{message}; it said: {words}");
        }
        message
    }

    fn worded(&self, failed: Failed) -> CallError {
        let plugin = self.name.clone();
        match failed {
            // After the load, these are traps like others.
            Failed::Link(message) | Failed::Configure(message) | Failed::Trapped(message) => {
                tracing::warn!(plugin, "plugin failed: {message}");
                CallError::Trapped { plugin, message }
            }
            Failed::TimedOut(limit) => {
                tracing::warn!(plugin, "plugin did not answer within {limit:?}");
                CallError::TimedOut { plugin, limit }
            }
            Failed::Busy(message) => CallError::Busy {
                plugin,
                message: message.to_owned(),
            },
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let Counters {
            calls,
            trapped,
            timed_out,
            busy,
            instances,
            microseconds,
            memory,
            inside,
        } = &self.counters;
        Stats {
            calls: calls.load(Ordering::Relaxed),
            trapped: trapped.load(Ordering::Relaxed),
            timed_out: timed_out.load(Ordering::Relaxed),
            busy: busy.load(Ordering::Relaxed),
            instances: instances.load(Ordering::Relaxed),
            time: Duration::from_micros(microseconds.load(Ordering::Relaxed)),
            memory: memory.load(Ordering::Relaxed),
            warm: self.idle.lock().len() as u64,
            inside: Duration::from_nanos(inside.load(Ordering::Relaxed)),
        }
    }

    /// How many of the plugin's calls are worth making at once.
    pub(crate) fn width(&self) -> usize {
        self.shared
            .guests
            .metrics()
            .num_workers()
            .min(self.limits.concurrent_calls as usize)
    }
}

/// One more in a count, until it is dropped.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn one(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
