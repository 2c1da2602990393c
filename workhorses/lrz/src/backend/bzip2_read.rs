// SPDX-License-Identifier: MIT OR Apache-2.0
//! bzip2, unpacking as a stream.
//!
//! To undo the Burrows-Wheeler transform is to walk through 3.6 MB at random, and each step waits for the memory that the
//! step before named: more than half of the time of libbz2. Blocks do not depend on each other, so several walks are made
//! at once and wait together.

use super::corrupt;
use std::io::{self, BufRead, Read};

/// Blocks that are walked through at once. Four would no longer fit into the caches of most machines.
const LANES: usize = 2;
/// Most bytes of a block at bzip2's level 1; level 9 has 9 times as many.
const BLOCK: usize = 100_000;
/// Memory of all lanes at level 9, in bytes: a word and a byte for each byte of a block.
pub const WORKING_MEMORY: u64 = (LANES * 9 * BLOCK * 5) as u64 + (64 << 10);

/// The first 48 bits of a block, and of the end of the stream.
const BLOCK_BEGINS: u64 = 0x3141_5926_5359;
const STREAM_ENDS: u64 = 0x1772_4538_5090;
/// Symbols that share a code.
const GROUP: usize = 50;
/// Most groups of a block; old programs wrote selectors of more, which mean nothing.
const MOST_GROUPS: usize = 18002;
/// Longest code, in bits, and those that are looked up at once.
const LONGEST: usize = 20;
const FAST: usize = 10;

/// The input, bit by bit.
struct Bits<R> {
    packed: R,
    /// The next `count` bits at the top. Those below are zeros or the ones that come next.
    buffer: u64,
    count: u32,
}

impl<R: BufRead> Bits<R> {
    /// Takes in whole bytes until there are 56 bits, if the input has so many.
    fn refill(&mut self) -> io::Result<()> {
        while self.count < 56 {
            let input = self.packed.fill_buf()?;
            let bytes = if let Some(eight) = input.first_chunk() {
                self.buffer |= u64::from_be_bytes(*eight) >> self.count;
                (63 - self.count) / 8
            } else if let Some(byte) = input.first() {
                self.buffer |= u64::from(*byte) << 56 >> self.count;
                1
            } else {
                break;
            };
            self.packed.consume(bytes as usize);
            self.count += 8 * bytes;
        }
        Ok(())
    }

    fn skip(&mut self, bits: u32) -> io::Result<()> {
        self.count = self.count.checked_sub(bits).ok_or_else(|| corrupt("bzip2 data that end too early"))?;
        self.buffer <<= bits;
        Ok(())
    }

    /// The next 1 to 48 bits.
    fn take(&mut self, bits: u32) -> io::Result<u64> {
        self.refill()?;
        let taken = self.buffer >> (64 - bits);
        self.skip(bits)?;
        Ok(taken)
    }

    fn symbol(&mut self, code: &Code) -> io::Result<usize> {
        if self.count < LONGEST as u32 {
            self.refill()?;
        }
        let (symbol, length) = code.decode(self.buffer).ok_or_else(|| corrupt("a bzip2 code that is none"))?;
        self.skip(length)?;
        Ok(symbol)
    }
}

/// A canonical Huffman code.
struct Code {
    /// By the next bits: 32 times the symbol, plus its length; 0 for those that are longer.
    fast: [u16; 1 << FAST],
    /// By length: the code after the last one, and what to subtract from a code to find its symbol.
    ends: [u32; LONGEST + 1],
    shift: [u32; LONGEST + 1],
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> io::Result<Code> {
        let mut code =
            Code { fast: [0; 1 << FAST], ends: [0; LONGEST + 1], shift: [0; LONGEST + 1], symbols: Vec::new() };
        let mut next = 0u32;
        for length in 1..=LONGEST {
            next <<= 1;
            code.shift[length] = next.wrapping_sub(code.symbols.len() as u32);
            for (symbol, _) in lengths.iter().enumerate().filter(|(_, found)| usize::from(**found) == length) {
                if next >> length > 0 {
                    return Err(corrupt("bzip2 codes that do not fit together"));
                }
                if length <= FAST {
                    let same = 1 << (FAST - length);
                    code.fast[next as usize * same..][..same].fill((symbol << 5 | length) as u16);
                }
                code.symbols.push(symbol as u16);
                next += 1;
            }
            code.ends[length] = next;
        }
        Ok(code)
    }

