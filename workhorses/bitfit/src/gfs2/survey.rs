// SPDX-License-Identifier: MIT OR Apache-2.0
//! Survey: one pass over all groups of a volume.

use std::io::{self, Read, Seek};
use std::vec;
use std::vec::Vec;

use super::Volume;
use super::disk::{self, Entry, Header, Kind, be64};
use super::mismatch::{Field, Mismatch};
use super::picture::{Picture, Runs};
use super::tree::{self, Dinode, Stop};
use crate::{Bitmap, State};

/// Maximum number of picture cells: eight rows of 64.
const CELLS: u64 = 512;

/// Number of invalid index entries after which the rest of the index is skipped: it is probably not an index and
/// might be endless.
const MOST_BAD_ENTRIES: u64 = 100;

/// Bytes of maps read at a time, at least a block.
const PIECE_BYTES: usize = 256 << 10;

/// Findings in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Position in the index, from 0.
    pub index: u64,
    /// Location of the group.
    pub entry: Entry,
    /// The group's header; `None` if it is invalid, or if the entry is too damaged to locate it.
    pub header: Option<Header>,
    /// Number of blocks in each state according to the map, in the order of [`State::ALL`].
    pub states: [u64; 4],
    /// Runs of free blocks.
    pub runs: Runs,
    /// Inconsistencies in the group.
    pub mismatches: Vec<Mismatch>,
}

/// Findings in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Number of groups in the index.
    pub groups: u64,
    /// Number of blocks in each state according to the maps of all groups, in the order of [`State::ALL`].
    pub states: [u64; 4],
    /// Runs of free blocks.
    pub runs: Runs,
    /// Layout of the blocks.
    pub picture: Picture,
    /// Inconsistencies outside of the groups.
    pub mismatches: Vec<Mismatch>,
    /// Number of all inconsistencies, those in the groups included.
    pub mismatch_count: u64,
}

impl<R: Read + Seek> Volume<R> {
    /// Reads all groups and calls `each` for each one, in index order.
    ///
    /// # Errors
    /// Those of the reader and of `each`. Damage of the image is reported as [`Mismatch`]es, not as an
    /// error.
    pub fn survey(&mut self, mut each: impl FnMut(&Group) -> io::Result<()>) -> io::Result<Survey> {
        let mut survey = Survey {
            groups: 0,
            states: [0; 4],
            runs: Runs::default(),
            picture: Picture::new(self.image_blocks(), CELLS),
            mismatches: Vec::new(),
            mismatch_count: 0,
        };
        let superblock_block = disk::SUPERBLOCK_AT / u64::from(self.superblock.block_bytes);
        let shift = self.superblock.block_bytes.ilog2();
        if self.superblock.block_shift != shift {
            let found = self.superblock.block_shift;
            survey.mismatches.push(Mismatch::new(superblock_block, Field::BlockShift, shift, found));
        }
        match self.walk(superblock_block, &mut survey, &mut each) {
            Err(Stop::Io(error)) => return Err(error),
            Err(Stop::Mismatch(mismatch)) => survey.mismatches.push(mismatch),
            Ok(()) => {}
        }
        survey.mismatch_count += survey.mismatches.len() as u64;
        Ok(survey)
    }

    /// Locates the index and statfs, reads the groups, and compares the totals.
    fn walk(
        &mut self,
        superblock_block: u64,
        survey: &mut Survey,
        each: &mut impl FnMut(&Group) -> io::Result<()>,
    ) -> Result<(), Stop> {
        let master_block = self.superblock.master;
        let master = self.blocks.dinode(master_block, superblock_block)?;
        let Some(index) = self.blocks.look_up(&master, b"rindex")? else {
            return Err(Mismatch::new(master_block, Field::IndexFiles, 1_u64, 0_u64).into());
        };
        let index_file = self.blocks.dinode(index, master_block)?;
        let odd = index_file.size % disk::ENTRY_BYTES as u64;
        if odd != 0 {
            let whole = index_file.size - odd;
            survey.mismatches.push(Mismatch::new(index, Field::FileBytes, whole, index_file.size));
        }
        let all_read = self.groups(index, &index_file, survey, each)?;
        let Some(statfs) = self.blocks.look_up(&master, b"statfs")? else {
            return Err(Mismatch::new(master_block, Field::StatfsFiles, 1_u64, 0_u64).into());
        };
        let file = self.blocks.dinode(statfs, master_block)?;
        let mut totals = [0; 24];
        self.blocks.read_file(&file, 0, &mut totals, 0)?;
        if all_read {
            let [free, used, unlinked, dinodes] = survey.states;
            let expected = [
                (Field::TotalBlocks, free + used + unlinked + dinodes),
                (Field::TotalFree, free),
                (Field::TotalDinodes, unlinked + dinodes),
            ];
            for (i, (field, expected)) in expected.into_iter().enumerate() {
                let found = be64(&totals, 8 * i);
                if found != expected {
                    survey.mismatches.push(Mismatch::new(statfs, field, expected, found));
                }
            }
        }
        Ok(())
    }

