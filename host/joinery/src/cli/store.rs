//! `joinery store`.

use std::path::PathBuf;

use clap::Subcommand;

/// `joinery store`
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Write all that is stored to a file, whether a host runs on the data folder or not.
    Backup {
        /// The host's data folder.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// Where to; replaced when the backup is whole. `-` is the standard output.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Make the store of a data folder of a backup.
    ///
    /// All objects get a resourceVersion above any that clients can have seen, and watches begin anew.
    Restore {
        /// Where from. `-` is the standard input.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// The host's data folder, which must not hold a store.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
    /// Read everything in a store that no host runs on, or in a backup, and say whether it is whole.
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Check {
        /// The host's data folder.
        #[arg(long, value_name = "DIR", group = "what")]
        data_dir: Option<PathBuf>,
        /// A backup.
        #[arg(long, value_name = "FILE", group = "what")]
        backup: Option<PathBuf>,
    },
}
