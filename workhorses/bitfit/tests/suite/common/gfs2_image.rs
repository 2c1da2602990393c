// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generator of small GFS2 images.

/// Byte offset of the superblock.
pub const SUPERBLOCK_AT: usize = 65_536;

/// Properties of an image.
pub struct Plan {
    pub block_bytes: usize,
    /// Map of each group. The first blocks of the first group hold the hidden files, whatever its map says.
    pub maps: Vec<Vec<u8>>,
    /// Whether the directory of hidden files keeps its entries in a leaf.
    pub hashed: bool,
}

/// An image and the locations of its parts.
pub struct Image {
    pub bytes: Vec<u8>,
    pub block_bytes: usize,
    /// Block of each group's header.
    pub groups: Vec<usize>,
    pub master: usize,
    pub rindex: usize,
    pub statfs: usize,
    /// Byte offset of each index entry.
    pub entries: Vec<usize>,
}

pub fn put(bytes: &mut [u8], at: usize, length: usize, value: u64) {
    bytes[at..at + length].copy_from_slice(&value.to_be_bytes()[8 - length..]);
}

/// zlib's CRC-32, computed bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// Number of header and map blocks, counted one by one.
fn map_blocks(map_bytes: usize, block_bytes: usize) -> usize {
    let (mut blocks, mut room) = (1, block_bytes - 128);
    while room < map_bytes {
        blocks += 1;
        room += block_bytes - 24;
    }
    blocks
}

impl Image {
    /// Creates the image.
    pub fn new(plan: &Plan) -> Image {
        let block_bytes = plan.block_bytes;
        let mut groups = Vec::new();
        let mut block = SUPERBLOCK_AT / block_bytes + 1;
        for map in &plan.maps {
            groups.push(block);
            block += map_blocks(map.len(), block_bytes) + map.len() * 4;
        }
        let mut image = Image {
            bytes: vec![0; block * block_bytes],
            block_bytes,
            groups,
            master: 0,
            rindex: 0,
            statfs: 0,
            entries: vec![],
        };
        image.superblock();
        let hidden = image.hidden_files(plan);
        let mut maps = plan.maps.clone();
        let first = image.groups[0] + map_blocks(maps[0].len(), block_bytes);
        for (block, inode) in hidden {
            let block = block - first;
            maps[0][block / 4] &= !(3 << (block % 4 * 2));
            maps[0][block / 4] |= if inode { 3 } else { 1 } << (block % 4 * 2);
        }
        image.lay_down(&maps);
        image
    }

    fn head(&mut self, block: usize, kind: u64) -> usize {
        let at = block * self.block_bytes;
        put(&mut self.bytes, at, 4, 0x0116_1970);
        put(&mut self.bytes, at + 4, 4, kind);
        put(&mut self.bytes, at + 16, 4, kind * 100);
        at
    }

    fn superblock(&mut self) {
        let at = self.head(SUPERBLOCK_AT / self.block_bytes, 1);
        put(&mut self.bytes, at + 24, 4, 1802);
        put(&mut self.bytes, at + 28, 4, 1900);
        put(&mut self.bytes, at + 36, 4, self.block_bytes as u64);
        put(&mut self.bytes, at + 40, 4, self.block_bytes.ilog2().into());
        self.bytes[at + 96..][..11].copy_from_slice(b"lock_nolock");
        self.bytes[at + 160..][..4].copy_from_slice(b"a:b\x07");
    }

    fn inode(&mut self, block: usize, size: usize, levels: u64) -> usize {
        let at = self.head(block, 4);
        put(&mut self.bytes, at + 56, 8, size as u64);
        put(&mut self.bytes, at + 138, 2, levels);
        at
    }

