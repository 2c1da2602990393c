// SPDX-License-Identifier: GPL-2.0-only
//! Sinks that combine or discard.

use crate::{Detail, Event, Printk, Sink, TaskInfo};
use ids::{CpuSet, Nanos, TaskId};
use std::cell::RefCell;
use std::rc::Rc;

/// A sink that discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Sink for Null {
    fn task(&mut self, _: Nanos, _: &TaskInfo) {}
    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}
    #[inline]
    fn event(&mut self, _: &Event) {}
}

/// Passes everything to the first sink, then to the second. Nest them for more sinks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tee<A, B>(pub A, pub B);

impl<A: Sink, B: Sink> Sink for Tee<A, B> {
    fn source_file(&mut self, file: u16, name: &str) {
        self.0.source_file(file, name);
        self.1.source_file(file, name);
    }

    fn printk(&mut self, printk: &Printk) {
        self.0.printk(printk);
        self.1.printk(printk);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.0.task(time, info);
        self.1.task(time, info);
    }

    fn renamed(&mut self, time: Nanos, task: TaskId, name: &str) {
        self.0.renamed(time, task, name);
        self.1.renamed(time, task, name);
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.0.affinity(time, task, allowed);
        self.1.affinity(time, task, allowed);
    }

    fn wants_details(&self) -> bool {
        self.0.wants_details() || self.1.wants_details()
    }

    fn detail(&mut self, detail: &Detail) {
        self.0.detail(detail);
        self.1.detail(detail);
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn source_file(&mut self, file: u16, name: &str) {
        (**self).source_file(file, name);
    }

    fn printk(&mut self, printk: &Printk) {
        (**self).printk(printk);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        (**self).task(time, info);
    }

    fn renamed(&mut self, time: Nanos, task: TaskId, name: &str) {
        (**self).renamed(time, task, name);
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        (**self).affinity(time, task, allowed);
    }

    fn wants_details(&self) -> bool {
        (**self).wants_details()
    }

    fn detail(&mut self, detail: &Detail) {
        (**self).detail(detail);
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        (**self).event(event);
    }
}

impl<S: Sink> Sink for Option<S> {
    fn source_file(&mut self, file: u16, name: &str) {
        self.iter_mut().for_each(|sink| sink.source_file(file, name));
    }

    fn printk(&mut self, printk: &Printk) {
        self.iter_mut().for_each(|sink| sink.printk(printk));
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.iter_mut().for_each(|sink| sink.task(time, info));
    }

    fn renamed(&mut self, time: Nanos, task: TaskId, name: &str) {
        self.iter_mut().for_each(|sink| sink.renamed(time, task, name));
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.iter_mut().for_each(|sink| sink.affinity(time, task, allowed));
    }

    fn wants_details(&self) -> bool {
        self.as_ref().is_some_and(Sink::wants_details)
    }

    fn detail(&mut self, detail: &Detail) {
        self.iter_mut().for_each(|sink| sink.detail(detail));
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        self.iter_mut().for_each(|sink| sink.event(event));
    }
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn source_file(&mut self, file: u16, name: &str) {
        (**self).source_file(file, name);
    }

    fn printk(&mut self, printk: &Printk) {
        (**self).printk(printk);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        (**self).task(time, info);
    }

    fn renamed(&mut self, time: Nanos, task: TaskId, name: &str) {
        (**self).renamed(time, task, name);
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        (**self).affinity(time, task, allowed);
    }

    fn wants_details(&self) -> bool {
        (**self).wants_details()
    }

    fn detail(&mut self, detail: &Detail) {
        (**self).detail(detail);
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        (**self).event(event);
    }
}

/// A sink that other code reads during the run.
impl<S: Sink> Sink for Rc<RefCell<S>> {
    fn source_file(&mut self, file: u16, name: &str) {
        self.borrow_mut().source_file(file, name);
    }

    fn printk(&mut self, printk: &Printk) {
        self.borrow_mut().printk(printk);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.borrow_mut().task(time, info);
    }

    fn renamed(&mut self, time: Nanos, task: TaskId, name: &str) {
        self.borrow_mut().renamed(time, task, name);
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.borrow_mut().affinity(time, task, allowed);
    }

    fn wants_details(&self) -> bool {
        self.borrow().wants_details()
    }

    fn detail(&mut self, detail: &Detail) {
        self.borrow_mut().detail(detail);
    }

    fn event(&mut self, event: &Event) {
        self.borrow_mut().event(event);
    }
}
