// SPDX-License-Identifier: GPL-2.0-only
//! What libbpf has to say. It would write to standard error; here it is kept for error messages.

use libbpf_rs::PrintLevel;
use std::sync::{Mutex, PoisonError};

/// What libbpf complained of since the last look: the verifier's log among it.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Begins to keep libbpf's warnings, and forgets earlier ones.
pub(crate) fn listen() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, remember)));
    take();
}

fn remember(_level: PrintLevel, text: String) {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).push(text);
}

/// All that libbpf complained of since the last look.
pub(crate) fn take() -> String {
    std::mem::take(&mut *COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner)).concat()
}

/// The end of it; the reason stands there.
pub(crate) fn last_words() -> String {
    let text = take();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
