// SPDX-License-Identifier: GPL-2.0-only
//! Converts events while others come, so that memory does not grow with the recording.
//!
//! Events are kept as they came until there are [`BATCH`] bytes of them: converting takes several times as long as keeping, and
//! a short recording should not pay for it while it runs. From then on a thread of its own converts each batch. If it is
//! [`BATCHES`] behind, the receiver waits for it; events that do not fit the kernel's buffer then are lost, and counted.

use crate::LinkError;
use crate::probes::Pieces;
use recording::convert::{Conversion, Converted, Host};
use recording::overhead::Overheads;
use recording::window::WINDOW;
use recording::wire::{self, Glance};
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use workload::Earlier;

/// Bytes of events that are converted together.
pub(crate) const BATCH: usize = 32 << 20;

/// Batches that may wait.
const BATCHES: usize = 2;

/// Events on their way to a workload.
pub(crate) struct Stream {
    /// Until a thread has it.
    work: Option<Work>,
    thread: Option<Converter>,
}

/// Where batches go, each with what a schedule costs as far as that was known then, and what comes of them.
type Converter = (SyncSender<(Pieces, Overheads)>, JoinHandle<Result<Work, LinkError>>);

/// A conversion, and what is written of it.
struct Work {
    conversion: Conversion,
    earlier: Option<Earlier<File>>,
    folder: PathBuf,
    window: usize,
}

impl Stream {
    /// Of what is recorded on this machine. What is over goes to a file in this folder, which vanishes with this process.
    pub fn new(host: &Host, folder: PathBuf) -> Stream {
        let conversion = Conversion::new(host, Overheads::default(), workload::MAX_OPS);
        let work = Work { conversion, earlier: None, folder, window: WINDOW };
        Stream { work: Some(work), thread: None }
    }

    /// Takes the next batch. The overheads are from now on taken out of what tasks have done since they began.
    pub fn give(&mut self, batch: Pieces, overheads: Overheads) -> Result<(), LinkError> {
        if let Some(work) = self.work.take() {
            let (sender, receiver) = sync_channel(BATCHES);
            self.thread = Some((sender, thread::spawn(move || work.take_all(&receiver))));
        }
        let (sender, _) = self.thread.as_ref().expect("one of them is there");
        match sender.send((batch, overheads)) {
            Ok(()) => Ok(()),
            // It has ended, and says why.
            Err(_) => self.join().map(|_| ()),
        }
    }

    /// Takes the last events, and gives the workload; whether that had to be cut; and what is written of it.
    pub fn finish(
        mut self,
        name: &str,
        rest: &Pieces,
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
        let (sender, thread) = self.thread.take().expect("it was begun, and is joined once");
        drop(sender);
        thread.join().expect("the conversion does not panic")
    }
}

impl Work {
    fn take_all(mut self, batches: &Receiver<(Pieces, Overheads)>) -> Result<Work, LinkError> {
        for (batch, overheads) in batches {
            self.take(&batch, overheads)?;
            drop(batch);
            self.write()?;
        }
        Ok(self)
    }

    fn take(&mut self, batch: &Pieces, overheads: Overheads) -> Result<(), LinkError> {
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

    /// Writes what is over, if that is much.
    fn write(&mut self) -> Result<(), LinkError> {
        let failed = || LinkError::file(format!("a temporary file in {}", self.folder.display()));
        if self.earlier.is_none() && self.conversion.waiting() > self.window {
            self.earlier = Some(Earlier::new(tempfile::tempfile_in(&self.folder).map_err(failed())?));
        }
        let Some(earlier) = &mut self.earlier else { return Ok(()) };
        self.conversion.write(earlier, self.window).map_err(failed())
    }
}

/// Whether [`Conversion::add`] takes it.
fn is_one_of_many(raw: &[u8]) -> bool {
    matches!(wire::glance(raw), Glance::Sleep | Glance::Pass | Glance::Request)
}
