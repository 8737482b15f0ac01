//! Asking kube-apiserver again.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Longest wait for an answer, tries and pauses included: a request that depends on it must end before its client's
/// patience does.
const PATIENCE: Duration = Duration::from_secs(8);
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetryError {
    /// The last try failed.
    #[error(transparent)]
    Failed(#[from] kube::Error),
    /// All tries together took too long.
    #[error("no answer from kube-apiserver within {} s", PATIENCE.as_secs())]
    Late,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CodeLabels {
    code: String,
}

/// Requests to kube-apiserver, by the code of the answer; `<error>` when there was none.
pub(crate) type Requests = Family<CodeLabels, Counter>;

fn count<T>(requests: &Requests, answer: &Result<T, kube::Error>) {
    let code = match answer {
        Ok(_) => "201".to_owned(),
        Err(kube::Error::Api(status)) => status.code.to_string(),
        Err(_) => "<error>".to_owned(),
    };
    requests.get_or_create(&CodeLabels { code }).inc();
}

/// Up to five tries with growing pauses (k8s.io/apiserver: 500 ms × 1.5), within eight seconds. A refusal that another
/// try would get again is final.
pub(crate) async fn retry<T, F>(requests: &Requests, call: impl Fn() -> F) -> Result<T, RetryError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let tries = async {
        let mut pause = FIRST_PAUSE;
        let mut tried = 0;
        loop {
            let answer = call().await;
            count(requests, &answer);
            tried += 1;
            match answer {
                Err(error) if tried < TRIES && is_temporary(&error) => {
                    tokio::time::sleep(pause).await;
                    pause = pause.mul_f32(1.5);
                }
                done => return done,
            }
        }
    };
    match tokio::time::timeout(PATIENCE, tries).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(RetryError::Late),
    }
}

fn is_temporary(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || status.code == 429,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn api_error(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(kube::core::Status {
            code,
            ..kube::core::Status::default()
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_temporary_failure_is_tried_again_and_a_refusal_is_final() {
        for (code, expected) in [(503, TRIES), (429, TRIES), (403, 1)] {
            let tries = AtomicU32::new(0);
            let answer: Result<(), _> = retry(&Requests::default(), || {
                tries.fetch_add(1, Ordering::Relaxed);
                async { Err(api_error(code)) }
            })
            .await;
            assert!(matches!(answer, Err(RetryError::Failed(_))));
            assert_eq!(tries.into_inner(), expected, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_after_eight_seconds() {
        let began = tokio::time::Instant::now();
        let answer: Result<(), _> = retry(&Requests::default(), std::future::pending).await;
        assert!(matches!(answer, Err(RetryError::Late)));
        assert_eq!(began.elapsed(), PATIENCE);
    }
}
