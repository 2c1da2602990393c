// SPDX-License-Identifier: GPL-2.0-only
//! Command-line grammar. Commands with many arguments of their own have them beside their code.

mod explain;
mod shipped;

mod check;

use crate::saved::Which;
pub use check::{Check, CheckFormat};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use ids::Nanos;
use kernel_model::KernelTypes;
use launch_profile::PlannedCall;
use machine_model::{Effect, NoiseSource};
use simulator::KernelName;
use std::ffi::OsString;
use std::path::PathBuf;

pub use explain::{Explain, Waits};
#[cfg(feature = "generate")]
pub use shipped::Generated;
pub use shipped::{Generate, Kind, List};

/// Runs sched_ext schedulers on simulated machines and in this machine's kernel.
#[derive(Parser, Debug)]
#[command(
    name = "weir",
    version = crate::output::FULL_VERSION,
    after_help = "\
Examples:
  weir list                           what ships with weir
  weir machine host                   this machine, as a file to edit
  weir sim bfs                        a recorded build under bfs, on the host
  weir sim fifo bfs -m laptop-2c4t    what differs between two schedulers
  weir sim fifo bfs --report a.html   the same as a page, with plots
  weir run bfs -- make -j4            a build under bfs, in the kernel (root)
  weir record -o my.weir -- make -j4  record a workload (root)
  weir explain run.weirrun            why tasks of a saved run waited
  weir meter locks run.weirrun        which locks its tasks and CPUs waited for
  weir scale kernel --cpus 1,2,4,8,16,32 -m server-64 -w build,jobs=64

Exit status: 0 fine, 1 a scheduler was ejected or something else was wrong with
the run, 2 bad usage or input; the help of each command says more."
)]
pub struct Args {
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands of `weir`.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List shipped policies, machines, workloads and measures
    List(List),
    /// Print a machine description as a file to edit
    Machine(Machine),
    /// Run schedulers on simulated machines
    Sim(Sim),
    /// Property-test a scheduler on random machines and workloads
    Check(Check),
    /// Analyse a workload: work, span, parallelism
    Workload(Workload),
    /// Show what a BPF object contains and what it needs
    Inspect(Inspect),
    /// Run and measure in this machine's kernel (root)
    Run(Run),
    /// Measure locks, states of tasks, wakeups or interrupts
    Meter(crate::meter::args::Meter),
    /// Fit Gunther's law to throughput by CPUs, jobs or clients
    Scale(crate::scale::args::Scale),
    /// Measure throughput and latency of requests by their rate
    Load(crate::load::args::Load),
    /// Do the runs of a campaign file; results as Parquet tables
    #[cfg(feature = "sweep")]
    Sweep(crate::sweep::args::Sweep),
    /// Judge what authors of schedulers claimed
    Claims(crate::claims::args::ClaimsArgs),
    /// Compare saved runs, simulated and real
    Compare(Compare),
    /// Explain long waits, ejections and the critical path of a run
    Explain(Explain),
    /// Write a saved run as an HTML page
    Report(Report),
    /// Record a command's scheduling as a workload (root)
    Record(Record),
    /// Write man pages, completions, headers or objects to install
    #[command(hide = true)]
    Generate(Generate),
    /// Bring CPUs back online when standard input closes
    ///
    /// Started by `weir run --faults`, in case that process is killed.
    #[command(hide = true)]
    GuardCpus {
        /// CPUs that must be online
        online: String,
        /// CPUs that must be offline
        offline: String,
    },
}

/// `weir machine`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
M is host, a preset (see weir list machines), a machine file (TOML), an hwloc
XML file (lstopo FILE.xml), or an hwloc synthetic string (the output of
lstopo --of synthetic). The word measure instead of M measures this machine.

Examples:
  weir machine > my.toml                          describe this machine
  weir sim bfs -m my.toml                         the same as -m host
  weir machine server-64                          a preset, with sources
  weir machine other.xml > other.toml             convert an hwloc XML file
  weir machine measure                            measure this machine's costs
  weir machine measure --keys --format json       only costs a file may hold
  weir machine 'node:2 core:8 pu:2' --format json | jq .summary"
)]
pub struct Machine {
    /// Machine to print
    #[arg(value_name = "M", default_value = "host")]
    pub machine: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = MachineFormat::Toml)]
    pub format: MachineFormat,
    /// Measure only the costs that have a key in machine files
    #[arg(long)]
    pub keys: bool,
}

