// SPDX-License-Identifier: GPL-2.0-only
//! Page cache: which pages of disks are in memory, and which of them are dirty.
//!
//! Clean pages are evicted, the least recently used first. Dirty pages and pages under write-back stay.

use ids::{Nanos, TaskId};
use machine_model::PageCache as Description;
use std::collections::BTreeMap;

/// Size of a page in bytes.
pub const PAGE: u64 = 4096;

/// Disk, and number of the page on it.
type Page = (usize, u64);

/// Dirty page: when it became dirty, and the task that did it first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Dirty {
    since: Nanos,
    by: TaskId,
}

/// Contiguous bytes of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The disk.
    pub disk: usize,
    /// First byte, at the start of a page.
    pub start: u64,
    /// Length, in whole pages.
    pub bytes: u64,
}

impl Extent {
    /// The pages that these bytes touch.
    pub fn of(disk: usize, start: u64, bytes: u64) -> Extent {
        let first = start / PAGE;
        Extent { disk, start: first * PAGE, bytes: ((start + bytes).div_ceil(PAGE) - first) * PAGE }
    }

    fn pages(self) -> impl Iterator<Item = Page> {
        (self.start / PAGE..(self.start + self.bytes) / PAGE).map(move |page| (self.disk, page))
    }
}

/// Pages in memory.
#[derive(Debug)]
pub struct PageCache {
    /// Numbers of pages: in all, dirty ones from which write-back begins, and dirty ones from which writers wait.
    capacity: u64,
    background: u64,
    limit: u64,
    /// Time of the last use of each clean page, and the reverse.
    clean: BTreeMap<Page, u64>,
    by_use: BTreeMap<u64, Page>,
    uses: u64,
    dirty: BTreeMap<Page, Dirty>,
    /// Pages under write-back, each with the number of its writes in progress: a page that becomes dirty meanwhile may be
    /// taken again.
    writing: BTreeMap<Page, u32>,
    /// Number of these writes.
    under_write_back: u64,
}

impl PageCache {
    /// Creates an empty cache.
    pub fn new(description: &Description) -> PageCache {
        let capacity = (description.size_mb << 20) / PAGE;
        let percent = |percent: u64| capacity * percent / 100;
        PageCache {
            capacity,
            background: percent(description.background_percent),
            limit: percent(description.limit_percent),
            clean: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            dirty: BTreeMap::new(),
            writing: BTreeMap::new(),
            under_write_back: 0,
        }
    }

    /// Whether write-back needs this page: it is in memory, and cannot be evicted.
    fn is_kept(&self, page: &Page) -> bool {
        self.dirty.contains_key(page) || self.writing.contains_key(page)
    }

    /// Uses these pages. Returns the smallest extent that contains all missing ones; `None` if none is missing.
    pub fn missing(&mut self, extent: Extent) -> Option<Extent> {
        let mut missing: Option<(u64, u64)> = None;
        for page in extent.pages() {
            if self.clean.contains_key(&page) {
                self.use_clean(page);
            } else if !self.is_kept(&page) {
                missing = Some((missing.map_or(page.1, |(first, _)| first), page.1));
            }
        }
        missing.map(|(first, last)| Extent { start: first * PAGE, bytes: (last + 1 - first) * PAGE, ..extent })
    }

    fn use_clean(&mut self, page: Page) {
        self.uses += 1;
        if let Some(before) = self.clean.insert(page, self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, page);
    }

    /// Pages were read from their disk.
    pub fn insert(&mut self, extent: Extent) {
        for page in extent.pages().filter(|page| !self.is_kept(page)).collect::<Vec<_>>() {
            self.use_clean(page);
        }
        self.evict();
    }

    fn evict(&mut self) {
        while self.clean.len() as u64 + self.dirty_pages() > self.capacity {
            let Some((_, page)) = self.by_use.pop_first() else { return };
            self.clean.remove(&page);
        }
    }

    /// A task writes to these pages.
    pub fn write(&mut self, now: Nanos, by: TaskId, extent: Extent) {
        for page in extent.pages() {
            if let Some(used) = self.clean.remove(&page) {
                self.by_use.remove(&used);
            }
            self.dirty.entry(page).or_insert(Dirty { since: now, by });
        }
        self.evict();
    }

    /// Number of pages that are dirty or under write-back.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty.len() as u64 + self.under_write_back
    }

    /// Whether kthreads write pages back.
    pub fn writes_back(&self) -> bool {
        self.dirty_pages() > self.background
    }

    /// Whether writers wait.
    pub fn throttles(&self) -> bool {
        self.dirty_pages() > self.limit
    }

    /// Takes dirty pages of a disk, at most `most`, in order of position, for write-back. They are the ones of this task, or
    /// those that became dirty until a time, or any. Returns extents of at most `longest` bytes.
    pub fn take(&mut self, disk: usize, which: Which, most: usize, longest: u64) -> Vec<Extent> {
        let all = self.dirty.range((disk, 0)..=(disk, u64::MAX));
        let fits = |dirty: &Dirty| match which {
            Which::Of(task) => dirty.by == task,
            Which::Until(time) => dirty.since <= time,
            Which::Any => true,
        };
        let taken: Vec<u64> = all.filter(|(_, dirty)| fits(dirty)).map(|(page, _)| page.1).take(most).collect();
        let mut extents: Vec<Extent> = Vec::new();
        for page in taken {
            self.dirty.remove(&(disk, page));
            *self.writing.entry((disk, page)).or_default() += 1;
            self.under_write_back += 1;
            match extents.last_mut() {
                Some(last) if last.start + last.bytes == page * PAGE && last.bytes < longest => last.bytes += PAGE,
                _ => extents.push(Extent { disk, start: page * PAGE, bytes: PAGE }),
            }
        }
        extents
    }

    /// Pages under write-back are written; they stay in memory, unless they became dirty again.
    pub fn written(&mut self, extent: Extent) {
        for page in extent.pages() {
            let writes = self.writing.get_mut(&page).expect("the page was taken");
            *writes -= 1;
            if *writes == 0 {
                self.writing.remove(&page);
            }
            self.under_write_back -= 1;
        }
        self.insert(extent);
    }
}

