//! Uses a plugin for long, in a process of its own, and tells what that has left behind: `soak COMPILER GUEST WHAT TIMES`.
//!
//! WHAT is `success`, `trap`, `reload` (loads, each with a call), `hostile` (loads and calls, each of them bad) or `timeout` (TIMES
//! milliseconds long). A line of JSON tells memory (resident, KiB), threads, open files and mappings after a tenth of it and at the end.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use joinery_object::GroupVersionResource;
use joinery_plugin::{Compile, HostSettings, PluginFile, Policy, Runtime, RuntimeOptions};
use joinery_view::{Group, SharedJoin, Side};
use serde_json::{Value, json};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [compiler, guest, what, times] = arguments.as_slice() else {
        panic!("soak COMPILER GUEST WHAT TIMES");
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let component = Bytes::from(std::fs::read(guest).unwrap());
    let told = runtime.block_on(soak(compiler, component, what, times.parse().unwrap()));
    println!("{told}");
}

/// Memory in KiB, threads, open files, and mappings.
fn used() -> [u64; 4] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mappings = maps.lines().count() as u64;
    [field("VmRSS:"), field("Threads:"), files, mappings]
}

fn runtime(compiler: &str) -> Runtime {
    Runtime::new(RuntimeOptions {
        max_memory: RuntimeOptions::MAX_MEMORY,
        cache_dir: None,
        compile: Compile::Child {
            program: compiler.into(),
            args: Vec::new(),
        },
        workers: Some(2),
        policy: Policy::allow_all(),
    })
    .unwrap()
}

async fn join(runtime: &Runtime, component: &Bytes, settings: Value) -> SharedJoin {
    let settings = HostSettings::parse(&settings.to_string()).unwrap();
    let plugin = PluginFile::new("guest", component.clone(), settings);
    let generation = runtime.load(plugin).await.unwrap();
    let things = GroupVersionResource::new("test.example.com", "v1", "things");
    generation.join(&things).unwrap()
}

fn object(name: &str) -> Bytes {
    json!({"metadata": {"name": name}}).to_string().into()
}

async fn keys(join: &SharedJoin, name: &str) -> bool {
    join.keys(0, Side::Child, vec![object(name)]).await.is_ok()
}

async fn soak(compiler: &str, component: Bytes, what: &str, times: u64) -> Value {
    let runtime = runtime(compiler);
    let begun = Instant::now();
    let mut early = used();
    let mut count = 0;
    match what {
        "success" | "trap" => {
            let join = join(&runtime, &component, json!({})).await;
            for n in 0..times {
                assert_eq!(keys(&join, what).await, what == "success");
                count += 1;
                if n == times / 10 {
                    early = used();
                }
            }
        }
        "reload" => {
            for n in 0..times {
                let join = join(&runtime, &component, json!({})).await;
                assert!(keys(&join, "success").await);
                count += 1;
                if n == times / 10 {
                    early = used();
                }
            }
        }
        "timeout" => {
            let join = join(&runtime, &component, json!({})).await;
            drop(join);
            let limits = json!({"limits": {"callSeconds": 0.005}});
            let join = hurried(&runtime, &component, limits).await;
            let mut settled = false;
            while begun.elapsed() < Duration::from_millis(times) {
                assert!(!keys(&join, "loop").await);
                count += 1;
                if !settled && begun.elapsed() > Duration::from_millis(times / 10) {
                    settled = true;
                    early = used();
                }
            }
        }
        "hostile" => {
            for n in 0..times {
                hostile(&runtime, &component).await;
                count += 1;
                if n == times / 10 {
                    early = used();
                }
            }
        }
        other => panic!("{other}"),
    }
    // What was thrown away last is still on its way.
    tokio::time::sleep(Duration::from_millis(300)).await;
    json!({"what": what, "count": count, "seconds": begun.elapsed().as_secs_f64(), "early": early, "late": used()})
}

/// Loads until the load itself fits into the few milliseconds of a call: on a busy machine it need not at once.
async fn hurried(runtime: &Runtime, component: &Bytes, settings: Value) -> SharedJoin {
    let settings = HostSettings::parse(&settings.to_string()).unwrap();
    let things = GroupVersionResource::new("test.example.com", "v1", "things");
    for _ in 0..200 {
        let plugin = PluginFile::new("guest", component.clone(), settings.clone());
        if let Ok(generation) = runtime.load(plugin).await {
            return generation.join(&things).unwrap();
        }
    }
    panic!("it never loads in time");
}

/// Every bad load and every bad call, once. What hangs has a twentieth of a second.
async fn hostile(runtime: &Runtime, component: &Bytes) {
    for guest in [
        json!({"configure": "refuse"}),
        json!({"configure": "trap"}),
        json!({"configure": "loop"}),
        json!({"describe": "recurse"}),
        json!({"describe": "bomb"}),
        json!({"group": "apps"}),
        json!({"schema": "{"}),
        json!({"impure": "hash"}),
    ] {
        let settings = json!({"settings": guest, "limits": {"callSeconds": 0.05}});
        let settings = HostSettings::parse(&settings.to_string()).unwrap();
        let plugin = PluginFile::new("guest", component.clone(), settings);
        assert!(runtime.load(plugin).await.is_err());
    }
    for bytes in [&b""[..], b"garbage", &component[..component.len() / 2]] {
        let bytes = Bytes::copy_from_slice(bytes);
        let plugin = PluginFile::new("guest", bytes, HostSettings::default());
        assert!(runtime.load(plugin).await.is_err());
    }
    let join = join(runtime, component, json!({"limits": {"callSeconds": 1}})).await;
    for name in ["trap", "exit", "recurse", "bomb", "giant"] {
        assert!(!keys(&join, name).await, "{name}");
    }
    for name in ["wrong-json", "giant-result", "refused"] {
        let group = Group {
            primary: object(name),
            branches: Vec::new(),
        };
        // Judged by the engine, or not even brought there.
        let _ = join.combine(vec![group]).await;
    }
    assert!(keys(&join, "good").await);
}
