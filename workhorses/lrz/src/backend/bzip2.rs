// SPDX-License-Identifier: MIT OR Apache-2.0
//! bzip2, by libbz2-rs.

use super::{Failure, corrupt, room_for};
use bzip2::{Action, Compress, Compression, Decompress, Status};
use std::io::{self, BufRead, Read};

/// Packs a block.
pub fn pack(plain: &[u8], level: u8) -> Result<Vec<u8>, Failure> {
    let mut packed = room_for(plain)?;
    let mut state = Compress::new(Compression::new(u32::from(level)), 0);
    loop {
        let (read, written) = (state.total_in(), state.total_out());
        let rest = &plain[read as usize..];
        match state.compress_vec(rest, &mut packed, Action::Finish) {
            Ok(Status::StreamEnd) => return Ok(packed),
            Ok(Status::MemNeeded) => return Err(Failure::Memory),
            Ok(_) if state.total_in() > read || state.total_out() > written => {}
            _ => return Err(Failure::NotSmaller),
        }
        if packed.len() == packed.capacity() {
            return Err(Failure::NotSmaller);
        }
    }
}

/// Unpacks one stream.
pub struct Unpacker<R> {
    packed: R,
    state: Decompress,
    ended: bool,
}

impl<R: BufRead> Unpacker<R> {
    /// From the packed bytes.
    pub fn new(packed: R) -> Unpacker<R> {
        Unpacker { packed, state: Decompress::new(false), ended: false }
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let input = self.packed.fill_buf()?;
            let (read, written, at_end) = (self.state.total_in(), self.state.total_out(), input.is_empty());
            let status = self.state.decompress(input, buffer).map_err(|_| corrupt("no bzip2 data"))?;
            let used = (self.state.total_in() - read) as usize;
            self.packed.consume(used);
            match status {
                Status::StreamEnd => self.ended = true,
                Status::MemNeeded => return Err(io::ErrorKind::OutOfMemory.into()),
                _ => {}
            }
            let made = (self.state.total_out() - written) as usize;
            if made > 0 {
                return Ok(made);
            }
            if at_end && used == 0 && !self.ended {
                return Err(corrupt("bzip2 data that end too early"));
            }
        }
        Ok(0)
    }
}