    /// Reads all groups. Returns whether all maps were read, so that the totals are complete.
    fn groups(
        &mut self,
        index_block: u64,
        index: &Dinode,
        survey: &mut Survey,
        each: &mut impl FnMut(&Group) -> io::Result<()>,
    ) -> Result<bool, Stop> {
        let entries = index.size / disk::ENTRY_BYTES as u64;
        let (mut end_of_last, mut bad) = (0, 0);
        let mut next = if entries > 0 { Some(self.entry(index, 0)?) } else { None };
        for number in 0..entries {
            let Some(entry) = next else { break };
            next = if number + 1 < entries { Some(self.entry(index, number + 1)?) } else { None };
            let mut group = Group {
                index: number,
                entry,
                header: None,
                states: [0; 4],
                runs: Runs::default(),
                mismatches: Vec::new(),
            };
            check_entry(&mut group, index_block, self.superblock.block_bytes, end_of_last, self.image_blocks());
            if group.mismatches.is_empty() {
                self.read_group(&mut group, &next, survey)?;
                end_of_last = entry.data0 + u64::from(entry.data);
            } else {
                bad += 1;
            }
            survey.groups += 1;
            survey.mismatch_count += group.mismatches.len() as u64;
            each(&group)?;
            if bad > MOST_BAD_ENTRIES {
                return Err(Mismatch::new(index_block, Field::BadEntries, 0_u64, bad).into());
            }
        }
        Ok(bad == 0)
    }

    fn entry(&mut self, index: &Dinode, number: u64) -> Result<Entry, Stop> {
        let mut bytes = [0; disk::ENTRY_BYTES];
        self.blocks.read_file(index, number * disk::ENTRY_BYTES as u64, &mut bytes, 0)?;
        Ok(Entry::parse(&bytes))
    }

    /// Reads header and map of a group whose entry is valid.
    fn read_group(&mut self, group: &mut Group, next: &Option<Entry>, survey: &mut Survey) -> Result<(), Stop> {
        let entry = group.entry;
        let block_bytes = self.blocks.length();
        let at_once = (PIECE_BYTES / block_bytes).max(1) as u64;
        let mut buffer = vec![0; (at_once.min(entry.map_blocks.into()) as usize) * block_bytes];
        let mut map = MapReader { at: entry.data0, rest: entry.bitbytes as usize, run: 0 };
        let mut bad_blocks = None;
        let end = entry.block + u64::from(entry.map_blocks);
        let mut block = entry.block;
        while block < end {
            let now = at_once.min(end - block);
            let piece = &mut buffer[..now as usize * block_bytes];
            self.blocks.read(block, entry.block, piece)?;
            for (content, block) in piece.chunks_exact(block_bytes).zip(block..) {
                let mut head = disk::HEAD_BYTES;
                if block == entry.block {
                    head = disk::GROUP_BYTES;
                    check_header(group, content, next);
                } else if tree::check_head(content, block, Kind::GroupMap).is_err() {
                    bad_blocks.get_or_insert((block, 0_u64)).1 += 1;
                }
                map.add(&content[head..], group, &mut survey.picture);
            }
            block += now;
        }
        map.end_run(group, &mut survey.picture);
        survey.picture.add_blocks(entry.data0, entry.data.into());
        if let Some((first, number)) = bad_blocks {
            group.mismatches.push(Mismatch::new(first, Field::BadMapBlocks, 0_u64, number));
        }
        check_counters(group);
        for state in 0..4 {
            survey.states[state] += group.states[state];
        }
        survey.runs.add_all(&group.runs);
        Ok(())
    }
}

