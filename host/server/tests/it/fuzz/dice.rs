//! Chance that can be repeated.

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use serde_json::{Value, json};

pub struct Dice(StdRng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Once in so many times.
    pub fn one_in(&mut self, times: u32) -> bool {
        self.0.random_ratio(1, times)
    }

    /// A number below.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    /// Something that may stand anywhere in a text.
    pub fn scrap(&mut self) -> String {
        let scraps = [
            "",
            "a",
            "default",
            "nosuch",
            "-",
            ".",
            "..",
            "/",
            "//",
            "%",
            "%zz",
            "%00",
            "%2F",
            "%2e%2e",
            "%ff",
            "%C3%A9",
            "*",
            "\"",
            "'",
            "{}",
            "null",
            "0",
            "-1",
            "18446744073709551616",
            "1e9",
            "true",
            "a=b",
            "a in (b,",
            "!a",
            "x,y",
            "metadata.name=a",
            "metadata.name!=a,",
            "spec.color=red",
            "status.seen=1",
            "A".repeat(300).leak(),
            "\u{e9}",
            "\u{7f}",
        ];
        self.pick(&scraps).to_owned()
    }

    /// A JSON value of any kind.
    pub fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 12 } else { 14 }) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(0),
            3 => json!(-1),
            4 => json!(11),
            5 => json!(1.5),
            6 => json!(u64::MAX),
            7 => json!("a"),
            8 => json!("2026-01-01T00:00:00Z"),
            9 => json!(self.scrap()),
            10 => json!([]),
            11 => json!({}),
            12 => json!([self.value(depth - 1), self.value(depth - 1)]),
            _ => {
                let name = self.pick(&[
                    "name", "metadata", "spec", "labels", "a", "kind", "", "$patch",
                ]);
                json!({name: self.value(depth - 1)})
            }
        }
    }

    /// Puts something else somewhere in a value.
    pub fn disturb(&mut self, value: &mut Value) {
        let children = match value {
            Value::Object(members) => members.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if children == 0 || self.one_in(6) {
            *value = self.value(2);
            return;
        }
        let index = self.below(children);
        match value {
            Value::Object(members) => {
                let name = members.keys().nth(index).cloned().unwrap_or_default();
                if self.one_in(6) {
                    members.remove(&name);
                } else if self.one_in(6) {
                    let (name, value) = (self.scrap(), self.value(2));
                    members.insert(name, value);
                } else if let Some(child) = members.get_mut(&name) {
                    self.disturb(child);
                }
            }
            Value::Array(items) => self.disturb(&mut items[index]),
            _ => {}
        }
    }

    /// Changes, cuts, repeats or adds some bytes.
    pub fn spoil(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                return bytes;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] = self.0.next_u32().to_le_bytes()[0],
                1 => bytes.truncate(at),
                2 => bytes.insert(at, b"\0\r\n\"{[:, \xff"[self.below(10)]),
                3 => {
                    let piece = bytes[at..(at + 20).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => {
                    let end = (at + 1 + self.below(8)).min(bytes.len());
                    bytes.drain(at..end);
                }
            }
        }
        bytes
    }
}
