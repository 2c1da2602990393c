// SPDX-License-Identifier: GPL-2.0-only
//! Disks of a workload that is executed: each is a file in a directory that the user names.
//!
//! 1. The file has no name, so it is gone when the execution ends, whatever ends it. On a file system without unnamed
//!    files it is removed as soon as it is open.
//! 2. All its blocks are written before the execution: reads then reach the device, and writes find their space.
//! 3. Requests use direct I/O. On a file system without direct I/O, a write returns when the device has it (`O_DSYNC`),
//!    and a read may come from the page cache; a note says so.
//! 4. Cached requests go through the page cache of the kernel; `fsync` is `fdatasync(2)`. The fill of the file was direct, so
//!    that nothing of it is in the cache at the beginning.
//! 5. Direct I/O transfers whole blocks: lengths are rounded up and positions down to multiples of [`BLOCK`].

use super::ExecuteError;
use host::sys;
use ids::TaskId;
use measures::DiskMeasures;
use nix::sys::statvfs::statvfs;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use workload::{DiskId, Io, IoPlace, Op, TaskSpec, Workload};

/// Unit of lengths and positions: a multiple of the logical block of every common device.
const BLOCK: u64 = 4096;

/// Longest transfer of one system call; a longer request takes several.
const LONGEST: u64 = 8 << 20;

/// Directory in which the requests to a disk are executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskDirectory {
    /// Name of the disk in the workload.
    pub name: String,
    /// An existing directory.
    pub directory: PathBuf,
    /// Length of the file that is made there, in bytes.
    pub bytes: u64,
}

impl DiskDirectory {
    /// Length of the file unless another one is given: 256 MiB.
    pub const BYTES: u64 = 256 << 20;

    /// Parses `[NAME=]DIRECTORY[,size=BYTES]`. The name is `sda` by default; BYTES may end in K, M, G or T.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<DiskDirectory, String> {
        const EXPECTED: &str = "expected [NAME=]DIRECTORY[,size=BYTES], such as sda=/mnt/test,size=1G";
        let (head, bytes) = match text.rsplit_once(",size=") {
            None => (text, DiskDirectory::BYTES),
            Some((head, size)) => {
                let most = 1 << 44;
                let bytes = bytes(size).filter(|bytes| (BLOCK..=most).contains(bytes) && bytes % BLOCK == 0);
                let wrong = || format!("size={size}; expected a multiple of 4K up to 16T, such as 256M");
                (head, bytes.ok_or_else(wrong)?)
            }
        };
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let (name, directory) = match head.split_once('=') {
            Some((name, directory)) if is_name(name) => (name, directory),
            _ => ("sda", head),
        };
        if directory.is_empty() {
            return Err(format!("no directory; {EXPECTED}"));
        }
        Ok(DiskDirectory { name: name.to_owned(), directory: PathBuf::from(directory), bytes })
    }
}

fn bytes(text: &str) -> Option<u64> {
    let suffixes = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let found = suffixes.iter().find_map(|&(suffix, shift)| Some((text.strip_suffix(suffix)?, shift)));
    let (number, shift) = found.unwrap_or((text, 0));
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A disk in use.
#[derive(Debug)]
struct Opened {
    description: DiskDirectory,
    file: File,
    /// The same file without direct I/O, for cached requests.
    cached: File,
    is_direct: bool,
    measures: Mutex<DiskMeasures>,
}

/// All disks of a workload.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    opened: Vec<Opened>,
    /// Place in `opened`, by the number of the disk in the workload.
    of_workload: Vec<usize>,
    /// Whether the length of any request is no multiple of [`BLOCK`].
    rounds: bool,
}

