// SPDX-License-Identifier: MIT OR Apache-2.0
//! Survey of generated GFS2 images, consistent ones and each kind of damage.

use crate::common;
#[path = "../../../../fuzz/src/gfs2_image.rs"]
mod fuzz_gfs2_image;
use crate::common::gfs2_image;

use std::io::Cursor;

use bitfit::State;
use bitfit::gfs2::{Field, Group, OpenError, Survey, Volume};
use gfs2_image::{Image, Plan, SUPERBLOCK_AT, crc32, put};
use proptest::prelude::*;

fn survey(bytes: &[u8]) -> (Vec<Group>, Survey) {
    let mut groups = Vec::new();
    let mut volume = Volume::open(Cursor::new(bytes)).unwrap();
    let survey = volume.survey(|group| {
        groups.push(group.clone());
        Ok(())
    });
    (groups, survey.unwrap())
}

/// The map of a group, assembled from the image.
fn map(image: &Image, group: &Group) -> Vec<u8> {
    let mut map = Vec::new();
    for i in 0..group.entry.map_blocks as usize {
        let at = (group.entry.block as usize + i) * image.block_bytes;
        map.extend(&image.bytes[at + if i == 0 { 128 } else { 24 }..at + image.block_bytes]);
    }
    map.truncate(group.entry.bitbytes as usize);
    map
}

/// Start and length of each run of free blocks.
fn runs(states: &[State]) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut start = 0;
    for block in 0..=states.len() {
        if block == states.len() || states[block] != State::Free {
            if block > start {
                runs.push((start, block - start));
            }
            start = block + 1;
        }
    }
    runs
}

/// Creates a map of `length` bytes with runs of all lengths.
fn fragmented(seed: u64, length: usize) -> Vec<u8> {
    let noise = common::noise(seed, length);
    noise.iter().zip((0..length).map(|i| i / 97 % 3)).map(|(&byte, kind)| [byte, 0, byte | 0x55][kind]).collect()
}

fn plan(block_bytes: usize, groups: usize, map_bytes: usize, hashed: bool) -> Plan {
    let maps = (0..groups).map(|i| fragmented(i as u64 + 1, map_bytes + i % 7)).collect();
    Plan { block_bytes, maps, hashed }
}

fn small() -> Image {
    Image::new(&plan(512, 3, 400, true))
}

#[test]
fn consistent_images_match_a_naive_count() {
    // Groups of one and of many map blocks; the index inline in its inode, and with one and two pointer levels.
    for (block_bytes, groups, map_bytes, hashed) in [
        (512, 1, 100, true),
        (512, 2, 384, false),
        (512, 3, 385, true),
        (512, 250, 30, false),
        (1024, 4, 2065, false),
        (2048, 5, 2, false),
        (4096, 3, 9001, true),
        (65_536, 2, 3, false),
    ] {
        let image = Image::new(&plan(block_bytes, groups, map_bytes.max(groups / 16 + 2), hashed));
        let (found, survey) = survey(&image.bytes);
        let wrong: Vec<_> = found.iter().flat_map(|group| &group.mismatches).chain(&survey.mismatches).collect();
        assert!(wrong.is_empty() && survey.mismatch_count == 0, "{wrong:?}");
        assert_eq!((survey.groups, found.len()), (groups as u64, groups));
        let mut naive_cells = vec![(0, 0, 0); survey.picture.cells.len()];
        let mut longest = 0;
        for (number, group) in found.iter().enumerate() {
            assert_eq!(group.entry.block, image.groups[number] as u64);
            let states = common::states(&map(&image, group));
            let counted = State::ALL.map(|state| states.iter().filter(|&&s| s == state).count() as u64);
            assert_eq!(group.states, counted, "{block_bytes} {number}");
            let runs = runs(&states);
            assert_eq!(group.runs.total(), runs.len() as u64, "{block_bytes} {number}");
            let naive_longest = runs.iter().map(|run| run.1).max().unwrap_or(0);
            assert_eq!(group.runs.longest, naive_longest as u64);
            longest = longest.max(naive_longest);
            let cell =
                |block: usize| ((group.entry.data0 as usize + block) as u64 / survey.picture.cell_blocks) as usize;
            for (block, &state) in states.iter().enumerate() {
                naive_cells[cell(block)].0 += 1;
                naive_cells[cell(block)].1 += u64::from(state == State::Free);
            }
            runs.iter().for_each(|run| naive_cells[cell(run.0)].2 += 1);
        }
        assert_eq!(survey.runs.longest, longest as u64);
        let cells: Vec<_> = survey.picture.cells.iter().map(|cell| (cell.blocks, cell.free, cell.runs)).collect();
        assert_eq!(cells, naive_cells);
    }
}

