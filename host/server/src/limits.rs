//! How much at once, and how long.

use std::sync::Arc;
use std::time::Duration;

use joinery_object::{Query, Status};
use joinery_resource::{MASTERS, User};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::request::parse_go_duration;

/// Bounds of the server. The defaults are kube-apiserver's.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Reads answered at once, watches excluded; more are 429.
    pub reads: usize,
    /// Writes answered at once; more are 429.
    pub writes: usize,
    /// Longest time for an answer, watches excluded; then 504.
    pub request_timeout: Duration,
    /// Longest time for the head of an HTTP/1.1 request; then the connection is closed.
    pub head_timeout: Duration,
    /// A watch without `timeoutSeconds` ends after this time up to twice as long, at random.
    pub min_watch_timeout: Duration,
    /// After the signal to stop: how long requests are still accepted, so that balancers can notice `/readyz`.
    pub shutdown_delay: Duration,
    /// After that: how long requests may take to end. Watches end spread over the first half of it.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reads: 400,
            writes: 200,
            request_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(32),
            min_watch_timeout: Duration::from_secs(1800),
            shutdown_delay: Duration::ZERO,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// Seconds after which a refused client should try again.
const RETRY_AFTER: u32 = 1;

/// The places that requests take while they are answered.
pub(crate) struct Places {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            reads: Arc::new(Semaphore::new(limits.reads)),
            writes: Arc::new(Semaphore::new(limits.writes)),
        }
    }

    /// A place, to be held until the answer is made. `system:masters` needs none.
    ///
    /// # Errors
    /// 429 when all are taken.
    pub(crate) fn take(
        &self,
        user: &User,
        mutating: bool,
    ) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(None);
        }
        let places = if mutating { &self.writes } else { &self.reads };
        places.clone().try_acquire_owned().map(Some).map_err(|_| {
            Status::too_many_requests("Too many requests, please try again later.", RETRY_AFTER)
        })
    }
}

/// How long this request may take: `?timeout=`, within the server's bound.
///
/// # Errors
/// 400 for what is no duration.
pub(crate) fn request_timeout(query: &Query, limits: &Limits) -> Result<Duration, Status> {
    match query.get("timeout") {
        "" => Ok(limits.request_timeout),
        text => match parse_go_duration(text) {
            Some(Duration::ZERO) => Ok(limits.request_timeout),
            Some(timeout) => Ok(timeout.min(limits.request_timeout)),
            None => Err(Status::bad_request(format!(
                "invalid timeout specified in the request URI - {text:?} is no duration such as 30s"
            ))),
        },
    }
}

/// From nothing to almost all of a time, at random, so that what began together does not end together.
pub(crate) fn spread(over: Duration) -> Duration {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    #[expect(clippy::cast_possible_truncation, reason = "32 of 64 random bits")]
    let fraction = f64::from(high as u32) / f64::from(u32::MAX);
    over.mul_f64(fraction)
}
