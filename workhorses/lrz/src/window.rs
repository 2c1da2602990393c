// SPDX-License-Identifier: MIT OR Apache-2.0
//! Window over the input or output so far: recent pieces stay in memory, older ones are read again from the file.

use crate::store::ReadAt;
use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Length of a piece in bytes; the last one may be shorter.
pub const PIECE: usize = 1 << 20;
/// Minimum and maximum read size in bytes for evicted data; the size doubles while reads are sequential.
const REREAD: (usize, usize) = (4 << 10, 64 << 10);

/// One piece of the file.
pub type Piece = Arc<Buffer>;

/// Bytes of a piece. The memory is recycled after the last use, because page faults on new memory take longer than
/// filling it.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    spares: Option<Spares>,
}

/// Recycled piece memory.
pub type Spares = Arc<Mutex<Vec<Vec<u8>>>>;

impl Buffer {
    /// Creates a buffer whose memory is returned to `spares` when dropped.
    pub fn new(bytes: Vec<u8>, spares: &Spares) -> Buffer {
        Buffer { bytes, spares: Some(spares.clone()) }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(spares) = &self.spares {
            spares.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Allocates memory for a piece of `most` bytes, recycled or new; returns `None` if there is none.
pub fn room(spares: &Spares, most: usize) -> Option<Vec<u8>> {
    if let Some(spare) = spares.lock().unwrap_or_else(PoisonError::into_inner).pop() {
        return Some(spare);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(most).ok()?;
    Some(bytes)
}

/// The pieces in memory. A clone is cheap and unaffected by later changes.
#[derive(Clone, Default)]
pub struct Window {
    /// Index of the first piece in memory.
    first: usize,
    pieces: VecDeque<Piece>,
}

impl Window {
    /// Appends a piece and evicts the oldest ones, so that at most `most` remain.
    pub fn push(&mut self, piece: Piece, most: usize) {
        self.pieces.push_back(piece);
        while self.pieces.len() > most.max(1) {
            self.pieces.pop_front();
            self.first += 1;
        }
    }

    /// The piece with this index, if it is in memory.
    pub fn piece(&self, index: usize) -> Option<&Piece> {
        self.pieces.get(index.checked_sub(self.first)?)
    }
}

/// Reads from a window, and from a file for evicted pieces.
pub struct View<'a> {
    window: Window,
    behind: Option<&'a dyn ReadAt>,
    reread: Vec<u8>,
    reread_at: u64,
    /// Size of the next read from the file.
    reread_bytes: usize,
}

impl<'a> View<'a> {
    /// Creates a view of a window, with `behind` supplying evicted pieces.
    pub fn new(window: Window, behind: Option<&'a dyn ReadAt>) -> View<'a> {
        View { window, behind, reread: Vec::new(), reread_at: 0, reread_bytes: REREAD.0 }
    }

    /// The underlying window.
    pub fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Returns up to `most` bytes from `at`; empty at the end of the data.
    ///
    /// # Errors
    /// Those of the file; `NotFound` if the piece was evicted and there is no file.
    pub fn forward(&mut self, at: u64, most: usize) -> io::Result<&[u8]> {
        let (index, inside) = ((at / PIECE as u64) as usize, (at % PIECE as u64) as usize);
        if self.window.piece(index).is_some() {
            let piece = self.window.piece(index).expect("just seen");
            let rest = piece.get(inside..).unwrap_or_default();
            return Ok(&rest[..rest.len().min(most)]);
        }
        self.read_again(at, false)?;
        let inside = (at - self.reread_at) as usize;
        let rest = self.reread.get(inside..).unwrap_or_default();
        Ok(&rest[..rest.len().min(most)])
    }

    /// Returns up to `most` bytes that end at `end`; empty at the start of the file.
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
        self.read_again(last, true)?;
        let before = self.reread.get(..=(last - self.reread_at) as usize).unwrap_or_default();
        Ok(&before[before.len().saturating_sub(most)..])
    }

    /// Reads the byte at `at` from the file unless it is buffered, with bytes after it or, if `backwards`, before it.
    fn read_again(&mut self, at: u64, backwards: bool) -> io::Result<()> {
        let end = self.reread_at + self.reread.len() as u64;
        if (self.reread_at..end).contains(&at) {
            return Ok(());
        }
        let goes_on = at == end || at + 1 == self.reread_at;
        self.reread_bytes = if goes_on && end > 0 { (2 * self.reread_bytes).min(REREAD.1) } else { REREAD.0 };
        let start = if backwards { (at + 1).saturating_sub(self.reread_bytes as u64) } else { at };
        // Pieces in the window may not have been written to the file yet.
        let kept_from = (self.window.first * PIECE) as u64;
        let most = if at < kept_from { kept_from - start } else { u64::MAX };
        let bytes = most.min(self.reread_bytes as u64) as usize;
        let behind = self.behind.ok_or(io::ErrorKind::NotFound)?;
        self.reread.resize(bytes, 0);
        self.reread_at = start;
        let mut filled = 0;
        while filled < bytes {
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
    fn pieces_in_memory_and_reread_pieces_are_identical() {
        let bytes: Vec<u8> = (0..3 * PIECE + 5000).map(|k| ((k * 2_654_435_761) >> 13) as u8).collect();
        for most in 1..5 {
            let mut window = Window::default();
            for piece in bytes.chunks(PIECE) {
                window.push(Arc::new(Buffer { bytes: piece.to_vec(), spares: None }), most);
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
