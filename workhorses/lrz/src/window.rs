// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes so far, in pieces: the newest are kept in memory, older ones are read again from where they lie.

use crate::store::ReadAt;
use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a piece, but for the last one.
pub const PIECE: usize = 1 << 20;
/// Bytes that are read again at once: few where a repeat may end soon, more and more where it goes on.
const REREAD: (usize, usize) = (4 << 10, 64 << 10);

/// Some megabyte of the file.
pub type Piece = Arc<Buffer>;

/// The bytes of a piece. Its memory is used again when nobody needs them any more: new memory costs the system more
/// time than filling it costs the program.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    spares: Option<Spares>,
}

/// Memory of pieces that nobody needs any more.
pub type Spares = Arc<Mutex<Vec<Vec<u8>>>>;

impl Buffer {
    /// Of bytes whose memory goes to `spares` in the end.
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

/// Memory for a piece of `most` bytes: a spare one, or new; `None` where there is none.
pub fn room(spares: &Spares, most: usize) -> Option<Vec<u8>> {
    if let Some(spare) = spares.lock().unwrap_or_else(PoisonError::into_inner).pop() {
        return Some(spare);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(most).ok()?;
    Some(bytes)
}

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
    /// How many to read the next time.
    reread_bytes: usize,
}

impl<'a> View<'a> {
    /// Over a window, and `behind` for what it no longer keeps.
    pub fn new(window: Window, behind: Option<&'a dyn ReadAt>) -> View<'a> {
        View { window, behind, reread: Vec::new(), reread_at: 0, reread_bytes: REREAD.0 }
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
        self.read_again(at, false)?;
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
        self.read_again(last, true)?;
        let before = self.reread.get(..=(last - self.reread_at) as usize).unwrap_or_default();
        Ok(&before[before.len().saturating_sub(most)..])
    }

    /// Reads the byte at `at` again, and some after it, or before it if `backwards`, unless it is known.
    fn read_again(&mut self, at: u64, backwards: bool) -> io::Result<()> {
        let end = self.reread_at + self.reread.len() as u64;
        if (self.reread_at..end).contains(&at) {
            return Ok(());
        }
        let goes_on = at == end || at + 1 == self.reread_at;
        self.reread_bytes = if goes_on && end > 0 { (2 * self.reread_bytes).min(REREAD.1) } else { REREAD.0 };
        let start = if backwards { (at + 1).saturating_sub(self.reread_bytes as u64) } else { at };
        // What the window holds may not have been written yet.
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
    fn what_is_kept_and_what_is_read_again_is_the_same() {
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