/// Output formats of `weir machine`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum MachineFormat {
    Toml,
    Json,
}

/// Output formats of results: text for people, JSON and CSV for programs. The values have no help of their own, which
/// would double the length of clap's help.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Format {
    Text,
    Json,
    Csv,
}

/// `weir sim`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
SCHED is one of
  NAME[@PRESET][,key=value...]   a policy (see weir list policies)
  FILE.bpf.o[,key=value...]      a compiled sched_ext object
  FILE.bpf.c[,key=value...]      its source, compiled with clang
                                 (-I and -D in BPF_CFLAGS)
  kernel                         the default scheduler (EEVDF and the real-time
                                 classes): no BPF scheduler is loaded
The launch profile of an object or a source is --profile, or FILE.toml in the
same directory.

Examples:
  weir sim bfs
  weir sim kernel bfs -m laptop-2c4t
  weir sim fifo bfs --machine laptop-2c4t --machine desktop-4c
  weir sim fifo bfs -w preempt-mix --seeds 32
  weir sim bfs -m 'node:2 core:8 pu:2' -w video.json --for 10s --seed 7
  weir sim bfs -m server-64 -w build,jobs=64 -w build,jobs=128
  weir sim bfs -m nix-32 -w hogs --kernel 7.2+waiting
  weir sim kernel bfs -w video+build,jobs=8,nice=19
  weir sim ./my.bpf.o,slice_us=500 --workload build --trace my.pftrace
  weir sim ./my.bpf.c fifo -w preempt-mix --watch
  weir sim ./my.bpf.c -w preempt-mix --coverage
  weir sim kernel bfs -w video --report film.html
  weir sim nix@groups -m server-64 -w hogs --call switch_groups:steal=0@2s
  weir sim bfs --format json | jq '.runs[0].wakeup_latency_ns'

