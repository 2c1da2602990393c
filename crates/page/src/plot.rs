// SPDX-License-Identifier: GPL-2.0-only
//! Plots, laid out by plotters. Each is drawn twice, for a desk and for a phone: what shrinks with its picture can no
//! longer be read.

pub mod cpus;
pub mod distribution;
mod svg;

pub use svg::SERIES;
