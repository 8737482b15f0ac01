//! New logic while everything runs.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::fixtures::VIEW;
use crate::shared::Shared;

const CLIENTS: usize = 50;
/// In the component: a key of the status that its `combine` writes. Of the same length, so that the component stays valid.
const OLD: &str = "taskResourceVersion";
const NEW: &str = "taskResourceVersioN";

/// Until all see the new logic. Of a few exchanges one must be so quick: others may use the machine meanwhile.
const SOON: Duration = Duration::from_secs(2);
/// And none may take longer.
const LATEST: Duration = Duration::from_secs(10);
const EXCHANGES: usize = 3;

/// Replacing the plugin's file while many clients list: nobody's request fails, and within two seconds all see the new logic.
pub(crate) fn replacing_a_plugin_under_load_fails_no_request(environment: &Shared) {
    let _gate = environment.alone();
    let file = environment.plugin_dir().join("combined_tasks.wasm");
    let original = fs::read(&file).unwrap();
    let changed = replace(&original, OLD.as_bytes(), NEW.as_bytes());
    let path = format!("{VIEW}/namespaces/default/combinedtasks");
    let client = Client::admin(environment);
    assert!(client.get(&path).text().contains(OLD));

    let (stop, lists) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    // When a list began that still saw the old logic, and one that saw the new: the last of all clients.
    let last: [Mutex<Option<Instant>>; 2] = Default::default();
    let taken = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = client.connect();
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    match connection.send("GET", &path, &[], "") {
                        Ok(answer) if answer.status == 200 => {
                            let seen = &last[usize::from(answer.text().contains(NEW))];
                            let mut seen = seen.lock().unwrap();
                            *seen = (*seen).max(Some(asked));
                        }
                        Ok(answer) => failures.lock().unwrap().push(format!(
                            "{}: {}",
                            answer.status,
                            answer.text()
                        )),
                        Err(error) => {
                            failures.lock().unwrap().push(error);
                            connection = client.connect();
                        }
                    }
                    lists.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let mut taken = Vec::new();
        for exchange in 0..EXCHANGES {
            let (content, from) = if exchange % 2 == 0 {
                (&changed, &last[0])
            } else {
                (&original, &last[1])
            };
            install(&file, content);
            let began = Instant::now();
            std::thread::sleep(SOON * 2);
            while began.elapsed() < LATEST
                && from.lock().unwrap().is_some_and(|at| at.elapsed() < SOON)
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            let until = from
                .lock()
                .unwrap()
                .and_then(|at| at.checked_duration_since(began));
            taken.push(until.unwrap_or_default());
            if taken.iter().any(|taken| *taken <= SOON) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        taken
    });
    let seen = client.get(&path).text();
    install(&file, &original);
    crate::fixtures::eventually("the first logic to be back", || {
        client.get(&path).text().contains(OLD).then_some(())
    });

    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} lists failed: {:?}",
        failures.len(),
        lists.into_inner(),
        &failures[..failures.len().min(5)]
    );
    let logic = if taken.len() % 2 == 1 { NEW } else { OLD };
    assert!(seen.contains(logic), "the new logic never came");
    assert!(
        taken.iter().any(|taken| *taken <= SOON) && taken.iter().all(|taken| *taken < LATEST),
        "the old logic was still asked and seen so long after each exchange: {taken:?}"
    );
}

/// A file that is no component changes nothing but what is said about it.
pub(crate) fn a_broken_plugin_leaves_the_one_before_it_serving(environment: &Shared) {
    let _gate = environment.alone();
    let file = environment.plugin_dir().join("combined_tasks.wasm");
    let original = fs::read(&file).unwrap();
    let already_said = fs::metadata(environment.host_log()).unwrap().len() as usize;
    install(&file, b"not a component");
    crate::fixtures::eventually("the log to name the broken file", || {
        let log = fs::read(environment.host_log()).unwrap();
        String::from_utf8_lossy(&log[already_said..])
            .contains("combined_tasks")
            .then_some(())
    });
    let served = environment
        .kubectl()
        .run(["get", "combinedtasks", "-n", "default", "-o", "name"]);
    install(&file, &original);
    assert!(served.unwrap().contains("task-sample-5"));
}

/// A file that is no component, and settings that are none, are said to be so; what else is there is served.
pub(crate) fn a_broken_plugin_beside_good_ones_disturbs_nothing(environment: &Shared) {
    let _gate = environment.alone();
    let broken = environment.plugin_dir().join("broken.wasm");
    let settings = environment.plugin_dir().join("cluster_task.yaml");
    let already_said = fs::metadata(environment.host_log()).unwrap().len() as usize;
    fs::write(&broken, b"not a component").unwrap();
    fs::write(&settings, "mode: sideways\n").unwrap();
    crate::fixtures::eventually("the log to name both", || {
        let log = fs::read(environment.host_log()).unwrap();
        let said = String::from_utf8_lossy(&log[already_said..]).into_owned();
        let broken =
            said.contains("plugin=\"broken\"") && said.contains("not a WebAssembly component");
        (broken && said.contains("cluster_task.yaml") && said.contains("sideways")).then_some(())
    });
    let kubectl = environment.kubectl();
    let served = ["combinedtasks", "customtasks", "clustertasks"]
        .map(|resource| kubectl.run(["get", resource, "-n", "default", "-o", "name"]));
    let ready = environment.direct().run(["get", "--raw", "/readyz"]);
    fs::remove_file(&broken).unwrap();
    fs::remove_file(&settings).unwrap();
    for resource in served {
        assert!(!resource.unwrap().is_empty());
    }
    assert_eq!(ready.unwrap(), "ok");
}

/// As a careful deployer does: written beside, then renamed.
fn install(file: &std::path::Path, contents: &[u8]) {
    let beside = file.with_extension("new");
    fs::write(&beside, contents).unwrap();
    fs::rename(&beside, file).unwrap();
}

pub(crate) fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut changed = bytes.to_vec();
    let mut found = false;
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            changed[at..at + from.len()].copy_from_slice(to);
            found = true;
        }
    }
    assert!(
        found,
        "the component does not hold {}",
        String::from_utf8_lossy(from)
    );
    changed
}
