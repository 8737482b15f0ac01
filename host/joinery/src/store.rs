//! `joinery store backup | restore | check`: what an operator does with the embedded store.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use joinery_store::{Backup, OpenError};

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
    let mut name = to.file_name().with_context(failed)?.to_owned();
    name.push(".partial");
    let partial = Partial(to.with_file_name(name));
    // Objects may hold secrets: only the owner may read them.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
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
            joinery_store::online_backup(store, out).with_context(|| in_use.to_string())
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