Exit status: 0 fine, 1 a scheduler was ejected, the workload deadlocked, an
invariant was violated, or a program called with --call did not return 0,
2 bad usage or input."
)]
pub struct Sim {
    /// Run these schedulers; several are compared
    #[arg(required = true, value_name = "SCHED")]
    pub schedulers: Vec<String>,
    /// Simulate this machine; repeat to compare machines
    ///
    /// M is a preset (see weir list machines), a TOML file, an hwloc XML file, an hwloc synthetic string, or host. Keys of
    /// its file can be changed: desktop-4c,llc_kb=1024 (docs/reference/machine-files.md).
    #[arg(short, long = "machine", value_name = "M", default_value = "host")]
    pub machines: Vec<String>,
    /// Run this workload; repeat to compare workloads
    ///
    /// W is [LABEL=]NAME or [LABEL=]FILE (rt-app JSON or a recording), with any of ,jobs= ,nice= ,policy= ,cpus=
    /// ,uid= ,group= ,cap= ,hard-cap= ,start= ,count= and ,slow=TASK:FACTOR. Several joined by + run as one workload
    /// (docs/reference/workloads.md).
    #[arg(short, long = "workload", value_name = "W", default_value = "build")]
    pub workloads: Vec<String>,
    /// End each run after this simulated time, such as 500ms
    ///
    /// [default: set by the workload]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Run with this random seed; 0 is the nominal run [default: 0]
    ///
    /// A seed samples the noise in which two real runs differ (docs/explanation/noise.md). Seed 0 samples none.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Run seeds 1 to N and test differences for significance
    ///
    /// [default: 16 if schedulers are compared]
    #[arg(long, value_name = "N", conflicts_with = "seed", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// Sample the machine's uncertain constants N times
    ///
    /// Each sample runs with every seed [default seeds: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub draws: Option<u64>,
    /// Model this kernel version: 7.2, 6.18 or host
    ///
    /// 6.18 differs in the default scheduler only, which has no HRTICK yet. host selects the version whose default
    /// scheduler is most like that of this machine's kernel.
    ///
    /// Append +ticket or +test-and-set for kernel spin locks of that kind, as before Linux 4.2, and +waiting to
    /// interleave kernel operations at lock waits: exact latencies under contention, at a slower simulation.
    #[arg(long, value_name = "VERSION", default_value = "7.2", value_parser = kernel_name)]
    pub kernel: KernelName,
    /// Take the kernel's types from this BTF, such as /sys/kernel/btf/vmlinux
    ///
    /// Objects are linked against its structs, members and constants instead of those of 7.2.
    #[arg(long, value_name = "FILE", value_parser = kernel_types)]
    pub btf: Option<KernelTypes>,
    /// Leave out effects: smt, capacity, frequency, idle-states, locks, caches,
    /// numa, bandwidth, disks, network, page-cache, tlb, interrupts
    #[arg(long, value_name = "EFFECT", value_delimiter = ',')]
    pub without: Vec<Effect>,
    /// Give each machine a disk, such as sda=hdd-7200,spindles=8
    ///
    /// DISK is [NAME=]PRESET{,key=value} with the keys of a machine file (docs/reference/machine-files.md); presets are
    /// hdd-7200, ssd-sata, nvme, ram and recorded. The name is sda by default; a disk of the same name is replaced.
    #[arg(long = "disk", value_name = "DISK")]
    pub disks: Vec<String>,
    /// Give each machine a network, such as eth0=1gbe,server_ns=200000
    ///
    /// NETWORK is [NAME=]PRESET{,key=value} with the keys of a machine file; presets are 1gbe and loopback. The name is eth0
    /// by default; a network of the same name is replaced.
    #[arg(long = "network", value_name = "NETWORK")]
    pub networks: Vec<String>,
    /// Give each machine a page cache of this size, such as 512
    ///
    /// CACHE is MIB{,key=value} with the keys of [page_cache] in a machine file. Requests with "cached": true use it; without
    /// it they are direct I/O.
    #[arg(long, value_name = "CACHE")]
    pub page_cache: Option<String>,
    /// Bring only the first N CPUs of each machine online
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: Option<u32>,
    /// Turn off sources of noise, such as threads,order
    ///
    /// docs/explanation/noise.md lists them.
    #[arg(long, value_name = "SOURCE", value_delimiter = ',')]
    pub noise_off: Vec<NoiseSource>,
    /// Check the promises in the scheduler's launch profile
    ///
    /// The built-in invariants are checked in every run. Exit status 1 if a promise is broken.
    #[arg(long)]
    pub check: bool,
    /// Also report what no promise forbids and few schedulers intend
    ///
    /// A task that waits for 30 ms beside an idle CPU or for seconds, equal tasks with unequal CPU time, a heavier task
    /// with less CPU time, a virtual time that stands still. Exit status 1 as for a broken promise.
    #[arg(long)]
    pub warn: bool,
    /// Inject faults: CPU hotplug, suspend, clock steps and drift
    ///
    /// PLAN is a list such as cpu3:offline@1s,cpu3:online@2s,suspend@3s+500ms or cpu1:clock+1s@2s or
    /// cpu1:drift+200ppm@0s, or a TOML file with such a plan.
    #[arg(long, value_name = "PLAN")]
    pub faults: Option<String>,
    /// Call a syscall program of the scheduler during the run
    ///
    /// assign:group=db,cpus=3@1s calls the program `assign` 1 s after the start with these values in its context.
    /// Repeat the option for several calls.
    #[arg(long = "call", value_name = "CALL")]
    pub calls: Vec<PlannedCall>,
    /// Use this launch profile for schedulers given as paths
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Allow the maps of a scheduler this much memory [default: 512]
    ///
    /// An object whose maps take more is refused before they are allocated.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub map_memory: Option<u64>,
    /// Run again whenever an input file changes, until Ctrl-C
    ///
    /// Input files are the files named on the command line and the headers that a source includes.
    #[arg(long)]
    pub watch: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Show all measures, not only the most important
    #[arg(long)]
    pub all: bool,
    /// Compare each pair of setups in the text, not only each with the first
    #[arg(long)]
    pub pairs: bool,
    /// Write a trace for ui.perfetto.dev; single runs only
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write every event, as JSON lines if FILE is *.jsonl
    ///
    /// Single runs only.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Count executions of each policy source line
    ///
    /// The counts of all runs are summed and printed with the source, or written to FILE in the format of lcov and
    /// genhtml.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub coverage: Option<Option<PathBuf>>,
    /// Save the runs to FILE for weir compare and weir explain
    ///
    /// Customary suffix: .weirrun. The file holds all inputs, which reproduce the runs.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write the report as a self-contained HTML page
    ///
    /// The page has tables, plots, timelines and tasks, and loads nothing from the network.
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

/// `weir inspect`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Examples:
  weir inspect bfs
  weir inspect ./my.bpf.o
  weir inspect ./my.bpf.o --profile > my.toml   a launch profile to edit
  weir inspect ./my.bpf.o --format json | jq .lacks

Exit status: 0 fine, 2 bad usage or input."
)]
pub struct Inspect {
    /// Policy name, or path of a compiled object or its source
    #[arg(value_name = "OBJECT")]
    pub object: String,
    /// Print the beginning of a launch profile instead
    #[arg(long)]
    pub profile: bool,
    /// Output format: text or json
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `weir run`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
SCHED is written as for weir sim. Without it, or with kernel, weir measures the
scheduler that is already active, on any kernel with BTF. Loading a scheduler
needs a kernel with sched_ext (6.12 or later). Both need root.

With a command or a workload, its tasks are measured as in a simulated run, and
the report is printed when all of them have exited. With --format json the
command's standard output is redirected to standard error, so that standard
output has only the JSON. Without a command or workload, weir runs until Ctrl-C
or SIGTERM and prints a line of machine-wide statistics every second.

The scheduler is unloaded when weir exits. If the kernel ejects it, weir prints
the reason; a command then continues under the default scheduler, unmeasured.
Ctrl-C and SIGTERM are passed on to the command, and the report follows when it
has exited. If the scheduler exits with a restart code because of CPU hotplug,
it is loaded again.

With --tui the terminal shows the run live: each CPU's utilization by the run's
tasks and by others, its waiting tasks, wakeup latencies, the tasks that waited
longest, and the number of waiting tasks over time. q and Ctrl-C end the run.
The command's output is printed after the screen closes; its standard input is
empty. Without a terminal, --tui prints lines as --stats 1 does. The queues of a
scheduler cannot be observed in a real kernel.

With --faults real CPUs go offline and online and the real machine suspends.
Times count from the start of the command or workload. Faults that this machine
does not support are rejected before the run starts. When weir exits, even by
SIGKILL, the set of online CPUs is restored. But affinities may change
permanently: a task pinned only to offlined CPUs may run anywhere afterwards,
unless it slept the whole time or --keep-affinity restores its affinity; and
cgroup v1 cpusets lose the offlined CPUs.

With --call weir calls a BPF program of the scheduler (section syscall) as its
user space would, at a time counted from the start. A program that does not
return 0 is reported, and the exit status is 1.

The groups of a workload are cgroups (cgroup v2) below weir.PID during the run
and are removed afterwards. Cgroups left by a killed weir are removed when weir
next runs.

Examples:
  sudo weir run bfs                         until Ctrl-C
  sudo weir run bfs -- make -j4
  sudo weir run -- make -j4                 the default scheduler
  sudo weir run bfs --faults cpu1:offline@2s,cpu1:online@5s -- make -j4
  sudo weir run nix@groups --call switch_groups:steal=0,donate=0@5s -- make -j4
  sudo weir run bfs -w preempt-mix          weir sim's workload as real tasks
  sudo weir run --format json -- ./a.out | jq '.runs[0].wakeup_latency_ns'
  sudo weir run bfs@gc --keep-affinity      affinities as in the -gc branch
  sudo weir run --tui -- make -j4           watch the run live
  sudo weir run --monitor 5                 only print statistics

Exit status: 0 fine, 1 the scheduler was ejected, the command or a call failed,
or events were lost, 2 bad usage or input."
)]
pub struct Run {
    /// Load this scheduler [default: measure the active one]
    #[arg(value_name = "SCHED")]
    pub scheduler: Option<String>,
    /// Execute this workload with real tasks instead of a command
    ///
    /// W is a name, an rt-app JSON file, or a recording.
    #[arg(short, long, value_name = "W", conflicts_with = "command")]
    pub workload: Option<String>,
    /// Execute requests to a disk in this directory
    ///
    /// DISK is [NAME=]DIRECTORY[,size=BYTES], such as sda=/mnt/test,size=1G; the name is sda by default. The requests of
    /// the workload are direct I/O in a file of that size (256M by default), which has no name and is gone afterwards.
    #[arg(long = "disk", value_name = "DISK", requires = "workload")]
    pub disks: Vec<String>,
    /// End the run after this time, such as 10s or 500ms
    ///
    /// A command gets SIGTERM.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Inject real faults: CPU hotplug and suspend
    ///
    /// PLAN is written as for weir sim: cpu3:offline@1s,cpu3:online@2s,suspend@3s+2s, or a TOML file with such a
    /// plan.
    #[arg(long, value_name = "PLAN")]
    pub faults: Option<String>,
    /// Call a syscall program of the scheduler during the run
    ///
    /// CALL is written as for weir sim: assign:group=db,cpus=3@1s.
    #[arg(long = "call", value_name = "CALL")]
    pub calls: Vec<PlannedCall>,
    /// Check the promises in the scheduler's launch profile
    ///
    /// Promises that cannot be checked in a real kernel are listed.
    #[arg(long)]
    pub check: bool,
    /// Restore affinities that CPU hotplug has widened
    ///
    /// The kernel widens the affinity of a task when the last of its CPUs goes offline. Weir restores it as soon as
    /// one of these CPUs is back online.
    #[arg(long)]
    pub keep_affinity: bool,
    /// Use this launch profile for a scheduler given as a path
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Print machine-wide statistics every SECS seconds
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub stats: Option<u64>,
    /// Show the run live on the whole terminal
    ///
    /// It shows CPUs, waits and the tasks that waited longest. Without a terminal, plain lines are printed.
    #[arg(long, conflicts_with = "stats")]
    pub tui: bool,
    /// Only print machine-wide statistics every SECS seconds
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=86_400),
          conflicts_with_all = ["scheduler", "stats", "tui", "trace", "save", "report", "command", "workload", "faults",
                                "calls", "check"])]
    pub monitor: Option<u64>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write a trace of the run for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Save the run to FILE for weir compare and weir explain
    ///
    /// Customary suffix: .weirrun. The file holds every event.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write the report as a self-contained HTML page
    ///
    /// The page has tables, plots, timelines and tasks, and loads nothing from the network.
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    /// Command to run, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `weir compare`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Each FILE is a saved run (weir sim --save, weir run --save) or the output of
--format json. Simulated runs with the same seed are compared pairwise.

