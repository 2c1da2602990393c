// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streaming LZO1X decompressor: keeps a window of 48 KiB of history and up to 64 KiB of new output.

use super::{corrupt, short_of_memory};
use crate::error::Result;
use std::io::{self, BufRead, Read};

/// Memory for the history and the output not yet returned, in bytes.
pub const WORKING_MEMORY: u64 = BUFFER as u64;

/// History kept, in bytes. The largest match distance is 0x4000 + 0x4000 + 0x3FFF = 0xBFFF.
const HISTORY: usize = 0xC000;
const BUFFER: usize = HISTORY + (64 << 10);

/// Input bytes required by the fast path: more than an instruction and its trailing literals take, unless its length
/// is extended by many zero bytes.
const AT_HAND: usize = 16;

/// Decoder state.
#[derive(Clone, Copy)]
enum Work {
    /// Decode the next instruction; its meaning depends on the number of literals before it.
    Instruction,
    Literals(usize),
    Repeat {
        length: usize,
        distance: usize,
        then: usize,
    },
    Ended,
}

/// Decompresses a block.
pub struct Unpacker<R> {
    packed: R,
    /// Decompressed bytes. Those before `taken` have been returned and remain as history.
    window: Vec<u8>,
    taken: usize,
    work: Work,
    /// Literals since the last match: 0 to 3, or 4 after a long run.
    state: usize,
    begun: bool,
}

impl<R: BufRead> Unpacker<R> {
    /// Creates a reader of the decompressed bytes.
    ///
    /// # Errors
    /// [`crate::error::Error::Memory`] if memory is short.
    pub fn new(packed: R) -> Result<Unpacker<R>> {
        let mut window = Vec::new();
        window.try_reserve_exact(BUFFER).map_err(|_| short_of_memory("the LZO window", BUFFER as u64))?;
        Ok(Unpacker { packed, window, taken: 0, work: Work::Instruction, state: 0, begun: false })
    }

    fn byte(&mut self) -> io::Result<usize> {
        let byte = *self.packed.fill_buf()?.first().ok_or_else(|| corrupt("truncated LZO data"))?;
        self.packed.consume(1);
        Ok(usize::from(byte))
    }

    fn first(&mut self) -> io::Result<Work> {
        self.begun = true;
        let first = *self.packed.fill_buf()?.first().ok_or_else(|| corrupt("not LZO data"))?;
        if first < 18 {
            return Ok(Work::Instruction);
        }
        let length = self.byte()? - 17;
        self.state = length.min(4);
        Ok(Work::Literals(length))
    }

    fn instruction(&mut self) -> io::Result<Work> {
        let instruction = decode(self.state, || self.byte())?;
        self.begin(instruction)
    }

    /// Validates an instruction and returns the state it starts.
    fn begin(&mut self, instruction: Instruction) -> io::Result<Work> {
        match instruction {
            Instruction::Literals(length) => {
                self.state = 4;
                Ok(Work::Literals(length))
            }
            Instruction::Repeat { distance, .. } if distance > self.window.len() => {
                Err(corrupt("an LZO match distance reaches before the block"))
            }
            Instruction::Repeat { length, distance, then } => Ok(Work::Repeat { length, distance, then }),
            Instruction::End => Ok(Work::Ended),
        }
    }

    /// Fast path: decodes instructions as long as the whole instruction and its literals are in the input buffer and
    /// the output fits the window, which is the common case.
    fn decode_fast(&mut self) -> io::Result<()> {
        let input = self.packed.fill_buf()?;
        let (mut at, mut window, mut state) = (0, std::mem::take(&mut self.window), self.state);
        while let Some(ahead) = input.get(at..at + AT_HAND) {
            let mut used = 0;
            // An instruction with a long length extension exceeds these bytes; `instruction` decodes it.
            let next = || {
                used += 1;
                ahead.get(used - 1).map(|byte| usize::from(*byte)).ok_or(io::ErrorKind::WouldBlock.into())
            };
            match decode(state, next) {
                Ok(Instruction::Literals(length)) => {
                    let Some(bytes) = input.get(at + used..at + used + length) else { break };
                    if window.len() + length > BUFFER {
                        break;
                    }
                    window.extend_from_slice(bytes);
                    at += used + length;
                    state = 4;
                }
                Ok(Instruction::Repeat { length, distance, then })
                    if distance <= window.len() && window.len() + length + then <= BUFFER =>
                {
                    let Some(literals) = ahead.get(used..used + then) else { break };
                    repeat(&mut window, length, distance);
                    window.extend_from_slice(literals);
                    at += used + then;
                    state = then;
                }
                // Invalid instructions, the end marker and output that does not fit are also left to `instruction`.
                _ => break,
            }
        }
        self.packed.consume(at);
        (self.window, self.state) = (window, state);
        Ok(())
    }

