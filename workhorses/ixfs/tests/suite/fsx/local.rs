// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of a mounted file system, used with system calls.

use super::exercise::{Interface, Kind, Operation};
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// Ends the server, cleanly or by a kill, and starts it again.
pub type Restart<'a> = Box<dyn FnMut(bool) -> io::Result<()> + 'a>;

/// The file. It is closed while the server restarts.
pub struct LocalFile<'a> {
    path: PathBuf,
    files: Option<Files>,
    kinds: Vec<Kind>,
    restart: Option<Restart<'a>>,
}

struct Files {
    cached: File,
    /// The same file with `O_DIRECT`; `None` if the file system lacks it.
    direct: Option<File>,
}

impl Files {
    fn open(path: &PathBuf) -> io::Result<Files> {
        let open = |flags| File::options().read(true).write(true).custom_flags(flags).open(path);
        Ok(Files { cached: open(0)?, direct: open(libc::O_DIRECT).ok() })
    }
}

/// Kinds that only some file systems have.
const OPTIONAL: [Kind; 9] = [
    Kind::MappedRead,
    Kind::MappedWrite,
    Kind::DirectRead,
    Kind::DirectWrite,
    Kind::Punch,
    Kind::Zero,
    Kind::Allocate,
    Kind::Copy,
    Kind::Holes,
];
const ALWAYS: [Kind; 6] = [Kind::Read, Kind::Write, Kind::Truncate, Kind::Sync, Kind::Forget, Kind::Reopen];

impl<'a> LocalFile<'a> {
    /// Creates the file, and finds out by trying which kinds of operations the file system has. `Stop` and `Kill` need
    /// `restart`.
    pub fn create(path: PathBuf, restart: Option<Restart<'a>>) -> io::Result<LocalFile<'a>> {
        File::create(&path)?;
        let files = Some(Files::open(&path)?);
        let mut file = LocalFile { path, files, kinds: ALWAYS.to_vec(), restart };
        if file.restart.is_some() {
            file.kinds.extend([Kind::Stop, Kind::Kill]);
        }
        for kind in OPTIONAL {
            // Bytes at odd addresses: direct I/O that needs an alignment is of no use here.
            let trial = Operation { kind, at: 1, len: 100, to: 201, keep: true };
            file.cached().set_len(400)?;
            match file.run(&trial, &[1; 100]) {
                Ok(_) => file.kinds.push(kind),
                Err(error) => {
                    let lacks = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL, libc::ENODEV, libc::EBADF];
                    if !lacks.map(Some).contains(&error.raw_os_error()) {
                        return Err(error);
                    }
                }
            }
        }
        file.cached().set_len(0)?;
        Ok(file)
    }

    fn cached(&self) -> &File {
        &self.files.as_ref().expect("the file is open").cached
    }

    fn direct(&self) -> io::Result<&File> {
        let files = self.files.as_ref().expect("the file is open");
        files.direct.as_ref().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Content by `SEEK_DATA` and `SEEK_HOLE`.
    fn data(&self, len: u64) -> io::Result<Vec<u8>> {
        let file = self.cached();
        // FUSE asks the server without writing pages to it that are dirty through a map.
        file.sync_data()?;
        let mut content = vec![0; len as usize];
        let mut at = 0;
        while at < len {
            let data = match rustix::fs::seek(file, SeekFrom::Data(at)).map(|data| data.min(len)) {
                Err(rustix::io::Errno::NXIO) => break,
                data => data?,
            };
            at = rustix::fs::seek(file, SeekFrom::Hole(data))?.min(len);
            file.read_exact_at(&mut content[data as usize..at as usize], data)?;
        }
        Ok(content)
    }

    fn copy(&self, operation: &Operation) -> io::Result<()> {
        let (mut from, mut to) = (operation.at, operation.to);
        let end = operation.at + operation.len;
        while from < end {
            let rest = (end - from) as usize;
            if rustix::fs::copy_file_range(self.cached(), Some(&mut from), self.cached(), Some(&mut to), rest)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    fn allocate(&self, operation: &Operation, flags: FallocateFlags) -> io::Result<()> {
        let keep = if operation.keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        Ok(rustix::fs::fallocate(self.cached(), flags | keep, operation.at, operation.len)?)
    }

    fn restart(&mut self, kill: bool) -> io::Result<()> {
        self.cached().sync_all()?;
        self.files = None;
        if let Some(restart) = &mut self.restart {
            restart(kill)?;
        }
        self.files = Some(Files::open(&self.path)?);
        Ok(())
    }
}

/// Reads up to `len` bytes; fewer only at the end of the file.
fn read(file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    let mut have = 0;
    while have < bytes.len() {
        match file.read_at(&mut bytes[have..], at + have as u64)? {
            0 => break,
            n => have += n,
        }
    }
    bytes.truncate(have);
    Ok(bytes)
}

/// Reads a range through a shared map, or writes `bytes` to it.
#[allow(unsafe_code)]
fn mapped(file: &File, operation: &Operation, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let start = operation.at / 4096 * 4096;
    let (skip, len) = ((operation.at - start) as usize, operation.len as usize);
    let protection = if bytes.is_empty() { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE };
    // SAFETY: the kernel chooses the address, so no other memory of this process is replaced.
    let map = unsafe {
        libc::mmap(std::ptr::null_mut(), skip + len, protection, libc::MAP_SHARED, file.as_raw_fd(), start as i64)
    };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut out = Vec::new();
    // SAFETY: the map has `skip + len` bytes, all of them within the file, which nothing else uses meanwhile.
    unsafe {
        let range = map.cast::<u8>().add(skip);
        if bytes.is_empty() {
            out.resize(len, 0);
            range.copy_to_nonoverlapping(out.as_mut_ptr(), len);
        } else {
            range.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len().min(len));
            if operation.keep {
                libc::msync(map, skip + len, libc::MS_SYNC);
            }
        }
        libc::munmap(map, skip + len);
    }
    Ok(out)
}

impl Interface for LocalFile<'_> {
    fn kinds(&self) -> Vec<Kind> {
        self.kinds.clone()
    }

    fn run(&mut self, operation: &Operation, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let Operation { kind, at, len, .. } = *operation;
        match kind {
            Kind::Read => return read(self.cached(), at, len),
            Kind::DirectRead => return read(self.direct()?, at, len),
            Kind::MappedRead => return mapped(self.cached(), operation, &[]),
            Kind::MappedWrite => return mapped(self.cached(), operation, bytes),
            Kind::Holes => return self.data(len),
            Kind::Write => self.cached().write_all_at(bytes, at)?,
            Kind::DirectWrite => self.direct()?.write_all_at(bytes, at)?,
            Kind::Truncate => self.cached().set_len(at)?,
            Kind::Punch => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(self.cached(), flags, at, len)?;
            }
            Kind::Zero => self.allocate(operation, FallocateFlags::ZERO_RANGE)?,
            Kind::Allocate => self.allocate(operation, FallocateFlags::empty())?,
            Kind::Copy => self.copy(operation)?,
            Kind::Sync => self.cached().sync_all()?,
            Kind::Forget => {
                self.cached().sync_data()?;
                rustix::fs::fadvise(self.cached(), 0, None, Advice::DontNeed)?;
            }
            Kind::Reopen => {
                self.files = None;
                self.files = Some(Files::open(&self.path)?);
            }
            Kind::Stop => self.restart(false)?,
            Kind::Kill => self.restart(true)?,
        }
        Ok(Vec::new())
    }

    fn len(&mut self) -> io::Result<u64> {
        Ok(self.cached().metadata()?.len())
    }
}
