// SPDX-License-Identifier: GPL-2.0-only
//! Shows `bpf_printk` output of simulated schedulers on standard error, with time, CPU, task, callback and source
//! line.

use crate::progress::Progress;
use event_log::{Event, Printk, Sink, TaskInfo, op_name};
use ids::{CpuSet, Nanos, TaskId};

/// Maximum number of lines shown of a single run.
const OF_ONE: usize = 1000;
/// Maximum number of lines shown of each of several runs.
const OF_EACH: usize = 20;

/// Event sink that prints lines immediately for a single run, and collects them for one of several runs.
pub struct Printer<'a> {
    /// Where lines are printed immediately.
    at_once: Option<&'a Progress>,
    tasks: Vec<String>,
    files: Vec<String>,
    printed: Printed,
}

/// `bpf_printk` output of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Lines still to be shown.
    lines: Vec<String>,
    /// Number of lines printed by the scheduler.
    count: u64,
    shown: usize,
}

impl<'a> Printer<'a> {
    /// Printer for a single run, with its progress bar, or for one of several runs (`None`).
    pub fn new(at_once: Option<&'a Progress>) -> Printer<'a> {
        Printer { at_once, tasks: Vec::new(), files: Vec::new(), printed: Printed::default() }
    }

    /// Lines to show after all runs have finished.
    pub fn finish(self) -> Printed {
        self.printed
    }

    fn line(&self, printk: &Printk) -> String {
        let Nanos(ns) = printk.time;
        let task = printk.task.some().map_or("<idle>", |TaskId(task)| &self.tasks[task as usize]);
        let op = op_name(printk.site.op).unwrap_or("syscall");
        let place = match self.files.get(usize::from(printk.site.file)) {
            Some(file) if printk.site.line > 0 => format!("{op}, {file}:{}", printk.site.line),
            _ => op.to_owned(),
        };
        let time = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        report::escape(&format!("[{time}] CPU {} {task} ({place}): {}", printk.cpu, printk.text)).into_owned()
    }
}

impl Sink for Printer<'_> {
    fn source_file(&mut self, _: u16, name: &str) {
        self.files.push(name.to_owned());
    }

    fn task(&mut self, _: Nanos, info: &TaskInfo) {
        self.tasks.push(format!("{}[{}]", info.name, info.pid));
    }

    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}

    fn event(&mut self, _: &Event) {}

    fn printk(&mut self, printk: &Printk) {
        self.printed.count += 1;
        let limit = if self.at_once.is_some() { OF_ONE } else { OF_EACH };
        if self.printed.shown == limit {
            return;
        }
        self.printed.shown += 1;
        let line = self.line(printk);
        match self.at_once {
            Some(progress) => progress.say(&line),
            None => self.printed.lines.push(line),
        }
    }
}

/// Prints the collected lines of a run, and the number of lines that are not shown.
pub fn tell(run: &str, printed: &Printed) {
    if !printed.lines.is_empty() {
        say!("weir: {run} printed:");
        printed.lines.iter().for_each(|line| say!("{line}"));
    }
    let left_out = printed.count - printed.shown as u64;
    if left_out > 0 {
        let lines = report::counted(left_out, "line");
        say!("weir: {run}: {lines} of bpf_printk output not shown; --log FILE.jsonl of a single run has all of them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event_log::CallbackSite;
    use ids::{CpuId, Policy};

    fn printk(time: u64, task: TaskId, line: u32) -> Printk {
        let site = CallbackSite { op: 2, file: 0, line };
        Printk { time: Nanos(time), cpu: CpuId(3), task, site, text: "chose\u{1b}[2J 7".to_owned() }
    }

    fn printer() -> Printer<'static> {
        let mut printer = Printer::new(None);
        printer.source_file(0, "my.bpf.c");
        printer.task(
            Nanos::ZERO,
            &TaskInfo {
                id: TaskId(0),
                pid: 104,
                name: "hog".to_owned(),
                parent: None,
                allowed: CpuSet::first_n(4),
                policy: Policy::Other,
                nice: 0,
                kernel_thread: false,
            },
        );
        printer
    }

    #[test]
    fn printk_line_has_time_cpu_task_and_site_with_escapes_neutralized() {
        let printer = printer();
        let line = printer.line(&printk(1_000_020_300, TaskId(0), 42));
        assert_eq!(line, r"[1.000020300] CPU 3 hog[104] (enqueue, my.bpf.c:42): chose\u{1b}[2J 7");
        let line = printer.line(&printk(7, TaskId::NONE, 0));
        assert!(line.starts_with("[0.000000007] CPU 3 <idle> (enqueue): "), "{line}");
    }

    #[test]
    fn omitted_printk_lines_are_counted() {
        let mut printer = printer();
        (0..50).for_each(|time| printer.printk(&printk(time, TaskId(0), 1)));
        let printed = printer.finish();
        assert_eq!((printed.lines.len(), printed.shown, printed.count), (20, 20, 50));
    }
}
