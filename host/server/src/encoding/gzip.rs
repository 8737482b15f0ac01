//! Compression of large answers.

use std::collections::VecDeque;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Shorter answers are sent as they are (k8s.io/apiserver: 128 KiB).
pub(super) const THRESHOLD: usize = 128 * 1024;

/// Whether the client can read gzip.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let refused = parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)));
            name.eq_ignore_ascii_case("gzip") && !refused
        })
}

/// Compresses on a thread for blocking work: tens of milliseconds for tens of megabytes.
pub(super) async fn gzip(pieces: VecDeque<Bytes>) -> Option<Bytes> {
    tokio::task::spawn_blocking(move || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for piece in pieces {
            encoder.write_all(&piece).ok()?;
        }
        encoder.finish().ok().map(Bytes::from)
    })
    .await
    .ok()?
}
