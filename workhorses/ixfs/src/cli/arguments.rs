// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use ixfs::server::Durability;
use std::path::PathBuf;

/// Serve a file tree from memory and keep it safe on disk
///
/// The master copy of all files is in memory; the store on disk is there to survive halts and power cuts. Three levels
/// of durability have names: in memory (a crash loses it), logged (fsync returned), snapshotted (in a snapshot).
#[derive(Parser)]
#[command(
    name = "ixfs",
    version,
    // The width of a small terminal; the default is 100.
    term_width = 80,
    after_help = "Exit status: 0 all is well; 1 a store is or was damaged, or an operation
failed; 2 wrong usage or input.

Examples:
  ixfs mkfs --size 2G store.ixfs
  ixfs mount store.ixfs /mnt
  ixfs status --watch /mnt
  ixfs archive /mnt
  umount /mnt && ixfs check store.ixfs"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Mkfs(Mkfs),
    Mount(Mount),
    Serve(Serve),
    Check(Check),
    Status(Status),
    Archive(Archive),
    Dump(Dump),
    Bench(Bench),
    /// Mount the do-nothing memory file system that `bench` compares with
    #[command(hide = true)]
    Floor {
        /// Directory to mount at
        directory: PathBuf,
    },
    /// Print the man page
    Man,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Create a store
#[derive(Args)]
#[command(after_help = "Example:
  ixfs mkfs --size 2G store.ixfs

The store is a sparse file of a little more than twice the quota, for it holds
two snapshots while one replaces the other, and the room for archived epochs.")]
pub struct Mkfs {
    /// File to create, or block device to overwrite
    pub store: PathBuf,
    /// Quota of memory for files and metadata
    #[arg(long, default_value = "1G", value_parser = size)]
    pub size: u64,
    /// Room for archived epochs beside the live tree; default: the quota
    #[arg(long, value_parser = size)]
    pub archive_space: Option<u64>,
    /// Room for big files beside the quota: files of a sixteenth of it or more leave memory when it runs short
    #[arg(long, value_parser = size, default_value = "0")]
    pub big_files: u64,
    /// Replace an existing store
    #[arg(long)]
    pub force: bool,
}

/// Mount a store at a directory, through FUSE
#[derive(Args)]
#[command(after_help = "Examples:
  ixfs mount store.ixfs /mnt
  ixfs mount --size 8G store.ixfs /mnt
  ixfs mount --durability everysec store.ixfs /mnt

Unmount with umount, or with SIGTERM to the server: it waits until no program
uses the directory, and a second SIGTERM does not wait.")]
pub struct Mount {
    /// The store
    pub store: PathBuf,
    /// Directory to mount at
    pub directory: PathBuf,
    /// Create a store with this quota if there is none
    #[arg(long, value_parser = size)]
    pub size: Option<u64>,
    #[command(flatten)]
    pub running: Running,
    /// Threads that answer the kernel
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
}

/// Serve a store over 9P2000.L
#[derive(Args)]
#[command(after_help = "Examples:
  ixfs serve store.ixfs --unix ixfs.9p
  mount -t 9p -o trans=unix,version=9p2000.L ixfs.9p /mnt
  ixfs serve store.ixfs --tcp 127.0.0.1:5640

The unix socket takes the user from the peer's credentials. TCP has no
authentication: any client can claim to be any user, so it binds to loopback
unless --allow-remote is given. End the server with SIGTERM.")]
#[command(group(clap::ArgGroup::new("interfaces").required(true).multiple(true).args(["unix", "tcp"])))]
pub struct Serve {
    /// The store
    pub store: PathBuf,
    /// Listen on a unix socket at this path
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Listen on this address and port
    #[arg(long, value_name = "ADDR")]
    pub tcp: Option<std::net::SocketAddr>,
    /// Allow a TCP address that other machines reach
    #[arg(long, requires = "tcp")]
    pub allow_remote: bool,
    /// Create a store with this quota if there is none
    #[arg(long, value_parser = size)]
    pub size: Option<u64>,
    #[command(flatten)]
    pub running: Running,
}

/// Options of everything that runs a server.
#[derive(Args)]
pub struct Running {
    /// When changes reach the disk
    #[arg(long, value_enum, default_value_t = When::Always)]
    pub durability: When,
    /// Stay in the foreground
    #[arg(long)]
    pub foreground: bool,
    /// Append messages to this file; default: standard error in the foreground, none in the background
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// fsync returns when the change is logged
    Always,
    /// fsync returns at once, changes are logged each second
    Everysec,
    /// fsync returns at once, changes wait for a snapshot
    Snapshot,
}

impl From<When> for Durability {
    fn from(when: When) -> Durability {
        match when {
            When::Always => Durability::Always,
            When::Everysec => Durability::Everysec,
            When::Snapshot => Durability::Snapshot,
        }
    }
}