    /// Decodes until the window is full or the block ends.
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
                Work::Instruction => {
                    self.decode_fast()?;
                    if self.window.len() == BUFFER {
                        break;
                    }
                    self.instruction()?
                }
                Work::Literals(0) => Work::Instruction,
                Work::Literals(length) => {
                    let input = self.packed.fill_buf()?;
                    let part = length.min(room).min(input.len());
                    if part == 0 {
                        return Err(corrupt("truncated LZO data"));
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
                    // A match that overlaps its own output is copied in parts of at most `distance` bytes.
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

/// A decoded LZO instruction.
enum Instruction {
    Literals(usize),
    Repeat { length: usize, distance: usize, then: usize },
    End,
}

/// Decodes an instruction; `state` is the number of literals before it (see [`Unpacker`]).
fn decode(state: usize, mut next: impl FnMut() -> io::Result<usize>) -> io::Result<Instruction> {
    let code = next()?;
    let (length, distance, then) = match code {
        0..=15 if state == 0 => {
            let length = if code == 0 { extension(18, next)? } else { code + 3 };
            return Ok(Instruction::Literals(length));
        }
        0..=15 => {
            let (base, length) = if state == 4 { (0x801, 3) } else { (1, 2) };
            (length, (next()? << 2) + (code >> 2) + base, code & 3)
        }
        16..=31 => {
            let length = if code & 7 == 0 { extension(9, &mut next)? } else { (code & 7) + 2 };
            let low = next()? | next()? << 8;
            let distance = 0x4000 + ((code & 8) << 11) + (low >> 2);
            if distance == 0x4000 {
                return Ok(Instruction::End);
            }
            (length, distance, low & 3)
        }
        32..=63 => {
            let length = if code & 31 == 0 { extension(33, &mut next)? } else { (code & 31) + 2 };
            let low = next()? | next()? << 8;
            (length, (low >> 2) + 1, low & 3)
        }
        _ => ((code >> 5) + 1, (next()? << 3) + (code >> 2 & 7) + 1, code & 3),
    };
    Ok(Instruction::Repeat { length, distance, then })
}

/// Reads an extended length: `base`, plus 255 for each zero byte, plus the first nonzero byte.
fn extension(base: usize, mut next: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let mut length = base;
    loop {
        match next()? {
            0 => length = length.checked_add(255).ok_or_else(|| corrupt("an LZO length overflows"))?,
            last => return Ok(length.saturating_add(last)),
        }
    }
}

/// Appends a match of `length` bytes that begins `distance` bytes before the end. If it overlaps its own output, each
/// copy doubles the part copied so far.
fn repeat(window: &mut Vec<u8>, length: usize, distance: usize) {
    let from = window.len() - distance;
    let mut left = length;
    while left > 0 {
        let part = left.min(window.len() - from);
        window.extend_from_within(from..from + part);
        left -= part;
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.window.len() {
            let before = self.window.len();
            self.fill()?;
            // Bytes dropped from the front had all been returned before.
            self.taken = if before > BUFFER - 4096 { HISTORY.min(before) } else { before };
        }
        let part = buffer.len().min(self.window.len() - self.taken);
        buffer[..part].copy_from_slice(&self.window[self.taken..self.taken + part]);
        self.taken += part;
        Ok(part)
    }
}
