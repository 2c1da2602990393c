// SPDX-License-Identifier: GPL-2.0-only
//! Output files that are complete or absent.
//!
//! 1. A [`Target`] is checked before the work whose result it will hold, so that a directory that is missing or not
//!    writable costs no work.
//! 2. An [`OutputFile`] has no name while it is written, or a random one beside the target where the file system has no
//!    unnamed files. It is created exclusively and follows no link.
//! 3. [`OutputFile::finish`] syncs the file and renames it onto the target. Before that, and after any failure, the
//!    target has its old content.
//! 4. A target that is a symbolic link, a directory, a block device or a socket is refused. Pipes and character devices
//!    are written directly.

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::linkat;
use std::ffi::OsString;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permissions of a new file, before the umask.
const PUBLIC: u32 = 0o666;
/// Permissions of a new file that only its owner may read.
const PRIVATE: u32 = 0o600;
/// Names of standard output.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
/// Directories of the kernel, whose links name streams of this process and devices.
const KERNEL: [&str; 2] = ["/dev", "/proc/self/fd"];
/// Number of random names that are tried before giving up.
const NAMES: usize = 100;

/// Error of an output file.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The target has a type that cannot be written.
    #[error("cannot write {path}: it is {found}; expected {expected}", path = path.display())]
    Kind {
        /// The target.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// An operation of the file system failed.
    #[error("cannot write {path}: {source}", path = path.display())]
    Io {
        /// The target.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Readers that a new file is meant for. A file that replaces another one never has more permissions than that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privacy {
    /// As the umask allows.
    Public,
    /// The owner only: the content may have secrets, such as command lines with passwords.
    Private,
}

/// Identity of an existing file: its device and inode numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(u64, u64);

impl FileId {
    /// Identity of the file with this metadata.
    pub fn of(metadata: &Metadata) -> FileId {
        FileId(metadata.dev(), metadata.ino())
    }
}

/// A checked place for an output.
#[derive(Clone, Debug)]
pub struct Target {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A regular file, existing or new, in this directory.
    File {
        directory: PathBuf,
        name: OsString,
        mode: u32,
    },
    /// An existing pipe or character device.
    Stream,
    Stdout,
}

impl Target {
    /// Checks that a file, pipe or character device can be written.
    ///
    /// # Errors
    /// If `path` is a symbolic link or of another type, if its directory is missing or not writable, or if an existing
    /// file is not writable.
    pub fn check(path: &Path, privacy: Privacy) -> Result<Target, OutputError> {
        Target::of(path, privacy, true)
    }

    /// As [`Target::check`], but refuses pipes and devices: for files of which only the name is given by the program.
    ///
    /// # Errors
    /// As [`Target::check`].
    pub fn check_file(path: &Path, privacy: Privacy) -> Result<Target, OutputError> {
        Target::of(path, privacy, false)
    }

    fn of(path: &Path, privacy: Privacy, streams: bool) -> Result<Target, OutputError> {
        let io = |source| OutputError::Io { path: path.to_owned(), source };
        let target = |kind| Target { path: path.to_owned(), kind };
        if streams && STDOUT.iter().any(|name| path == Path::new(name)) {
            return Ok(target(Kind::Stdout));
        }
        let is_kernels = KERNEL.iter().any(|directory| path.parent() == Some(Path::new(directory)));
        let found = match if is_kernels { fs::metadata(path) } else { fs::symlink_metadata(path) } {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io(error)),
        };
        let mode = match privacy {
            Privacy::Public => PUBLIC,
            Privacy::Private => PRIVATE,
        };
        let mode = match &found {
            None => mode,
            Some(there) if there.is_file() => {
                OpenOptions::new().write(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path).map_err(io)?;
                mode & there.permissions().mode() & 0o777
            }
            Some(there) if streams && is_stream(there.file_type()) => return Ok(target(Kind::Stream)),
            Some(there) => {
                let expected = if streams { "a regular file, pipe or character device" } else { "a regular file" };
                return Err(OutputError::Kind { path: path.to_owned(), found: describe(path, there), expected });
            }
        };
        let Some(name) = path.file_name() else {
            return Err(io(io::Error::new(io::ErrorKind::InvalidInput, "expected a file name")));
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let target = target(Kind::File { directory: directory.to_owned(), name: name.to_owned(), mode });
        target.create().map(|_| target)
    }

    /// Path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Directory of the file; `None` for pipes and devices.
    pub fn directory(&self) -> Option<&Path> {
        match &self.kind {
            Kind::File { directory, .. } => Some(directory),
            Kind::Stream | Kind::Stdout => None,
        }
    }

    /// Identity of the regular file that exists there now.
    pub fn existing(&self) -> Option<FileId> {
        matches!(self.kind, Kind::File { .. }).then_some(())?;
        fs::symlink_metadata(&self.path).ok().map(|there| FileId::of(&there))
    }

    /// Starts to write. Nothing is at the target until [`OutputFile::finish`], unless it is a pipe or a device.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(&self) -> Result<OutputFile, OutputError> {
        let (file, temporary) = match &self.kind {
            Kind::File { directory, name, mode } => create(directory, name, *mode),
            Kind::Stream => OpenOptions::new().write(true).open(&self.path).map(|file| (file, None)),
            Kind::Stdout => io::stdout().as_fd().try_clone_to_owned().map(|fd| (File::from(fd), None)),
        }
        .map_err(|source| OutputError::Io { path: self.path.clone(), source })?;
        Ok(OutputFile { target: self.clone(), out: Some(BufWriter::new(file)), temporary, bytes: 0 })
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// If it cannot be written; the target is unchanged then.
    pub fn write(&self, bytes: &[u8]) -> Result<(), OutputError> {
        let mut out = self.create()?;
        out.write_all(bytes).map_err(|source| OutputError::Io { path: self.path.clone(), source })?;
        out.finish().map(|_| ())
    }
}

fn is_stream(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device()
}

fn describe(path: &Path, there: &Metadata) -> String {
    match there.file_type() {
        kind if kind.is_symlink() => {
            let to = fs::read_link(path).map(|to| format!(" to {}", to.display())).unwrap_or_default();
            format!("a symbolic link{to}")
        }
        kind if kind.is_dir() => "a directory".to_owned(),
        kind if kind.is_socket() => "a socket".to_owned(),
        kind if kind.is_fifo() => "a pipe".to_owned(),
        kind if kind.is_block_device() => "a block device".to_owned(),
        _ => "a device".to_owned(),
    }
}

/// Creates a file without a name, or with a random one, which is returned.
fn create(directory: &Path, name: &OsString, mode: u32) -> io::Result<(File, Option<PathBuf>)> {
    let mut unnamed = OpenOptions::new();
    unnamed.read(true).write(true).mode(mode).custom_flags(OFlag::O_TMPFILE.bits());
    match unnamed.open(directory) {
        Ok(file) => return Ok((file, None)),
        // File systems without unnamed files answer with one of these.
        Err(error) => match error.raw_os_error().map(nix::errno::Errno::from_raw) {
            Some(nix::errno::Errno::EOPNOTSUPP | nix::errno::Errno::EISDIR | nix::errno::Errno::EINVAL) => {}
            _ => return Err(error),
        },
    }
    named(directory, name, |path| OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path))
        .map(|(file, path)| (file, Some(path)))
}