    /// The symbol at the top of some bits, and its length.
    fn decode(&self, bits: u64) -> Option<(usize, u32)> {
        let found = self.fast[(bits >> (64 - FAST)) as usize];
        if found != 0 {
            return Some((usize::from(found >> 5), u32::from(found & 31)));
        }
        (FAST + 1..=LONGEST).find_map(|length| {
            let code = (bits >> (64 - length)) as u32;
            let symbol = self.symbols.get(code.wrapping_sub(self.shift[length]) as usize)?;
            (code < self.ends[length]).then_some((usize::from(*symbol), length as u32))
        })
    }
}

/// Moves the byte at a place to the front.
fn to_front(order: &mut [u8; 256], place: usize) -> u8 {
    let byte = order[place];
    if place < 16 {
        for k in (0..place).rev() {
            order[k + 1] = order[k];
        }
    } else {
        order.copy_within(..place, 1);
    }
    order[0] = byte;
    byte
}

/// A block on its way from bits to bytes.
#[derive(Default)]
struct Block {
    /// First each byte of the transformed block; then 256 times the place of the byte after it, too.
    words: Vec<u32>,
    /// The place of the next byte of the block.
    next: u32,
    /// The block, in which runs of 4 are followed by how often the byte comes again.
    bytes: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
    last: u8,
    /// Bytes alike at the end of what was taken, at most 4, and how often the last one comes again.
    alike: u8,
    again: u8,
    /// The CRC that the block has, and the one that it should have.
    crc: crc32fast::Hasher,
    recorded: u32,
}

impl Block {
    /// Room for `most` bytes; `false` where there is no memory for it.
    fn reserve(&mut self, most: usize) -> bool {
        self.words.clear();
        self.bytes.clear();
        self.words.try_reserve_exact(most).is_ok() && self.bytes.try_reserve_exact(most).is_ok()
    }

    /// Reads a block whose first 48 bits were read.
    fn read<R: BufRead>(&mut self, bits: &mut Bits<R>, most: usize) -> io::Result<()> {
        self.recorded = bits.take(32)? as u32;
        self.crc.reset();
        (self.taken, self.alike, self.again) = (0, 0, 0);
        if bits.take(1)? == 1 {
            return Err(corrupt("a bzip2 block of before 1999, whose bytes were shuffled"));
        }
        let first = bits.take(24)? as u32;
        self.read_symbols(bits, most)?;
        // Sorted, the bytes stand where those after them stand in the transformed block.
        let mut starts = [0u32; 257];
        for word in &self.words {
            starts[*word as usize + 1] += 1;
        }
        for byte in 0..256 {
            starts[byte + 1] += starts[byte];
        }
        for place in 0..self.words.len() {
            let sorted = &mut starts[self.words[place] as usize & 255];
            self.words[*sorted as usize] |= (place as u32) << 8;
            *sorted += 1;
        }
        self.next = self.words.get(first as usize).ok_or_else(|| corrupt("a bzip2 block that begins outside"))? >> 8;
        self.bytes.resize(self.words.len(), 0);
        Ok(())
    }

    /// Reads the transformed bytes.
    fn read_symbols<R: BufRead>(&mut self, bits: &mut Bits<R>, most: usize) -> io::Result<()> {
        let (mut order, used) = read_alphabet(bits)?;
        let (codes, selectors) = read_codes(bits, used + 2)?;
        let (mut run, mut weight) = (0, 1);
        for selector in selectors {
            let code = codes.get(usize::from(selector)).ok_or_else(|| corrupt("a bzip2 code that is not there"))?;
            for _ in 0..GROUP {
                let symbol = bits.symbol(code)?;
                if symbol < 2 {
                    // The first two symbols are the digits 1 and 2 of how often the byte in front comes again.
                    run += weight << symbol;
                    weight <<= 1;
                    if run > most {
                        return Err(corrupt("a bzip2 block that is too long"));
                    }
                    continue;
                }
                let end = symbol == used + 1;
                if self.words.len() + run + usize::from(!end) > most {
                    return Err(corrupt("a bzip2 block that is too long"));
                }
                if run > 0 {
                    self.words.extend(std::iter::repeat_n(u32::from(order[0]), run));
                    (run, weight) = (0, 1);
                }
                if end {
                    return Ok(());
                }
                self.words.push(u32::from(to_front(&mut order, symbol - 1)));
            }
        }
        Err(corrupt("a bzip2 block without an end"))
    }

