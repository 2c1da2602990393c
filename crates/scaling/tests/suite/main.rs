// SPDX-License-Identifier: GPL-2.0-only
//! Fits of published data sets, and what is refused.

mod published;
mod refused;
