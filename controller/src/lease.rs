//! Leader election through a Lease (coordination.k8s.io/v1).
//!
//! The protocol is that of client-go's leaderelection package, so that the Lease
//! reads as people expect. Clocks of different machines are never compared: who
//! waits counts, on his own clock, how long he has seen the Lease unchanged.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use crate::api_error::brief;

/// How long a Lease lasts and how often it is renewed.
///
/// It must hold that `retry < renew_deadline < duration`: then a holder that cannot
/// renew gives up before anybody else may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    /// How long others leave an unrenewed Lease alone; whole seconds.
    pub duration: Duration,
    /// How long the holder tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The time between two attempts to take or renew the Lease.
    pub retry: Duration,
}

impl LeaseTiming {
    /// The timing for a Lease of this many seconds, in the proportions of
    /// client-go's defaults (15, 10 and 2 seconds).
    pub fn of_seconds(seconds: u32) -> Self {
        let duration = Duration::from_secs(seconds.max(1).into());
        Self {
            duration,
            renew_deadline: duration * 2 / 3,
            retry: duration * 2 / 15,
        }
    }
}

/// A request about the Lease failed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server or the connection answered with an error.
    #[error("Lease {namespace}/{name}: {}{}", brief(.source), hint(.source))]
    Request {
        /// The Lease's namespace.
        namespace: String,
        /// The Lease's name.
        name: String,
        /// What was answered.
        #[source]
        source: kube::Error,
    },
    /// There was no answer before the renewal deadline.
    #[error("Lease {namespace}/{name}: no answer from the API server")]
    Timeout {
        /// The Lease's namespace.
        namespace: String,
        /// The Lease's name.
        name: String,
    },
}

fn hint(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            " (does the namespace exist? See --namespace)"
        }
        kube::Error::Api(status) if status.code == 403 => {
            " (may this identity get, create and update Leases there?)"
        }
        _ => "",
    }
}

/// What an attempt to take or renew the Lease came to.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Held,
    HeldBy(String),
    /// Somebody wrote at the same time; who holds the Lease is to be seen.
    Raced,
}

/// A Lease of which one process at a time is the holder.
pub struct LeaseLock {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    timing: LeaseTiming,
    /// The Lease as it was seen last, and since when it has been seen so.
    seen: Option<(LeaseSpec, Instant)>,
    /// When the last attempt began that made or kept this process the holder.
    renewed: Instant,
}

impl LeaseLock {
    /// A lock on the Lease `name` in `namespace`, for the process that calls
    /// itself `identity`, a name that no other process may have.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        timing: LeaseTiming,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            timing,
            seen: None,
            renewed: Instant::now(),
        }
    }

    /// Waits until this process is the holder. Errors are logged and tried again.
    pub async fn acquire(&mut self) {
        let mut told = None;
        loop {
            match self.attempt(self.timing.renew_deadline).await {
                Ok(Attempt::Held) => return,
                Ok(Attempt::HeldBy(other)) => {
                    if told.as_ref() != Some(&other) {
                        tracing::info!(lease = self.name, holder = other, "stands by");
                        told = Some(other);
                    }
                }
                Ok(Attempt::Raced) => {}
                Err(error) => tracing::warn!(%error, "cannot take the Lease, will try again"),
            }
            sleep(self.timing.retry).await;
        }
    }

    /// Renews the Lease that [`acquire`](Self::acquire) took for as long as this
    /// process is the holder; returns when it no longer is, at the latest
    /// `renew_deadline` after the last renewal.
    pub async fn hold(&mut self) {
        loop {
            sleep(self.timing.retry).await;
            let left = self
                .timing
                .renew_deadline
                .saturating_sub(self.renewed.elapsed());
            match self.attempt(left).await {
                Ok(Attempt::Held | Attempt::Raced) => {}
                Ok(Attempt::HeldBy(other)) => {
                    tracing::warn!(
                        lease = self.name,
                        holder = other,
                        "somebody else took the Lease"
                    );
                    return;
                }
                Err(error) => tracing::warn!(%error, "cannot renew the Lease"),
            }
            if self.renewed.elapsed() >= self.timing.renew_deadline {
                tracing::warn!(lease = self.name, "could not renew the Lease in time");
                return;
            }
        }
    }

    /// Gives the Lease up, so that the next holder need not wait until it expires.
    ///
    /// # Errors
    /// [`LeaseError`] when the Lease could not be read or written; it then expires.
    pub async fn release(&self) -> Result<(), LeaseError> {
        let release = async {
            let Some(mut lease) = self.api.get_opt(&self.name).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            self.api
                .replace(&self.name, &PostParams::default(), &lease)
                .await
                .map(drop)
        };
        let answer = timeout(self.timing.renew_deadline, release).await;
        self.told(answer)
    }

    async fn attempt(&mut self, limit: Duration) -> Result<Attempt, LeaseError> {
        // Counted from before the request: the server may have stored it that early.
        let began = Instant::now();
        let answer = timeout(limit, self.unbounded_attempt()).await;
        let attempt = self.told(answer)?;
        if attempt == Attempt::Held {
            self.renewed = began;
        }
        Ok(attempt)
    }

    async fn unbounded_attempt(&mut self) -> Result<Attempt, kube::Error> {
        let written = match self.api.get_opt(&self.name).await? {
            None => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(self.name.clone()),
                        ..ObjectMeta::default()
                    },
                    spec: Some(self.claim(None)),
                };
                self.api.create(&PostParams::default(), &lease).await
            }
            Some(current) => {
                let spec = current.spec.clone().unwrap_or_default();
                if let Some(holder) = self.holder_to_respect(&spec) {
                    return Ok(Attempt::HeldBy(holder));
                }
                // The resourceVersion that stays in the metadata guards the write.
                let claimed = Lease {
                    spec: Some(self.claim(Some(&spec))),
                    ..current
                };
                self.api
                    .replace(&self.name, &PostParams::default(), &claimed)
                    .await
            }
        };
        match written {
            Ok(_) => Ok(Attempt::Held),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Raced),
            Err(error) => Err(error),
        }
    }

    /// The other process that holds the Lease, unless it has been seen unchanged
    /// for longer than it lasts.
    fn holder_to_respect(&mut self, spec: &LeaseSpec) -> Option<String> {
        let since = match &self.seen {
            Some((seen, since)) if seen == spec => *since,
            _ => self.seen.insert((spec.clone(), Instant::now())).1,
        };
        let holder = spec
            .holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty() && *holder != self.identity)?;
        let lasts = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.timing.duration, Duration::from_secs);
        (since.elapsed() < lasts).then(|| holder.to_owned())
    }

    /// The Lease with this process as its holder: a renewal, or a transition from another holder.
    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let claim = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.timing.duration.as_secs()).unwrap_or(i32::MAX),
            ),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let Some(before) = before else {
            return claim;
        };
        let transitions = before.lease_transitions.unwrap_or_default();
        if before.holder_identity.as_deref() == Some(&self.identity) {
            LeaseSpec {
                acquire_time: before.acquire_time.clone(),
                lease_transitions: Some(transitions),
                ..claim
            }
        } else {
            LeaseSpec {
                lease_transitions: Some(transitions.saturating_add(1)),
                ..claim
            }
        }
    }

    fn told<T>(&self, answer: Result<Result<T, kube::Error>, Elapsed>) -> Result<T, LeaseError> {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(LeaseError::Request {
                namespace,
                name,
                source,
            }),
            Err(_elapsed) => Err(LeaseError::Timeout { namespace, name }),
        }
    }
}
