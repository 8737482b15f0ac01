//! Why a batch was not written, in words for clients.

use std::io::ErrorKind;

/// A failed write. Its words are for clients: what the engine says of itself goes to the log.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct WriteError {
    reason: String,
    /// Whether it may be over by itself, as a full disk is when something was removed.
    pub(super) passing: bool,
}

impl WriteError {
    pub(super) fn new(error: fjall::Error) -> Self {
        use fjall::Error::{Io, Poisoned, Storage};
        let (reason, passing) = match &error {
            Io(source) | Storage(fjall::LsmError::Io(source)) => match source.kind() {
                ErrorKind::StorageFull => ("no space left on device".to_owned(), true),
                ErrorKind::QuotaExceeded => ("disk quota exceeded".to_owned(), true),
                ErrorKind::FileTooLarge => ("file too large".to_owned(), true),
                _ => (source.to_string(), false),
            },
            // In a thread of the engine: the journal has all of it, so that opening it anew tells.
            Poisoned => ("writing in the background failed".to_owned(), true),
            _ => ("the engine failed".to_owned(), false),
        };
        tracing::error!(error = ?error, "the store's engine cannot write");
        Self { reason, passing }
    }
}