#[test]
fn superblock_fields_are_read() {
    let image = small();
    let volume = Volume::open(Cursor::new(&image.bytes)).unwrap();
    let about = volume.superblock();
    assert_eq!((about.format, about.block_bytes), (1802, 512));
    assert_eq!((&*about.lock_protocol, &*about.lock_table), ("lock_nolock", "a:b?"), "control characters are replaced");
    assert_eq!(volume.image_blocks(), image.bytes.len() as u64 / 512);
}

#[test]
fn invalid_images_are_rejected_with_a_reason() {
    let good = small().bytes;
    let open = |bytes: &[u8]| Volume::open(Cursor::new(bytes)).err().map(|error| error.to_string());
    let with = |at: usize, value: u64| {
        let mut bytes = good.clone();
        put(&mut bytes, SUPERBLOCK_AT + at, 4, value);
        open(&bytes).unwrap()
    };
    assert_eq!(open(&good), None);
    assert_eq!(open(&[]).unwrap(), "not a GFS2 image: expected at least 66048 bytes, found 0");
    assert_eq!(open(&good[..66_047]).unwrap(), "not a GFS2 image: expected at least 66048 bytes, found 66047");
    assert_eq!(with(0, 7), "not a GFS2 image: at byte 65536 expected 0x01161970, found 0x00000007");
    assert_eq!(with(4, 2), "not a GFS2 image: at byte 65536 expected metadata type 1, format 100, found 2, 100");
    assert_eq!(with(24, 1309), "not a GFS2 image: at byte 65560 expected format 1801 or 1802, found 1309");
    for size in [0, 256, 513, 1 << 17] {
        let expected =
            "not a GFS2 image: at byte 65572 expected a block size, a power of two from 512 to 65536, found ";
        assert_eq!(with(36, size), format!("{expected}{size}"));
    }
    assert!(matches!(Volume::open(Cursor::new(&[][..])), Err(OpenError::TooShort(0))));
}

