// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksums over what was packed.

/// The CRC that ends a chunk: the register of CRC-32 as it runs, from 0 and without the final inversion.
#[derive(Debug, Clone)]
pub struct Crc(crc32fast::Hasher);

impl Crc {
    /// Over nothing yet.
    pub fn new() -> Crc {
        // The crate inverts on the way in and on the way out: all ones give a register of 0.
        Crc(crc32fast::Hasher::new_with_initial(u32::MAX))
    }

    /// Goes on over `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The register.
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
    fn the_crc_is_the_one_of_an_archive_that_lrzip_wrote() {
        let mut crc = Crc::new();
        crc.update(b"hel");
        crc.update(b"lo");
        assert_eq!(crc.value(), 0xF032_519B);
        assert_eq!(Crc::new().value(), 0);
    }
}
