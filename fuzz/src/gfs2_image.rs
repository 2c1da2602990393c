// SPDX-License-Identifier: GPL-2.0-only
//! GFS2 images: for any bytes, a survey returns a result without a panic, and its sums are consistent.

use std::io::Cursor;

use bitfit::gfs2::Volume;

/// Number of bytes before the superblock, which are ignored; the input starts after them.
const IN_FRONT: usize = 65_536;

/// Surveys the bytes as an image that starts at its superblock.
pub fn run(bytes: &[u8]) {
    let image = [&[0; IN_FRONT], bytes].concat();
    let Ok(mut volume) = Volume::open(Cursor::new(&image)) else { return };
    let (mut groups, mut states, mut runs, mut mismatches) = (0, [0_u64; 4], 0, 0);
    let survey = volume
        .survey(|group| {
            groups += 1;
            (0..4).for_each(|state| states[state] += group.states[state]);
            runs += group.runs.total();
            mismatches += group.mismatches.len() as u64;
            if group.header.is_some() {
                assert_eq!(group.states.iter().sum::<u64>(), u64::from(group.entry.data));
            }
            Ok(())
        })
        .expect("memory can be read");
    assert_eq!((survey.groups, survey.states), (groups, states));
    assert_eq!(survey.mismatch_count, mismatches + survey.mismatches.len() as u64);
    assert_eq!(survey.runs.total(), runs);
    assert_eq!(survey.runs.blocks.iter().sum::<u64>(), states[0]);
    let cells = &survey.picture.cells;
    assert_eq!(cells.iter().map(|cell| cell.blocks).sum::<u64>(), states.iter().sum::<u64>());
    assert_eq!(cells.iter().map(|cell| cell.free).sum::<u64>(), states[0]);
    assert_eq!(cells.iter().map(|cell| cell.runs).sum::<u64>(), runs);
}