/// A damage, and the fields of the expected mismatches: first those of groups, then those of the volume.
type Damage = (&'static str, fn(&mut Image), &'static [Field], &'static [Field]);

fn header(image: &mut Image, group: usize, offset: usize, value: u64) {
    put(&mut image.bytes, image.groups[group] * image.block_bytes + offset, 4, value);
}

/// Changes a header and updates its checksum.
fn sealed(image: &mut Image, group: usize, offset: usize, value: u64) {
    header(image, group, offset, value);
    header(image, group, 64, 0);
    let at = image.groups[group] * image.block_bytes;
    let crc = crc32(&image.bytes[at..at + 128]);
    header(image, group, 64, crc.into());
}

const DAMAGES: &[Damage] = &[
    ("checksum", |i| header(i, 1, 64, 1), &[Field::Crc], &[]),
    ("flags without checksum", |i| header(i, 0, 24, 8), &[Field::Crc], &[]),
    ("free counter", |i| sealed(i, 2, 28, 3), &[Field::Free], &[]),
    ("inode counter", |i| sealed(i, 2, 32, 3), &[Field::Dinodes], &[]),
    ("skip", |i| sealed(i, 0, 36, 3), &[Field::Skip], &[]),
    ("skip of the last", |i| sealed(i, 2, 36, 3), &[Field::Skip], &[]),
    ("no skip, as of old", |i| sealed(i, 0, 36, 0), &[], &[]),
    ("header's data0", |i| sealed(i, 0, 52, 3), &[Field::HeaderFirstData], &[]),
    ("header's data", |i| sealed(i, 0, 56, 3), &[Field::HeaderDataBlocks], &[]),
    ("header's map", |i| sealed(i, 0, 60, 3), &[Field::HeaderMapBytes], &[]),
    ("header's magic", |i| header(i, 0, 0, 3), &[Field::Magic], &[]),
    ("header's kind", |i| header(i, 0, 4, 3), &[Field::Kind], &[]),
    ("header's format", |i| header(i, 0, 16, 3), &[Field::Format], &[]),
    ("header of old", |i| (48..68).step_by(4).for_each(|at| header(i, 1, at, 0)), &[], &[]),
    ("map's head", |i| header(i, 1, 512 + 4, 9), &[Field::BadMapBlocks], &[]),
    (
        "a block freed in the map only",
        |i| {
            let at = i.groups[0] * 512 + 128;
            i.bytes[at] &= !3;
        },
        &[Field::Free, Field::Dinodes],
        &[Field::TotalFree, Field::TotalDinodes],
    ),
    (
        "entry's block",
        |i| put(&mut i.bytes, i.entries[1], 8, 130),
        &[Field::Skip, Field::GroupStart, Field::FirstData],
        &[],
    ),
    ("entry's length", |i| put(&mut i.bytes, i.entries[1] + 8, 4, 7), &[Field::MapBlocks, Field::FirstData], &[]),
    ("entry's data", |i| put(&mut i.bytes, i.entries[1] + 24, 4, 7), &[Field::DataBlocks], &[]),
    (
        "entry's map",
        |i| put(&mut i.bytes, i.entries[1] + 28, 4, u32::MAX.into()),
        &[Field::MapBlocks, Field::DataBlocks],
        &[],
    ),
    ("an image cut short", |i| i.bytes.truncate(i.bytes.len() - 1), &[Field::GroupEnd], &[]),
    ("shift", |i| put(&mut i.bytes, SUPERBLOCK_AT + 40, 4, 12), &[], &[Field::BlockShift]),
    ("master pointer", |i| put(&mut i.bytes, SUPERBLOCK_AT + 56, 8, u64::MAX), &[], &[Field::Pointer]),
    ("master's head", |i| put(&mut i.bytes, i.master * 512, 4, 1), &[], &[Field::Magic]),
    ("hash bits", |i| put(&mut i.bytes, i.master * 512 + 146, 2, 18), &[], &[Field::HashBits]),
    ("table of hashes", |i| put(&mut i.bytes, i.master * 512 + 146, 2, 17), &[], &[]),
    ("leaf", |i| put(&mut i.bytes, i.master * 512 + 232, 8, 1), &[], &[Field::Magic]),
    ("levels", |i| put(&mut i.bytes, i.rindex * 512 + 138, 2, 11), &[], &[Field::Levels]),
    ("index's size", |i| put(&mut i.bytes, i.rindex * 512 + 56, 8, 289), &[], &[Field::FileBytes]),
    (
        "index too long",
        |i| put(&mut i.bytes, i.rindex * 512 + 56, 8, 96 << 50),
        &[Field::GroupStart, Field::MapBlocks],
        &[Field::Pointer],
    ),
    ("hole in the index", |i| put(&mut i.bytes, i.rindex * 512 + 232, 8, 0), &[], &[Field::Pointer]),
    ("statfs", |i| put(&mut i.bytes, i.statfs * 512 + 232, 8, 0), &[], &[Field::TotalBlocks]),
    ("statfs too short", |i| put(&mut i.bytes, i.statfs * 512 + 56, 8, 23), &[], &[Field::FileBytes]),
];

#[test]
fn each_damage_is_reported() {
    for (name, damage, in_groups, in_volume) in DAMAGES {
        let mut image = small();
        damage(&mut image);
        let (groups, survey) = survey(&image.bytes);
        let fields = |mismatches: &[bitfit::gfs2::Mismatch]| mismatches.iter().map(|m| m.field).collect::<Vec<_>>();
        let found: Vec<Field> = groups.iter().flat_map(|group| fields(&group.mismatches)).collect();
        assert_eq!(&found, in_groups, "{name}");
        assert_eq!(&fields(&survey.mismatches), in_volume, "{name}");
        assert_eq!(survey.mismatch_count, (found.len() + in_volume.len()) as u64, "{name}");
    }
}

#[test]
fn survey_stops_after_101_invalid_index_entries() {
    let mut image = Image::new(&plan(512, 250, 17, false));
    let (second, end) = (image.entries[10], image.entries[249]);
    image.bytes[second..end].fill(0);
    let (groups, survey) = survey(&image.bytes);
    assert_eq!(groups.len(), 111, "ten valid entries and the first 101 invalid ones");
    assert_eq!(survey.mismatches.iter().map(|m| m.field).collect::<Vec<_>>(), [Field::BadEntries]);
}

#[test]
fn mismatch_message_names_block_field_and_values() {
    let mut image = small();
    sealed(&mut image, 0, 28, 3);
    header(&mut image, 1, 64, 0xab);
    let (groups, _) = survey(&image.bytes);
    let (block, free) = (image.groups[0], groups[0].states[0]);
    let text = groups[0].mismatches[0].to_string();
    assert_eq!(text, format!("block {block}: free blocks: the map has {free}, the header has 3"));
    let text = groups[1].mismatches[0].to_string();
    assert!(text.ends_with("found 0x000000ab"), "{text}");
}

#[test]
fn callback_error_ends_the_survey() {
    let image = small();
    let mut volume = Volume::open(Cursor::new(&image.bytes)).unwrap();
    let error = volume.survey(|_| Err(std::io::Error::other("full"))).unwrap_err();
    assert_eq!(error.to_string(), "full");
}

proptest! {
    #[test]
    fn damaged_images_never_panic(
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
        hashed in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let plan = Plan { block_bytes: 512, maps: vec![fragmented(3, 20), fragmented(4, 420), fragmented(5, 3)], hashed };
        let image = Image::new(&plan);
        // Mutate only the parts that a survey reads: superblock, headers, maps, hidden files.
        let mut bytes = image.bytes[SUPERBLOCK_AT..].to_vec();
        let first = image.groups[0] * 512 - SUPERBLOCK_AT;
        let spots: Vec<usize> = (0..232)
            .chain(first..first + 12 * 512)
            .chain((image.groups[1] * 512..(image.groups[1] + 2) * 512).map(|at| at - SUPERBLOCK_AT))
            .collect();
        for (at, byte) in changes {
            bytes[spots[at.index(spots.len())]] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_gfs2_image::run(&bytes);
    }
}
