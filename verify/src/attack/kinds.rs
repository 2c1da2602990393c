// SPDX-License-Identifier: GPL-2.0-only
//! Kinds of hostile input, and the commands that read each of them.

/// Where the name of the mutated file stands in a command.
pub const FILE: &str = "{}";
/// Where the mutated text itself stands, for inputs that are words of the command line.
pub const TEXT: &str = "{text}";

/// Small machine of the simulated runs.
const SMALL: &str = "core:2 pu:1";

/// A kind of input.
pub struct Kind {
    /// Name: that of its directory in a corpus.
    pub name: &'static str,
    /// Suffix of its files.
    pub suffix: &'static str,
    /// Share of the mutants, relative to the other kinds.
    pub weight: usize,
    /// Commands that read it, of which each mutant goes to one.
    pub commands: &'static [&'static [&'static str]],
}

/// All kinds.
pub const KINDS: [Kind; 12] = [
    Kind {
        name: "object",
        suffix: ".bpf.o",
        weight: 4,
        commands: &[
            &["weir", "inspect", FILE],
            &["weir", "inspect", FILE, "--format", "json"],
            &["weir", "inspect", FILE, "--profile"],
            &["weir", "sim", FILE, "-m", SMALL, "-w", "pingpong", "--for", "20ms"],
            &["weir", "sim", FILE, "-m", SMALL, "-w", "hogs", "--for", "20ms", "--coverage", "--kernel", "7.2+waiting"],
            &["weir", "check", FILE, "--seeds", "1", "--no-shrink", "--jobs", "1"],
        ],
    },
    Kind {
        name: "machine",
        suffix: ".toml",
        weight: 3,
        commands: &[
            &["weir", "machine", FILE],
            &["weir", "machine", FILE, "--format", "json"],
            &["weir", "sim", "kernel", "-m", FILE, "-w", "hog", "--for", "5ms"],
            &["weir", "sim", "fifo", "-m", FILE, "-w", "pingpong", "--for", "5ms", "--seed", "1", "--format", "csv"],
        ],
    },
    Kind {
        name: "hwloc",
        suffix: ".xml",
        weight: 2,
        commands: &[&["weir", "machine", FILE], &["weir", "sim", "fifo", "-m", FILE, "-w", "pingpong", "--for", "5ms"]],
    },
    Kind {
        name: "synthetic",
        suffix: ".txt",
        weight: 1,
        commands: &[&["weir", "machine", TEXT], &["weir", "sim", "fifo", "-m", TEXT, "-w", "hog", "--for", "2ms"]],
    },
    Kind {
        name: "workload",
        suffix: ".json",
        weight: 3,
        commands: &[
            &["weir", "workload", FILE],
            &["weir", "workload", FILE, "--format", "json"],
            &["weir", "sim", "fifo", "-m", SMALL, "-w", FILE, "--for", "10ms"],
            &["weir", "sim", "kernel", "-m", SMALL, "-w", FILE, "--for", "10ms", "--format", "json"],
        ],
    },
    Kind {
        name: "recording",
        suffix: ".weir",
        weight: 2,
        commands: &[&["weir", "workload", FILE], &["weir", "sim", "bfs", "-m", SMALL, "-w", FILE, "--for", "10ms"]],
    },
    Kind {
        name: "profile",
        suffix: ".toml",
        weight: 2,
        commands: &[
            &["weir", "sim", "object.bpf.o", "--profile", FILE, "-m", SMALL, "-w", "hogs", "--for", "10ms", "--check"],
            &["weir", "check", "object.bpf.o", "--profile", FILE, "--seeds", "1", "--no-shrink", "--jobs", "1"],
        ],
    },
    Kind {
        name: "faults",
        suffix: ".toml",
        weight: 2,
        commands: &[
            &["weir", "sim", "fifo", "-m", "core:4 pu:1", "-w", "hogs", "--for", "20ms", "--faults", FILE],
            &["weir", "sim", "kernel", "-m", "core:4 pu:1", "-w", "pingpong", "--for", "20ms", "--faults", FILE],
        ],
    },
    Kind {
        name: "saved-run",
        suffix: ".weirrun",
        weight: 4,
        commands: &[
            &["weir", "report", FILE, "-o", "page.html"],
            &["weir", "explain", FILE],
            &["weir", "explain", FILE, "--format", "json"],
            &["weir", "compare", FILE],
            &["weir", "compare", FILE, "--format", "csv"],
            &["weir", "meter", "locks", FILE],
            &["weir", "meter", "microstates", FILE, "--format", "csv"],
            &["weir", "meter", "wakeups", FILE],
            &["weir", "meter", "interrupts", FILE],
        ],
    },
    Kind {
        name: "archive",
        suffix: ".lrz",
        weight: 3,
        commands: &[
            &["lrz", "-Q", "-t", "-e=pw", FILE],
            &["lrz", "-i", FILE],
            &["lrz", "-i", "--format", "json", FILE],
            &["lrz", "-Q", "-d", "-f", "-e=pw", "-o", "unpacked", FILE],
        ],
    },
    Kind { name: "bitmap", suffix: ".img", weight: 1, commands: &[&["bitfit", "gfs2", FILE]] },
    Kind {
        name: "table",
        suffix: ".csv",
        weight: 1,
        commands: &[
            &["weir", "scale", FILE],
            &["weir", "scale", FILE, "--format", "json"],
            &["weir", "scale", FILE, "--format", "csv", "--report", "page.html"],
        ],
    },
];