Examples:
  weir sim kernel -w preempt-mix --seeds 16 --save sim.weirrun
  sudo weir run -w preempt-mix --save real-1.weirrun        (several times)
  weir compare sim.weirrun real-*.weirrun
  weir compare yesterday.json today.json --all
  weir compare sim.weirrun real-*.weirrun --report differences.html

Exit status: 0 fine, 1 some run did not complete, 2 bad usage or input."
)]
pub struct Compare {
    /// Saved runs, or runs as JSON
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Show all measures, not only the most important
    #[arg(long)]
    pub all: bool,
    /// Compare each pair of setups in the text, not only each with the first
    #[arg(long)]
    pub pairs: bool,
    /// Write the comparison as a self-contained HTML page
    ///
    /// The page has tables, plots, timelines and tasks, and loads nothing from the network.
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

/// `weir report`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
FILE is a saved run (weir sim --save, weir run --save) or the output of
--format json. The page is a single file that loads nothing from the network,
for any browser of 2024 or later. weir sim, weir run and weir compare write the
same page with --report.

Examples:
  weir sim kernel bfs -w video --save film.weirrun
  weir report film.weirrun                      writes film.html
  weir report film.weirrun -o /tmp/film.html
  weir sim kernel bfs -w video --report film.html

Exit status: 0 fine, 1 some run did not complete, 2 bad usage or input."
)]
pub struct Report {
    /// Saved run, or runs as JSON
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the page to this file [default: FILE with .html]
    #[arg(short, long, value_name = "OUT.html")]
    pub output: Option<PathBuf>,
}

