// SPDX-License-Identifier: GPL-2.0-only
//! The grammar of the command line.

use crate::saved::Which;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use ids::Nanos;
use launch_profile::PlannedCall;
use machine_model::{Effect, NoiseSource};
use simulator::KernelName;
use std::ffi::OsString;
use std::path::PathBuf;

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

Exit status: 0 fine, 1 a scheduler was ejected or something else was wrong with
the run, 2 bad usage or input; the help of each command says more."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List what ships with weir, and the measures of its reports
    List(List),
    /// Print a machine as a file to edit
    Machine(Machine),
    /// Run schedulers on simulated machines
    Sim(Sim),
    /// Hold a scheduler to what it promises, in runs that seeds draw
    Check(Check),
    /// Tell what a workload contains, and how many CPUs it can use
    Workload(Workload),
    /// Tell what an object contains and needs
    Inspect(Inspect),
    /// Run and measure in this machine's kernel (root)
    Run(Run),
    /// Compare saved runs, simulated and real
    Compare(Compare),
    /// Tell why a task of a saved run waited, or why the run took so long
    Explain(Explain),
    /// Write a saved run as a page for a browser
    Report(Report),
    /// Record what a command does on this machine, as a workload (root)
    Record(Record),
    /// Write man pages, completions of shells, headers for policies, or the policies' objects into a folder, to be installed
    #[command(hide = true)]
    Generate(Generate),
    /// Bring CPUs back when standard input ends: for `weir run --faults`, should that be killed
    #[command(hide = true)]
    GuardCpus {
        /// Those that shall be online
        online: String,
        /// Those that shall not
        offline: String,
    },
}

/// `weir generate`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Examples:
  weir generate man /usr/local/share/man/man1
  weir generate completions .             weir (bash), _weir (zsh), weir.fish
  weir generate headers include           include/weir/scx.bpf.h and others
  weir generate objects lib/weir          bfs.bpf.o, bfs.toml and others

make install does all of this. Exit status: 0 fine, 2 bad usage or input."
)]
pub struct Generate {
    /// What to write
    pub what: Generated,
    /// Where; the folder is made if it is not there
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// What `weir generate` writes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Generated {
    Man,
    Completions,
    Headers,
    Objects,
}

/// What `weir list` lists.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Kind {
    Policies,
    Machines,
    Workloads,
    Measures,
}

/// `weir list`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Examples:
  weir list
  weir list policies
  weir list measures                  what the rows of reports are"
)]
pub struct List {
    /// Only these
    pub kind: Option<Kind>,
}

/// `weir machine`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
M is host, a preset (see weir list machines), a machine file (TOML), a file of
hwloc (lstopo FILE.xml), or what lstopo --of synthetic prints.

Examples:
  weir machine > my.toml                          this machine
  weir sim bfs -m my.toml                         the same as -m host
  weir machine server-64                          with the source of each number
  weir machine other.xml > other.toml             from lstopo other.xml, there
  weir machine measure                            what can be measured of it
  weir machine measure --keys --format json       in a second: costs for a file
  weir machine 'node:2 core:8 pu:2' --format json | jq .summary"
)]
pub struct Machine {
    /// The machine
    #[arg(value_name = "M", default_value = "host")]
    pub machine: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = MachineFormat::Toml)]
    pub format: MachineFormat,
    /// Of what can be measured, only what has a key in machine files
    #[arg(long)]
    pub keys: bool,
}

/// How a machine is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum MachineFormat {
    Toml,
    Json,
}

/// How the result is printed: for people, or for programs. (Help on values would make clap's help twice as long.)
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
SCHED is a policy, NAME[@PRESET][,key=value...] (see weir list policies), or the
path of a compiled sched_ext object, FILE.bpf.o[,key=value...], whose launch
profile is --profile or FILE.toml beside it, or the path of its source,
FILE.bpf.c, which clang compiles on the spot (-I and -D in BPF_CFLAGS). The name
kernel stands for the kernel's own scheduler (EEVDF and the real-time classes):
nothing is loaded.

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

