//! Where a guest's words go: into the host's log, bounded in rate and size.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};

/// Records that may come at once.
const BURST: f64 = 100.0;
/// Records a second, in the long run.
const RATE: f64 = 20.0;
/// The longest record, in bytes.
const LONGEST: usize = 4 << 10;
/// Fields of a record.
const MOST_FIELDS: usize = 32;

/// How loud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The log of one plugin, shared by its instances.
pub(crate) struct Output {
    plugin: String,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
    dropped: u64,
}

impl Output {
    pub(crate) fn new(plugin: &str) -> Arc<Self> {
        let bucket = Bucket {
            tokens: BURST,
            filled: Instant::now(),
            dropped: 0,
        };
        Arc::new(Self {
            plugin: plugin.to_owned(),
            bucket: Mutex::new(bucket),
        })
    }

    /// Writes a record, unless the plugin has written too many.
    pub(crate) fn record(&self, level: Level, message: &str, fields: &[(String, String)]) {
        let Some(dropped) = self.admit(Instant::now()) else {
            return;
        };
        let plugin = self.plugin.as_str();
        if dropped > 0 {
            tracing::warn!(
                plugin,
                dropped,
                "records of the plugin were left out: too many at once"
            );
        }
        let message = cut(message);
        let mut joined = String::new();
        for (name, value) in fields.iter().take(MOST_FIELDS) {
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(name);
            joined.push('=');
            joined.push_str(value);
        }
        let fields = cut(&joined);
        match level {
            Level::Debug => tracing::debug!(plugin, fields, "{message}"),
            Level::Info => tracing::info!(plugin, fields, "{message}"),
            Level::Warn => tracing::warn!(plugin, fields, "{message}"),
            Level::Error => tracing::error!(plugin, fields, "{message}"),
        }
    }

    /// None: not this one. Else how many before it were not.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut bucket = self.bucket.lock();
        let gained = now.saturating_duration_since(bucket.filled).as_secs_f64() * RATE;
        bucket.tokens = (bucket.tokens + gained).min(BURST);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            bucket.dropped += 1;
            return None;
        }
        bucket.tokens -= 1.0;
        Some(std::mem::take(&mut bucket.dropped))
    }
}

/// The beginning of a text, at most [`LONGEST`] bytes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

/// A guest's stdout or stderr: lines become records, and the last are kept for the message of a trap.
#[derive(Clone)]
pub(crate) struct Stream {
    output: Arc<Output>,
    level: Level,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    partial: Vec<u8>,
    last: VecDeque<String>,
}

impl Stream {
    pub(crate) fn new(output: Arc<Output>, level: Level) -> Self {
        Self {
            output,
            level,
            lines: Arc::default(),
        }
    }

    /// The end of what was written: what a panicking guest says before it traps.
    pub(crate) fn last_words(&self) -> String {
        let lines = self.lines.lock();
        let partial = String::from_utf8_lossy(&lines.partial);
        let said = lines
            .last
            .iter()
            .rev()
            .map(String::as_str)
            .chain([partial.as_ref()])
            .map(str::trim);
        said.filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn write(&self, bytes: &[u8]) {
        let mut lines = self.lines.lock();
        for part in bytes.split_inclusive(|&b| b == b'\n') {
            // Past the longest record there is nothing to keep.
            let room = LONGEST.saturating_sub(lines.partial.len());
            let whole = part.ends_with(b"\n");
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            lines
                .partial
                .extend_from_slice(&text[..text.len().min(room)]);
            if whole {
                let line =
                    String::from_utf8_lossy(&std::mem::take(&mut lines.partial)).into_owned();
                self.output.record(self.level, &line, &[]);
                // A panic takes two lines, and a third about backtraces, which nobody can turn on here.
                if !line.trim().is_empty() && !line.starts_with("note: run with") {
                    lines.last.truncate(1);
                    lines
                        .last
                        .push_front(line[..line.floor_char_boundary(512)].to_owned());
                }
            }
        }
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let output = Output::new("p");
        let start = Instant::now();
        let written = (0..1_000).filter(|_| output.admit(start).is_some()).count();
        assert_eq!(written, 100);
        assert_eq!(output.admit(start + Duration::from_secs(1)), Some(900));
        assert_eq!(output.admit(start + Duration::from_secs(1)), Some(0));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "ä".repeat(LONGEST);
        assert_eq!(cut(&text).len(), LONGEST);
        assert_eq!(cut(&format!("x{text}")).len(), LONGEST - 1);
    }

    #[test]
    fn a_line_without_end_takes_no_more_than_a_record() {
        let stream = Stream::new(Output::new("p"), Level::Info);
        for _ in 0..100 {
            stream.write(&[b'x'; 1_000]);
        }
        assert_eq!(stream.lines.lock().partial.len(), LONGEST);
    }

    #[test]
    fn the_last_words_are_those_of_a_panic() {
        let stream = Stream::new(Output::new("p"), Level::Warn);
        stream.write(b"before\nmore\n\nthread 'main' panicked at src/lib.rs:1:1:\nno such");
        stream.write(b" luck\nnote: run with `RUST_BACKTRACE=1`\n");
        let words = stream.last_words();
        assert!(
            words.contains("src/lib.rs:1:1") && words.contains("no such luck"),
            "{words}"
        );
        assert!(
            !words.contains("more") && !words.contains("note"),
            "{words}"
        );
    }
}
