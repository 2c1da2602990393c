// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes so far, in pieces: the newest are kept in memory, older ones are read again from where they lie.

use crate::store::ReadAt;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Bytes of a piece, but for the last one.
pub const PIECE: usize = 1 << 20;
/// Bytes that are read again at once.
const REREAD: usize = 16 << 10;

/// Some megabyte of the file.
pub type Piece = Arc<Vec<u8>>;

/// The pieces that are kept. A clone is cheap and stays as it is.
#[derive(Clone, Default)]
pub struct Window {
    /// Number of the first piece that is kept.
    first: usize,
    pieces: VecDeque<Piece>,
}

impl Window {
    /// Adds the next piece and lets go of the oldest ones, so that at most `most` are kept.
    pub fn push(&mut self, piece: Piece, most: usize) {
        self.pieces.push_back(piece);
        while self.pieces.len() > most.max(1) {
            self.pieces.pop_front();
            self.first += 1;
        }
    }

    /// A piece, if it is kept.
    pub fn piece(&self, index: usize) -> Option<&Piece> {
        self.pieces.get(index.checked_sub(self.first)?)
    }
}

/// Reads of a window and, where it ends, of what lies behind it.
pub struct View<'a> {
    window: Window,
    behind: Option<&'a dyn ReadAt>,
    reread: Vec<u8>,
    reread_at: u64,
}

impl<'a> View<'a> {
    /// Over a window, and `behind` for what it no longer keeps.
    pub fn new(window: Window, behind: Option<&'a dyn ReadAt>) -> View<'a> {
        View { window, behind, reread: Vec::new(), reread_at: 0 }
    }

    /// The window.
    pub fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Some bytes from `at` on, at most `most`; none at the end of what is known.
    ///
    /// # Errors
    /// What reading again reports; `NotFound` where there is nothing to read from.
    pub fn forward(&mut self, at: u64, most: usize) -> io::Result<&[u8]> {
        let (index, inside) = ((at / PIECE as u64) as usize, (at % PIECE as u64) as usize);
        if self.window.piece(index).is_some() {
            let piece = self.window.piece(index).expect("just seen");
            let rest = piece.get(inside..).unwrap_or_default();
            return Ok(&rest[..rest.len().min(most)]);
        }
        self.read_again(at)?;
        let inside = (at - self.reread_at) as usize;
        let rest = self.reread.get(inside..).unwrap_or_default();
        Ok(&rest[..rest.len().min(most)])
    }

    /// Some bytes that end before `end`, at most `most`; none at the start of the file.
    ///
    /// # Errors
    /// As [`View::forward`].
    pub fn backward(&mut self, end: u64, most: usize) -> io::Result<&[u8]> {
        let Some(last) = end.checked_sub(1) else { return Ok(&[]) };
        let (index, inside) = ((last / PIECE as u64) as usize, (last % PIECE as u64) as usize);
        if self.window.piece(index).is_some() {
            let piece = self.window.piece(index).expect("just seen");
            let before = piece.get(..=inside).unwrap_or_default();
            return Ok(&before[before.len().saturating_sub(most)..]);
        }
        self.read_again(last)?;
        let before = self.reread.get(..=(last - self.reread_at) as usize).unwrap_or_default();
        Ok(&before[before.len().saturating_sub(most)..])
    }

    fn read_again(&mut self, at: u64) -> io::Result<()> {
        let start = at / REREAD as u64 * REREAD as u64;
        if self.reread_at == start && at - start < self.reread.len() as u64 {
            return Ok(());
        }
        let behind = self.behind.ok_or(io::ErrorKind::NotFound)?;
        self.reread.resize(REREAD, 0);
        self.reread_at = start;
        let mut filled = 0;
        while filled < REREAD {
            match behind.read_at(&mut self.reread[filled..], start + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.reread.clear();
                    return Err(error);
                }
            }
        }
        self.reread.truncate(filled);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_and_what_is_read_again_is_the_same() {
        let bytes: Vec<u8> = (0..3 * PIECE + 5000).map(|k| ((k * 2_654_435_761) >> 13) as u8).collect();
        for most in 1..5 {
            let mut window = Window::default();
            for piece in bytes.chunks(PIECE) {
                window.push(Arc::new(piece.to_vec()), most);
            }
            let mut view = View::new(window, Some(&bytes));
            for at in [0, 1, 16383, 16384, PIECE - 1, PIECE, 2 * PIECE + 7, 3 * PIECE, bytes.len() - 1, bytes.len()] {
                let forward = view.forward(at as u64, 20_000).expect("known").to_vec();
                assert_eq!(forward, bytes[at..at + forward.len()]);
                assert_eq!(forward.is_empty(), at == bytes.len(), "{most} {at}");
                let backward = view.backward(at as u64, 100).expect("known").to_vec();
                assert_eq!(backward, bytes[at - backward.len()..at]);
                assert_eq!(backward.is_empty(), at == 0);
            }
        }
    }
}
