//! fjall and redb side by side, at what the embedded store asks of its engine: durable commits of one and of many clients, a history
//! of versions that is cut back, and everything read when it is opened. And the embedded store itself, for what it adds.
//!
//! ```text
//! cargo run --manifest-path bench/store/Cargo.toml -- --dir DIR
//! ```

mod engine;
mod joinery;
mod measure;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use anyhow::Result;
use clap::Parser;

use crate::engine::{Engine, Fjall, Put, Redb};
use crate::measure::{Measured, Row, measure};

/// Bytes of a value: an object with its metadata.
pub(crate) const VALUE: usize = 2048;
/// Clients that write at once.
pub(crate) const CLIENTS: usize = 64;
/// Keys that are written again and again.
const KEYS: usize = 2000;
/// Versions that are kept.
const HISTORY: usize = 5000;

#[derive(Parser)]
struct Arguments {
    /// Where to put the stores: on the disk that is to be measured.
    #[arg(long, default_value = "target/bench-store")]
    dir: PathBuf,
    /// Commits of one client.
    #[arg(long, default_value_t = 500)]
    single: usize,
    /// Commits of 64 clients together.
    #[arg(long, default_value_t = 40_000)]
    together: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.dir)?;
    let rows = [
        run::<Fjall>(&arguments)?,
        run::<Redb>(&arguments)?,
        joinery::run(&arguments.dir, arguments.single, arguments.together)?,
    ];
    println!("{}", Row::HEAD);
    for row in rows {
        println!("{row}");
    }
    Ok(())
}

/// A value that compresses as JSON does: half of it is the same everywhere.
pub(crate) fn value(number: usize) -> Vec<u8> {
    let mut random = number as u64 * 2 + 0x9e37_79b9_7f4a_7c15;
    let mut value = Vec::with_capacity(VALUE);
    while value.len() < VALUE {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        value.extend_from_slice(br#""status":{"uid":""#);
        value.extend_from_slice(format!("{random:016x}").as_bytes());
    }
    value.truncate(VALUE);
    value
}

fn key(number: usize, revision: usize) -> Vec<u8> {
    format!("vexample.com\0things\0default\0thing-{number:06}\0{revision:08x}").into_bytes()
}

/// The number-th put: a new version of a key, and away with one that is old.
fn put(number: usize) -> Put {
    let old = number.checked_sub(HISTORY + KEYS);
    Put {
        key: key(number % KEYS, number),
        value: value(number),
        remove: old.map(|old| key(old % KEYS, old)),
    }
}

fn run<E: Engine>(arguments: &Arguments) -> Result<Row> {
    let dir = tempfile::tempdir_in(&arguments.dir)?;
    let mut engine = E::open(dir.path())?;
    let (single, ()) = measure(|| {
        for number in 0..arguments.single {
            engine.commit(vec![put(number)])?;
        }
        Ok(())
    })?;
    let (together, engine) =
        measure(|| commit_together(engine, arguments.single, arguments.together))?;
    let (close, ()) = measure(|| {
        drop(engine);
        Ok(())
    })?;
    let size = folder_size(dir.path())?;
    let (open, (engine, entries)) = measure(|| {
        let engine = E::open(dir.path())?;
        let entries = engine.read_all()?;
        Ok((engine, entries))
    })?;
    let (list, _) = measure(|| engine.read_all())?;
    Ok(Row {
        name: E::NAME,
        single: Measured {
            count: arguments.single,
            ..single
        },
        together: Measured {
            count: arguments.together,
            ..together
        },
        close,
        open,
        list,
        size,
        entries,
    })
}

/// As the store's writer: takes what waits, commits it in one step, answers all.
fn commit_together<E: Engine>(mut engine: E, from: usize, count: usize) -> Result<E> {
    let (sender, receiver) = mpsc::channel::<(Put, mpsc::SyncSender<()>)>();
    let writer = thread::spawn(move || -> Result<E> {
        while let Ok(first) = receiver.recv() {
            let (mut puts, mut replies) = (vec![first.0], vec![first.1]);
            while let Ok((put, reply)) = receiver.try_recv() {
                puts.push(put);
                replies.push(reply);
            }
            engine.commit(puts)?;
            for reply in replies {
                let _ = reply.send(());
            }
        }
        Ok(engine)
    });
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let sender = sender.clone();
            scope.spawn(move || {
                let (reply, answer) = mpsc::sync_channel(1);
                for number in (from + client..from + count).step_by(CLIENTS) {
                    if sender.send((put(number), reply.clone())).is_err() || answer.recv().is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    drop(sender);
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))?
}

pub(crate) fn folder_size(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut size = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        // What is allocated: journals are made larger than they are.
        size += if metadata.is_dir() {
            folder_size(&entry.path())?
        } else {
            metadata.blocks() * 512
        };
    }
    Ok(size)
}
