//! Backups of a store that a process has open, through a socket in its folder.
//!
//! Whoever may read the store's files may have a backup: the socket asks for the same user, or root,
//! and nothing else. A connection is answered with a backup and closed.

use super::backup::{self, Backup};
use super::{Embedded, OpenError};
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

const SOCKET: &str = "backup.sock";
/// The address of a socket has room for 108 bytes on Linux, for fewer elsewhere.
const LONGEST_ADDRESS: usize = 100;
/// So long either side waits for the other to go on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a running process gave no backup.
#[derive(Debug, thiserror::Error)]
pub enum OnlineError {
    /// Nobody answers.
    #[error("the process that has the store in {} open gives no backup", dir.display())]
    Unreachable {
        /// The store's folder.
        dir: PathBuf,
        /// What connecting failed with.
        #[source]
        source: io::Error,
    },
    /// The backup broke off, or cannot be written.
    #[error("the backup of the running store broke off, or cannot be written")]
    Io(#[source] io::Error),
}

/// Answers on the socket until it is dropped.
#[derive(Debug)]
pub struct BackupServer {
    task: JoinHandle<()>,
    path: PathBuf,
}

impl Drop for BackupServer {
    fn drop(&mut self) {
        self.task.abort();
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "cannot remove the socket for backups");
        }
    }
}

impl Embedded {
    /// Writes a backup of the store as it is now. Writes go on meanwhile and are not in it.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn backup(&self, out: impl Write) -> io::Result<Backup> {
        backup::write(&self.shared.state(), out)
    }

    /// Gives backups to who asks for one with [`online_backup`]. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn serve_backups(self: &Arc<Self>) -> Result<BackupServer, OpenError> {
        let path = self.dir.join(SOCKET);
        let listen = || {
            // Of a process that was killed: the folder is ours alone.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = with_address(&self.dir, |address| UnixListener::bind(address))?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            Ok((listener, fs::metadata(&path)?.uid()))
        };
        let (listener, owner) = listen().map_err(|source| OpenError::Io {
            path: path.clone(),
            source,
        })?;
        let store = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "the socket for backups failed");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                };
                let trusted = stream
                    .peer_cred()
                    .is_ok_and(|peer| peer.uid() == owner || peer.uid() == 0);
                let Some(store) = store.upgrade().filter(|_| trusted) else {
                    continue;
                };
                tokio::task::spawn_blocking(move || match give(&store, stream) {
                    Ok(backup) => {
                        tracing::info!(
                            revision = backup.revision,
                            entries = backup.entries,
                            "gave a backup of the store"
                        );
                    }
                    Err(error) => tracing::warn!(%error, "a backup of the store broke off"),
                });
            }
        });
        Ok(BackupServer { task, path })
    }
}

fn give(store: &Embedded, stream: tokio::net::UnixStream) -> io::Result<Backup> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    store.backup(BufWriter::new(stream))
}

/// Takes a backup of a store that a running process has open. What is written is not checked: see
/// [`verify`](super::backup::verify).
///
/// # Errors
/// [`OnlineError`].
pub fn online_backup(dir: impl AsRef<Path>, out: &mut impl Write) -> Result<(), OnlineError> {
    let dir = dir.as_ref();
    let unreachable = |source| OnlineError::Unreachable {
        dir: dir.to_owned(),
        source,
    };
    let stream = with_address(dir, |address| UnixStream::connect(address)).map_err(unreachable)?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .map_err(unreachable)?;
    let copied = io::copy(&mut BufReader::new(stream).by_ref(), out).map_err(OnlineError::Io)?;
    if copied == 0 {
        return Err(unreachable(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user",
        )));
    }
    out.flush().map_err(OnlineError::Io)
}

/// Calls with an address of the socket in `dir` that is short enough.
fn with_address<T>(dir: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = dir.join(SOCKET);
    if path.as_os_str().len() <= LONGEST_ADDRESS {
        return call(&path);
    }
    let open = File::open(dir)?;
    call(&PathBuf::from(format!(
        "/proc/self/fd/{}/{SOCKET}",
        open.as_raw_fd()
    )))
}
