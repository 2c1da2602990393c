// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers of a comparison that could not be loaded: the others still run, and the report lists the reasons.

use anyhow::{Result, bail};
use report::RunReport;
use serde_json::{Value, json};
use simulator::SetupError;
use std::fmt::Write;

/// Rejected schedulers: scheduler, machine and reason, without duplicates, in order.
#[derive(Default)]
pub struct Refusals {
    all: Vec<(String, String, String)>,
    /// First error, returned if nothing ran at all.
    first: Option<anyhow::Error>,
}

impl Refusals {
    /// Notes that a scheduler cannot run on a machine.
    ///
    /// # Errors
    /// The error itself, if the scheduler is not its cause: then no other scheduler would run either.
    pub fn add(&mut self, scheduler: &str, machine: &str, error: anyhow::Error) -> Result<()> {
        let Some(why) = error.downcast_ref::<SetupError>().filter(|why| why.is_of_scheduler()) else {
            return Err(error);
        };
        self.put(scheduler, machine, why.to_string());
        self.first.get_or_insert(error);
        Ok(())
    }

    /// Notes that a scheduler cannot run on any machine because its object is invalid.
    pub fn add_broken(&mut self, scheduler: &str, machines: &[&str], error: anyhow::Error) {
        machines.iter().for_each(|machine| self.put(scheduler, machine, error.root_cause().to_string()));
        self.first.get_or_insert(error);
    }

    fn put(&mut self, scheduler: &str, machine: &str, why: String) {
        let entry = (scheduler.to_owned(), machine.to_owned(), why);
        if !self.all.contains(&entry) {
            self.all.push(entry);
        }
    }

    /// # Errors
    /// The first rejection, if nothing ran.
    pub fn check(&mut self, reports: &[RunReport]) -> Result<()> {
        match self.first.take() {
            Some(error) if reports.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// Names the rejected schedulers, after all others have run.
    pub fn fail(&self) -> Result<()> {
        let mut names: Vec<String> =
            self.all.iter().map(|(scheduler, ..)| report::escape(scheduler).into_owned()).collect();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        bail!("could not be loaded (reasons in the report): {}", names.join(", "))
    }

    /// Lines for the end of a report.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (scheduler, machine, why) in &self.all {
            let line = report::escape(&format!("{scheduler} on {machine}: not loaded: {why}")).into_owned();
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Entries for the JSON report.
    pub fn to_json(&self) -> Value {
        let entry = |(scheduler, machine, why): &(String, String, String)| json!({ "scheduler": scheduler, "machine": machine, "reason": why });
        self.all.iter().map(entry).collect()
    }
}
