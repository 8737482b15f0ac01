//! Response bodies: shared pieces of known length, or a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http_body::{Frame, SizeHint};

/// Pieces shorter than this are copied together: a frame costs more than the copy.
const SMALL: usize = 4 * 1024;
/// About as long as what is copied together gets.
const CHUNK: usize = 32 * 1024;

/// The body of a response.
pub(crate) enum Body {
    /// Known from the start, in shared pieces.
    Pieces(Pieces),
    /// Written piece by piece, as the client takes it.
    Written(Written),
    /// Ends when the stream does.
    Stream(BoxStream<'static, Bytes>),
}

/// What is written while it is sent.
pub(crate) struct Written {
    /// What has been written and not been taken.
    ready: Pieces,
    /// Writes some more; false: there is no more.
    more: Box<dyn FnMut(&mut Pieces) -> bool + Send>,
    /// What is left to be taken, where it is known.
    left: Option<usize>,
    over: bool,
}

impl Written {
    fn next(&mut self) -> Option<Bytes> {
        while self.ready.pieces.is_empty() && !self.over {
            self.over = !(self.more)(&mut self.ready);
        }
        if self.over {
            self.ready.flush();
        }
        let piece = self.ready.pop()?;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(piece.len());
        }
        Some(piece)
    }
}

/// Text in shared pieces, not copied together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    pieces: VecDeque<Bytes>,
    /// What is being copied together.
    tail: BytesMut,
    len: usize,
}

impl Pieces {
    /// Adds a piece at the end; small ones are copied, large ones shared.
    pub(crate) fn push(&mut self, piece: &Bytes) {
        if piece.len() < SMALL {
            self.write(piece);
        } else {
            self.flush();
            self.len += piece.len();
            self.pieces.push_back(piece.clone());
        }
    }

    /// Copies text to the end.
    pub(crate) fn write(&mut self, text: &[u8]) {
        self.len += text.len();
        self.tail.extend_from_slice(text);
        if self.tail.len() >= CHUNK {
            self.flush();
            // There is much of it, so the next one gets as long: growing would copy.
            self.tail.reserve(CHUNK + SMALL);
        }
    }

    /// Takes the first piece that is complete.
    fn pop(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front()?;
        self.len -= piece.len();
        Some(piece)
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The pieces in order.
    pub(crate) fn into_pieces(mut self) -> VecDeque<Bytes> {
        self.flush();
        self.pieces
    }

    /// The whole as one piece.
    pub(crate) fn into_bytes(self) -> Bytes {
        let len = self.len;
        let mut pieces = self.into_pieces();
        if pieces.len() == 1
            && let Some(one) = pieces.pop_front()
        {
            return one;
        }
        let mut whole = BytesMut::with_capacity(len);
        for piece in pieces {
            whole.extend_from_slice(&piece);
        }
        whole.freeze()
    }

    fn flush(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        let mut pieces = Self::default();
        pieces.push(&bytes);
        pieces
    }
}

impl Body {
    /// No body.
    pub(crate) fn empty() -> Self {
        Self::Pieces(Pieces::default())
    }

    /// A body that `more` writes as it is sent, a little at each call, until it returns false. `len` where it is known.
    pub(crate) fn written(
        len: Option<usize>,
        more: impl FnMut(&mut Pieces) -> bool + Send + 'static,
    ) -> Self {
        Self::Written(Written {
            ready: Pieces::default(),
            more: Box::new(more),
            left: len,
            over: false,
        })
    }

    /// The length, where it is known.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Self::Pieces(pieces) => Some(pieces.len),
            Self::Written(written) => written.left,
            Self::Stream(_) => None,
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self::Pieces(bytes.into().into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Pieces(pieces) => {
                pieces.flush();
                Poll::Ready(pieces.pop().map(|piece| Ok(Frame::data(piece))))
            }
            Self::Written(written) => {
                Poll::Ready(written.next().map(|piece| Ok(Frame::data(piece))))
            }
            Self::Stream(stream) => stream
                .poll_next_unpin(context)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pieces(pieces) => pieces.len == 0,
            Self::Written(written) => written.over && written.ready.len == 0,
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces(pieces) => SizeHint::with_exact(pieces.len as u64),
            Self::Written(Written {
                left: Some(left), ..
            }) => SizeHint::with_exact(*left as u64),
            Self::Written(_) => SizeHint::default(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Waker;

    use http_body::Body as _;

    use super::*;

    #[test]
    fn what_is_written_as_it_is_sent_is_written_when_it_is_taken() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let mut body = Body::written(Some(5 * CHUNK), move |out| {
            let call = counted.fetch_add(1, Relaxed);
            out.write(&vec![b'x'; CHUNK]);
            call < 4
        });
        assert_eq!(body.len(), Some(5 * CHUNK));
        let mut context = Context::from_waker(Waker::noop());
        for taken in 1..=5 {
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) else {
                panic!("a piece");
            };
            assert_eq!(frame.into_data().unwrap().len(), CHUNK);
            assert_eq!(calls.load(Relaxed), taken);
            assert_eq!(body.len(), Some((5 - taken) * CHUNK));
        }
        assert!(body.is_end_stream());
        assert!(matches!(
            Pin::new(&mut body).poll_frame(&mut context),
            Poll::Ready(None)
        ));
    }

    #[test]
    fn small_pieces_are_joined_and_large_ones_shared() {
        let large = Bytes::from(vec![b'x'; SMALL]);
        let mut pieces = Pieces::default();
        pieces.write(b"a");
        pieces.push(&Bytes::from_static(b"b"));
        pieces.push(&large);
        pieces.write(b"c");
        assert_eq!(pieces.len(), SMALL + 3);
        let cut = pieces.clone().into_pieces();
        assert_eq!(cut.len(), 3);
        assert_eq!(cut[0], "ab");
        assert!(std::ptr::eq(cut[1].as_ptr(), large.as_ptr()));
        assert_eq!(pieces.into_bytes().len(), SMALL + 3);
    }
}