impl Disks {
    /// Makes and fills the files for all disks that the workload uses.
    pub fn open(workload: &Workload, given: &[DiskDirectory]) -> Result<Disks, ExecuteError> {
        let name = &workload.name;
        let mut given = given.to_vec();
        given.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twice) = given.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(ExecuteError::DiskTwice { disk: twice[0].name.clone() });
        }
        let find = |disk: &String| {
            let place = given.iter().position(|given| disk.is_empty() || given.name == *disk);
            place.ok_or_else(|| ExecuteError::NoDisk { workload: name.clone(), disk: disk.clone() })
        };
        let of_workload = workload.disks.iter().map(find).collect::<Result<Vec<usize>, ExecuteError>>()?;
        if let Some(unused) = (0..given.len()).find(|place| !of_workload.contains(place)) {
            return Err(ExecuteError::UnusedDisk { workload: name.clone(), disk: given[unused].name.clone() });
        }
        let mut rounds = false;
        for io in workload.tasks.iter().flat_map(|task| &task.script).filter_map(request) {
            let DiskDirectory { name, bytes, .. } = &given[of_workload[io.disk.0 as usize]];
            if io.bytes > *bytes {
                return Err(ExecuteError::LongRequest { disk: name.clone(), bytes: io.bytes, size: *bytes });
            }
            rounds |= io.bytes % BLOCK != 0;
        }
        let opened = given.into_iter().map(open).collect::<Result<Vec<Opened>, ExecuteError>>()?;
        Ok(Disks { opened, of_workload, rounds })
    }

    /// Sentences on what differs from direct I/O of exactly the lengths in the workload.
    pub fn notes(&self) -> Vec<String> {
        let cached = self.opened.iter().filter(|disk| !disk.is_direct).map(|disk| {
            let DiskDirectory { name, directory, .. } = &disk.description;
            format!("disk {name}: {} has no direct I/O, so reads may come from the page cache", directory.display())
        });
        let rounded = self.rounds.then(|| format!("requests to disks are rounded up to multiples of {BLOCK} bytes"));
        cached.chain(rounded).collect()
    }

    /// Adds what a task did.
    pub fn add(&self, user: &DiskUser) {
        for (place, own) in &user.measures {
            let mut sum = self.opened[*place].measures.lock().unwrap_or_else(PoisonError::into_inner);
            sum.reads += own.reads;
            sum.writes += own.writes;
            sum.read_bytes += own.read_bytes;
            sum.written_bytes += own.written_bytes;
            sum.latencies.add(&own.latencies);
        }
    }

    /// Writes the dirty pages of a disk (`fdatasync(2)`), those of other tasks included.
    pub fn sync(&self, disk: DiskId) -> Result<(), ExecuteError> {
        let Opened { description, cached, .. } = &self.opened[self.of_workload[disk.0 as usize]];
        cached.sync_data().map_err(|source| ExecuteError::Directory {
            disk: description.name.clone(),
            directory: description.directory.clone(),
            action: "sync a file in",
            hint: String::new(),
            source,
        })
    }

    /// Takes what all tasks did.
    pub fn take_measures(&self) -> Vec<DiskMeasures> {
        let take = |disk: &Opened| {
            let mut sum = disk.measures.lock().unwrap_or_else(PoisonError::into_inner);
            DiskMeasures { name: disk.description.name.clone(), ..std::mem::take(&mut *sum) }
        };
        self.opened.iter().map(take).collect()
    }
}

fn request(op: &Op) -> Option<&Io> {
    if let Op::Io(io) = op { Some(io) } else { None }
}

