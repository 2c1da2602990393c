// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a file: a length and a sparse map of pages.

use super::radix::{Radix, diff};
use crate::store::Ptr;
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};

/// Bytes in a page of a file and in a block of the store.
pub const PAGE: usize = 4096;

/// Greatest length of a file. Offsets beyond it fail with `EFBIG`.
pub const MAX_LEN: u64 = (1 << 44) - PAGE as u64;

/// Content of a page in memory. Bytes behind its end, up to the page's end, are zero.
#[derive(Default)]
pub struct Resident {
    /// Address of the same bytes in the store; unset if they are not there.
    pub saved: OnceLock<Ptr>,
    /// At most [`PAGE`] bytes.
    pub bytes: Vec<u8>,
}

impl Clone for Resident {
    fn clone(&self) -> Self {
        Resident { saved: self.saved.clone(), bytes: self.bytes.clone() }
    }
}

/// A page of a file that is not a hole.
#[derive(Clone)]
pub enum Page {
    /// In memory.
    Memory(Arc<Resident>),
    /// In the store only: evicted, or unreadable when the store was opened.
    Disk(Ptr),
}

impl Page {
    /// A page with these bytes.
    pub fn new(bytes: Vec<u8>) -> Page {
        Page::Memory(Arc::new(Resident { saved: OnceLock::new(), bytes }))
    }

    /// Where the page lies in the store, if it does.
    pub fn ptr(&self) -> Option<Ptr> {
        match self {
            Page::Memory(resident) => resident.saved.get().copied(),
            Page::Disk(ptr) => Some(*ptr),
        }
    }

    /// Whether both are the same page of memory or of the store, which implies the same bytes.
    pub fn same(&self, other: &Page) -> bool {
        match (self, other) {
            (Page::Memory(a), Page::Memory(b)) => {
                Arc::ptr_eq(a, b) || a.saved.get().is_some_and(|ptr| b.saved.get() == Some(ptr))
            }
            _ => self.ptr().is_some() && self.ptr() == other.ptr(),
        }
    }
}

/// Reads pages that are not in memory.
pub trait Fetch: Send + Sync {
    /// Returns the bytes at `ptr`; `EIO` if they cannot be read or do not match their checksum.
    fn fetch(&self, ptr: Ptr) -> Result<Vec<u8>, Errno>;
}

/// A [`Fetch`] for trees that have no store.
pub struct NoStore;

impl Fetch for NoStore {
    fn fetch(&self, _: Ptr) -> Result<Vec<u8>, Errno> {
        Err(Errno::IO)
    }
}

/// Pages that a change adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Pages more in memory.
    pub memory: u64,
    /// Pages more in the file.
    pub file: u64,
}

/// Length and pages of a file.
#[derive(Clone, Default)]
pub struct Data {
    /// Length in bytes.
    pub len: u64,
    /// Pages by page number; a missing one is a hole.
    pub pages: Radix<Page>,
    /// Number of pages; [`MAX_LEN`] keeps it below 2^32.
    count: u32,
    /// Number of pages that are in the store only.
    evicted: u32,
}

impl Data {
    /// A file with these pages.
    pub fn new(len: u64, pages: Radix<Page>) -> Data {
        let (mut count, mut evicted) = (0, 0);
        for (_, page) in pages.range(0) {
            count += 1;
            evicted += u32::from(matches!(page, Page::Disk(_)));
        }
        Data { len, pages, count, evicted }
    }

    /// The same pages under another length.
    pub fn with_len(&self, len: u64) -> Data {
        Data { len, ..self.clone() }
    }

    /// Number of pages.
    pub fn count(&self) -> u64 {
        self.count.into()
    }

    /// Pages in memory.
    pub fn resident(&self) -> u64 {
        (self.count - self.evicted).into()
    }

    /// Sets a page, or makes it a hole.
    pub fn set(&mut self, index: u64, page: Option<Page>) {
        let on_disk = |page: &Option<Page>| u32::from(matches!(page, Some(Page::Disk(_))));
        self.count += u32::from(page.is_some());
        self.evicted += on_disk(&page);
        let old = match page {
            Some(page) => self.pages.insert(index, page),
            None => self.pages.remove(index),
        };
        self.count -= u32::from(old.is_some());
        self.evicted -= on_disk(&old);
    }

    /// Drops the memory of pages that the store has, at most `most` of them, and returns how many.
    pub fn evict(&mut self, most: u64) -> u64 {
        let saved = |page: &Page| matches!(page, Page::Memory(_)).then(|| page.ptr()).flatten();
        let found: Vec<(u64, Ptr)> =
            self.pages.range(0).filter_map(|(index, page)| Some((index, saved(page)?))).take(most as usize).collect();
        for (index, ptr) in &found {
            self.set(*index, Some(Page::Disk(*ptr)));
        }
        found.len() as u64
    }

