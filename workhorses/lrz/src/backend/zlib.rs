// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deflate, through zlib-rs.

use super::{Failure, room_for};
use flate2::{Compress, Compression, FlushCompress, Status};

/// Sample size for choosing between two levels, in bytes.
const SAMPLE: usize = 256 << 10;

/// Compresses a block.
pub fn pack(plain: &[u8], level: u8) -> Result<Vec<u8>, Failure> {
    let level = u32::from(level);
    // zlib-rs finds 3-byte matches at level 9 only, and level 9 is faster than 8. Level 9 makes binary number tables
    // 9 % and machine code 2 % smaller than level 7, but digits and base64 up to 4 % larger.
    match level {
        7..9 if better_at_9(plain, level)? => pack_at(plain, 9),
        _ => pack_at(plain, level),
    }
}

/// Returns whether level 9 makes a sample of the block smaller than `level` does.
fn better_at_9(plain: &[u8], level: u32) -> Result<bool, Failure> {
    let start = plain.len().saturating_sub(SAMPLE) / 2;
    let sample = &plain[start..plain.len().min(start + SAMPLE)];
    let length = |level| match pack_at(sample, level) {
        Ok(packed) => Ok(packed.len()),
        Err(Failure::NotSmaller) => Ok(sample.len()),
        Err(error) => Err(error),
    };
    Ok(length(9)? < length(level)?)
}

fn pack_at(plain: &[u8], level: u32) -> Result<Vec<u8>, Failure> {
    let mut packed = room_for(plain)?;
    let mut state = Compress::new(Compression::new(level), true);
    // The output buffer is one byte shorter than the block, so output that does not fit is not smaller.
    match state.compress_vec(plain, &mut packed, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => Ok(packed),
        _ => Err(Failure::NotSmaller),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_7_or_9_is_chosen_by_the_size_of_a_sample() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let floats: Vec<u8> = (0..40_000).flat_map(|k| (f64::from(k) + random() as f64 / 1e12).to_le_bytes()).collect();
        let digits: Vec<u8> = (0..40_000).flat_map(|_| format!("{:08x}", random()).into_bytes()).collect();
        let sizes = |plain: &[u8]| [7, 9].map(|level| pack_at(plain, level).expect("smaller").len());
        assert!(sizes(&floats)[1] < sizes(&floats)[0] && sizes(&digits)[0] < sizes(&digits)[1]);
        for plain in [floats, digits] {
            let least = sizes(&plain).into_iter().min();
            assert_eq!(pack(&plain, 7).ok().map(|packed| packed.len()), least);
        }
    }
}
