// SPDX-License-Identifier: GPL-2.0-only
//! This machine: what `/proc`, `/sys` and system calls report about its CPUs and processes.

pub mod cpu_time;
