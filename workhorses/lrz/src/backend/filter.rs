// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inverse filters of format 0.7: x86 branch, ARM64 branch and delta.

use super::corrupt;
use crate::error::{Error, Result};
use liblzma::stream::{Action, Filters, LzmaOptions, Status, Stream};
use std::io::{self, Read};

/// Instruction set of a branch filter, which has made relative branch targets absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// x86, 32 and 64 bits.
    X86,
    /// 64-bit ARM.
    Arm64,
}

impl Filter {
    /// The branch filter with the number given in a chunk header, if there is one.
    pub fn of_chunk(number: u8) -> Option<Filter> {
        match number {
            1 => Some(Filter::X86),
            2 => Some(Filter::Arm64),
            _ => None,
        }
    }
}

const STEP: usize = 64 << 10;

/// Applies an inverse branch filter to a stream: absolute branch targets become relative again.
///
/// liblzma runs a filter only in front of a coder and offers no copying coder. LZMA2 with uncompressed chunks serves
/// as one: it adds a 3-byte header per 64 KiB.
pub struct Filtered<R> {
    inner: R,
    stream: Stream,
    chunk: Vec<u8>,
    fed: usize,
    ended: bool,
    first: bool,
}

impl<R: Read> Filtered<R> {
    /// Creates a stream that undoes `filter` on the bytes of `inner`.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory is short.
    pub fn new(filter: Filter, inner: R) -> Result<Filtered<R>> {
        let mut filters = Filters::new();
        match filter {
            Filter::X86 => filters.x86(),
            Filter::Arm64 => filters.arm64(),
        };
        let mut options = LzmaOptions::new();
        options.dict_size(STEP as u32);
        filters.lzma2(&options);
        let stream = Stream::new_raw_decoder(&filters)
            .map_err(|_| Error::Memory { what: "the branch filter", needed: STEP as u64 })?;
        Ok(Filtered { inner, stream, chunk: Vec::new(), fed: 0, ended: false, first: true })
    }

    fn refill(&mut self) -> io::Result<()> {
        self.chunk.resize(3 + STEP, 0);
        let mut length = 0;
        while length < STEP {
            match self.inner.read(&mut self.chunk[3 + length..])? {
                0 => break,
                n => length += n,
            }
        }
        self.fed = 0;
        if length == 0 {
            self.chunk.clear();
            self.chunk.push(0);
            self.ended = true;
            return Ok(());
        }
        self.chunk.truncate(3 + length);
        // Header of an uncompressed LZMA2 chunk; the first chunk resets the dictionary.
        self.chunk[0] = if self.first { 1 } else { 2 };
        self.first = false;
        self.chunk[1..3].copy_from_slice(&((length - 1) as u16).to_be_bytes());
        Ok(())
    }
}

impl<R: Read> Read for Filtered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if self.fed == self.chunk.len() {
                if self.ended {
                    return Ok(0);
                }
                self.refill()?;
            }
            let (read, written) = (self.stream.total_in(), self.stream.total_out());
            let action = if self.ended { Action::Finish } else { Action::Run };
            let status = self
                .stream
                .process(&self.chunk[self.fed..], buffer, action)
                .map_err(|_| corrupt("the inverse branch filter failed"))?;
            self.fed += (self.stream.total_in() - read) as usize;
            let made = (self.stream.total_out() - written) as usize;
            if made > 0 {
                return Ok(made);
            }
            if status == Status::StreamEnd {
                return Ok(0);
            }
        }
        Ok(0)
    }
}

/// Inverse delta filter: adds to each byte the output byte `distance` places earlier.
pub struct Undelta<R> {
    inner: R,
    history: [u8; 4],
    distance: usize,
    at: usize,
}

impl<R: Read> Undelta<R> {
    /// Creates the filter for a distance of 1 to 4 bytes.
    pub fn new(distance: u8, inner: R) -> Undelta<R> {
        Undelta { inner, history: [0; 4], distance: usize::from(distance), at: 0 }
    }
}

impl<R: Read> Read for Undelta<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        for byte in &mut buffer[..n] {
            let place = self.at % self.distance;
            *byte = byte.wrapping_add(self.history[place]);
            self.history[place] = *byte;
            self.at += 1;
        }
        Ok(n)
    }
}

/// Applies liblzma's forward filter: encodes with filter and LZMA2, then decodes LZMA2 alone.
#[cfg(test)]
pub fn forward(filter: Filter, plain: &[u8]) -> Vec<u8> {
    let mut lzma = Filters::new();
    let mut both = Filters::new();
    match filter {
        Filter::X86 => both.x86(),
        Filter::Arm64 => both.arm64(),
    };
    let options = LzmaOptions::new_preset(1).expect("a level");
    both.lzma2(&options);
    lzma.lzma2(&options);
    let run = |mut stream: Stream, input: &[u8], room: usize| {
        let mut output = Vec::with_capacity(room);
        while stream.process_vec(&input[stream.total_in() as usize..], &mut output, Action::Finish).expect("fine")
            != Status::StreamEnd
        {}
        output
    };
    let packed = run(Stream::new_raw_encoder(&both).expect("memory"), plain, plain.len() * 2 + 1000);
    run(Stream::new_raw_decoder(&lzma).expect("memory"), &packed, plain.len() + 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_branch_filters_restore_the_input() {
        // x86 and ARM64 calls and branches to nearby targets.
        let mut plain = Vec::new();
        for k in 0..60_000u32 {
            plain.extend_from_slice(&[0xE8, k as u8, (k >> 8) as u8, 0, 0, 0x90, 0x90, 0x90]);
            plain.extend_from_slice(&(0x9400_0000 | k & 0xFFFF).to_le_bytes());
        }
        for filter in [Filter::X86, Filter::Arm64] {
            let filtered = forward(filter, &plain);
            assert_ne!(filtered, plain);
            let mut back = Vec::new();
            Filtered::new(filter, &filtered[..]).expect("memory").read_to_end(&mut back).expect("fine");
            assert_eq!(back, plain, "{filter:?}");
        }
    }

    #[test]
    fn inverse_delta_filter_sums_differences() {
        let mut back = Vec::new();
        Undelta::new(2, &[1u8, 10, 1, 1, 1, 255][..]).read_to_end(&mut back).expect("fine");
        assert_eq!(back, [1, 10, 2, 11, 3, 10]);
    }
}