/// Incremental map reader; a run of free blocks may span pieces.
struct MapReader {
    /// First block of the next piece.
    at: u64,
    /// Remaining bytes of the map.
    rest: usize,
    /// Number of free blocks directly before `at`.
    run: u64,
}

impl MapReader {
    /// Adds a piece; bytes beyond the end of the map are ignored.
    fn add(&mut self, piece: &[u8], group: &mut Group, picture: &mut Picture) {
        let bytes = &piece[..piece.len().min(self.rest)];
        self.rest -= bytes.len();
        let map = Bitmap::new(bytes);
        let counts = map.count();
        for (sum, state) in group.states.iter_mut().zip(State::ALL) {
            *sum += counts.of(state) as u64;
        }
        let (start, mut from) = (self.at, 0);
        while from < map.len() {
            let run_end = map.find_other(State::Free, from).unwrap_or(map.len());
            self.run += (run_end - from) as u64;
            self.at = start + run_end as u64;
            if run_end == map.len() {
                return;
            }
            self.end_run(group, picture);
            from = map.find(State::Free, run_end).unwrap_or(map.len());
            self.at = start + from as u64;
        }
    }

    /// Records the run that ends before `at`, if there is one.
    fn end_run(&mut self, group: &mut Group, picture: &mut Picture) {
        if self.run > 0 {
            group.runs.add(self.run);
            picture.add_run(self.at - self.run, self.run);
            self.run = 0;
        }
    }
}

/// Validates an index entry, so that the group can be read.
fn check_entry(group: &mut Group, index_block: u64, block_bytes: u32, end_of_last: u64, image_blocks: u64) {
    let entry = group.entry;
    let mut compare = |field, expected: u64, found: u64, good: bool| {
        if !good {
            group.mismatches.push(Mismatch::new(index_block, field, expected, found));
        }
    };
    let map_blocks = disk::map_blocks(entry.bitbytes, block_bytes);
    compare(Field::GroupStart, end_of_last, entry.block, entry.block >= end_of_last);
    compare(Field::MapBlocks, map_blocks.into(), entry.map_blocks.into(), map_blocks == entry.map_blocks);
    let data0 = entry.block.saturating_add(entry.map_blocks.into());
    compare(Field::FirstData, data0, entry.data0, entry.data0 == data0);
    let data = 4 * u64::from(entry.bitbytes);
    compare(Field::DataBlocks, data, entry.data.into(), u64::from(entry.data) == data);
    let end = entry.data0.saturating_add(entry.data.into());
    compare(Field::GroupEnd, image_blocks, end, end <= image_blocks);
}

/// Compares a header with its checksum and the index.
fn check_header(group: &mut Group, content: &[u8], next: &Option<Entry>) {
    let entry = group.entry;
    let mut compare = |field, expected: u64, found: u64| {
        if expected != found {
            group.mismatches.push(Mismatch::new(entry.block, field, expected, found));
        }
    };
    if let Err(mismatch) = tree::check_head(content, entry.block, Kind::Group) {
        group.mismatches.push(mismatch);
        return;
    }
    let bytes = content.first_chunk().expect("a block is larger than a header");
    let header = Header::parse(bytes);
    if !header.is_old() {
        compare(Field::Crc, disk::group_crc(bytes).into(), header.crc.into());
        compare(Field::HeaderFirstData, entry.data0, header.data0);
        compare(Field::HeaderDataBlocks, entry.data.into(), header.data.into());
        compare(Field::HeaderMapBytes, entry.bitbytes.into(), header.bitbytes.into());
    }
    // The field is 0 in old file systems and in the last group.
    let skip = next.map_or(0, |next| next.block.saturating_sub(entry.block));
    if header.skip != 0 {
        compare(Field::Skip, skip, header.skip.into());
    }
    group.header = Some(header);
}

/// Compares the header's counters with the map.
fn check_counters(group: &mut Group) {
    let Some(header) = group.header else { return };
    let [free, _, unlinked, dinodes] = group.states;
    // The inode counter includes unlinked inodes.
    for (field, expected, found) in
        [(Field::Free, free, header.free), (Field::Dinodes, unlinked + dinodes, header.dinodes)]
    {
        if expected != u64::from(found) {
            group.mismatches.push(Mismatch::new(group.entry.block, field, expected, found));
        }
    }
}