Exit status: 0 fine, 1 a scheduler was ejected, the tasks wait for each other
for ever, something was broken that every run owes, or a program that --call
called did not return 0, 2 bad usage or input."
)]
pub struct Sim {
    /// Schedulers; several give a comparison
    #[arg(required = true, value_name = "SCHED")]
    pub schedulers: Vec<String>,
    /// Preset, TOML file, hwloc XML file, hwloc synthetic string, or host
    #[arg(short, long = "machine", value_name = "M", default_value = "host")]
    pub machines: Vec<String>,
    /// [LABEL=]NAME or FILE (rt-app JSON or a recording), with ,key=value for jobs, nice, policy, cpus, uid, group,
    /// cap, hard-cap, start, count or slow=TASK:FACTOR; several joined by + are one workload
    #[arg(short, long = "workload", value_name = "W", default_value = "build")]
    pub workloads: Vec<String>,
    /// End each run after this simulated time, such as 10s or 500ms [default: as the workload says]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Draws what differs between two real runs; 0 draws nothing: the nominal run [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Run with the seeds 1 to N, and mark what is larger than chance [default: 16 if schedulers are compared]
    #[arg(long, value_name = "N", conflicts_with = "seed", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// Draw the machine's uncertain numbers N times; each draw runs with every seed [default seeds: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub draws: Option<u64>,
    /// Kernel version to model: 7.2, or 6.18 for the kernel's own scheduler before HRTICK, or host for the one of them
    /// whose own scheduler is most like that of this machine's kernel. +ticket or +test-and-set
    /// behind it: with such locks, as kernels before 4.2; +waiting: what it does waits for locks while other CPUs go
    /// on (slower; right latencies where locks are fought for)
    #[arg(long, value_name = "VERSION", default_value = "7.2", value_parser = kernel_name)]
    pub kernel: KernelName,
    /// Effects of hardware to leave out: smt, frequency, idle-states, locks
    #[arg(long, value_name = "EFFECT", value_delimiter = ',')]
    pub without: Vec<Effect>,
    /// Sources of noise that draw nothing, such as threads,order (docs/explanation/noise.md)
    #[arg(long, value_name = "SOURCE", value_delimiter = ',')]
    pub noise_off: Vec<NoiseSource>,
    /// Hold each run to what its scheduler's profile promises as well as to what every run owes; a broken promise is
    /// exit status 1
    #[arg(long)]
    pub check: bool,
    /// What happens to the machine, such as cpu3:offline@1s,cpu3:online@2s,suspend@3s+500ms or cpu1:clock+1s@2s or
    /// cpu1:drift+200ppm@0s, or a TOML file of that
    #[arg(long, value_name = "PLAN")]
    pub faults: Option<String>,
    /// Call a program of the scheduler while it runs, such as assign:group=db,cpus=3@1s: `assign` after 1 s with these
    /// members of its context. It may stand several times
    #[arg(long = "call", value_name = "CALL")]
    pub calls: Vec<PlannedCall>,
    /// Launch profile of the schedulers that are given as paths
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Run again whenever a file that was named, or an included header, changes; until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Show all measures, not only those that matter most
    #[arg(long)]
    pub all: bool,
    /// Write a trace of the run for ui.perfetto.dev; one run only
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write every event of the run, as JSON lines if the name ends in .jsonl; one run only
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Show how often each line of the policies ran, in all runs together, or write it to FILE for lcov and genhtml
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub coverage: Option<Option<PathBuf>>,
    /// Write all that is known of the runs to FILE, such as a.weirrun, for weir compare and weir explain
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write the report as a page that needs no network: tables, plots, timelines, tasks
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

/// `weir check`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
SCHED is written as for weir sim; what it promises stands in its launch profile
(docs/reference/launch-profile.md). Each seed draws a machine, a workload, and now and
then a CPU that goes and comes. A run that breaks something is shown as the
command line that makes it again.

Examples:
  weir check bfs
  weir check ./my.bpf.c --seeds 50
  weir check kernel --first 1001 --seeds 1000
  weir check bfs --list | head -3     what would be run
  weir check bfs --format json | jq '.properties[] | select(.broken > 0)'

Exit status: 0 fine, 1 something was broken or the scheduler was ejected, 2 bad
usage or input."
)]
pub struct Check {
    /// The scheduler
    #[arg(value_name = "SCHED")]
    pub scheduler: String,
    /// How many runs
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub first: u64,
    /// Show the command lines and run nothing
    #[arg(long)]
    pub list: bool,
    /// Launch profile of a scheduler that is given as a path
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// How to print the result; there is no csv
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
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
    /// Name of a policy, or path of a compiled object or of its source
    #[arg(value_name = "OBJECT")]
    pub object: String,
    /// Print the beginning of a launch profile instead
    #[arg(long)]
    pub profile: bool,
    /// How to print what is found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `weir run`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
SCHED is written as for weir sim. Without it, or with kernel, the scheduler that
is there is measured, on any kernel with BTF; with it, a kernel with sched_ext
(6.12 or later) is needed. Both need root.

With a command or a workload, its tasks are measured as in a simulated run, and
the report follows when all have ended. With --format json what the command
writes to standard output goes to standard error: standard output has the JSON
alone. With neither, weir runs until Ctrl-C or SIGTERM and prints a line of
statistics of the whole machine each second. Either way the end of weir unloads
the scheduler. If the kernel ejects it, weir says why, and a command goes on
under the kernel's own, no longer measured. Ctrl-C and SIGTERM reach the command
as well, and the report follows when that has ended. If a CPU comes or goes and
the kernel wants that, the scheduler is loaded again.

With --tui the terminal shows the run as it passes: how busy each CPU is with
the run's tasks and with others, who waits there, how long woken tasks waited,
who waited most, and how many waited over time. q and Ctrl-C end the run. What
the command writes follows when the screen has gone, and the command reads
nothing. Without a terminal there are lines as of --stats 1. The queues of a
scheduler are not seen in a real kernel.

With --faults CPUs go and come, and the machine sleeps, for real. Times count
from the start of the command or the workload. What this machine cannot do is
refused before anything happens. However weir ends, CPUs are as they were found,
after SIGKILL too. But affinities may change for good: a task that may run on
such CPUs alone may run anywhere afterwards, unless it slept all the while or
--keep-affinity renews that; and cpusets of cgroup v1 lose them.

With --call a program of the scheduler in section syscall is called, as its user
space would call it, at a time that counts from the start as well. One that does
not return 0 is shown, and is exit status 1.

Groups of a workload are control groups (cgroup v2) below weir.PID while it
runs, and nothing of them is left afterwards. What a weir leaves that is killed
is removed when the next one starts.

Examples:
  sudo weir run bfs                         until Ctrl-C
  sudo weir run bfs -- make -j4
  sudo weir run -- make -j4                 the kernel's own scheduler
  sudo weir run bfs --faults cpu1:offline@2s,cpu1:online@5s -- make -j4
  sudo weir run nix@groups --call switch_groups:steal=0,donate=0@5s -- make -j4
  sudo weir run bfs -w preempt-mix          weir sim bfs -w ..., but real
  sudo weir run --format json -- ./a.out | jq '.runs[0].wakeup_latency_ns'
  sudo weir run bfs@gc --keep-affinity      as the -gc branch did it
  sudo weir run --tui -- make -j4           watch it on the whole terminal
  sudo weir run --monitor 5                 only watch

Exit status: 0 fine, 1 the scheduler was ejected, the command or a call failed,
or events were lost, 2 bad usage or input."
)]
pub struct Run {
    /// Scheduler to load [default: none, the one that is there is measured]
    #[arg(value_name = "SCHED")]
    pub scheduler: Option<String>,
    /// Play this with real threads: name, rt-app JSON file, or recording
    #[arg(short, long, value_name = "W", conflicts_with = "command")]
    pub workload: Option<String>,
    /// End the run after this time, such as 10s or 500ms: a command gets SIGTERM
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Do this to the machine, as weir sim does: cpu3:offline@1s,cpu3:online@2s,suspend@3s+2s, or a TOML file of that
    #[arg(long, value_name = "PLAN")]
    pub faults: Option<String>,
    /// Call a program of the scheduler while it runs, as weir sim does: assign:group=db,cpus=3@1s
    #[arg(long = "call", value_name = "CALL")]
    pub calls: Vec<PlannedCall>,
    /// Hold the run to what the scheduler's profile promises, as far as a real kernel shows that; what it does not show is told
    #[arg(long)]
    pub check: bool,
    /// Renew the affinity of tasks, which the kernel widens when their last CPU goes, as soon as one of theirs is back
    #[arg(long)]
    pub keep_affinity: bool,
    /// Launch profile of a scheduler that is given as a path
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Print statistics of the whole machine every so many seconds
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub stats: Option<u64>,
    /// Show the run as it passes on the whole terminal: CPUs, waits, who waits most. Plain lines if there is none
    #[arg(long, conflicts_with = "stats")]
    pub tui: bool,
    /// The same as --stats, and do nothing else
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=86_400),
          conflicts_with_all = ["scheduler", "stats", "tui", "trace", "save", "report", "command", "workload", "faults",
                                "calls", "check"])]
    pub monitor: Option<u64>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write a trace of the command's or the workload's run for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write all that is known of the run, each event too, to FILE, such as a.weirrun, for weir compare and weir explain
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write the report as a page that needs no network: tables, plots, timelines, tasks
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `weir compare`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Each FILE is a saved run (weir sim --save, weir run --save) or what
--format json printed. Simulated runs with the same seeds are compared in pairs.