    /// Takes bytes with their runs; none at the end of the block.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let mut made = 0;
        while made < buffer.len() {
            if self.again > 0 {
                let part = usize::from(self.again).min(buffer.len() - made);
                buffer[made..made + part].fill(self.last);
                made += part;
                self.again -= part as u8;
                continue;
            }
            let Some(byte) = self.bytes.get(self.taken) else { break };
            self.taken += 1;
            if self.alike == 4 {
                (self.again, self.alike) = (*byte, 0);
                continue;
            }
            self.alike = if *byte == self.last { self.alike + 1 } else { 1 };
            self.last = *byte;
            buffer[made] = *byte;
            made += 1;
        }
        self.sum(&buffer[..made]);
        made
    }

    /// Goes on with the CRC. That of bzip2 takes the bits of a byte from the other end than all others.
    fn sum(&mut self, bytes: &[u8]) {
        let mut mirrored = [0; 4096];
        for part in bytes.chunks(mirrored.len()) {
            for (mirrored, byte) in mirrored.iter_mut().zip(part) {
                *mirrored = byte.reverse_bits();
            }
            self.crc.update(&mirrored[..part.len()]);
        }
    }

    fn check(&mut self) -> io::Result<()> {
        let found = std::mem::take(&mut self.crc).finalize().reverse_bits();
        if found == self.recorded { Ok(()) } else { Err(corrupt("a bzip2 block whose CRC is another")) }
    }
}

/// Which bytes a block has, in their order, and how many.
fn read_alphabet<R: BufRead>(bits: &mut Bits<R>) -> io::Result<([u8; 256], usize)> {
    let (mut order, mut used) = ([0; 256], 0);
    let rows = bits.take(16)?;
    for row in (0..16).filter(|row| rows >> (15 - row) & 1 == 1) {
        let columns = bits.take(16)?;
        for column in (0..16).filter(|column| columns >> (15 - column) & 1 == 1) {
            order[used] = 16 * row + column;
            used += 1;
        }
    }
    if used == 0 { Err(corrupt("a bzip2 block without bytes")) } else { Ok((order, used)) }
}

/// The codes of a block with so many symbols, and which one each group has.
fn read_codes<R: BufRead>(bits: &mut Bits<R>, symbols: usize) -> io::Result<(Vec<Code>, Vec<u8>)> {
    let codes = bits.take(3)? as usize;
    let count = bits.take(15)? as usize;
    if !(2..=6).contains(&codes) || count == 0 {
        return Err(corrupt("a bzip2 block without codes"));
    }
    let mut order = std::array::from_fn(|place| place as u8);
    let mut selectors = Vec::with_capacity(count);
    for _ in 0..count {
        let mut place = 0;
        while bits.take(1)? == 1 {
            place += 1;
            if place == codes {
                return Err(corrupt("a bzip2 code that is not there"));
            }
        }
        selectors.push(to_front(&mut order, place));
    }
    selectors.truncate(MOST_GROUPS);
    let codes = (0..codes).map(|_| read_code(bits, symbols)).collect::<io::Result<_>>()?;
    Ok((codes, selectors))
}

fn read_code<R: BufRead>(bits: &mut Bits<R>, symbols: usize) -> io::Result<Code> {
    let mut length = bits.take(5)? as u8;
    let mut lengths = Vec::with_capacity(symbols);
    for _ in 0..symbols {
        loop {
            if !(1..=LONGEST as u8).contains(&length) {
                return Err(corrupt("a bzip2 code of no possible length"));
            }
            if bits.take(1)? == 0 {
                break;
            }
            length = if bits.take(1)? == 0 { length + 1 } else { length - 1 };
        }
        lengths.push(length);
    }
    Code::new(&lengths)
}

/// Undoes the transform of some blocks, all at once for as long as the shortest one is.
fn walk<const N: usize>(mut blocks: [&mut Block; N], from: usize) -> usize {
    let end = blocks.iter().map(|block| block.bytes.len()).min().unwrap_or(0);
    let mut next = std::array::from_fn::<u32, N, _>(|lane| blocks[lane].next);
    for at in from..end {
        for (block, next) in blocks.iter_mut().zip(&mut next) {
            let word = block.words[*next as usize];
            block.bytes[at] = word as u8;
            *next = word >> 8;
        }
    }
    for (block, next) in blocks.into_iter().zip(next) {
        block.next = next;
    }
    end
}

/// Unpacks one stream.
pub struct Unpacker<R> {
    bits: Bits<R>,
    /// Most bytes of a block; 0 before the head of the stream was read.
    most: usize,
    blocks: [Block; LANES],
    /// Those that were read, and how many of them were taken.
    ready: usize,
    taken: usize,
    /// The CRC of all CRCs.
    crc: u32,
    ended: bool,
}

