// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress bar.

use super::arguments::Arguments;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Creates a progress bar with rate, ratio and remaining time; hidden when quiet or when stderr is no terminal and
/// `--progress` is not given.
pub fn bar(arguments: &Arguments, length: Option<u64>) -> ProgressBar {
    let wanted = arguments.progress || std::io::stderr().is_terminal();
    if !wanted || arguments.quiet > 0 || arguments.very_quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let template = match length {
        Some(_) => "{bar:24} {percent:>3}% {bytes:>10} {bytes_per_sec:>12} {msg} {eta} left",
        None => "{bytes:>10} {bytes_per_sec:>12} {msg}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("a template without mistakes"));
    bar
}