    /// Writes directory, index and totals from the first data block on. Returns their blocks and whether each is an
    /// inode.
    fn hidden_files(&mut self, plan: &Plan) -> Vec<(usize, bool)> {
        let first = self.groups[0] + map_blocks(plan.maps[0].len(), self.block_bytes);
        let mut used = Vec::new();
        let mut take = |inode| {
            used.push((first + used.len(), inode));
            first + used.len() - 1
        };
        [self.master, self.rindex, self.statfs] = [take(true), take(true), take(true)];
        let leaf = plan.hashed.then(|| take(false));
        self.directory(leaf);
        self.inode(self.statfs, 24, 0);
        let size = 96 * plan.maps.len();
        let mut levels = 0;
        let mut row = vec![self.rindex];
        if size > self.block_bytes - 232 {
            row = (0..size.div_ceil(self.block_bytes)).map(|_| take(false)).collect();
            let data = row.clone();
            self.entries = (0..plan.maps.len())
                .map(|i| data[i * 96 / self.block_bytes] * self.block_bytes + i * 96 % self.block_bytes)
                .collect();
            levels = 1;
            while row.len() > (self.block_bytes - 232) / 8 {
                row = row
                    .chunks((self.block_bytes - 24) / 8)
                    .map(|pointers| {
                        let block = take(false);
                        let at = self.head(block, 5) + 24;
                        pointers.iter().enumerate().for_each(|(i, &p)| put(&mut self.bytes, at + 8 * i, 8, p as u64));
                        block
                    })
                    .collect();
                levels += 1;
            }
        }
        let at = self.inode(self.rindex, size, levels) + 232;
        if levels == 0 {
            self.entries = (0..plan.maps.len()).map(|i| at + 96 * i).collect();
        } else {
            row.iter().enumerate().for_each(|(i, &p)| put(&mut self.bytes, at + 8 * i, 8, p as u64));
        }
        used
    }

    fn directory(&mut self, leaf: Option<usize>) {
        let superblock = SUPERBLOCK_AT;
        put(&mut self.bytes, superblock + 56, 8, self.master as u64);
        let block = self.inode(self.master, 256, 0);
        let mut at = block + 232;
        if let Some(leaf) = leaf {
            put(&mut self.bytes, block + 128, 4, 2);
            put(&mut self.bytes, block + 146, 2, 4);
            (0..16).for_each(|i| put(&mut self.bytes, at + 8 * i, 8, leaf as u64));
            at = self.head(leaf, 6) + 104;
        }
        let end = (at / self.block_bytes + 1) * self.block_bytes;
        for (name, inode, length) in
            [("gap", 0, 48), ("rindex", self.rindex, 64), ("statfs", self.statfs, end - at - 112)]
        {
            put(&mut self.bytes, at, 8, u64::from(inode != 0));
            put(&mut self.bytes, at + 8, 8, inode as u64);
            put(&mut self.bytes, at + 20, 2, length as u64);
            put(&mut self.bytes, at + 22, 2, name.len() as u64);
            self.bytes[at + 40..][..name.len()].copy_from_slice(name.as_bytes());
            at += length;
        }
    }

    /// Writes groups, index and totals.
    fn lay_down(&mut self, maps: &[Vec<u8>]) {
        let mut totals = [0; 3];
        for (number, map) in maps.iter().enumerate() {
            let (block, blocks) = (self.groups[number], map_blocks(map.len(), self.block_bytes));
            let count = |states: &[u8]| {
                (0..map.len() * 4).filter(|k| states.contains(&(map[k / 4] >> (k % 4 * 2) & 3))).count() as u64
            };
            let (free, inodes) = (count(&[0]), count(&[2, 3]));
            totals = [totals[0] + map.len() as u64 * 4, totals[1] + free, totals[2] + inodes];
            let skip = self.groups.get(number + 1).map_or(0, |next| next - block) as u64;
            let data0 = (block + blocks) as u64;
            let at = self.head(block, 2);
            for (offset, length, value) in
                [(28, 4, free), (32, 4, inodes), (36, 4, skip), (48, 8, data0), (56, 4, map.len() as u64 * 4)]
            {
                put(&mut self.bytes, at + offset, length, value);
            }
            put(&mut self.bytes, at + 60, 4, map.len() as u64);
            let crc = crc32(&self.bytes[at..at + 128]);
            put(&mut self.bytes, at + 64, 4, crc.into());
            let mut rest = &map[..];
            for i in 0..blocks {
                let at = if i == 0 { at + 128 } else { self.head(block + i, 3) + 24 };
                let room = (at / self.block_bytes + 1) * self.block_bytes - at;
                let (now, later) = rest.split_at(room.min(rest.len()));
                self.bytes[at..at + now.len()].copy_from_slice(now);
                rest = later;
            }
            let at = self.entries[number];
            for (offset, length, value) in [(0, 8, block as u64), (8, 4, blocks as u64), (16, 8, data0)] {
                put(&mut self.bytes, at + offset, length, value);
            }
            put(&mut self.bytes, at + 24, 4, map.len() as u64 * 4);
            put(&mut self.bytes, at + 28, 4, map.len() as u64);
        }
        let at = self.statfs * self.block_bytes + 232;
        (0..3).for_each(|i| put(&mut self.bytes, at + 8 * i, 8, totals[i]));
    }
}