/// Verify a store that is not in use
#[derive(Args)]
#[command(after_help = "Exit status: 0 sound; 1 damaged, and what was found or repaired is printed; 2 no
store, or it is in use. The server of a store that was just unmounted is waited
for.

Examples:
  ixfs check store.ixfs
  ixfs check --repair store.ixfs")]
pub struct Check {
    /// The store
    pub store: PathBuf,
    /// Mend what can be mended and write a new snapshot
    #[arg(long)]
    pub repair: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Show fill levels, loss window and fsync latency
#[derive(Args)]
#[command(after_help = "Examples:
  ixfs status --watch /mnt
  ixfs status --format json store.ixfs")]
pub struct Status {
    /// A store, or the directory where it is mounted
    pub place: PathBuf,
    /// Show it again every second
    #[arg(long)]
    pub watch: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Keep the present state as an epoch, list or drop epochs
#[derive(Args)]
#[command(after_help = "Examples:
  ixfs archive /mnt               freeze it, seen at /mnt/archive/YYYY/MMDD
  ixfs archive --list store.ixfs
  ixfs archive --keep 30 /mnt     drop all but the newest 30
  ixfs archive --export 2026/1128 store.ixfs > full.ixa
  ixfs archive --export 2026/1129 --since 2026/1128 store.ixfs > delta.ixa
  ixfs archive --import full.ixa copy.ixfs")]
pub struct Archive {
    /// A store, or the directory where it is mounted
    pub place: PathBuf,
    /// Name of the epoch, YYYY/MMDD or YYYY/MMDD.N; default: today's first that is free
    #[arg(long)]
    pub name: Option<String>,
    /// List epochs
    #[arg(long, conflicts_with_all = ["name", "keep", "export", "import"])]
    pub list: bool,
    /// Drop all epochs but the newest N
    #[arg(long, value_name = "N", conflicts_with_all = ["name", "export", "import"])]
    pub keep: Option<usize>,
    /// Write an epoch to standard output
    #[arg(long, value_name = "EPOCH", conflicts_with = "import")]
    pub export: Option<String>,
    /// With --export: write only the difference from this epoch
    #[arg(long, value_name = "EPOCH", requires = "export")]
    pub since: Option<String>,
    /// Apply an exported file to a store that is not in use
    #[arg(long, value_name = "FILE")]
    pub import: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Print the files of a store that is not in use
#[derive(Args)]
#[command(after_help = "One line a file: inode, mode, links, user, group, bytes, path.

Examples:
  ixfs dump store.ixfs
  ixfs dump --epoch 2026/1128 --format json store.ixfs")]
pub struct Dump {
    /// The store
    pub store: PathBuf,
    /// Print an archived epoch instead of the live tree
    #[arg(long)]
    pub epoch: Option<String>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Compare with the FUSE floor, tmpfs and the disk's file system
#[derive(Args)]
#[command(after_help = "Examples:
  ixfs bench /var/tmp
  ixfs bench --only fsync --rounds 31 /var/tmp
  ixfs bench --only none --recovery 1G /var/tmp
  ixfs bench --only none --tree src/project --command 'make -j2' /var/tmp

Each operation is measured on all four in turn, round by round; the table shows
medians, and medians and quartiles of the rounds' ratios. Needs user 0 to mount.
The floor is a memory file system on the same FUSE library that keeps nothing:
what takes longer than the floor is due to ixfs, the rest to FUSE.")]
pub struct Bench {
    /// Directory on the disk to compare with; everything created in it is removed
    pub directory: PathBuf,
    /// Rounds
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Rounds of --recovery and --tree
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub slow_rounds: u32,
    /// Files for the listing of a large directory
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub files: u32,
    /// Measure only operations whose name contains this, or none; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Quota of memory of the store
    #[arg(long, default_value = "2G")]
    pub size: String,
    /// Also measure the opening of a store with this many bytes of files, and the reading of as many bytes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub recovery: Option<u64>,
    /// Also measure --command in a copy of this directory on each file system but the floor
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// Shell command for --tree
    #[arg(long, default_value = "make", requires = "tree")]
    pub command: String,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

impl Format {
    pub fn is_json(self) -> bool {
        self == Format::Json
    }
}

/// Parses a size like `2G`, `512M` or `1048576`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" | "KiB" | "k" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1_u64 << 40,
        unit => return Err(format!("unknown unit {unit:?}: expected K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number, then K, M, G or T".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("2G"), Ok(2 << 30));
        assert_eq!(size("512"), Ok(512));
        assert!(size("2X").is_err() && size("G").is_err() && size("99999999T").is_err());
    }
}