    /// Copies bytes from `offset` on into `out` and returns how many; fewer only at the end of the file.
    pub fn read(&self, offset: u64, out: &mut [u8], store: &dyn Fetch) -> Result<usize, Errno> {
        let wanted = self.len.saturating_sub(offset).min(out.len() as u64) as usize;
        let out = &mut out[..wanted];
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let (index, within) = (at / PAGE as u64, at as usize % PAGE);
            let part = (PAGE - within).min(wanted - done);
            let target = &mut out[done..done + part];
            match self.pages.get(index) {
                None => target.fill(0),
                Some(Page::Memory(resident)) => copy(&resident.bytes, within, target),
                Some(Page::Disk(ptr)) => copy(&store.fetch(*ptr)?, within, target),
            }
            done += part;
        }
        Ok(wanted)
    }

    /// How many pages a write to this range adds: to memory, and to the file.
    pub fn growth(&self, offset: u64, len: u64) -> Growth {
        if len == 0 {
            return Growth::default();
        }
        let (first, last) = (offset / PAGE as u64, (offset + len - 1) / PAGE as u64);
        let (mut present, mut resident) = (0, 0);
        if self.count > 0 && first <= self.pages.last_key().unwrap_or(0) {
            for (_, page) in self.pages.range(first).take_while(|(index, _)| *index <= last) {
                present += 1;
                resident += u64::from(matches!(page, Page::Memory(_)));
            }
        }
        let pages = last - first + 1;
        Growth { memory: pages - resident, file: pages - present }
    }

    /// Writes `bytes` at `offset` and extends the file where needed. Pages that another tree shares are replaced.
    pub fn write(&mut self, offset: u64, bytes: &[u8], store: &dyn Fetch) -> Result<(), Errno> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (index, within) = (at / PAGE as u64, at as usize % PAGE);
            let part = (PAGE - within).min(bytes.len() - done);
            self.write_page(index, within, &bytes[done..done + part], store)?;
            done += part;
            self.len = self.len.max(at + part as u64);
        }
        Ok(())
    }

    fn write_page(&mut self, index: u64, within: usize, bytes: &[u8], store: &dyn Fetch) -> Result<(), Errno> {
        if within == 0 && bytes.len() == PAGE {
            self.set(index, Some(Page::new(bytes.to_vec())));
            return Ok(());
        }
        let content = self.melt_page(index, store)?;
        let end = within + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[within..end].copy_from_slice(bytes);
        Ok(())
    }

    /// Write access to a page's bytes; its copy in the store, if any, stays as it is for those that share it.
    fn melt_page(&mut self, index: u64, store: &dyn Fetch) -> Result<&mut Vec<u8>, Errno> {
        let fetched = match self.pages.get(index) {
            Some(Page::Disk(ptr)) => Some(store.fetch(*ptr)?),
            Some(Page::Memory(_)) => None,
            None => Some(Vec::new()),
        };
        if let Some(bytes) = fetched {
            self.set(index, Some(Page::new(bytes)));
        }
        match self.pages.get_mut(index) {
            Some(Page::Memory(resident)) => {
                let resident = Arc::make_mut(resident);
                resident.saved = OnceLock::new();
                Ok(&mut resident.bytes)
            }
            _ => Err(Errno::IO),
        }
    }

    /// Sets the length. Bytes cut off read as zero if the file grows again.
    pub fn truncate(&mut self, len: u64, store: &dyn Fetch) -> Result<(), Errno> {
        if len < self.len {
            self.zero(len, self.len.next_multiple_of(PAGE as u64), store)?;
        }
        self.len = len;
        Ok(())
    }

    /// Makes a range read as zero; whole pages become holes. The length stays.
    pub fn zero(&mut self, from: u64, to: u64, store: &dyn Fetch) -> Result<(), Errno> {
        let page = PAGE as u64;
        let (first, end) = (from.div_ceil(page), to / page);
        for (edge, start, stop) in edges(from, to) {
            if self.pages.get(edge).is_some() {
                let bytes = self.melt_page(edge, store)?;
                let stop = stop.min(bytes.len());
                if stop == bytes.len() {
                    bytes.truncate(start);
                } else if start < stop {
                    bytes[start..stop].fill(0);
                }
            }
        }
        let doomed: Vec<u64> =
            self.pages.range(first).map(|(index, _)| index).take_while(|index| *index < end).collect();
        for index in doomed {
            self.set(index, None);
        }
        Ok(())
    }

    /// The first byte at or after `offset` that lies in a page (`data`) or in a hole (`!data`); the end of the file is
    /// a hole.
    pub fn seek(&self, offset: u64, data: bool) -> Result<u64, Errno> {
        if offset >= self.len {
            return Err(Errno::NXIO);
        }
        let page = PAGE as u64;
        let mut expected = offset / page;
        for (index, _) in self.pages.range(expected) {
            if data {
                let found = (index * page).max(offset);
                return if found < self.len { Ok(found) } else { Err(Errno::NXIO) };
            }
            if index != expected {
                break;
            }
            expected += 1;
        }
        if data { Err(Errno::NXIO) } else { Ok((expected * page).max(offset).min(self.len)) }
    }

    /// Page numbers whose content differs from `old`, with the new page.
    pub fn changes<'a>(&'a self, old: &'a Data) -> Vec<(u64, Option<&'a Page>)> {
        diff(&old.pages, &self.pages, &Page::same).into_iter().map(|(index, _, new)| (index, new)).collect()
    }
}

