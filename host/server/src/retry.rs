//! Asking kube-apiserver again.

use std::time::Duration;

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

/// Up to five tries with growing pauses (k8s.io/apiserver: 500 ms × 1.5), within eight seconds. A refusal that another
/// try would get again is final.
pub(crate) async fn retry<T, F>(call: impl Fn() -> F) -> Result<T, RetryError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let tries = async {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match call().await {
                Err(error) if is_temporary(&error) => {
                    tokio::time::sleep(pause).await;
                    pause = pause.mul_f32(1.5);
                }
                done => return done,
            }
        }
        call().await
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
