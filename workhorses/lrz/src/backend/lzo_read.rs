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

/// More than the bytes of an instruction and of the literals after it, unless its length goes on and on.
const AT_HAND: usize = 16;

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
        let instruction = decode(self.state, || self.byte())?;
        self.begin(instruction)
    }

    /// What an instruction starts.
    fn begin(&mut self, instruction: Instruction) -> io::Result<Work> {
        match instruction {
            Instruction::Literals(length) => {
                self.state = 4;
                Ok(Work::Literals(length))
            }
            Instruction::Repeat { distance, .. } if distance > self.window.len() => {
                Err(corrupt("an LZO repeat of what was before the block"))
            }
            Instruction::Repeat { length, distance, then } => Ok(Work::Repeat { length, distance, then }),
            Instruction::End => Ok(Work::Ended),
        }
    }

    /// Does instructions for as long as all of one and of its bytes is at hand and fits, which most do.
    fn hurry(&mut self) -> io::Result<()> {
        let input = self.packed.fill_buf()?;
        let (mut at, mut window, mut state) = (0, std::mem::take(&mut self.window), self.state);
        while let Some(ahead) = input.get(at..at + AT_HAND) {
            let mut used = 0;
            // An instruction whose length goes on and on runs out of these bytes: it is left to `instruction`.
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
                // What is wrong, and what ends or does not fit, is left to `instruction` as well.
                _ => break,
            }
        }
        self.packed.consume(at);
        (self.window, self.state) = (window, state);
        Ok(())
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
                Work::Instruction => {
                    self.hurry()?;
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

/// An instruction of LZO.
enum Instruction {
    Literals(usize),
    Repeat { length: usize, distance: usize, then: usize },
    End,
}

/// Reads an instruction; `state` tells how many literals came before it.
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

/// A length whose bits in the instruction are zero: 255 for each zero byte, and a last one.
fn extension(base: usize, mut next: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let mut length = base;
    loop {
        match next()? {
            0 => length = length.checked_add(255).ok_or_else(|| corrupt("an LZO length without end"))?,
            last => return Ok(length.saturating_add(last)),
        }
    }
}

/// Appends `length` bytes that begin `distance` bytes before the end. What overlaps itself doubles with each copy.
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
            // What was dropped from the front was taken before.
            self.taken = if before > BUFFER - 4096 { HISTORY.min(before) } else { before };
        }
        let part = buffer.len().min(self.window.len() - self.taken);
        buffer[..part].copy_from_slice(&self.window[self.taken..self.taken + part]);
        self.taken += part;
        Ok(part)
    }
}
