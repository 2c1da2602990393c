// SPDX-License-Identifier: GPL-2.0-only
//! BPF type format: reader, writer for synthetic kernels, and CO-RE matching by name.

/// A set of types.
#[derive(Clone, Debug, Default)]
pub struct Btf {}
