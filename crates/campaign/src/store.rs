// SPDX-License-Identifier: GPL-2.0-only
//! Finished runs in a directory. Processes may be killed at any moment, and several may add runs at the same time.
//!
//! 1. Each process appends to a file of its own, a *segment* in the subdirectory `results`, created with a random name. No
//!    segment is ever changed by another process, so nothing needs a lock, on no file system.
//! 2. A line is one finished run with a checksum. A line that a kill has cut off fails its checksum; that run counts as
//!    missing.
//! 3. Runs are deterministic, so it does not matter which of several results of a run is taken. If they differ, that is
//!    an error.

use crate::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Subdirectory of the segments.
const SEGMENTS: &str = "results";
/// Ending of a segment's name.
const ENDING: &str = "runs";
/// First word of a segment.
const MAGIC: &str = "weir-runs";
/// Version of the format.
const FORMAT: u32 = 1;
/// Digits of a checksum, in front of each line.
const CHECKSUM: usize = 16;
/// Beginning of a line's JSON, before the identity.
const BEFORE_ID: &str = "{\"id\":\"";
/// Digits of an identity.
const ID: usize = 32;
/// Longest line. A run has some 4 KiB.
const LONGEST: u64 = 64 << 20;
/// Segments that are kept open for reading.
const OPEN: usize = 200;
/// Time since the last sync after which the next appended run syncs its segment. Runs that were appended later survive a
/// loss of power only if another one follows or [`Appender::sync`] is called.
const SYNC: Duration = Duration::from_secs(5);

/// Error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the file system failed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is no segment of this format.
    #[error("{path}:1: expected the first line of a file of runs, format {FORMAT}; move this file away", path = path.display())]
    Foreign {
        /// File.
        path: PathBuf,
    },
    /// A run has two results.
    #[error(
        "run {id} has two different results, in {first} and {second}: the same inputs must give the same result; move one \
         of these files away to do its runs again",
        first = first.display(), second = second.display()
    )]
    Conflict {
        /// The run.
        id: RunId,
        /// Segment with the first result.
        first: PathBuf,
        /// Segment with the other one.
        second: PathBuf,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::Io { path: path.to_owned(), source }
}

/// The non-empty buckets of a histogram, in ascending order; all lists have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets {
    /// Key of the measure, such as `wakeup_latency_ns`.
    pub measure: String,
    /// Smallest value of each bucket.
    pub from: Vec<u64>,
    /// Largest value of each bucket.
    pub to: Vec<u64>,
    /// Number of values in each bucket.
    pub count: Vec<u64>,
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finished {
    /// `completed`, `ejected`, `violation`, or `refused`: the scheduler could not be loaded.
    pub outcome: String,
    /// Kind of the scheduler's exit; 0 if it was not ejected.
    pub exit_kind: u32,
    /// Reason of the exit, or why the scheduler was refused.
    pub exit_reason: String,
    /// Message of the exit.
    pub exit_message: String,
    /// Hash of all events, in hexadecimal.
    pub log_hash: String,
    /// Whether the remaining tasks waited for each other forever.
    pub deadlocked: bool,
    /// Number of forks that the scheduler refused.
    pub failed_forks: u64,
    /// Number of refused changes of affinity, policy or nice value.
    pub refused_changes: u64,
    /// Number of restarts that the scheduler requested.
    pub restarts: u64,
    /// Number of planned calls that failed.
    pub failed_calls: u64,
    /// Number of violations; `None` if not checked.
    pub violation_count: Option<u64>,
    /// Unreliable measures and the reasons.
    pub doubtful: Vec<(String, String)>,
    /// Values of the measures, in the order of the segment's first line.
    pub values: Vec<Option<u64>>,
    /// Histograms.
    pub histograms: Vec<Buckets>,
    /// Its tasks, where these are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskRow>,
}

/// A task of a finished run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Texts, in the order of the table's columns.
    pub texts: Vec<String>,
    /// Integers, in the order of the table's columns; `None` if unknown.
    pub values: Vec<Option<u64>>,
}

/// The first line of a segment, after magic and format.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Keys of the measures.
    measures: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    id: String,
    run: T,
}

/// Place of a result.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: u32,
    /// Bytes from the start of the segment to the JSON, and its length.
    at: u64,
    length: u32,
    checksum: u64,
}

