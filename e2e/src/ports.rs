//! Free ports on loopback for servers whose port must be known before they start.
//!
//! Asking the kernel for any port and closing it again leaves a gap in which somebody else, even an outgoing connection, may get it. So:
//! ports below the usual ephemeral range, and a lock file per port for as long as it is wanted, which other runs honour.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port of 127.0.0.1 that no other run takes while this value lives.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port that nobody listens on.
    pub(crate) fn reserve() -> Result<Port> {
        let folder = folder()?;
        // Runs start at different places, so that they seldom try the same port.
        let start = (std::process::id() % u32::from(COUNT)) as u16;
        for step in 0..COUNT {
            let number = FIRST + (start.wrapping_mul(7).wrapping_add(step)) % COUNT;
            let path = folder.join(number.to_string());
            let lock = crate::cache::lock_file(&path)?;
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Ok(Port {
                    number,
                    _lock: lock,
                });
            }
        }
        bail!(
            "no free port on 127.0.0.1 between {FIRST} and {}",
            FIRST + COUNT - 1
        )
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Shared by all runs of this user.
fn folder() -> Result<PathBuf> {
    let folder = crate::cache::cache_dir()?.join("ports");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::Port;

    #[test]
    fn two_reservations_never_share_a_port() {
        let first = Port::reserve().unwrap();
        let second = Port::reserve().unwrap();
        assert_ne!(first.number(), second.number());
    }
}