/// Makes and fills the file of a disk.
fn open(description: DiskDirectory) -> Result<Opened, ExecuteError> {
    let DiskDirectory { name, directory, bytes } = &description;
    let failed = |action: &'static str, source: io::Error| ExecuteError::Directory {
        disk: name.clone(),
        directory: directory.clone(),
        action,
        hint: match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
                format!("; its file has {bytes} bytes, and ,size= asks for another length")
            }
            _ => String::new(),
        },
        source,
    };
    let metadata = fs::metadata(directory).map_err(|source| failed("use the directory", source))?;
    if !metadata.is_dir() {
        return Err(failed("use the directory", io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    // Asked first, so that a file system is not filled before it turns out to be too small. Some do not tell.
    let free = statvfs(directory).ok().filter(|free| free.blocks() > 0);
    if free
        .is_some_and(|free| u128::from(free.blocks_available()) * u128::from(free.fragment_size()) < u128::from(*bytes))
    {
        return Err(failed("make a file in", io::Error::from_raw_os_error(libc::ENOSPC)));
    }
    let direct = unnamed_file(directory, name, libc::O_DIRECT);
    // A file system may refuse direct I/O when the file is opened, or when it is used.
    let direct = direct.and_then(|file| {
        let block = Buffer::new(BLOCK);
        file.write_all_at(block.first(BLOCK), 0).map(|()| file)
    });
    let (file, is_direct) = match direct {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            (unnamed_file(directory, name, libc::O_DSYNC).map_err(|source| failed("make a file in", source))?, false)
        }
        direct => (direct.map_err(|source| failed("make a file in", source))?, true),
    };
    let buffer = Buffer::new(LONGEST.min(*bytes));
    let mut at = 0;
    while at < *bytes {
        let length = LONGEST.min(bytes - at);
        file.write_all_at(buffer.first(length), at).map_err(|source| failed("fill a file in", source))?;
        at += length;
    }
    file.sync_all().map_err(|source| failed("sync a file in", source))?;
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let cached = OpenOptions::new().read(true).write(true).open(again);
    let cached = cached.map_err(|source| failed("open a file again in", source))?;
    Ok(Opened { description, file, cached, is_direct, measures: Mutex::default() })
}

/// Opens a new file that has no name, or none any more.
fn unnamed_file(directory: &Path, disk: &str, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE | flags).open(directory) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {
            let path = directory.join(format!(".weir-{}-{disk}", sys::process_id()));
            let file = options.create_new(true).custom_flags(flags).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        file => file,
    }
}

/// Memory that is aligned for direct I/O, with bytes that do not compress.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn new(length: u64) -> Buffer {
        let mut bytes = vec![0u8; (length + BLOCK) as usize];
        let mut state = 1;
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&random(&mut state).to_le_bytes()));
        let start = bytes.as_ptr().align_offset(BLOCK as usize);
        Buffer { bytes, start }
    }

    fn first(&self, length: u64) -> &[u8] {
        &self.bytes[self.start..self.start + length as usize]
    }

    fn first_mut(&mut self, length: u64) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + length as usize]
    }
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A task that uses disks.
#[derive(Debug)]
pub(crate) struct DiskUser {
    buffer: Buffer,
    /// State of its random positions.
    state: u64,
    /// End of its last request to each disk of the workload.
    ends: BTreeMap<u32, u64>,
    /// What it did, by the place of the disk.
    measures: BTreeMap<usize, DiskMeasures>,
}

impl DiskUser {
    /// Allocates memory for the longest request of the task; `None` if it makes none.
    pub fn of(spec: &TaskSpec, task: TaskId) -> Option<DiskUser> {
        let longest = spec.script.iter().filter_map(request).map(|io| io.bytes).max()?;
        let buffer = Buffer::new(longest.next_multiple_of(BLOCK).min(LONGEST));
        Some(DiskUser { buffer, state: u64::from(task.0) << 32, ends: BTreeMap::new(), measures: BTreeMap::new() })
    }

    /// Executes a request.
    pub fn request(&mut self, disks: &Disks, io: &Io) -> Result<(), ExecuteError> {
        let place = disks.of_workload[io.disk.0 as usize];
        let Opened { description, file, cached, .. } = &disks.opened[place];
        let file = if io.cached { cached } else { file };
        let bytes = io.bytes.next_multiple_of(BLOCK);
        let start = self.start(io, bytes, description.bytes);
        let begin = sys::now();
        let mut done = 0;
        while done < bytes {
            let length = LONGEST.min(bytes - done);
            let result = match io.write {
                true => file.write_all_at(self.buffer.first(length), start + done),
                false => file.read_exact_at(self.buffer.first_mut(length), start + done),
            };
            result.map_err(|source| ExecuteError::Directory {
                disk: description.name.clone(),
                directory: description.directory.clone(),
                action: if io.write { "write to a file in" } else { "read from a file in" },
                hint: String::new(),
                source,
            })?;
            done += length;
        }
        let measures = self.measures.entry(place).or_default();
        let (count, sum) = match io.write {
            true => (&mut measures.writes, &mut measures.written_bytes),
            false => (&mut measures.reads, &mut measures.read_bytes),
        };
        (*count, *sum) = (*count + 1, *sum + bytes);
        measures.latencies.record(sys::now().since(begin));
        Ok(())
    }