impl<R: BufRead> Unpacker<R> {
    /// From the packed bytes.
    pub fn new(packed: R) -> Unpacker<R> {
        let bits = Bits { packed, buffer: 0, count: 0 };
        Unpacker { bits, most: 0, blocks: Default::default(), ready: 0, taken: 0, crc: 0, ended: false }
    }

    /// Reads blocks, one for each lane that there is memory for.
    fn fill(&mut self) -> io::Result<()> {
        if self.most == 0 {
            self.most = match self.bits.take(32)? {
                head @ 0x425A_6831..=0x425A_6839 => (head & 15) as usize * BLOCK,
                _ => return Err(corrupt("no bzip2 data")),
            };
        }
        (self.ready, self.taken) = (0, 0);
        for block in &mut self.blocks {
            if !block.reserve(self.most) {
                break;
            }
            match self.bits.take(48)? {
                BLOCK_BEGINS => block.read(&mut self.bits, self.most)?,
                STREAM_ENDS if self.bits.take(32)? as u32 == self.crc => {
                    self.ended = true;
                    break;
                }
                _ => return Err(corrupt("no bzip2 data")),
            }
            self.crc = self.crc.rotate_left(1) ^ block.recorded;
            self.ready += 1;
        }
        if self.ready == 0 && !self.ended {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let [first, second] = &mut self.blocks;
        match self.ready {
            0 => {}
            1 => {
                walk([first], 0);
            }
            _ => {
                let both = walk([first, second], 0);
                walk([first], both);
                walk([second], both);
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if self.taken < self.ready {
                let block = &mut self.blocks[self.taken];
                match block.take(buffer) {
                    0 => block.check()?,
                    made => return Ok(made),
                }
                self.taken += 1;
            } else if self.ended {
                break;
            } else {
                self.fill()?;
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::bzip2::pack;
    use bzip2::read::BzDecoder;
    use std::io::BufReader;

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// Runs of up to `longest` of a few values, or of all.
    fn plain(seed: u64, length: usize, values: u64, longest: u64) -> Vec<u8> {
        let (mut state, mut plain) = (seed, Vec::new());
        while plain.len() < length {
            let (value, run) = (random(&mut state, values) as u8, 1 + random(&mut state, longest));
            plain.extend(std::iter::repeat_n(value, run as usize));
        }
        plain
    }

    /// What comes out, also when input and output come in small parts.
    fn unpacked(packed: &[u8], part: usize) -> io::Result<Vec<u8>> {
        let mut reader = Unpacker::new(BufReader::with_capacity(part, packed));
        let (mut all, mut buffer) = (Vec::new(), vec![0; 3 * part]);
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(all),
                made => all.extend_from_slice(&buffer[..made]),
            }
        }
    }

    #[test]
    fn what_was_packed_comes_back() {
        // Level 1 has blocks of 100 kB: one, two and three of them, with bytes of all kinds.
        for (length, values, longest) in
            [(100, 3, 1), (5_000, 1, 5_000), (99_000, 256, 3), (180_000, 4, 9), (270_000, 2, 700), (250_000, 90, 2)]
        {
            let plain = plain(length as u64, length, values, longest);
            // Noise becomes longer, which no packer of ours writes.
            let Ok(packed) = pack(&plain, 1) else { continue };
            for part in [1, 7, 4096] {
                assert!(unpacked(&packed, part).expect("whole") == plain, "{length} {values} {longest} {part}");
            }
        }
    }

    #[test]
    fn damaged_streams_end_as_in_libbz2() {
        let mut state = 5;
        let archive = pack(&plain(3, 210_000, 7, 6), 1).expect("packed");
        for case in 0..1_000 {
            let mut packed = archive.clone();
            // Heads more often than the rest: they are what is not just another symbol.
            let place = if case % 2 == 0 { random(&mut state, 150) } else { random(&mut state, packed.len() as u64) };
            packed[place as usize] ^= 1 << random(&mut state, 8);
            if case % 5 == 0 {
                packed.truncate(random(&mut state, archive.len() as u64) as usize);
            }
            let mut theirs = Vec::new();
            let theirs = BzDecoder::new(&packed[..]).read_to_end(&mut theirs).map(|_| theirs);
            match (unpacked(&packed, 4096), theirs) {
                (Ok(ours), Ok(theirs)) => assert!(ours == theirs, "{case}"),
                (Err(_), Err(_)) => {}
                (ours, theirs) => panic!("{case}: {:?} {:?}", ours.map(|all| all.len()), theirs.map(|all| all.len())),
            }
        }
    }
}