/// The pages of a range that it covers in part: page number, first and last byte within.
fn edges(from: u64, to: u64) -> Vec<(u64, usize, usize)> {
    let page = PAGE as u64;
    let within = |at: u64| (at % page) as usize;
    match (from / page, to / page) {
        _ if from >= to => Vec::new(),
        (a, b) if a == b => vec![(a, within(from), within(to))],
        (a, b) => {
            let mut edges = Vec::new();
            if within(from) != 0 {
                edges.push((a, within(from), PAGE));
            }
            if within(to) != 0 {
                edges.push((b, 0, within(to)));
            }
            edges
        }
    }
}

/// Copies `source[from..]` and zeroes what lies behind its end.
fn copy(source: &[u8], from: usize, target: &mut [u8]) {
    let rest = source.get(from..).unwrap_or_default();
    let n = rest.len().min(target.len());
    target[..n].copy_from_slice(&rest[..n]);
    target[n..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        Truncate(u64),
        Punch(u64, u64),
        Freeze,
    }

    fn step() -> impl Strategy<Value = Step> {
        let offset = || prop_oneof![0..20_000_u64, (0..5_u64).prop_map(|page| page * 4096)];
        prop_oneof![
            (offset(), prop::collection::vec(1..255_u8, 1..9000)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
            offset().prop_map(Step::Truncate),
            (offset(), 1..9000_u64).prop_map(|(at, len)| Step::Punch(at, len)),
            Just(Step::Freeze),
        ]
    }

    fn content(data: &Data) -> Vec<u8> {
        let mut out = vec![0xEE; data.len as usize + 5];
        let n = data.read(0, &mut out, &NoStore).expect("all pages are in memory");
        out.truncate(n);
        out
    }

    proptest! {
        #[test]
        fn data_equals_a_flat_vector_and_truncate_melts(steps in prop::collection::vec(step(), 0..30)) {
            let (mut data, mut flat) = (Data::default(), Vec::<u8>::new());
            let mut frozen: Vec<(Data, Vec<u8>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Write(at, bytes) => {
                        let (at, end) = (at as usize, at as usize + bytes.len());
                        let before = data.count();
                        let growth = data.growth(at as u64, bytes.len() as u64);
                        data.write(at as u64, &bytes, &NoStore).unwrap();
                        prop_assert_eq!((data.count() - before, growth.memory), (growth.file, growth.file));
                        flat.resize(flat.len().max(end), 0);
                        flat[at..end].copy_from_slice(&bytes);
                    }
                    Step::Truncate(len) => {
                        data.truncate(len, &NoStore).unwrap();
                        flat.resize(len as usize, 0);
                    }
                    Step::Punch(at, len) => {
                        let end = (at + len).min(data.len);
                        if at < end {
                            data.zero(at, end, &NoStore).unwrap();
                            flat[at as usize..end as usize].fill(0);
                        }
                    }
                    Step::Freeze => frozen.push((data.clone(), flat.clone())),
                }
                prop_assert_eq!(content(&data), &flat[..]);
                prop_assert_eq!(data.count(), data.pages.range(0).count() as u64);
            }
            for (old, flat) in &frozen {
                prop_assert_eq!(content(old), &flat[..]);
            }
        }
    }

    #[test]
    fn seek_finds_data_and_holes() {
        let mut data = Data::default();
        data.write(8192, b"x", &NoStore).unwrap();
        data.truncate(20_000, &NoStore).unwrap();
        assert_eq!(data.seek(0, true), Ok(8192));
        assert_eq!(data.seek(0, false), Ok(0));
        assert_eq!(data.seek(8192, false), Ok(12288));
        assert_eq!(data.seek(12288, true), Err(Errno::NXIO));
        assert_eq!(data.seek(20_000, false), Err(Errno::NXIO));
    }
}
