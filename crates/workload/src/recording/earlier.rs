// SPDX-License-Identifier: GPL-2.0-only
//! What is written of a recording while it still goes on, so that nobody has to keep it in memory.
//!
//! A file begins with what is known at the end only: how long everything took, and who all tasks were. So the blocks of
//! operations go to a file of their own, and are copied behind that beginning as they are.

use super::blocks::BlockWriter;
use super::observed::{Device, Request, Stretch};
use super::write::{LARGE_LEVEL, requests, scripts, stretches};
use crate::Op;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};

/// Blocks of a recording that is not over.
#[derive(Debug)]
pub struct Earlier<File> {
    blocks: BlockWriter<File>,
    operations: usize,
    /// Of each task that has any: where its last stretch of work ended.
    ends: BTreeMap<u32, u32>,
}

impl<File: Read + Write + Seek> Earlier<File> {
    /// Into this file, which must be empty.
    pub fn new(file: File) -> Earlier<File> {
        Earlier { blocks: BlockWriter::new(file, 0, LARGE_LEVEL), operations: 0, ends: BTreeMap::new() }
    }

    /// How many operations it has.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.blocks.written()
    }

    /// The next operations of these tasks.
    ///
    /// # Errors
    /// If the file does not take them.
    pub fn scripts(&mut self, parts: &BTreeMap<u32, Vec<Op>>) -> io::Result<()> {
        self.operations += parts.values().map(Vec::len).sum::<usize>();
        scripts(&mut self.blocks, parts.iter().map(|(task, ops)| (*task, &ops[..])))
    }

    /// What these tasks touched next. Operations are counted from the beginning of each script.
    ///
    /// # Errors
    /// If the file does not take them.
    pub fn stretches(&mut self, parts: &BTreeMap<u32, Vec<Stretch>>) -> io::Result<()> {
        stretches(&mut self.blocks, parts, &mut self.ends)
    }

    /// The next requests of block devices, in the order of time.
    ///
    /// # Errors
    /// If the file does not take them.
    pub fn requests(&mut self, devices: &[Device], run: &[Request]) -> io::Result<()> {
        requests(&mut self.blocks, devices, run)
    }

    /// Copies all blocks. Gives where the last stretch of each task ended.
    pub(super) fn append_to<W: Write>(self, blocks: &mut BlockWriter<W>) -> io::Result<BTreeMap<u32, u32>> {
        let count = self.blocks.blocks();
        let mut file = self.blocks.into_inner();
        file.rewind()?;
        blocks.append(count, file)?;
        Ok(self.ends)
    }
}
