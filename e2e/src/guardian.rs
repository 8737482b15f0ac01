//! The last line against orphans. Children of this process run in process groups of their own, so that Ctrl-C at the terminal does not hit
//! them before we stop them in order. The price: nobody ends them if this process is killed outright, or exits without running destructors
//! (as a test binary does with its statics). A tiny shell holds the read end of a pipe whose only writer is this process; at its end of
//! file it kills the groups it was told of.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
targets=
while read -r verb id; do
  kept=
  for target in $targets; do
    if [ "$target" != "$id" ]; then kept="$kept $target"; fi
  done
  targets=$kept
  if [ "$verb" = guard ]; then targets="$targets $id"; fi
done
for target in $targets; do kill -s KILL -- "$target" 2>/dev/null; done
"#;

struct Guardian {
    child: Child,
    stdin: ChildStdin,
}

static GUARDIAN: OnceLock<Mutex<Option<Guardian>>> = OnceLock::new();

/// Ends group `pgid` should this process die without having called [`forget`] for it.
pub(crate) fn guard(pgid: u32) -> Result<()> {
    tell(&format!("guard -{pgid}\n"))
}

/// The group is over; its number may be used again by somebody else.
pub(crate) fn forget(pgid: u32) {
    // A guardian that is gone guards nothing: no harm.
    let _ = tell(&format!("forget -{pgid}\n"));
}

/// The guardian's process id, once it runs: it must outlive what it guards.
pub(crate) fn pid() -> Option<u32> {
    let slot = GUARDIAN
        .get()?
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    slot.as_ref().map(|guardian| guardian.child.id())
}

/// Lets the guardian end: it kills what is still guarded. Waits for it.
pub(crate) fn dismiss() {
    if let Some(slot) = GUARDIAN.get()
        && let Some(mut guardian) = slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    {
        drop(guardian.stdin);
        let _ = guardian.child.wait();
    }
}

fn tell(line: &str) -> Result<()> {
    let slot = GUARDIAN.get_or_init(|| Mutex::new(None));
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.is_none() {
        *slot = Some(start()?);
    }
    if let Some(guardian) = slot.as_mut() {
        guardian
            .stdin
            .write_all(line.as_bytes())
            .context("the guardian of child processes is gone")?;
    }
    Ok(())
}

fn start() -> Result<Guardian> {
    let mut child = Command::new("sh")
        .args(["-c", SCRIPT, "joinery-guardian"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start sh, which guards child processes")?;
    let stdin = child.stdin.take().context("the guardian has no stdin")?;
    Ok(Guardian { child, stdin })
}
