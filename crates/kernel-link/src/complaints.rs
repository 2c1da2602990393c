// SPDX-License-Identifier: GPL-2.0-only
//! Collects libbpf's messages for error messages instead of printing them to standard error.

use libbpf_rs::PrintLevel;
use std::sync::{Mutex, PoisonError};

/// libbpf's warnings since they were last taken, including verifier logs.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts collecting libbpf's warnings, and discards earlier ones.
pub(crate) fn listen() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, remember)));
    take();
}

fn remember(_level: PrintLevel, text: String) {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).push(text);
}

/// All warnings since they were last taken.
pub(crate) fn take() -> String {
    std::mem::take(&mut *COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner)).concat()
}

/// Last lines of the warnings, which contain the reason.
pub(crate) fn last_words() -> String {
    let text = take();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
