//! Long use leaves nothing behind. Each in a process of its own, so that what other tests hold does not count.

use std::process::Command;

use serde_json::Value;

use crate::guests::{compiler_program, guest_path};

/// More resident memory than this between a tenth of the run and its end is a leak: at the smallest counts below, a
/// KiB a call would show.
const GROWTH_KIB: i64 = 16 << 10;

/// CI does a twentieth.
fn full(times: u64) -> u64 {
    let full = std::env::var("JOINERY_TEST_FULL").is_ok_and(|value| value == "1");
    if full { times } else { times / 20 }
}

fn soak(what: &str, times: u64) -> Value {
    let compiler = compiler_program();
    let output = Command::new(compiler.with_file_name("soak"))
        .arg(&compiler)
        .arg(guest_path("test_guest"))
        .args([what, &times.to_string()])
        .env("RUST_LOG", "off")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    eprintln!("{told}");
    let of = |when: &str, index: usize| told[when][index].as_i64().unwrap();
    assert!(
        of("late", 0) - of("early", 0) < GROWTH_KIB,
        "memory: {told}"
    );
    // Threads that block come with the load and go when they were idle for a while, each with some mappings. A leak would be one
    // a repetition, of which there are more.
    assert!(of("late", 1) - of("early", 1) <= 8, "threads: {told}");
    assert!(of("late", 2) - of("early", 2) <= 2, "open files: {told}");
    assert!(of("late", 3) - of("early", 3) <= 64, "mappings: {told}");
    told
}

#[test]
fn calls_leave_nothing_behind() {
    assert_eq!(soak("success", full(50_000))["count"], full(50_000));
}

#[test]
fn traps_leave_nothing_behind() {
    assert_eq!(soak("trap", full(50_000))["count"], full(50_000));
}

#[test]
fn time_outs_leave_nothing_behind() {
    assert!(soak("timeout", full(60_000))["count"].as_u64() > Some(10));
}

#[test]
fn hostile_plugins_leave_nothing_behind() {
    assert_eq!(soak("hostile", full(500))["count"], full(500));
}

#[test]
fn reloads_leave_nothing_behind() {
    assert_eq!(soak("reload", full(2_000))["count"], full(2_000));
}