Examples:
  weir sim kernel -w preempt-mix --seeds 16 --save sim.weirrun
  sudo weir run -w preempt-mix --save real-1.weirrun        (several times)
  weir compare sim.weirrun real-*.weirrun
  weir compare yesterday.json today.json --all
  weir compare sim.weirrun real-*.weirrun --report differences.html

Exit status: 0 fine, 1 some run did not come to its end, 2 bad usage or input."
)]
pub struct Compare {
    /// Saved runs, or JSON of runs
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Show all measures, not only those that matter most
    #[arg(long)]
    pub all: bool,
    /// Write the comparison as a page that needs no network: tables, plots, timelines, tasks
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

/// `weir report`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
FILE is a saved run (weir sim --save, weir run --save) or what --format json
printed. The page is one file, which works without a network in any browser of
2024 or later. weir sim, weir run and weir compare write the same with --report.

Examples:
  weir sim kernel bfs -w video --save film.weirrun
  weir report film.weirrun                      writes film.html
  weir report film.weirrun -o /tmp/film.html
  weir sim kernel bfs -w video --report film.html

Exit status: 0 fine, 1 some run did not come to its end, 2 bad usage or input."
)]
pub struct Report {
    /// A saved run, or JSON of runs
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where to write the page [default: the file's name with .html]
    #[arg(short, long, value_name = "OUT.html")]
    pub output: Option<PathBuf>,
}

/// `weir explain`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
FILE is what weir sim --save or weir run --save wrote. A simulated run is made
again, and told in more detail. Of a run in a real kernel no queue, callback or
line is seen. Without an option: the ejection if there was one, else the three
longest waits and the chain.

T is a task's name or its number in the kernel (cc1[131]: cc1 or 131).

Examples:
  weir sim bfs -w preempt-mix --save run.weirrun
  weir explain run.weirrun
  weir explain run.weirrun --worst 10
  weir explain run.weirrun --task hog-0 --at 1.5s
  weir explain run.weirrun --chain
  weir explain stalled.weirrun --ejection
  weir explain many.weirrun --scheduler bfs --seed 3 --worst 1
  weir explain run.weirrun --worst 1 --format json | jq '.waits[0].suspects'

Exit status: 0 fine, 2 bad usage or input."
)]
pub struct Explain {
    /// Saved runs
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Why this task waited: its longest wait, or that at --at
    #[arg(long, value_name = "T", conflicts_with_all = ["worst", "chain", "ejection"])]
    pub task: Option<String>,
    /// When, from the beginning of the run, such as 1.5s
    #[arg(long, value_name = "TIME", requires = "task", value_parser = moment)]
    pub at: Option<Nanos>,
    /// The N longest waits, after wakeups and others, in one sentence each, and in detail
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub worst: Option<u64>,
    /// Look only at waits of this kind
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Waits::All)]
    pub waits: Waits,
    /// The longest chain of causes, from the beginning of the run to its end
    #[arg(long)]
    pub chain: bool,
    /// Why the scheduler was ejected
    #[arg(long)]
    pub ejection: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Which of its runs
    #[command(flatten, next_help_heading = "Which run, if the file has several [default: the first seed of one]")]
    pub which: Which,
}

