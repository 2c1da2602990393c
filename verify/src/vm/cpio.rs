// SPDX-License-Identifier: GPL-2.0-only
//! Writes the archive that the kernel unpacks as its initial file system: cpio in the "newc" format, as described in
//! Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;

/// File type bits of a mode, as in stat(2).
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;
/// Alignment at which the kernel expects a following archive; QEMU needs no other.
const PADDING: usize = 512;

/// An archive under construction. Parent directories of a path are created with it.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    inodes: u32,
}

impl Archive {
    /// Adds a file. `path` begins with a slash; `mode` has only the permission bits.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.parents(path);
        self.entry(path, REGULAR | mode, (0, 0), content);
    }

    /// Adds a directory; it may exist already.
    pub fn directory(&mut self, path: &str) {
        self.parents(path);
        if self.directories.insert(path.to_owned()) {
            self.entry(path, DIRECTORY | 0o755, (0, 0), &[]);
        }
    }

    /// Adds a character device with its major and minor number.
    pub fn device(&mut self, path: &str, device: (u32, u32)) {
        self.parents(path);
        self.entry(path, CHARACTER_DEVICE | 0o600, device, &[]);
    }

    /// Returns the archive, with its end mark and padding.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("/TRAILER!!!", 0, (0, 0), &[]);
        self.pad(PADDING);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        assert!(path.starts_with('/') && !path.ends_with('/'), "{path:?} is not an absolute path");
        if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            self.directory(parent);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let name = &path[1..];
        let size = u32::try_from(content.len()).expect("files of 4 GiB do not fit into the format");
        self.inodes += 1;
        // inode, mode, uid, gid, links, mtime, size, device, device of the node, length of the name, checksum
        // (unused)
        let name_size = name.len() as u32 + 1;
        let fields = [self.inodes, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad(4);
        self.bytes.extend(content);
        self.pad(4);
    }

    fn pad(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode, device, content.
    type Entry = (String, u32, (u32, u32), Vec<u8>);

    /// An independent reader.
    fn read(mut bytes: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let field = |index: usize| {
                let digits = std::str::from_utf8(&bytes[6 + 8 * index..][..8]).unwrap();
                u32::from_str_radix(digits, 16).unwrap()
            };
            let (name_size, size) = (field(11) as usize, field(6) as usize);
            let name = &bytes[110..][..name_size];
            assert_eq!(name.last(), Some(&0));
            let content = (110 + name_size).next_multiple_of(4);
            let next = (content + size).next_multiple_of(4);
            let name = String::from_utf8(name[..name_size - 1].to_vec()).unwrap();
            if name == "TRAILER!!!" {
                assert!(bytes[next..].iter().all(|&byte| byte == 0));
                return entries;
            }
            entries.push((name, field(1), (field(9), field(10)), bytes[content..][..size].to_vec()));
            bytes = &bytes[next..];
        }
    }

    #[test]
    fn cpio_archive_entries_are_read_back_unchanged() {
        let mut archive = Archive::default();
        archive.device("/dev/console", (5, 1));
        archive.file("/a/b/c", 0o755, b"12345");
        archive.file("/a/b/empty", 0o644, b"");
        archive.directory("/a/b");
        archive.directory("/out");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % PADDING, 0);
        let none = Vec::new;
        let expected = [
            ("dev", 0o040_755, (0, 0), none()),
            ("dev/console", 0o020_600, (5, 1), none()),
            ("a", 0o040_755, (0, 0), none()),
            ("a/b", 0o040_755, (0, 0), none()),
            ("a/b/c", 0o100_755, (0, 0), b"12345".to_vec()),
            ("a/b/empty", 0o100_644, (0, 0), none()),
            ("out", 0o040_755, (0, 0), none()),
        ];
        assert_eq!(
            read(&bytes),
            expected.map(|(name, mode, device, content)| (name.to_owned(), mode, device, content))
        );
    }
}
