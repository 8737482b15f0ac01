//! The embedded store: fjall, and what the contract adds in memory.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use joinery_store::{Embedded, Key, KeyRange, ListOptions, Op, Options, Store};

use crate::measure::{Measured, Row, measure};
use crate::{CLIENTS, HISTORY, KEYS, folder_size, value};

fn op(number: usize) -> Result<Op> {
    Ok(Op::Put {
        key: Key::new(
            "example.com",
            "things",
            "default",
            &format!("thing-{:06}", number % KEYS),
        )?,
        value: Bytes::from(value(number)),
    })
}

pub(crate) fn run(dir: &Path, single: usize, together: usize) -> Result<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let dir = tempfile::tempdir_in(dir)?;
    let options = Options {
        history_count: HISTORY,
        ..Options::default()
    };
    let store = Arc::new(Embedded::open(dir.path(), options.clone())?);
    let (one, ()) = measure(|| {
        for number in 0..single {
            runtime.block_on(store.txn(vec![op(number)?], vec![]))?;
        }
        Ok(())
    })?;
    let (many, ()) = measure(|| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let store = store.clone();
                runtime.spawn(async move {
                    for number in (single + client..single + together).step_by(CLIENTS) {
                        store.txn(vec![op(number)?], vec![]).await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for client in clients {
            runtime.block_on(client)??;
        }
        Ok(())
    })?;
    let (close, ()) = measure(|| {
        drop(store);
        Ok(())
    })?;
    let size = folder_size(dir.path())?;
    let (open, store) = measure(|| Ok(Embedded::open(dir.path(), options)?))?;
    let (list, page) =
        measure(|| Ok(runtime.block_on(store.list(&KeyRange::all(), ListOptions::default()))?))?;
    Ok(Row {
        name: "the embedded store",
        single: Measured {
            count: single,
            ..one
        },
        together: Measured {
            count: together,
            ..many
        },
        close,
        open,
        list,
        size,
        entries: page.count,
    })
}