struct Segment {
    path: PathBuf,
    /// For each wanted measure its place in the segment's values.
    places: Vec<Option<usize>>,
    open: Option<File>,
}

/// The finished runs of a directory.
pub struct Store {
    segments: Vec<Segment>,
    index: BTreeMap<RunId, Place>,
    torn: u64,
    opened: usize,
}

impl Store {
    /// Finds the finished runs below these directories; a directory that does not exist has none. `measures` are the
    /// keys of the values of [`Store::read`].
    ///
    /// # Errors
    /// If a file cannot be read, is no segment, or contradicts another one.
    pub fn open(directories: &[&Path], measures: &[&str]) -> Result<Store, StoreError> {
        let mut store = Store { segments: Vec::new(), index: BTreeMap::new(), torn: 0, opened: 0 };
        for directory in directories {
            for path in segments(&directory.join(SEGMENTS))? {
                store.add(path, measures)?;
            }
        }
        Ok(store)
    }

    /// Number of finished runs, of whatever campaign.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no run is finished.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Number of incomplete or damaged lines.
    pub fn torn(&self) -> u64 {
        self.torn
    }

    /// Whether a run is finished.
    pub fn has(&self, id: RunId) -> bool {
        self.index.contains_key(&id)
    }

    /// All finished runs, by identity.
    pub fn ids(&self) -> impl Iterator<Item = RunId> + '_ {
        self.index.keys().copied()
    }

    /// The result of a run, with the values of the wanted measures; `None` if it is not finished.
    ///
    /// # Errors
    /// If its segment cannot be read.
    pub fn read(&mut self, id: RunId) -> Result<Option<Finished>, StoreError> {
        let Some(&Place { segment, at: offset, length, .. }) = self.index.get(&id) else { return Ok(None) };
        let Segment { path, places, open } = &mut self.segments[segment as usize];
        let mut bytes = vec![0; length as usize];
        match open {
            Some(file) => file.read_exact_at(&mut bytes, offset).map_err(at(path))?,
            None => {
                let file = File::open(&*path).map_err(at(path))?;
                file.read_exact_at(&mut bytes, offset).map_err(at(path))?;
                if self.opened < OPEN {
                    self.opened += 1;
                    *open = Some(file);
                }
            }
        }
        let line: Line<Finished> = serde_json::from_slice(&bytes)
            .map_err(|error| at(path)(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let mut run = line.run;
        run.values =
            places.iter().map(|place| place.and_then(|place| run.values.get(place).copied().flatten())).collect();
        run.histograms.retain(|all| all.from.len() == all.count.len() && all.to.len() == all.count.len());
        Ok(Some(run))
    }

    fn add(&mut self, path: PathBuf, measures: &[&str]) -> Result<(), StoreError> {
        let number = self.segments.len() as u32;
        let mut input = BufReader::with_capacity(1 << 18, File::open(&path).map_err(at(&path))?);
        let (mut line, mut offset) = (Vec::new(), 0);
        let mut places = None;
        loop {
            line.clear();
            let read = io::Read::take(&mut input, LONGEST).read_until(b'\n', &mut line).map_err(at(&path))? as u64;
            if read == 0 {
                break;
            }
            let complete = line.strip_suffix(b"\n");
            match (&places, complete) {
                (None, Some(first)) => {
                    let keys = head(first).ok_or_else(|| StoreError::Foreign { path: path.clone() })?;
                    places = Some(measures.iter().map(|want| keys.iter().position(|key| key == want)).collect());
                }
                // The process was killed before it wrote any run.
                (None, None) => self.torn += 1,
                (Some(_), complete) => match complete.and_then(record) {
                    None => self.torn += 1,
                    Some((id, checksum)) => {
                        let at = offset + CHECKSUM as u64 + 1;
                        let length = (read - CHECKSUM as u64 - 2) as u32;
                        self.insert(id, Place { segment: number, at, length, checksum }, &path)?;
                    }
                },
            }
            offset += read;
        }
        self.segments.push(Segment { path, places: places.unwrap_or_default(), open: None });
        Ok(())
    }

    fn insert(&mut self, id: RunId, place: Place, path: &Path) -> Result<(), StoreError> {
        let before = *self.index.entry(id).or_insert(place);
        if before.checksum == place.checksum {
            return Ok(());
        }
        let first = self.segments.get(before.segment as usize).map_or(path, |segment| &segment.path).to_owned();
        Err(StoreError::Conflict { id, first, second: path.to_owned() })
    }
}

/// The segments of a directory, by name.
fn segments(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(directory))?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(at(directory)));
    let mut paths = paths.collect::<Result<Vec<_>, _>>()?;
    // Opening a FIFO would wait for a writer.
    paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING) && path.is_file());
    paths.sort();
    Ok(paths)
}

