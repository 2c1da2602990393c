// SPDX-License-Identifier: GPL-2.0-only
//! The module's interface. Its user reserves memory for a request (`reserve`), writes the request there, and calls
//! `answer`, which returns the address of 4 bytes with the length of the answer, followed by the answer. The module has
//! one thread.

#![expect(unsafe_code, reason = "memory that JavaScript writes and reads is passed by address")]

use crate::Session;
use ids::Nanos;
use std::cell::RefCell;

#[link(wasm_import_module = "weir")]
unsafe extern "C" {
    /// Simulated time in nanoseconds, and the end of the run or 0.
    fn progress(now_ns: f64, end_ns: f64);
    /// Text of a panic, which ends the module.
    fn panicked(text: *const u8, length: usize);
}

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reserves memory for a request of this length and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(length: usize) -> *mut u8 {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        // SAFETY: the text lives until the call returns; the callee reads `length` bytes and keeps no address.
        unsafe { panicked(text.as_ptr(), text.len()) };
    }));
    REQUEST.with_borrow_mut(|request| {
        request.clear();
        request.resize(length, 0);
        request.as_mut_ptr()
    })
}

/// Answers the request in the reserved memory. The answer is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    let request = REQUEST.take();
    let mut tell = |now: Nanos, end: Option<Nanos>| {
        // SAFETY: the callee gets two numbers and does not call this module.
        unsafe { progress(now.0 as f64, end.map_or(0.0, |end| end.0 as f64)) };
    };
    let bytes = SESSION.with_borrow_mut(|session| session.answer(&request, &mut tell));
    ANSWER.with_borrow_mut(|answer| {
        *answer = (bytes.len() as u32).to_le_bytes().to_vec();
        answer.extend_from_slice(&bytes);
        answer.as_ptr()
    })
}
