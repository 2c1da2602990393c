// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksum over the uncompressed bytes.

/// CRC-32 that ends a chunk, with initial value 0 and without the final inversion.
#[derive(Debug, Clone)]
pub struct Crc(crc32fast::Hasher);

impl Crc {
    /// Returns the CRC of no bytes.
    pub fn new() -> Crc {
        // The crate inverts the initial value and the result, so all ones start with a register of 0.
        Crc(crc32fast::Hasher::new_with_initial(u32::MAX))
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Value of the CRC register.
    pub fn value(self) -> u32 {
        !self.0.finalize()
    }
}

impl Default for Crc {
    fn default() -> Crc {
        Crc::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_matches_an_archive_written_by_lrzip() {
        let mut crc = Crc::new();
        crc.update(b"hel");
        crc.update(b"lo");
        assert_eq!(crc.value(), 0xF032_519B);
        assert_eq!(Crc::new().value(), 0);
    }
}
