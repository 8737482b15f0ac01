//! Everything that a guest ought not to do.

use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::time::Duration;

/// Does what the word says; other words are harmless.
pub(crate) fn as_told(word: &str) {
    match word {
        "loop" => loop {
            black_box(0);
        },
        "trap" => panic!("told to trap"),
        "exit" => std::process::exit(3),
        "recurse" => {
            black_box(recurse(0));
        }
        "bomb" => bomb(),
        // As much as a plugin may have by default, and twice that of an instance that is kept.
        "large" => {
            black_box(vec![1u8; 16 << 20]);
        }
        "sleep" => std::thread::sleep(Duration::from_secs(3600)),
        "flood" => {
            for n in 0..100_000 {
                println!("line {n}");
                joinery_sdk::log::write(joinery_sdk::log::Level::Info, "record", &[("n", "1")]);
            }
        }
        "wasi" => wasi(),
        _ => {}
    }
}

/// More than the host takes in one call.
pub(crate) fn giant() -> String {
    "x".repeat(24 << 20)
}

/// What `combine` gives for the names that say so: `whole` is as it must be, each other is wrong in one way.
pub(crate) fn result(name: &str, uid: &str) -> Option<Vec<u8>> {
    let object = |kind: &str, name: &str| {
        format!(
            r#"{{"apiVersion":"test.example.com/v1","kind":"{kind}","metadata":{{"name":"{name}","namespace":"default","uid":"{uid}"}}}}"#
        )
        .into_bytes()
    };
    Some(match name {
        "whole" => object("Thing", name),
        "wrong-kind" => object("Secret", name),
        "wrong-name" => object("Thing", "another"),
        "wrong-json" => b"{\"kind\":".to_vec(),
        "wrong-utf8" => {
            let mut text = object("Thing", name);
            let at = text.len() - 2;
            text.insert(at, 0xff);
            text
        }
        "wrong-type" => b"[]".to_vec(),
        "giant-result" => giant().into_bytes(),
        _ => return None,
    })
}

/// What WASI gives as random.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[allow(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth + 1))) + 1
}

fn bomb() {
    let mut held = Vec::new();
    loop {
        held.push(black_box(vec![1u8; 1 << 20]));
    }
}

/// All that a program may ask of its system answers, and gives nothing.
fn wasi() {
    assert!(std::env::vars().next().is_none(), "environment");
    assert!(std::env::args().next().is_none(), "arguments");
    assert!(std::fs::read_dir("/").is_err(), "files");
    assert!(std::fs::write("/tmp/x", "x").is_err(), "files");
    assert!(
        std::net::TcpStream::connect("127.0.0.1:1").is_err(),
        "network"
    );
    assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err(), "network");
    let mut line = String::new();
    assert_eq!(
        std::io::stdin().read_line(&mut line).ok(),
        Some(0),
        "standard input"
    );
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    assert_eq!(now.map(|t| t.as_secs()).ok(), Some(0), "the clock stands");
    assert_eq!(
        std::time::Instant::now().elapsed(),
        Duration::ZERO,
        "the clock stands"
    );
}
