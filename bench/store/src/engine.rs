//! The two engines, each as the store would use it: one keyspace, each commit durable before it returns.

use std::path::Path;

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

/// One transaction of a client.
pub(crate) struct Put {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) remove: Option<Vec<u8>>,
}

pub(crate) trait Engine: Sized + Send + 'static {
    const NAME: &str;

    fn open(dir: &Path) -> Result<Self>;

    /// All of them in one durable step.
    fn commit(&mut self, puts: Vec<Put>) -> Result<()>;

    /// Reads every entry; how many there are.
    fn read_all(&self) -> Result<usize>;
}

pub(crate) struct Fjall {
    database: Database,
    entries: Keyspace,
}

impl Engine for Fjall {
    const NAME: &str = "fjall 3.1";

    fn open(dir: &Path) -> Result<Self> {
        let database = Database::builder(dir.join("fjall"))
            .cache_size(4 << 20)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(16 << 20);
        let entries = database.keyspace("entries", options)?;
        Ok(Self { database, entries })
    }

    fn commit(&mut self, puts: Vec<Put>) -> Result<()> {
        let mut batch = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        for put in puts {
            batch.insert(&self.entries, put.key, put.value);
            if let Some(old) = put.remove {
                batch.remove(&self.entries, old);
            }
        }
        Ok(batch.commit()?)
    }

    fn read_all(&self) -> Result<usize> {
        let mut count = 0;
        for guard in self.entries.iter() {
            let (key, value) = guard.into_inner()?;
            count += usize::from(key.len() + value.len() > 0);
        }
        Ok(count)
    }
}

const ENTRIES: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("entries");

pub(crate) struct Redb(redb::Database);

impl Engine for Redb {
    const NAME: &str = "redb 4";

    fn open(dir: &Path) -> Result<Self> {
        let database = redb::Database::builder()
            .set_cache_size(64 << 20)
            .create(dir.join("redb"))?;
        let begin = database.begin_write()?;
        begin.open_table(ENTRIES)?;
        begin.commit()?;
        Ok(Self(database))
    }

    fn commit(&mut self, puts: Vec<Put>) -> Result<()> {
        // Durability::Immediate is the default.
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(ENTRIES)?;
            for put in puts {
                table.insert(&*put.key, &*put.value)?;
                if let Some(old) = put.remove {
                    table.remove(&*old)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn read_all(&self) -> Result<usize> {
        let transaction = self.0.begin_read()?;
        let table = transaction.open_table(ENTRIES)?;
        let mut count = 0;
        for entry in table.iter()? {
            let (key, value) = entry?;
            count += usize::from(key.value().len() + value.value().len() > 0);
        }
        Ok(count)
    }
}
