// SPDX-License-Identifier: GPL-2.0-only
//! The simulator behind one call: request bytes in, answer bytes out. `make playground` compiles this crate to
//! WebAssembly and packs it into one page; on other targets it is an ordinary library, which tests call.
//!
//! 1. A request is a message ([`message`]): a JSON object, followed by the files that it names. Objects of schedulers,
//!    their profiles and recordings are such files; machines and rt-app workloads that ship with Weir are built in.
//! 2. [`Session::answer`] executes it. The answer is a message too: a JSON object, followed by the data of a timeline.
//!    An error is an answer with the key `error`.
//! 3. A session keeps the timeline of its last run, so that `explain` needs no second simulation.
//! 4. The crate reads no clock, no file and no environment, like every crate below it: the same request gives the same
//!    answer in a browser and on a command line. Only the module `wasm`, which exists on that target alone, uses
//!    `unsafe`.

mod catalogue;
pub mod message;
mod resolve;
mod session;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use session::Session;

/// Reason why a request failed, in one line: what is wrong, where, and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    fn new(reason: impl std::fmt::Display) -> Refusal {
        Refusal(reason.to_string())
    }
}
