//! The directory over time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::scan::{DeliveryError, PluginSet, Scanner};

/// No change for so long: whoever writes is done.
const QUIET: Duration = Duration::from_millis(500);
/// A directory that is never quiet is read all the same.
const PATIENCE: Duration = Duration::from_secs(5);
/// Without any notice, for file systems that give none.
const POLL: Duration = Duration::from_secs(10);

/// A directory of plugins, watched.
pub struct DirectorySource {
    plugins: watch::Receiver<Arc<PluginSet>>,
    task: JoinHandle<()>,
}

impl DirectorySource {
    /// Reads the directory and goes on watching it. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`DeliveryError::Directory`], when it cannot be read. Later on it may be away for a while: then the plugins stay as
    /// they were.
    pub async fn open(dir: impl Into<PathBuf>) -> Result<Self, DeliveryError> {
        let dir = dir.into();
        // Watched before it is read, so that no change is missed between the two.
        let (notices, noticed) = mpsc::unbounded_channel();
        let watcher = Watched::new(&dir, notices);
        let (scanner, first) = scan(Scanner::new(dir)).await;
        let (sender, plugins) = watch::channel(Arc::new(first?));
        let task = tokio::spawn(run(scanner, watcher, noticed, sender));
        Ok(Self { plugins, task })
    }

    /// The plugins that there ought to be, now and whenever that changes. Of several changes the last one counts.
    pub fn subscribe(&self) -> watch::Receiver<Arc<PluginSet>> {
        self.plugins.clone()
    }
}

impl Drop for DirectorySource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn scan(mut scanner: Scanner) -> (Scanner, Result<PluginSet, DeliveryError>) {
    let dir = scanner.dir().to_owned();
    let scanned = tokio::task::spawn_blocking(move || {
        let set = scanner.scan();
        (scanner, set)
    });
    scanned.await.unwrap_or_else(|error| {
        let message = error.to_string();
        (
            Scanner::new(dir.clone()),
            Err(DeliveryError::Directory { path: dir, message }),
        )
    })
}

async fn run(
    mut scanner: Scanner,
    mut watched: Watched,
    mut noticed: mpsc::UnboundedReceiver<()>,
    sender: watch::Sender<Arc<PluginSet>>,
) {
    let mut away = false;
    loop {
        if let Ok(Some(())) = tokio::time::timeout(POLL, noticed.recv()).await {
            let end = Instant::now() + PATIENCE;
            while let Ok(Some(())) =
                timeout_at(end.min(Instant::now() + QUIET), noticed.recv()).await
            {}
        }
        watched.renew();
        let (again, scanned) = scan(scanner).await;
        scanner = again;
        match scanned {
            Ok(set) => {
                away = false;
                sender.send_if_modified(|current| {
                    let differs = **current != set;
                    if differs {
                        *current = Arc::new(set);
                    }
                    differs
                });
            }
            Err(error) => {
                if !std::mem::replace(&mut away, true) {
                    tracing::warn!("{error}; its plugins stay as they are");
                }
            }
        }
        if sender.is_closed() {
            return;
        }
    }
}

/// The watch of the operating system, renewed when the directory is another one under the same name.
struct Watched {
    dir: PathBuf,
    identity: Option<(u64, u64)>,
    notices: mpsc::UnboundedSender<()>,
    watcher: Option<RecommendedWatcher>,
}

impl Watched {
    fn new(dir: &Path, notices: mpsc::UnboundedSender<()>) -> Self {
        let mut watched = Self {
            dir: dir.to_owned(),
            identity: None,
            notices,
            watcher: None,
        };
        watched.renew();
        watched
    }

    fn renew(&mut self) {
        let identity = fs::metadata(&self.dir)
            .ok()
            .map(|meta| (meta.dev(), meta.ino()));
        if identity == self.identity {
            return;
        }
        self.watcher = None;
        self.identity = identity;
        if identity.is_none() {
            return;
        }
        let notices = self.notices.clone();
        let started = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is no change; and the reading that a change leads to must not look like another.
            let read = |kind| match kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
                EventKind::Access(_) => true,
                _ => false,
            };
            if !event.is_ok_and(|event| read(event.kind)) {
                _ = notices.send(());
            }
        })
        .and_then(|mut watcher| {
            watcher.watch(&self.dir, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match started {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                let dir = self.dir.display();
                tracing::warn!(
                    "plugin directory {dir}: no notice of changes ({error}), it is read every {POLL:?}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(plugins: &mut watch::Receiver<Arc<PluginSet>>) -> Arc<PluginSet> {
        tokio::time::timeout(Duration::from_secs(5), plugins.changed())
            .await
            .unwrap()
            .unwrap();
        plugins.borrow_and_update().clone()
    }

    #[tokio::test]
    async fn changes_arrive_soon_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a.wasm"), "one").unwrap();
        let source = DirectorySource::open(dir.path()).await.unwrap();
        let mut plugins = source.subscribe();
        assert_eq!(plugins.borrow_and_update().plugins.len(), 1);

        fs::write(path("a.wasm"), "two").unwrap();
        assert_eq!(
            &next(&mut plugins).await.plugins["a"]
                .as_ref()
                .unwrap()
                .bytes[..],
            b"two"
        );
        fs::write(path("new"), "three").unwrap();
        fs::rename(path("new"), path("b.wasm")).unwrap();
        assert_eq!(next(&mut plugins).await.plugins.len(), 2);
        fs::write(path("b.yaml"), "mode: live").unwrap();
        assert!(next(&mut plugins).await.plugins["b"].is_ok());
        fs::remove_file(path("a.wasm")).unwrap();
        assert_eq!(next(&mut plugins).await.plugins.len(), 1);

        // The same bytes again are no change.
        fs::write(path("b.wasm"), "three").unwrap();
        let again = tokio::time::timeout(3 * QUIET, plugins.changed()).await;
        assert!(again.is_err(), "nothing differs");
    }

    #[tokio::test]
    async fn a_slow_copy_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let source = DirectorySource::open(dir.path()).await.unwrap();
        let mut plugins = source.subscribe();
        let path = dir.path().join("slow.wasm");
        let writer = tokio::spawn(async move {
            let mut text = String::new();
            for part in 0..8 {
                text.push_str(&part.to_string());
                fs::write(&path, &text).unwrap();
                tokio::time::sleep(QUIET / 4).await;
            }
        });
        // A busy machine may hold the writer up for long enough that it looks done, but not each time.
        let mut readings = 1;
        while next(&mut plugins).await.plugins["slow"]
            .as_ref()
            .unwrap()
            .bytes
            != "01234567"
        {
            readings += 1;
        }
        assert!(readings <= 3, "{readings} readings of 8 writes");
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_is_an_error() {
        assert!(DirectorySource::open("/no/such/place").await.is_err());
    }
}
