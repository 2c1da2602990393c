// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deflate, by zlib-rs.

use super::{Failure, room_for};
use flate2::{Compress, Compression, FlushCompress, Status};

/// Packs a block.
pub fn pack(plain: &[u8], level: u8) -> Result<Vec<u8>, Failure> {
    let mut packed = room_for(plain)?;
    let mut state = Compress::new(Compression::new(u32::from(level)), true);
    // The room is one byte short of the block: whatever does not end in it is not smaller.
    match state.compress_vec(plain, &mut packed, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => Ok(packed),
        _ => Err(Failure::NotSmaller),
    }
}
