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
