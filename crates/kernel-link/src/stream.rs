// SPDX-License-Identifier: GPL-2.0-only
//! Converts events during the recording, so that memory use does not grow with its length.
//!
//! Events are stored unconverted until there are [`BATCH`] bytes: converting takes several times as long as storing,
//! and would disturb short recordings. From then on a separate thread converts each batch. If it is [`BATCHES`]
//! behind, the receiver blocks; events that do not fit the kernel's buffer then are lost and counted.

use crate::LinkError;
use crate::probes::Chunks;
use recording::convert::{Conversion, Converted, Host};
use recording::overhead::Overheads;
use recording::window::WINDOW;
use recording::wire::{self, Glance};
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use workload::Earlier;

/// Size of a batch in bytes.
pub(crate) const BATCH: usize = 32 << 20;

/// Maximum number of waiting batches.
const BATCHES: usize = 2;

/// Incremental conversion of events to a workload.
pub(crate) struct Stream {
    /// The conversion, until a thread takes it over.
    work: Option<Work>,
    thread: Option<Converter>,
}

/// Channel for batches with the overheads known at that time, and the thread that converts them.
type Converter = (SyncSender<(Chunks, Overheads)>, JoinHandle<Result<Work, LinkError>>);

/// A conversion, and the part already written.
struct Work {
    conversion: Conversion,
    earlier: Option<Earlier<File>>,
    directory: PathBuf,
    window: usize,
}

impl Stream {
    /// Conversion for this machine. Completed parts are written to an unlinked file in this directory.
    pub fn new(host: &Host, directory: PathBuf) -> Stream {
        let conversion = Conversion::new(host, Overheads::default(), workload::MAX_OPS);
        let work = Work { conversion, earlier: None, directory, window: WINDOW };
        Stream { work: Some(work), thread: None }
    }

    /// Adds a batch. From now on these overheads are subtracted from the tasks' work, also for earlier batches.
    pub fn give(&mut self, batch: Chunks, overheads: Overheads) -> Result<(), LinkError> {
        if let Some(work) = self.work.take() {
            let (sender, receiver) = sync_channel(BATCHES);
            self.thread = Some((sender, thread::spawn(move || work.take_all(&receiver))));
        }
        let (sender, _) = self.thread.as_ref().expect("without the work there is a thread");
        match sender.send((batch, overheads)) {
            Ok(()) => Ok(()),
            // The thread has ended; return its error.
            Err(_) => self.join().map(|_| ()),
        }
    }

    /// Adds the last events and returns the workload, whether it was truncated, and the part already written.
    pub fn finish(
        mut self,
        name: &str,
        rest: &Chunks,
        overheads: Overheads,
        host: &Host,
    ) -> Result<(Converted, bool, Option<Earlier<File>>), LinkError> {
        let mut work = match self.work.take() {
            Some(work) => work,
            None => self.join()?,
        };
        work.take(rest, overheads)?;
        let (converted, cut) = work.conversion.finish(name, host);
        Ok((converted, cut, work.earlier))
    }

    fn join(&mut self) -> Result<Work, LinkError> {
        let (sender, thread) = self.thread.take().expect("the thread was started and is joined once");
        drop(sender);
        thread.join().expect("the conversion does not panic")
    }
}

impl Work {
    fn take_all(mut self, batches: &Receiver<(Chunks, Overheads)>) -> Result<Work, LinkError> {
        for (batch, overheads) in batches {
            self.take(&batch, overheads)?;
            drop(batch);
            self.write()?;
        }
        Ok(self)
    }

    fn take(&mut self, batch: &Chunks, overheads: Overheads) -> Result<(), LinkError> {
        self.conversion.overheads = overheads;
        let mut others = Vec::new();
        batch.each(|raw| {
            if !is_one_of_many(raw) {
                others.push(wire::parse(raw).map_err(LinkError::Malformed)?);
            }
            Ok(())
        })?;
        self.conversion.begin(others);
        batch.each(|raw| {
            if is_one_of_many(raw) {
                self.conversion.add(&wire::parse(raw).map_err(LinkError::Malformed)?);
            }
            Ok(())
        })
    }

    /// Writes completed parts if there are enough.
    fn write(&mut self) -> Result<(), LinkError> {
        let failed = || LinkError::file(format!("a temporary file in {}", self.directory.display()));
        if self.earlier.is_none() && self.conversion.waiting() > self.window {
            self.earlier = Some(Earlier::new(tempfile::tempfile_in(&self.directory).map_err(failed())?));
        }
        let Some(earlier) = &mut self.earlier else { return Ok(()) };
        self.conversion.write(earlier, self.window).map_err(failed())
    }
}

/// Whether [`Conversion::add`] processes this event.
fn is_one_of_many(raw: &[u8]) -> bool {
    matches!(wire::glance(raw), Glance::Sleep | Glance::Pass | Glance::Request)
}
