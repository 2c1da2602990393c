// SPDX-License-Identifier: GPL-2.0-only
//! Tables from known data.

mod formats;
mod tables;