/// Calls `create`, which never replaces a file, with random names until one is free.
fn named<T>(directory: &Path, name: &OsString, create: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    for _ in 0..NAMES {
        let mut random = OsString::from(".");
        random.push(name);
        random.push(format!(".{:016x}", RandomState::new().build_hasher().finish()));
        let path = directory.join(random);
        match create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // The target's name is as long as names may be.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename && name != "weir" => {
                return named(directory, &"weir".into(), create);
            }
            result => return result.map(|made| (made, path)),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "every random name exists"))
}

/// While it exists, signals that would end the process wait for this thread.
struct Unended(SigSet);

impl Unended {
    fn begin() -> io::Result<Unended> {
        let signals: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM].into_iter().collect();
        Ok(Unended(signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?))
    }
}

impl Drop for Unended {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}

/// A file that is being written. Dropping it leaves the target as it was.
#[derive(Debug)]
pub struct OutputFile {
    target: Target,
    /// `None` once it is finished.
    out: Option<BufWriter<File>>,
    /// Its name, where it has one.
    temporary: Option<PathBuf>,
    bytes: u64,
}

impl OutputFile {
    /// Puts the complete file at its target. Returns its length in bytes.
    ///
    /// # Errors
    /// If it cannot be written, synced or renamed; the target is unchanged then.
    pub fn finish(mut self) -> Result<u64, OutputError> {
        let bytes = self.bytes;
        self.place().map_err(|source| OutputError::Io { path: self.target.path.clone(), source })?;
        Ok(bytes)
    }

    fn place(&mut self) -> io::Result<()> {
        let out = self.out.take().expect("a file is finished once");
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let Kind::File { directory, name, .. } = &self.target.kind else { return Ok(()) };
        file.sync_all()?;
        // Between its own name and that of its target, a file would be left behind.
        let _unended = Unended::begin()?;
        if self.temporary.is_none() {
            // A file can replace another one only by its name.
            let link = format!("/proc/self/fd/{}", file.as_raw_fd());
            let give = |path: &Path| {
                linkat(AT_FDCWD, link.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW).map_err(io::Error::from)
            };
            self.temporary = Some(named(directory, name, give)?.1);
        }
        let temporary = self.temporary.as_ref().expect("it has a name now");
        // A link that appeared since the check is replaced, not followed.
        fs::rename(temporary, directory.join(name))?;
        self.temporary = None;
        // Some file systems cannot sync a directory; the file is in place all the same.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.as_mut().expect("it is not finished").write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().expect("it is not finished").flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            let _ = fs::remove_file(path);
        }
        // What a buffer still holds of an unfinished file is of no use.
        if let Some(out) = self.out.take().filter(|_| matches!(self.target.kind, Kind::File { .. })) {
            drop(out.into_parts());
        }
    }
}
