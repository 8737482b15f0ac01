//! Compression of large answers.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use joinery_object::{Compressed, Object};

use crate::body::Pieces;

/// Shorter answers are sent as they are (k8s.io/apiserver: 128 KiB).
pub(super) const THRESHOLD: usize = 128 * 1024;

/// Whether the client can read gzip.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let refused = parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)));
            name.eq_ignore_ascii_case("gzip") && !refused
        })
}

/// Compresses on a thread for blocking work: tens of milliseconds for tens of megabytes.
pub(super) async fn gzip(pieces: VecDeque<Bytes>) -> Option<Bytes> {
    tokio::task::spawn_blocking(move || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for piece in pieces {
            encoder.write_all(&piece).ok()?;
        }
        encoder.finish().ok().map(Bytes::from)
    })
    .await
    .ok()?
}

/// Compresses those of the objects that have not been compressed before, so that afterwards they only have to be put together. On a
/// thread for blocking work, unless there is nothing to do.
pub(super) async fn prepare(objects: &[Arc<Object>]) {
    let new: Vec<_> = objects
        .iter()
        .filter(|object| !object.is_compressed())
        .cloned()
        .collect();
    if new.is_empty() {
        return;
    }
    let work = tokio::task::spawn_blocking(move || {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        for object in new {
            object.compressed(|| compress(&mut encoder, &object));
        }
    });
    // What could not be compressed there is compressed when it is written.
    let _ = work.await;
}

fn compress(encoder: &mut DeflateEncoder<Vec<u8>>, object: &Object) -> Compressed {
    let mut crc = Crc::new();
    // Begins anew, so that what comes out refers to nothing that came before. Writing to memory cannot fail.
    let _ = encoder.reset(Vec::new());
    for piece in object.pieces() {
        crc.update(piece);
        let _ = encoder.write_all(piece);
    }
    // Ends the block, on a byte boundary (Z_SYNC_FLUSH).
    let _ = encoder.flush();
    // It is kept: without the room that it did not need.
    let blocks = std::mem::take(encoder.get_mut()).into_boxed_slice();
    Compressed {
        blocks: blocks.into(),
        crc: crc.sum(),
        shift: power(8 * object.len() as u64),
    }
}

/// Puts a gzip member (RFC 1952) together from what is compressed already and text between.
#[derive(Default)]
pub(super) struct Member {
    /// Of all text so far.
    crc: u32,
    len: u64,
}

/// The method is deflate, the fastest was chosen; no name, no time, no system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];
/// The last block, with nothing in it.
const LAST: [u8; 2] = [3, 0];

impl Member {
    /// Before everything else.
    pub(super) fn begin(out: &mut Pieces) {
        out.write(&HEAD);
    }

    /// Text as it is, in stored blocks.
    pub(super) fn text(&mut self, out: &mut Pieces, text: &[u8]) {
        let mut crc = Crc::new();
        crc.update(text);
        self.add(crc.sum(), power(8 * text.len() as u64), text.len());
        for block in text.chunks(usize::from(u16::MAX)) {
            let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
            out.write(&[0]);
            out.write(&len.to_le_bytes());
            out.write(&(!len).to_le_bytes());
            out.write(block);
        }
    }

    /// An object as it is kept.
    pub(super) fn object(&mut self, out: &mut Pieces, object: &Object) {
        let compressed = object.compressed(|| {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
            compress(&mut encoder, object)
        });
        self.add(compressed.crc, compressed.shift, object.len());
        out.push(&compressed.blocks);
    }

    /// Counts text of this CRC and length; `shift` as in [`Compressed`].
    fn add(&mut self, crc: u32, shift: u32, len: usize) {
        self.crc = times(shift, self.crc) ^ crc;
        self.len += len as u64;
    }

    /// After everything else.
    pub(super) fn end(&mut self, out: &mut Pieces) {
        out.write(&LAST);
        out.write(&self.crc.to_le_bytes());
        // Modulo 2^32, as it is defined.
        #[expect(clippy::cast_possible_truncation, reason = "RFC 1952, 2.3.1: ISIZE")]
        out.write(&(self.len as u32).to_le_bytes());
    }
}

/// The polynomial of CRC-32 without its x^32, the highest power in the lowest bit, as all values here.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// The product of two polynomials over GF(2), modulo that of CRC-32.
fn times(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..32).rev() {
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        // Times x.
        b = if b & 1 == 1 {
            b >> 1 ^ POLYNOMIAL
        } else {
            b >> 1
        };
    }
    product
}

/// x to this power, modulo the polynomial of CRC-32: what a CRC is multiplied with when so many bits follow.
fn power(mut exponent: u64) -> u32 {
    let (mut result, mut square) = (ONE, ONE >> 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use joinery_object::ResourceVersion;

    use super::*;

    #[tokio::test]
    async fn pieces_that_were_compressed_apart_are_one_member_together() {
        let objects: Vec<_> = (0..50)
            .map(|n| {
                let filler = "xyz".repeat(n * 100);
                let text = format!(r#"{{"metadata":{{"name":"n{n}"}},"f":"{filler}"}}"#);
                Arc::new(Object::parse_at(text.into(), ResourceVersion::single(7)).unwrap())
            })
            .collect();
        prepare(&objects[..25]).await;
        assert!(objects[24].is_compressed() && !objects[25].is_compressed());
        let (mut member, mut out) = (Member::default(), Pieces::default());
        let mut plain = b"[".to_vec();
        Member::begin(&mut out);
        member.text(&mut out, b"[");
        for object in &objects {
            member.object(&mut out, object);
            member.text(&mut out, b",");
            plain.extend_from_slice(&object.bytes());
            plain.push(b',');
        }
        let long = vec![b' '; 100_000];
        member.text(&mut out, &long);
        plain.extend_from_slice(&long);
        member.end(&mut out);
        let mut unpacked = Vec::new();
        GzDecoder::new(&*out.into_bytes())
            .read_to_end(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, plain);
    }
}
