// SPDX-License-Identifier: MIT OR Apache-2.0
//! LZO1X, unpacking as a stream: the last 64 KiB are all that it keeps.

use super::{corrupt, short_of_memory};
use crate::error::Result;
use std::io::{self, BufRead, Read};

/// Memory for what may be repeated and what was not yet taken, in bytes.
pub const WORKING_MEMORY: u64 = BUFFER as u64;

/// Farthest repeat: 16384 + 2^14 + 2^14 - 1 bytes.
const HISTORY: usize = 0xC000;
const BUFFER: usize = HISTORY + (64 << 10);

/// What is under way.
#[derive(Clone, Copy)]
enum Work {
    /// The next instruction; how many literals came before it decides what it means.
    Instruction,
    Literals(usize),
    Repeat {
        length: usize,
        distance: usize,
        then: usize,
    },
    Ended,
}

/// Unpacks a block.
pub struct Unpacker<R> {
    packed: R,
    /// Unpacked bytes: those up to `taken` were handed out and stay as history.
    window: Vec<u8>,
    taken: usize,
    work: Work,
    /// Literals since the last repeat: 0 to 3, 4 for a long run.
    state: usize,
    begun: bool,
}

impl<R: BufRead> Unpacker<R> {
    /// From the packed bytes.
    ///
    /// # Errors
    /// [`crate::error::Error::Memory`] where memory is short.
    pub fn new(packed: R) -> Result<Unpacker<R>> {
        let mut window = Vec::new();
        window.try_reserve_exact(BUFFER).map_err(|_| short_of_memory("the window of LZO", BUFFER as u64))?;
        Ok(Unpacker { packed, window, taken: 0, work: Work::Instruction, state: 0, begun: false })
    }

    fn byte(&mut self) -> io::Result<usize> {
        let byte = *self.packed.fill_buf()?.first().ok_or_else(|| corrupt("LZO data that end too early"))?;
        self.packed.consume(1);
        Ok(usize::from(byte))
    }

    /// A length whose bits in the instruction are zero: 255 for each zero byte, and a last one.
    fn extension(&mut self, base: usize) -> io::Result<usize> {
        let mut length = base;
        loop {
            match self.byte()? {
                0 => length = length.checked_add(255).ok_or_else(|| corrupt("an LZO length without end"))?,
                last => return Ok(length.saturating_add(last)),
            }
        }
    }

    fn first(&mut self) -> io::Result<Work> {
        self.begun = true;
        let first = *self.packed.fill_buf()?.first().ok_or_else(|| corrupt("no LZO data"))?;
        if first < 18 {
            return Ok(Work::Instruction);
        }
        let length = self.byte()? - 17;
        self.state = length.min(4);
        Ok(Work::Literals(length))
    }

    fn instruction(&mut self) -> io::Result<Work> {
        let code = self.byte()?;
        let (length, distance, then) = match code {
            0..=15 if self.state == 0 => {
                let length = if code == 0 { self.extension(18)? } else { code + 3 };
                self.state = 4;
                return Ok(Work::Literals(length));
            }
            0..=15 => {
                let base = if self.state == 4 { 0x801 } else { 1 };
                let length = if self.state == 4 { 3 } else { 2 };
                (length, (self.byte()? << 2) + (code >> 2) + base, code & 3)
            }
            16..=31 => {
                let length = if code & 7 == 0 { self.extension(9)? } else { (code & 7) + 2 };
                let low = self.byte()? | self.byte()? << 8;
                let distance = 0x4000 + ((code & 8) << 11) + (low >> 2);
                if distance == 0x4000 {
                    return Ok(Work::Ended);
                }
                (length, distance, low & 3)
            }
            32..=63 => {
                let length = if code & 31 == 0 { self.extension(33)? } else { (code & 31) + 2 };
                let low = self.byte()? | self.byte()? << 8;
                (length, (low >> 2) + 1, low & 3)
            }
            _ => ((code >> 5) + 1, (self.byte()? << 3) + (code >> 2 & 7) + 1, code & 3),
        };
        if distance > self.window.len() {
            return Err(corrupt("an LZO repeat of what was before the block"));
        }
        Ok(Work::Repeat { length, distance, then })
    }

    /// Does work until the window is full or the block ends.
    fn fill(&mut self) -> io::Result<()> {
        if self.window.len() > BUFFER - 4096 {
            let old = self.window.len() - HISTORY;
            self.window.drain(..old);
        }
        while self.window.len() < BUFFER {
            let room = BUFFER - self.window.len();
            self.work = match self.work {
                Work::Ended => break,
                Work::Instruction if !self.begun => self.first()?,
                Work::Instruction => self.instruction()?,
                Work::Literals(0) => Work::Instruction,
                Work::Literals(length) => {
                    let input = self.packed.fill_buf()?;
                    let part = length.min(room).min(input.len());
                    if part == 0 {
                        return Err(corrupt("LZO data that end too early"));
                    }
                    self.window.extend_from_slice(&input[..part]);
                    self.packed.consume(part);
                    Work::Literals(length - part)
                }
                Work::Repeat { length: 0, then, .. } => {
                    self.state = then;
                    Work::Literals(then)
                }
                Work::Repeat { length, distance, then } => {
                    // What overlaps itself doubles with each copy.
                    let part = length.min(room).min(distance);
                    let from = self.window.len() - distance;
                    self.window.extend_from_within(from..from + part);
                    Work::Repeat { length: length - part, distance, then }
                }
            };
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.window.len() {
            let before = self.window.len();
            self.fill()?;
            // What was dropped from the front was taken before.
            self.taken = if before > BUFFER - 4096 { HISTORY.min(before) } else { before };
        }
        let part = buffer.len().min(self.window.len() - self.taken);
        buffer[..part].copy_from_slice(&self.window[self.taken..self.taken + part]);
        self.taken += part;
        Ok(part)
    }
}
