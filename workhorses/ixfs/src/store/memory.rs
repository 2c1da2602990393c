// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device in memory that records what was done to it and fails on request: for tests of what a crash leaves.

use super::device::Device;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a disk writes whole or not at all.
pub const SECTOR: usize = 512;

/// One thing done to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes were written.
    Write {
        /// Offset of the first byte written.
        offset: u64,
        /// The bytes written.
        bytes: Vec<u8>,
    },
    /// A flush returned.
    Flush,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `EIO`, nothing written.
    Io,
    /// `ENOSPC`, nothing written.
    NoSpace,
    /// `EIO` after one sector was written.
    Short,
}

/// Called before each write, for tests that do something at the same time.
pub type Hook = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    events: Vec<Event>,
    recording: bool,
    operations: u64,
    /// First operation that fails, last one, and how.
    fail: Option<(u64, u64, Failure)>,
}

/// A device in memory.
#[derive(Default)]
pub struct MemoryDevice {
    state: Mutex<State>,
    hook: Mutex<Option<Arc<Hook>>>,
}

impl MemoryDevice {
    /// A device with the given content.
    pub fn new(bytes: Vec<u8>) -> MemoryDevice {
        MemoryDevice { state: Mutex::new(State { bytes, ..State::default() }), hook: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the content.
    pub fn image(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Starts the recording of writes and flushes.
    pub fn record(&self) {
        self.state().recording = true;
    }

    /// Number of events recorded.
    pub fn recorded(&self) -> usize {
        self.state().events.len()
    }

    /// The events recorded.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// Number of writes and flushes so far, failed ones included.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes the write or flush with this number (from 0) fail.
    pub fn fail_at(&self, operation: u64, failure: Failure) {
        self.state().fail = Some((operation, operation, failure));
    }

    /// Makes all writes and flushes from the one with this number (from 0) on fail, as on a disk that died.
    pub fn fail_from(&self, operation: u64, failure: Failure) {
        self.state().fail = Some((operation, u64::MAX, failure));
    }

    /// Sets what is called before each write. Writes in the hook itself do not call it again.
    pub fn hook(&self, hook: Option<Hook>) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook.map(Arc::new);
    }

    fn call_hook(&self) {
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hook) = hook {
            hook();
            self.hook.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(hook);
        }
    }

    /// Inverts one bit.
    pub fn flip(&self, byte: u64, bit: u32) {
        self.state().bytes[byte as usize] ^= 1 << bit;
    }
}

impl State {
    fn failure(&mut self) -> Option<Failure> {
        let now = self.operations;
        self.operations += 1;
        self.fail.filter(|(first, last, _)| (*first..=*last).contains(&now)).map(|(.., failure)| failure)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        if self.recording {
            self.events.push(Event::Write { offset, bytes: bytes.to_vec() });
        }
    }
}

impl Device for MemoryDevice {
    fn len(&self) -> u64 {
        self.state().bytes.len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let end = offset as usize + out.len();
        let bytes = state.bytes.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.call_hook();
        let mut state = self.state();
        match state.failure() {
            None => state.write(offset, bytes),
            Some(Failure::Io) => return Err(io::Error::from_raw_os_error(libc::EIO)),
            Some(Failure::NoSpace) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Some(Failure::Short) => {
                state.write(offset, &bytes[..SECTOR.min(bytes.len())]);
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.failure().is_some() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if state.recording {
            state.events.push(Event::Flush);
        }
        Ok(())
    }
}
