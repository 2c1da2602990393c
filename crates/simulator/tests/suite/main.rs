// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod barriers;
mod calls;
mod common;
mod composition;
mod critical_sections;
mod disks;
mod faults;
mod kernel;
mod loading;
mod locks;
mod networks;
mod noise;
mod page_cache;
mod requests;
mod rival;
mod span;
mod speed;
mod timelines;
mod tlb;
mod waiting;
