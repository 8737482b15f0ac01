//! `joinery store backup | restore | check`: what an operator does with the embedded store.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use joinery_store::{Backup, OnlineError, OpenError};

use crate::cli::StoreCommand;
use crate::host::store_folder;

/// Does what was asked, and says on the standard error what came of it.
pub(crate) fn run(command: StoreCommand) -> Result<()> {
    match command {
        StoreCommand::Backup { data_dir, to } => backup(&store_folder(&data_dir), &to),
        StoreCommand::Restore { from, data_dir } => restore(&from, &data_dir),
        StoreCommand::Check { data_dir, backup } => match (data_dir, backup) {
            (_, Some(file)) => check_backup(&file),
            (Some(data_dir), None) => check_store(&store_folder(&data_dir)),
            (None, None) => Ok(()),
        },
    }
}

fn backup(store: &Path, to: &Path) -> Result<()> {
    if is_standard(to) {
        return take(store, &mut io::stdout().lock());
    }
    let failed = || format!("cannot write {}", to.display());
    // Through a link: what it points to is replaced, and the link stays.
    let to = match fs::symlink_metadata(to) {
        Ok(found) if found.is_symlink() => &fs::canonicalize(to).with_context(failed)?,
        _ => to,
    };
    refuse_other_than_files(to)?;
    let mut name = to.file_name().with_context(failed)?.to_owned();
    name.push(".partial");
    let partial = to.with_file_name(name);
    // What an interrupted backup left.
    if refuse_other_than_files(&partial)? {
        fs::remove_file(&partial).with_context(failed)?;
    }
    let partial = Partial(partial);
    // Objects may hold secrets: only the owner may read them.
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial.0)
        .with_context(failed)?;
    let mut out = BufWriter::new(file);
    take(store, &mut out)?;
    let file = out
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .with_context(failed)?;
    file.sync_all().with_context(failed)?;
    let backup = verify(&partial.0)?;
    fs::rename(&partial.0, to).with_context(failed)?;
    eprintln!("{}: {}", to.display(), told(backup));
    Ok(())
}

/// Whether there is a file; an error if there is something that a file must not take the place of, such as a device, whose
/// name would be gone with the first backup.
fn refuse_other_than_files(path: &Path) -> Result<bool> {
    let failed = || format!("cannot write {}", path.display());
    let kind = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).with_context(failed),
    };
    let what = if kind.is_file() {
        return Ok(true);
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    anyhow::bail!(
        "{} is {what}, and a backup takes the place of a file only; --to - writes to the standard output",
        path.display()
    );
}

/// A file that is not whole: removed, unless it got another name.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// From the files, or from the host that has them open.
fn take(store: &Path, out: &mut impl Write) -> Result<()> {
    match joinery_store::read_backup(store, &mut *out) {
        Ok(written) => written.map(drop).context("cannot write the backup"),
        Err(in_use @ OpenError::InUse { .. }) => {
            joinery_store::online_backup(store, out).map_err(|error| match error {
                OnlineError::Unreachable { .. } => {
                    anyhow::Error::new(error).context(in_use.to_string())
                }
                OnlineError::Io(_) => error.into(),
            })
        }
        Err(error) => Err(error.into()),
    }
}

fn restore(from: &Path, data_dir: &Path) -> Result<()> {
    let store = store_folder(data_dir);
    let input: Box<dyn Read> = if is_standard(from) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(open(from)?)
    };
    fs::create_dir_all(data_dir)
        .with_context(|| format!("cannot make the data folder {}", data_dir.display()))?;
    let restored = joinery_store::restore(BufReader::new(input), &store)
        .with_context(|| format!("cannot restore {}", from.display()))?;
    eprintln!(
        "{}: restored {}; it goes on at revision {}, and watches begin anew",
        store.display(),
        told(restored.backup),
        restored.revision
    );
    Ok(())
}

fn check_store(store: &Path) -> Result<()> {
    let report = match joinery_store::check(store) {
        Err(error @ OpenError::InUse { .. }) => {
            return Err(error).context(
                "a running host has read and checked everything when it started; stop it to check its files, or check \
                 a backup of it",
            );
        }
        report => report?,
    };
    println!(
        "{}: whole; format {}, revision {}, history from revision {}",
        store.display(),
        report.format,
        report.revision,
        report.floor
    );
    for ((group, resource), objects) in report.resources {
        let dot = if group.is_empty() { "" } else { "." };
        println!("  {resource}{dot}{group}: {objects}");
    }
    Ok(())
}

fn check_backup(file: &Path) -> Result<()> {
    println!("{}: whole; {}", file.display(), told(verify(file)?));
    Ok(())
}

fn verify(file: &Path) -> Result<Backup> {
    joinery_store::verify(open(file)?).with_context(|| file.display().to_string())
}

fn open(file: &Path) -> Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(BufReader::new(opened))
}

fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn told(backup: Backup) -> String {
    format!("{} objects at revision {}", backup.entries, backup.revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    /// A folder with a store that nobody has open.
    fn data() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        drop(joinery_store::Embedded::open(dir.path().join("store"), Default::default()).unwrap());
        dir
    }

    #[test]
    fn a_backup_takes_the_place_of_nothing_but_a_file() {
        let data = data();
        let store = data.path().join("store");
        let at = |name: &str| data.path().join(name);
        assert!(
            Command::new("mkfifo")
                .arg(at("pipe"))
                .status()
                .unwrap()
                .success()
        );
        fs::create_dir(at("folder")).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, said) in [
            ("pipe", "is a pipe"),
            ("folder", "is a folder"),
            ("null", "/dev/null is a device"),
            ("socket", "is a socket"),
            ("dangling", "cannot write"),
        ] {
            let kind = fs::symlink_metadata(at(name)).unwrap().file_type();
            let error = backup(&store, &at(name)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(
                name == "dangling" || error.contains("--to - writes"),
                "{error}"
            );
            assert_eq!(fs::symlink_metadata(at(name)).unwrap().file_type(), kind);
        }
        // Nor does what is not whole yet.
        fs::rename(at("pipe"), at("file.partial")).unwrap();
        let error = backup(&store, &at("file")).unwrap_err().to_string();
        assert!(error.contains("file.partial is a pipe"), "{error}");
    }

    #[test]
    fn a_backup_goes_through_a_link_to_its_file() {
        let data = data();
        let store = data.path().join("store");
        let (file, link) = (data.path().join("file"), data.path().join("link"));
        fs::write(&file, "older").unwrap();
        // What an interrupted backup left is in nobody's way.
        fs::write(data.path().join("file.partial"), "half").unwrap();
        symlink(&file, &link).unwrap();
        backup(&store, &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(verify(&file).unwrap().revision, 1);
        assert!(!data.path().join("file.partial").exists());
    }
}