/// Dirty pages to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Pages that this task made dirty first.
    Of(TaskId),
    /// Pages that became dirty until this time.
    Until(Nanos),
    /// Any.
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine_model::Estimate;

    /// A cache of 256 pages: write-back from 26 dirty ones, writers wait from 52.
    fn cache() -> PageCache {
        PageCache::new(&Description {
            size_mb: 1,
            background_percent: 10,
            limit_percent: 20,
            flush_ms: 5_000,
            expire_ms: 30_000,
            overhead_ns: Estimate::exactly(0),
            mb_s: Estimate::exactly(1),
        })
    }

    fn pages(first: u64, count: u64) -> Extent {
        Extent { disk: 0, start: first * PAGE, bytes: count * PAGE }
    }

    #[test]
    fn extent_has_the_pages_that_bytes_touch() {
        assert_eq!(Extent::of(0, 4_000, 200), pages(0, 2));
        assert_eq!(Extent::of(0, 8_192, 4_096), pages(2, 1));
        assert_eq!(Extent::of(0, 5, 1), pages(0, 1));
    }

    #[test]
    fn missing_pages_are_read_once_and_evicted_by_last_use() {
        let mut cache = cache();
        assert_eq!(cache.missing(pages(0, 4)), Some(pages(0, 4)));
        cache.insert(pages(0, 4));
        assert_eq!(cache.missing(pages(0, 4)), None);
        assert_eq!(cache.missing(pages(2, 5)), Some(pages(4, 3)));
        cache.insert(pages(1_000, 252));
        assert_eq!(cache.missing(pages(0, 2)), None, "256 pages fit");
        cache.insert(pages(2_000, 2));
        assert_eq!(cache.missing(pages(0, 2)), None, "they were used last");
        assert_eq!(cache.missing(pages(2, 2)), Some(pages(2, 2)), "these were not");
        let other = Extent { disk: 1, ..pages(0, 1) };
        assert_eq!(cache.missing(other), Some(other));
    }

    #[test]
    fn dirty_pages_begin_write_back_then_throttle_and_are_never_evicted() {
        let mut cache = cache();
        cache.write(Nanos(5), TaskId(1), pages(10, 25));
        assert!(!cache.writes_back());
        cache.write(Nanos(6), TaskId(2), pages(100, 1));
        assert!(cache.writes_back() && !cache.throttles());
        cache.write(Nanos(7), TaskId(2), pages(101, 26));
        assert!(cache.throttles());
        cache.insert(pages(1_000, 600));
        assert_eq!(cache.missing(pages(10, 25)), None);
        let taken = cache.take(0, Which::Any, 20, 8 * PAGE);
        assert_eq!(taken, [pages(10, 8), pages(18, 8), pages(26, 4)]);
        assert_eq!(cache.dirty_pages(), 52, "under write-back they still count");
        assert_eq!(cache.missing(pages(10, 25)), None, "and stay in memory");
        taken.into_iter().for_each(|extent| cache.written(extent));
        assert_eq!((cache.dirty_pages(), cache.throttles()), (32, false));
        assert_eq!(cache.take(0, Which::Of(TaskId(1)), 99, PAGE << 10), [pages(30, 5)]);
        assert_eq!(cache.take(0, Which::Until(Nanos(6)), 99, PAGE << 10), [pages(100, 1)]);
        assert_eq!(cache.take(1, Which::Any, 99, PAGE), []);
    }

    #[test]
    fn page_that_becomes_dirty_under_write_back_stays_dirty() {
        let mut cache = cache();
        cache.write(Nanos(5), TaskId(1), pages(0, 1));
        let taken = cache.take(0, Which::Any, 1, PAGE);
        cache.write(Nanos(9), TaskId(2), pages(0, 1));
        cache.written(taken[0]);
        assert_eq!(cache.dirty_pages(), 1);
        assert_eq!(cache.take(0, Which::Of(TaskId(2)), 1, PAGE), [pages(0, 1)]);
    }

    #[test]
    fn page_with_two_writes_in_progress_stays_until_both_are_written() {
        let mut cache = cache();
        for _ in 0..2 {
            cache.write(Nanos(5), TaskId(1), pages(0, 1));
            assert_eq!(cache.take(0, Which::Any, 1, PAGE), [pages(0, 1)]);
        }
        cache.written(pages(0, 1));
        cache.insert(pages(1_000, 600));
        assert_eq!((cache.dirty_pages(), cache.missing(pages(0, 1))), (1, None));
        cache.written(pages(0, 1));
        assert_eq!((cache.dirty_pages(), cache.missing(pages(0, 1))), (0, None), "clean now");
        cache.insert(pages(2_000, 600));
        assert_eq!(cache.missing(pages(0, 1)), Some(pages(0, 1)), "evicted");
    }
}
