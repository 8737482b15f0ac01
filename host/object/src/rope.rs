//! Text made of shared pieces.

use bytes::{Bytes, BytesMut};
use smallvec::{SmallVec, smallvec};

/// A run of bytes held as shared pieces, so that a composed object refers to its inputs instead of copying them.
///
/// Two ropes are equal when their bytes are, however they are cut.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    pieces: SmallVec<[Bytes; 1]>,
    len: usize,
}

impl Rope {
    /// An empty rope.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece at the end. Empty pieces are dropped.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Adds all pieces of another rope at the end.
    pub fn append(&mut self, other: &Rope) {
        for piece in &other.pieces {
            self.push(piece.clone());
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in order; none is empty.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The whole as one piece: shared when there is only one, else copied together.
    pub fn to_bytes(&self) -> Bytes {
        match self.pieces.as_slice() {
            [] => Bytes::new(),
            [one] => one.clone(),
            _ => {
                let mut whole = BytesMut::with_capacity(self.len);
                self.write_to(&mut whole);
                whole.freeze()
            }
        }
    }

    /// Copies the bytes to the end of a buffer.
    pub fn write_to(&self, buffer: &mut BytesMut) {
        buffer.reserve(self.len);
        for piece in &self.pieces {
            buffer.extend_from_slice(piece);
        }
    }
}

impl From<Bytes> for Rope {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        Self {
            len: bytes.len(),
            pieces: smallvec![bytes],
        }
    }
}

impl PartialEq for Rope {
    fn eq(&self, other: &Self) -> bool {
        if self.len != other.len {
            return false;
        }
        let (mut left, mut right) = (self.pieces.iter(), other.pieces.iter());
        let (mut a, mut b): (&[u8], &[u8]) = (&[], &[]);
        loop {
            if a.is_empty() {
                a = match left.next() {
                    Some(piece) => piece,
                    // The lengths are the same, so the other side has ended too.
                    None => return true,
                };
            }
            if b.is_empty() {
                b = match right.next() {
                    Some(piece) => piece,
                    None => return true,
                };
            }
            let n = a.len().min(b.len());
            // Shared pieces are most often the same memory: no need to read it.
            if !std::ptr::eq(a.as_ptr(), b.as_ptr()) && a[..n] != b[..n] {
                return false;
            }
            (a, b) = (&a[n..], &b[n..]);
        }
    }
}

impl Eq for Rope {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(pieces: &[&'static str]) -> Rope {
        let mut rope = Rope::new();
        for piece in pieces {
            rope.push(Bytes::from_static(piece.as_bytes()));
        }
        rope
    }

    #[test]
    fn equality_does_not_depend_on_the_cuts() {
        assert_eq!(rope(&["ab", "c", "def"]), rope(&["abc", "", "d", "ef"]));
        assert_ne!(rope(&["ab", "c"]), rope(&["ab", "d"]));
        assert_ne!(rope(&["ab"]), rope(&["ab", "d"]));
        assert_eq!(rope(&[]), rope(&[""]));
    }

    #[test]
    fn a_single_piece_is_shared_and_several_are_joined() {
        let one = Bytes::from_static(b"one");
        assert!(std::ptr::eq(
            Rope::from(one.clone()).to_bytes().as_ptr(),
            one.as_ptr()
        ));
        assert_eq!(rope(&["a", "b", "c"]).to_bytes(), "abc");
    }
}
