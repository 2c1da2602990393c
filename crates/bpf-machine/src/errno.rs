// SPDX-License-Identifier: GPL-2.0-only
//! Errnos that helpers return; the numbers are the same on every Linux architecture with BPF.

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const E2BIG: i32 = 7;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const EFAULT: i32 = 14;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EDEADLK: i32 = 35;
pub(crate) const EOPNOTSUPP: i32 = 95;

/// A negative errno as a 64-bit register value.
pub(crate) fn negative(errno: i32) -> u64 {
    i64::from(-errno) as u64
}