/// Which waits for a CPU are looked at.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Waits {
    All,
    Wakeup,
    Lost,
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

The workload is played on as many CPUs as it can use, where nothing costs
anything. How long that takes is its span: no machine is faster. Work W, span S
and the work C of the longest chain bound what P CPUs need: at least W/P and S,
at most S + (W - C)/P if no CPU idles beside a task that could run.

Exit status: 0 fine, 2 bad usage or input."
)]
pub struct Workload {
    /// [LABEL=]NAME or FILE, with ,key=value, several joined by + (docs/reference/workloads.md)
    #[arg(value_name = "W")]
    pub workload: String,
    /// Look at so much of it, such as 10s [default: all, or as the workload says]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// How to print the result
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
  sudo weir record --for 10s -- my-server       the first ten seconds of it
  sudo weir record -p 4711 --for 10s            a server that runs already
  sudo weir record -a --for 10s                 all processes of the machine
  weir sim bfs --workload build.weir            replays it
  weir workload build.weir                      how many CPUs it can use

Ctrl-C and SIGTERM reach the command as well. The recording ends with it, and is
written. It holds the command line of each process unless --no-argv is given. A
run of more than 33 million operations (40 s of nothing but wakeups) is cut.
Linux 6.4 or later is needed, with BTF.

Exit status: 0 fine, 1 the command failed or events were lost, 2 bad usage or input."
)]
pub struct Record {
    /// Where to write the recording [default: the command's name with .weir]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// End the recording after this time, such as 10s: the command gets SIGTERM
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Leave out the arguments of all commands, which may hold passwords and tokens
    #[arg(long)]
    pub no_argv: bool,
    /// Record processes that run already, with their threads and descendants, until they end; or Ctrl-C, or --for
    #[arg(short, long, value_name = "PID", num_args = 1.., value_delimiter = ',', conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// Record all processes of the machine until Ctrl-C, or --for
    #[arg(short, long, conflicts_with_all = ["pid", "command"])]
    pub all: bool,
    /// The command and its arguments
    #[arg(last = true, required_unless_present_any = ["pid", "all"], value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A kernel that is modelled, by its version or as the one nearest to this machine's.
fn kernel_name(text: &str) -> Result<KernelName, String> {
    match text {
        "host" => {
            host::kernel_release().map(|release| KernelName::nearest(&release)).map_err(|error| error.to_string())
        }
        _ => text.parse(),
    }
}

/// A time of a run.
fn moment(text: &str) -> Result<Nanos, String> {
    text.parse().map_err(|error: ids::ParseNanosError| error.to_string())
}

/// A time above 0.
fn duration(text: &str) -> Result<Nanos, String> {
    let expected = "expected a time above 0 with its unit (ns, us, ms, s, min or h), such as 10s or 500ms";
    text.parse().ok().filter(|&time| time > Nanos::ZERO).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn grammar_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn durations() {
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
