//! Ending what a user's command left behind. On Linux this process becomes the subreaper of its descendants: orphans become its own
//! children, so the tree below it is all there is to end.

use crate::guardian;

/// Makes orphaned descendants children of this process (Linux; nothing elsewhere).
pub fn become_subreaper() {
    #[cfg(target_os = "linux")]
    // Without it orphans go to init and cannot be told from strangers; all else works.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Kills all descendants of this process but those in `except` (and what they started), then lets the guardian go if `except` is empty.
pub fn end_descendants(except: &[u32]) {
    #[cfg(target_os = "linux")]
    linux::end(except);
    if except.is_empty() {
        guardian::dismiss();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::fs;
    use std::thread;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    use crate::guardian;

    /// Rounds over the process table: a process that forks while it is being killed shows up in the next one.
    const ROUNDS: usize = 50;

    pub(super) fn end(except: &[u32]) {
        for _ in 0..ROUNDS {
            let found = descendants(except);
            if found.is_empty() {
                return;
            }
            for pid in found {
                if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                    // Only our own children can be reaped; the others follow once they are ours.
                    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
                }
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn descendants(except: &[u32]) -> Vec<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (pid, parent) in processes() {
            children.entry(parent).or_default().push(pid);
        }
        let mut found = Vec::new();
        let mut open = vec![std::process::id()];
        while let Some(parent) = open.pop() {
            for &pid in children.get(&parent).map(Vec::as_slice).unwrap_or_default() {
                if !except.contains(&pid) && guardian::pid() != Some(pid) {
                    found.push(pid);
                    open.push(pid);
                }
            }
        }
        found
    }

    /// All processes with their parents, from `/proc/PID/stat` (proc_pid_stat(5)).
    fn processes() -> Vec<(u32, u32)> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter_map(|entry| {
                let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
                let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
                Some((pid, parent_of(&stat)?))
            })
            .collect()
    }

    /// The command's name stands in parentheses and may itself hold spaces and parentheses: fields are counted from the last one.
    fn parent_of(stat: &str) -> Option<u32> {
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    }

    #[cfg(test)]
    mod tests {
        use super::parent_of;

        #[test]
        fn the_parent_is_found_behind_a_name_with_parentheses() {
            assert_eq!(parent_of("12 (a) b (c)) S 7 12 12 0"), Some(7));
        }
    }
}
