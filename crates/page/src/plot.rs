// SPDX-License-Identifier: GPL-2.0-only
//! Plots, laid out by plotters. Each is drawn in two sizes, for wide and narrow screens, as scaled-down text would be
//! unreadable.

pub mod cpus;
pub mod distribution;
pub mod law;
pub mod load;
mod svg;

pub use svg::SERIES;
