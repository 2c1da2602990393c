// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod browser;
mod calls;
mod check;
mod claims;
mod command_line;
mod ejections;
mod explain;
mod groups;
mod load;
mod manual;
mod meter;
mod names;
mod nix;
mod outputs;
mod own;
mod pages;
mod places;
mod playground;
mod promises;
mod real;
mod recordings;
mod results;
mod run;
mod runs;
mod scale;
mod search;
mod slurm;
mod sources;
mod suites;
mod sweep;
mod visitors;
