// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verification of a store.
