// SPDX-License-Identifier: MIT OR Apache-2.0
//! ZPAQ decompressor: format levels 1 and 2 with one segment per block, as lrzip writes them.
//!
//! A block header describes the model that predicts the next bit: a chain of components, and a program that computes
//! their contexts from the decoded bytes. An arithmetic decoder turns the predictions and the compressed bytes into
//! bits.

mod machine;
mod model;
mod states;
mod tables;

use super::corrupt;
use machine::Machine;
use model::Model;
use std::io::{self, BufRead, Read};

/// Optional prefix of a block that makes it recognizable inside other data.
const LOCATOR: [u8; 13] = [0x37, 0x6B, 0x53, 0x74, 0xA0, 0x31, 0x83, 0xD3, 0x8C, 0xB2, 0x28, 0xB0, 0xD3];

/// Decompresses a block.
pub struct Unpacker<R> {
    packed: R,
    decoder: Option<Box<Decoder>>,
}

impl<R: BufRead> Unpacker<R> {
    /// Creates a reader of the decompressed bytes.
    pub fn new(packed: R) -> Unpacker<R> {
        Unpacker { packed, decoder: None }
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.decoder.is_none() {
            self.decoder = Some(Box::new(Decoder::begin(&mut self.packed)?));
        }
        let decoder = self.decoder.as_mut().expect("just made");
        let mut made = 0;
        while made < buffer.len() {
            if decoder.ready.is_empty() && !decoder.step(&mut self.packed)? {
                break;
            }
            let part = decoder.ready.len().min(buffer.len() - made);
            buffer[made..made + part].copy_from_slice(&decoder.ready[..part]);
            decoder.ready.drain(..part);
            made += part;
        }
        Ok(made)
    }
}

/// Postprocessing of the segment's decoded bytes.
enum After {
    /// Not known yet: the first decoded byte selects it.
    Unknown,
    /// None: bytes are output unchanged.
    Pass,
    /// A program is being received: its length field and the bytes so far.
    Program(Vec<u8>),
    /// Each byte is passed through this program.
    Run(Box<Machine>),
}

/// Arithmetic decoder with its model and its postprocessor.
struct Decoder {
    model: Model,
    low: u32,
    high: u32,
    current: u32,
    after: After,
    ready: Vec<u8>,
    sizes: [u8; 2],
    ended: bool,
}

fn byte(packed: &mut impl BufRead) -> io::Result<u8> {
    let byte = *packed.fill_buf()?.first().ok_or_else(|| corrupt("truncated ZPAQ data"))?;
    packed.consume(1);
    Ok(byte)
}

impl Decoder {
    fn begin(packed: &mut impl BufRead) -> io::Result<Decoder> {
        let mut first = byte(packed)?;
        if first == LOCATOR[0] {
            for expected in &LOCATOR[1..] {
                if byte(packed)? != *expected {
                    return Err(corrupt("not a ZPAQ block"));
                }
            }
            first = byte(packed)?;
        }
        let magic = [first, byte(packed)?, byte(packed)?, byte(packed)?, byte(packed)?];
        if &magic[..3] != b"zPQ" || !(1..=2).contains(&magic[3]) || magic[4] != 1 {
            return Err(corrupt("not a ZPAQ block of level 1 or 2"));
        }
        let length = usize::from(byte(packed)?) | usize::from(byte(packed)?) << 8;
        let mut header = vec![0; length];
        for place in &mut header {
            *place = byte(packed)?;
        }
        let model = Model::new(&header)?;
        if byte(packed)? != 1 {
            return Err(corrupt("the ZPAQ block has no segment"));
        }
        // Skip the segment's name and comment.
        for _ in 0..2 {
            while byte(packed)? != 0 {}
        }
        if byte(packed)? != 0 {
            return Err(corrupt("the reserved byte of the ZPAQ segment is not zero"));
        }
        let mut current = 0;
        for _ in 0..4 {
            current = current << 8 | u32::from(byte(packed)?);
        }
        let sizes = [header[2], header[3]];
        let (ready, after) = (Vec::new(), After::Unknown);
        Ok(Decoder { model, low: 1, high: u32::MAX, current, after, ready, sizes, ended: false })
    }

    /// Decodes a bit whose probability of being 1 is `p` / 65536.
    fn bit(&mut self, p: u32, packed: &mut impl BufRead) -> io::Result<u32> {
        if self.current < self.low || self.current > self.high {
            return Err(corrupt("the ZPAQ arithmetic code is out of range"));
        }
        let range = self.high - self.low;
        let middle = self.low + ((u64::from(range) * u64::from(p)) >> 16) as u32;
        let bit = if self.current <= middle {
            self.high = middle;
            1
        } else {
            self.low = middle + 1;
            0
        };
        while (self.high ^ self.low) & 0xFF00_0000 == 0 {
            self.high = self.high << 8 | 255;
            self.low <<= 8;
            self.low += u32::from(self.low == 0);
            self.current = self.current << 8 | u32::from(byte(packed)?);
        }
        Ok(bit)
    }

    /// Decodes a byte and postprocesses it; returns false at the end of the segment.
    fn step(&mut self, packed: &mut impl BufRead) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.bit(0, packed)? == 1 {
            self.ended = true;
            if let After::Run(program) = &mut self.after {
                program.run(u32::MAX, &mut self.ready)?;
            }
            return Ok(!self.ready.is_empty());
        }
        let mut value = 1;
        while value < 256 {
            let p = self.model.predict() * 2 + 1;
            let bit = self.bit(p, packed)?;
            value = value << 1 | bit;
            self.model.update(bit)?;
        }
        self.postprocess((value & 255) as u8)?;
        Ok(true)
    }

    fn postprocess(&mut self, byte: u8) -> io::Result<()> {
        match &mut self.after {
            After::Pass => self.ready.push(byte),
            After::Run(program) => program.run(u32::from(byte), &mut self.ready)?,
            After::Unknown => {
                self.after = match byte {
                    0 => After::Pass,
                    1 => After::Program(Vec::new()),
                    _ => return Err(corrupt("unknown ZPAQ postprocessing type")),
                };
            }
            After::Program(program) => {
                program.push(byte);
                if let [low, high, code @ ..] = &program[..]
                    && code.len() == usize::from(*low) | usize::from(*high) << 8
                {
                    let machine = Machine::new(code, self.sizes[0], self.sizes[1])?;
                    self.after = After::Run(Box::new(machine));
                }
            }
        }
        Ok(())
    }
}