    /// First byte of a request of `bytes` in a file of `size`, as on a simulated disk of that capacity, but so that the
    /// request ends within the file.
    fn start(&mut self, io: &Io, bytes: u64, size: u64) -> u64 {
        let last = size - bytes;
        let bits = u128::from(random(&mut self.state));
        let anywhere = |size: u64| ((bits * u128::from((size - bytes) / bytes + 1)) >> 64) as u64 * bytes;
        let wanted = match io.place {
            IoPlace::Random if io.within > 0 => anywhere(size.min(io.within.next_multiple_of(BLOCK).max(bytes))),
            IoPlace::Random => anywhere(size),
            IoPlace::At(byte) => byte % size / BLOCK * BLOCK,
            IoPlace::Sequential => self.ends.get(&io.disk.0).copied().unwrap_or_else(|| anywhere(size)),
        };
        let start = if wanted > last { 0 } else { wanted };
        self.ends.insert(io.disk.0, start + bytes);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_directory_is_parsed_with_name_and_size() {
        let parse = |text: &str| DiskDirectory::parse(text).map(|disk| (disk.name, disk.directory, disk.bytes));
        let expected = |name: &str, directory: &str, bytes| Ok((name.to_owned(), PathBuf::from(directory), bytes));
        assert_eq!(parse("/mnt"), expected("sda", "/mnt", 256 << 20));
        assert_eq!(parse("vdb=./x,size=8K"), expected("vdb", "./x", 8_192));
        assert_eq!(parse("./a=b"), expected("sda", "./a=b", 256 << 20), "a name has no dots and slashes");
        assert!(parse("sda=").unwrap_err().starts_with("no directory; expected [NAME=]DIRECTORY"));
        for size in ["5000", "0", "17T", "1X", "99999999999999999999G"] {
            let expected = format!("size={size}; expected a multiple of 4K up to 16T, such as 256M");
            assert_eq!(parse(&format!("/mnt,size={size}")), Err(expected));
        }
    }

    #[test]
    fn requests_stay_within_the_file_and_sequential_ones_follow_each_other() {
        let io = |place, bytes| Io { disk: DiskId(0), write: false, bytes, place, cached: false, within: 0 };
        let mut user =
            DiskUser { buffer: Buffer::new(BLOCK), state: 7, ends: BTreeMap::new(), measures: BTreeMap::new() };
        let size = 5 * BLOCK;
        let mut seen: Vec<u64> =
            (0..200).map(|_| user.start(&io(IoPlace::Random, 1), 2 * BLOCK, size) / BLOCK).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [0, 2], "a third request of two blocks would end behind the file");
        assert_eq!(user.start(&io(IoPlace::At(BLOCK + 9), 1), BLOCK, size), BLOCK);
        let mut within = |place| user.start(&Io { within: BLOCK, ..io(place, 1) }, BLOCK, size) / BLOCK;
        assert!((0..200).all(|_| within(IoPlace::Random) == 0), "one block is the whole region");
        assert_eq!(within(IoPlace::At(3 * BLOCK)), 3, "a region limits random positions only");
        assert_eq!(within(IoPlace::Sequential), 4);
        user.start(&io(IoPlace::At(BLOCK), 1), BLOCK, size);
        let next = |user: &mut DiskUser| user.start(&io(IoPlace::Sequential, 1), 2 * BLOCK, size) / BLOCK;
        assert_eq!([next(&mut user), next(&mut user), next(&mut user)], [2, 0, 2], "behind the end, it begins again");
    }
}
