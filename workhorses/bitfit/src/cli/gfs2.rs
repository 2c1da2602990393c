// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bitfit gfs2`: prints the maps of an image and checks its counters.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bitfit::State;
use bitfit::gfs2::{Cell, Group, Mismatch, Picture, Runs, Survey, Volume};
use clap::Args;
use serde_json::{Value, json};

use super::{Failure, Format};

/// Cells per row of the picture: with the row's first block number, a row has 80 columns.
const ROW_CELLS: usize = 64;

/// Character for the used share of a cell, from none to all.
const SHADES: [char; 9] = ['.', '1', '2', '3', '4', '5', '6', '7', '#'];

/// Length of the bar of the largest class of runs, in characters.
const BAR: u64 = 30;

/// Options of `bitfit gfs2`.
#[derive(Args)]
pub struct Options {
    /// File or block device with an unmounted GFS2 volume.
    image: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Reads the image and prints findings incrementally. Returns whether the image is consistent.
pub fn run(options: &Options) -> Result<bool, Failure> {
    let image = &options.image;
    let unusable = |what: String| Failure::Input(format!("{}: {what}", image.display()));
    let file = File::open(image).map_err(|error| unusable(error.to_string()))?;
    if file.metadata().is_ok_and(|about| about.is_dir()) {
        return Err(unusable("not a GFS2 image: expected a file or block device, found a directory".into()));
    }
    let mut volume = Volume::open(file).map_err(|error| unusable(error.to_string()))?;
    let mut out = BufWriter::new(io::stdout().lock());
    // The survey returns errors of the output and of the image alike; this flag distinguishes them.
    let mut broken_output = None;
    let mut note = |result: io::Result<()>| {
        result.map_err(|error| {
            let kind = error.kind();
            broken_output = Some(error);
            kind.into()
        })
    };
    let survey = match options.format {
        Format::Text => {
            note(print_head(&mut out, &volume)).map_err(Failure::Output)?;
            volume.survey(|group| note(print_group(&mut out, group)))
        }
        Format::Json => {
            note(write_head(&mut out, image, &volume)).map_err(Failure::Output)?;
            volume.survey(|group| note(write_group(&mut out, group)))
        }
    };
    let survey = match (survey, broken_output) {
        (Ok(survey), _) => survey,
        (Err(_), Some(error)) => return Err(Failure::Output(error)),
        (Err(error), None) => return Err(unusable(format!("cannot read the image: {error}"))),
    };
    match options.format {
        Format::Text => print_survey(&mut out, &survey, volume.image_blocks()),
        Format::Json => write_survey(&mut out, &survey),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)?;
    Ok(survey.mismatch_count == 0)
}

fn print_head(out: &mut impl Write, volume: &Volume<File>) -> io::Result<()> {
    let about = volume.superblock();
    writeln!(
        out,
        "GFS2 format {}, {} blocks of {} bytes, {} \"{}\"\n",
        about.format,
        volume.image_blocks(),
        about.block_bytes,
        about.lock_protocol,
        about.lock_table
    )?;
    let [a, b, c, d] = State::ALL.map(State::name);
    writeln!(out, "group       block   blocks     {a}     {b} {c}  {d} free runs  longest")
}

fn print_group(out: &mut impl Write, group: &Group) -> io::Result<()> {
    let [free, used, unlinked, dinodes] = group.states;
    let (block, blocks) = (group.entry.block, group.entry.data);
    write!(out, "{:>5} {block:>11} {blocks:>8} {free:>8} {used:>8} {unlinked:>8} {dinodes:>7}", group.index)?;
    writeln!(out, " {:>9} {:>8}", group.runs.total(), group.runs.longest)?;
    print_mismatches(out, &group.mismatches)
}

fn print_mismatches(out: &mut impl Write, mismatches: &[Mismatch]) -> io::Result<()> {
    mismatches.iter().try_for_each(|mismatch| writeln!(out, "    ! {mismatch}"))
}

fn print_survey(out: &mut impl Write, survey: &Survey, image_blocks: u64) -> io::Result<()> {
    let [free, used, unlinked, dinodes] = survey.states;
    let blocks: u64 = survey.states.iter().sum();
    write!(out, "  all {:>11} {blocks:>8} {free:>8} {used:>8} {unlinked:>8} {dinodes:>7}", "")?;
    writeln!(out, " {:>9} {:>8}", survey.runs.total(), survey.runs.longest)?;
    print_mismatches(out, &survey.mismatches)?;
    print_runs(out, &survey.runs)?;
    print_picture(out, &survey.picture, image_blocks)?;
    match survey.mismatch_count {
        0 => writeln!(out, "\nmaps, counters and checksums of {} groups agree", survey.groups),
        1 => writeln!(out, "\n1 mismatch"),
        many => writeln!(out, "\n{many} mismatches"),
    }
}

fn print_runs(out: &mut impl Write, runs: &Runs) -> io::Result<()> {
    let most = runs.blocks.iter().copied().max().unwrap_or(0).max(1);
    writeln!(out, "\n  length of free run       runs       blocks")?;
    for (shortest, longest, number, blocks) in runs.classes() {
        let length = if shortest == longest { shortest.to_string() } else { format!("{shortest}-{longest}") };
        let bar = "#".repeat((u128::from(blocks) * u128::from(BAR)).div_ceil(most.into()) as usize);
        writeln!(out, "{}", format!("{length:>20} {number:>10} {blocks:>12} {bar}").trim_end())?;
    }
    Ok(())
}

fn print_picture(out: &mut impl Write, picture: &Picture, image_blocks: u64) -> io::Result<()> {
    let size = picture.cell_blocks;
    let cell = if size == 1 { "block".into() } else { format!("{size} blocks") };
    writeln!(out, "\nEach {cell} of the volume; upper row: share in use")?;
    writeln!(out, "(. none, 1-7 eighths, # all), lower row: number of free runs that start there")?;
    writeln!(out, "(. none, 1 one, 2 two or three, 3 four to seven, ...)")?;
    for (row, cells) in picture.cells.chunks(ROW_CELLS).enumerate() {
        let start = (row * ROW_CELLS) as u64 * size;
        let draw = |cell: fn(&Cell) -> char| cells.iter().map(cell).collect::<String>();
        writeln!(out, "{start:>13} |{}|", draw(used_shade))?;
        writeln!(out, "{:>13} |{}|", "", draw(runs_digit))?;
    }
    debug_assert!(size * picture.cells.len() as u64 >= image_blocks);
    Ok(())
}

/// Character for the used share of the cell's blocks; blank for a cell without mapped blocks.
fn used_shade(cell: &Cell) -> char {
    let used = cell.blocks - cell.free;
    match used {
        _ if cell.blocks == 0 => ' ',
        0 => '.',
        _ if cell.free == 0 => '#',
        // Shades 0 (`.`) and 8 (`#`) only mean that none or all of the blocks are used.
        _ => SHADES[((used * 8 + cell.blocks / 2) / cell.blocks).clamp(1, 7) as usize],
    }
}

/// The number of runs as a base-36 digit of its power of two.
fn runs_digit(cell: &Cell) -> char {
    match cell.runs {
        _ if cell.blocks == 0 => ' ',
        0 => '.',
        runs => char::from_digit((runs.ilog2() + 1).min(35), 36).expect("at most 35"),
    }
}

fn write_head(out: &mut impl Write, image: &Path, volume: &Volume<File>) -> io::Result<()> {
    let about = volume.superblock();
    let head = json!({
        "image": image.to_string_lossy(), "format": about.format, "block_bytes": about.block_bytes,
        "image_blocks": volume.image_blocks(), "lock_protocol": about.lock_protocol, "lock_table": about.lock_table,
    });
    // Groups are written one by one, so that only one is held in memory.
    write!(out, "{},\n\"groups\": [", head.to_string().trim_end_matches('}'))
}

fn write_group(out: &mut impl Write, group: &Group) -> io::Result<()> {
    let entry = group.entry;
    let header = group.header.map(|header| {
        json!({"flags": header.flags, "free": header.free, "dinodes": header.dinodes, "skip": header.skip,
               "crc": header.crc})
    });
    let value = json!({
        "group": group.index, "block": entry.block, "map_blocks": entry.map_blocks, "first_data": entry.data0,
        "blocks": entry.data, "map_bytes": entry.bitbytes, "header": header, "states": states(&group.states),
        "free_runs": group.runs.total(), "longest_free_run": group.runs.longest,
        "mismatches": mismatches(&group.mismatches),
    });
    write!(out, "{}\n{value}", if group.index == 0 { "" } else { "," })
}

fn write_survey(out: &mut impl Write, survey: &Survey) -> io::Result<()> {
    let runs: Vec<Value> = survey
        .runs
        .classes()
        .map(|(shortest, longest, runs, blocks)| {
            json!({"shortest": shortest, "longest": longest, "runs": runs, "blocks": blocks})
        })
        .collect();
    let cells: Vec<[u64; 3]> = survey.picture.cells.iter().map(|cell| [cell.blocks, cell.free, cell.runs]).collect();
    writeln!(out, "\n],")?;
    let rest = json!({
        "states": states(&survey.states), "free_runs": runs, "longest_free_run": survey.runs.longest,
        "picture": {"cell_blocks": survey.picture.cell_blocks, "columns": ["blocks", "free", "free_runs"], "cells": cells},
        "mismatches": mismatches(&survey.mismatches), "mismatch_count": survey.mismatch_count,
    });
    writeln!(out, "{}", rest.to_string().trim_start_matches('{'))
}

fn states(blocks: &[u64; 4]) -> Value {
    State::ALL.into_iter().map(|state| (state.name().to_owned(), Value::from(blocks[state as usize]))).collect()
}

fn mismatches(mismatches: &[Mismatch]) -> Value {
    let one = |mismatch: &Mismatch| {
        json!({"block": mismatch.block, "field": mismatch.field.name(), "expected": mismatch.expected,
               "found": mismatch.found, "text": mismatch.to_string()})
    };
    mismatches.iter().map(one).collect()
}