/// `weir workload`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Examples:
  weir workload build
  weir workload video+build,jobs=8
  weir workload make.weir --format json | jq '.chain[] | .task'
  weir workload hogs --for 1s

The workload is executed on an ideal machine: as many CPUs as it can use, no
overhead. The time it takes there is its span; no machine is faster. Work W,
span S and the work C of the critical path bound the run time T on P CPUs:
T >= max(W/P, S), and T <= S + (W - C)/P if no CPU idles while a task is
runnable that may run there.

Exit status: 0 fine, 2 bad usage or input."
)]
pub struct Workload {
    /// Workload to analyse: [LABEL=]NAME or FILE[,key=value...]
    ///
    /// Several joined by + are one workload (docs/reference/workloads.md).
    #[arg(value_name = "W")]
    pub workload: String,
    /// Analyse only the first TIME, such as 10s
    ///
    /// [default: all, or as set by the workload]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `weir record`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Examples:
  sudo weir record -- make -j4                  writes make.weir
  sudo weir record -o build.weir -- make -j4
  sudo weir record --for 10s -- my-server       the first ten seconds
  sudo weir record -p 4711 --for 10s            a running server
  sudo weir record -a --for 10s                 all processes of the machine
  weir sim bfs --workload build.weir            replays it
  weir workload build.weir                      how many CPUs it can use

Ctrl-C and SIGTERM are passed on to the command. When it exits, the recording
ends and is written. It holds the command line of each process unless --no-argv
is given. A recording is cut after 33 million operations (40 s of nothing but
wakeups). Linux 6.4 or later with BTF is required.

Exit status: 0 fine, 1 the command failed or events were lost, 2 bad usage or input."
)]
pub struct Record {
    /// Write to FILE [default: the command's name with .weir]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// End the recording after this time, such as 10s
    ///
    /// The command gets SIGTERM.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Omit command arguments, which may hold passwords or tokens
    #[arg(long)]
    pub no_argv: bool,
    /// Record running processes, threads and descendants included
    ///
    /// The recording ends when all have exited, at Ctrl-C, or after --for.
    #[arg(short, long, value_name = "PID", num_args = 1.., value_delimiter = ',', conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// Record all processes of the machine
    ///
    /// The recording ends at Ctrl-C or after --for.
    #[arg(short, long, conflicts_with_all = ["pid", "command"])]
    pub all: bool,
    /// Command to record, with its arguments
    #[arg(last = true, required_unless_present_any = ["pid", "all"], value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Reads the BTF of a kernel.
fn kernel_types(path: &str) -> Result<KernelTypes, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    KernelTypes::parse(path, &bytes).map_err(|error| error.to_string())
}

