// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod active_balance;
mod bench;
mod contract;
mod deadline;
mod dispatch;
mod exit;
mod fair;
mod foreign;
mod groups;
mod hotplug;
mod idle;
mod immediate;
mod interleavings;
mod locks;
mod members;
mod pick;
mod random;
mod realtime;
mod subjects;
mod tasks;
mod vectors;
mod waiting;