/// Keys of the measures in the first line.
fn head(line: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(line).ok()?;
    let json = text.strip_prefix(&format!("{MAGIC} {FORMAT} "))?;
    serde_json::from_str::<Head>(json).ok().map(|head| head.measures)
}

/// Identity and checksum of a line that is whole.
fn record(line: &[u8]) -> Option<(RunId, u64)> {
    let (checksum, json) = line.split_at_checked(CHECKSUM)?;
    let checksum = u64::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    let json = json.strip_prefix(b" ")?;
    if xxh3_64(json) != checksum {
        return None;
    }
    let id = json.strip_prefix(BEFORE_ID.as_bytes())?.get(..ID)?;
    Some((RunId::parse(std::str::from_utf8(id).ok()?)?, checksum))
}

/// Adds finished runs to a directory. Its segment is created with the first run.
pub struct Appender {
    directory: PathBuf,
    head: String,
    open: Option<(PathBuf, File)>,
    synced: Instant,
}

impl Appender {
    /// Adds runs whose values are those of these measures. Creates the directory.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn new(directory: &Path, measures: &[&str]) -> Result<Appender, StoreError> {
        let directory = directory.join(SEGMENTS);
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        let measures = measures.iter().map(|key| (*key).to_owned()).collect();
        let head = serde_json::to_string(&Head { measures }).expect("a list of texts");
        Ok(Appender { directory, head: format!("{MAGIC} {FORMAT} {head}\n"), open: None, synced: Instant::now() })
    }

    /// Adds a run. When this returns, a kill of the process does not lose it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, id: RunId, run: &Finished) -> Result<(), StoreError> {
        let json = serde_json::to_string(&Line { id: id.to_string(), run }).expect("a struct with text keys");
        let line = format!("{:0CHECKSUM$x} {json}\n", xxh3_64(json.as_bytes()));
        if self.open.is_none() {
            self.open = Some(self.create()?);
        }
        let (path, file) = self.open.as_mut().expect("it was created");
        // One call: what a kill leaves of a line is its beginning.
        file.write_all(line.as_bytes()).map_err(at(path))?;
        if self.synced.elapsed() >= SYNC {
            file.sync_data().map_err(at(path))?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// Makes all added runs survive a loss of power.
    ///
    /// # Errors
    /// If the disk reports one.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.open.as_ref().map_or(Ok(()), |(path, file)| file.sync_all().map_err(at(path)))
    }

    /// Makes the names of new files survive a loss of power: a file's sync does not include its name.
    fn sync_directories(&self) -> Result<(), StoreError> {
        self.directory.ancestors().take(2).try_for_each(|directory| {
            let opened = File::open(directory).and_then(|directory| directory.sync_all());
            opened.map_err(at(directory))
        })
    }

    fn create(&self) -> Result<(PathBuf, File), StoreError> {
        loop {
            let path = self.directory.join(format!("{:016x}.{ENDING}", RandomState::new().build_hasher().finish()));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => {
                    let mut file = opened.map_err(at(&path))?;
                    file.write_all(self.head.as_bytes()).map_err(at(&path))?;
                    self.sync_directories()?;
                    return Ok((path, file));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [&str; 2] = ["makespan_ns", "wakeups"];

    fn run(number: u64) -> Finished {
        let buckets = Buckets { measure: "w".to_owned(), from: vec![1], to: vec![2], count: vec![number] };
        let values = vec![Some(number), None];
        Finished { outcome: "completed".to_owned(), values, histograms: vec![buckets], ..Finished::default() }
    }

    fn append(directory: &Path, numbers: std::ops::Range<u64>) {
        let mut appender = Appender::new(directory, &KEYS).unwrap();
        for number in numbers {
            appender.append(RunId(number.into()), &run(number)).unwrap();
        }
        appender.sync().unwrap();
    }

    fn files(directory: &Path) -> Vec<PathBuf> {
        segments(&directory.join(SEGMENTS)).unwrap()
    }

    #[test]
    fn runs_of_several_processes_are_read_back_once() {
        let directory = tempfile::tempdir().unwrap();
        append(directory.path(), 0..5);
        append(directory.path(), 3..8);
        let mut store = Store::open(&[directory.path()], &["wakeups", "new", "makespan_ns"]).unwrap();
        assert_eq!((store.len(), store.torn()), (8, 0));
        let read = store.read(RunId(4)).unwrap().unwrap();
        assert_eq!((read.values, read.histograms), (vec![None, None, Some(4)], run(4).histograms));
        assert_eq!(store.read(RunId(8)).unwrap(), None);
        assert!(Store::open(&[&directory.path().join("none")], &KEYS).unwrap().is_empty());
    }

    #[test]
    fn different_results_of_a_run_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        append(directory.path(), 0..2);
        let mut other = Appender::new(directory.path(), &KEYS).unwrap();
        other.append(RunId(1), &run(7)).unwrap();
        let error = Store::open(&[directory.path()], &KEYS).err().unwrap().to_string();
        assert!(error.starts_with("run 00000000000000000000000000000001 has two different results, in "), "{error}");
    }

    #[test]
    fn file_of_another_format_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        append(directory.path(), 0..1);
        let path = directory.path().join(SEGMENTS).join("x.runs");
        fs::write(&path, "weir-runs 2 {}\n").unwrap();
        let error = Store::open(&[directory.path()], &KEYS).err().unwrap().to_string();
        assert!(error.ends_with("x.runs:1: expected the first line of a file of runs, format 1; move this file away"));
    }

    /// A FIFO is ignored like these two, whose opening fails at once.
    #[test]
    fn only_regular_files_are_segments() {
        let directory = tempfile::tempdir().unwrap();
        append(directory.path(), 0..2);
        let path = directory.path().join(SEGMENTS);
        fs::create_dir(path.join("directory.runs")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket.runs")).unwrap();
        assert_eq!(Store::open(&[directory.path()], &KEYS).unwrap().len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A kill leaves any beginning of a segment.
        #[test]
        fn beginning_of_a_segment_has_the_runs_before_the_cut(cut in 0.0f64..1.0) {
            let directory = tempfile::tempdir().unwrap();
            append(directory.path(), 0..9);
            let path = files(directory.path()).remove(0);
            let bytes = fs::read(&path).unwrap();
            let cut = (bytes.len() as f64 * cut) as usize;
            fs::write(&path, &bytes[..cut]).unwrap();
            let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
            let is_torn = cut > 0 && bytes[cut - 1] != b'\n';
            let mut store = Store::open(&[directory.path()], &KEYS).unwrap();
            prop_assert_eq!((store.len(), store.torn()), (whole, is_torn.into()));
            append(directory.path(), 0..9);
            store = Store::open(&[directory.path()], &KEYS).unwrap();
            prop_assert_eq!(store.len(), 9);
            for number in 0..9 {
                prop_assert_eq!(store.read(RunId(number.into())).unwrap(), Some(run(number)));
            }
        }

        /// A damaged line is never taken for a result.
        #[test]
        fn damaged_byte_loses_at_most_two_runs(at in 0usize..10_000, flip in 1u8..=255) {
            let directory = tempfile::tempdir().unwrap();
            append(directory.path(), 0..9);
            let path = files(directory.path()).remove(0);
            let mut bytes = fs::read(&path).unwrap();
            let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let at = first + at % (bytes.len() - first);
            bytes[at] ^= flip;
            fs::write(&path, &bytes).unwrap();
            let mut store = Store::open(&[directory.path()], &KEYS).unwrap();
            prop_assert!(store.len() >= 7 && store.torn() > 0);
            for id in store.ids().collect::<Vec<_>>() {
                prop_assert_eq!(store.read(id).unwrap(), Some(run(id.0 as u64)));
            }
        }
    }
}
