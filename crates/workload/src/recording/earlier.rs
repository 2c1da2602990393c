// SPDX-License-Identifier: GPL-2.0-only
//! Parts of a recording written while it is still running, to bound memory.
//!
//! The file begins with data that is known only at the end: total time and the list of tasks. Therefore blocks of
//! operations go to a temporary file and are later appended to that beginning unchanged.

use super::blocks::BlockWriter;
use super::observed::{Device, Request, Stretch};
use super::write::{LARGE_LEVEL, requests, scripts, stretches};
use crate::Op;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};

/// Blocks of a recording in progress.
#[derive(Debug)]
pub struct Earlier<File> {
    blocks: BlockWriter<File>,
    operations: usize,
    /// End of the last stretch of work, for each task that has any.
    ends: BTreeMap<u32, u32>,
}

impl<File: Read + Write + Seek> Earlier<File> {
    /// Creates an empty recording over `file`, which must be empty.
    pub fn new(file: File) -> Earlier<File> {
        Earlier { blocks: BlockWriter::new(file, 0, LARGE_LEVEL), operations: 0, ends: BTreeMap::new() }
    }

    /// Number of operations written.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Number of bytes written.
    pub fn bytes(&self) -> u64 {
        self.blocks.written()
    }

    /// Writes further operations of these tasks.
    ///
    /// # Errors
    /// If writing fails.
    pub fn scripts(&mut self, parts: &BTreeMap<u32, Vec<Op>>) -> io::Result<()> {
        self.operations += parts.values().map(Vec::len).sum::<usize>();
        scripts(&mut self.blocks, parts.iter().map(|(task, ops)| (*task, &ops[..])))
    }

    /// Writes what these tasks touched next. Operations are counted from the start of each script.
    ///
    /// # Errors
    /// If writing fails.
    pub fn stretches(&mut self, parts: &BTreeMap<u32, Vec<Stretch>>) -> io::Result<()> {
        stretches(&mut self.blocks, parts, &mut self.ends)
    }

    /// Writes further block-device requests, in order of time.
    ///
    /// # Errors
    /// If writing fails.
    pub fn requests(&mut self, devices: &[Device], run: &[Request]) -> io::Result<()> {
        requests(&mut self.blocks, devices, run)
    }

    /// Appends all blocks to `blocks`; returns the end of the last stretch of each task.
    pub(super) fn append_to<W: Write>(self, blocks: &mut BlockWriter<W>) -> io::Result<BTreeMap<u32, u32>> {
        let count = self.blocks.blocks();
        let mut file = self.blocks.into_inner();
        file.rewind()?;
        blocks.append(count, file)?;
        Ok(self.ends)
    }
}