/// Parses a kernel version; `host` stands for the modelled version nearest to this machine's kernel.
pub(crate) fn kernel_name(text: &str) -> Result<KernelName, String> {
    match text {
        "host" => {
            host::kernel_release().map(|release| KernelName::nearest(&release)).map_err(|error| error.to_string())
        }
        _ => text.parse(),
    }
}

/// Parses a time since the start of a run; 0 is allowed.
fn moment(text: &str) -> Result<Nanos, String> {
    text.parse().map_err(|error: ids::ParseNanosError| error.to_string())
}

/// Parses a duration above 0.
pub(crate) fn duration(text: &str) -> Result<Nanos, String> {
    let expected = "expected a time above 0 with its unit (ns, us, ms, s, min or h), such as 10s or 500ms";
    text.parse().ok().filter(|&time| time > Nanos::ZERO).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn durations_need_a_unit_and_are_above_zero() {
        let good = [
            ("10s", 10_000_000_000),
            ("1.5s", 1_500_000_000),
            ("500ms", 500_000_000),
            ("1ns", 1),
            ("2min", 120_000_000_000),
        ];
        for (text, ns) in good {
            assert_eq!(duration(text), Ok(Nanos(ns)), "{text}");
        }
        for text in
            ["", "10", "s", "0s", "-1s", "1.2.3s", "1d", "99999999999999999999s", "9999999h", "0.0000000001s", ".s"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
