// SPDX-License-Identifier: GPL-2.0-only
//! Changes the number of parallel jobs of a recorded build.
//!
//! A recording contains every cause of a wakeup, including scheduling decisions of the builder: with `make -j4` the
//! fifth job starts when one of four has ended. To predict `-j8`, such waits must be replaced by waits for a free job
//! slot. They are distinguished from true dependencies as follows:
//!
//! 1. The *builder* is the task that forks most; its children are the jobs. The recorded number of jobs is the most
//!    frequent number of live jobs when the builder waited for exactly one end before the next fork. A child that
//!    ended while the builder was busy left no record of when; it is not counted, and a wait beside it is taken for a
//!    true dependency.
//! 2. The *end* of a child is a post followed only by work, and by less work than precedes it. (A parent that forks
//!    with `vfork` waits for the exec first, which comes early in the child.) The builder awaits the post, or a
//!    number of ends if any child's end will do ([`Op::Children`]); no other task awaits the post.
//! 3. If the maximum number of jobs is running, and the builder waits for one end and then forks, it waited for a
//!    slot. If it waits with free slots, or for several ends in a row, it needed those jobs' results.
//! 4. If one job waits for another, it waited by chance, for a kernel lock or a job-server token. With a different
//!    number of jobs the two may not overlap, so this wait is removed as well.
//!
//! For a single-process builder the slots are exact and the dependencies are a lower bound: dependencies that the
//! recorded schedule never had to wait for are unknown, so predictions for many more jobs are optimistic.

use crate::{Op, SignalId, TaskSpec, Workload, WorkloadError};
use ids::Nanos;
use std::collections::BTreeMap;

impl Workload {
    /// Returns the same build with `jobs` parallel jobs (1 or more).
    ///
    /// # Errors
    /// If `jobs` is 0; if the scripts have loops, which recordings never have; if no task forks, so that
    /// there is no builder; or if the build was recorded with one job, so that slots and dependencies cannot be
    /// distinguished.
    pub fn with_jobs(&self, jobs: u32) -> Result<Workload, WorkloadError> {
        let fail = |problem: String| WorkloadError { place: format!("{}, jobs={jobs}", self.name), problem };
        if jobs == 0 {
            return Err(fail("0 jobs; expected 1 or more".into()));
        }
        if self.tasks.iter().flat_map(|task| &task.script).any(|op| matches!(op, Op::Repeat { .. })) {
            return Err(fail("the scripts have loops; expected a recorded build".into()));
        }
        let builder = self.builder().ok_or_else(|| fail("no task forks; expected a recorded build".into()))?;
        let plan = Builder::new(self, builder);
        let recorded = plan.recorded_jobs();
        if recorded < 2 {
            return Err(fail("recorded with one job at a time; expected a recording with 2 or more".into()));
        }
        let script = plan.script(recorded, jobs);
        let mut workload = self.clone();
        workload.tasks[builder].script = script;
        workload.remove_waits_between_jobs(builder);
        Ok(workload)
    }

    /// Removes waits between tasks of different jobs.
    fn remove_waits_between_jobs(&mut self, builder: usize) {
        let jobs = self.jobs(builder);
        let mut poster = vec![None; self.signals as usize];
        for (task, spec) in self.tasks.iter().enumerate() {
            for op in &spec.script {
                if let Op::Post(signal) = op {
                    poster[signal.0 as usize] = jobs[task];
                }
            }
        }
        for (task, spec) in self.tasks.iter_mut().enumerate() {
            let Some(job) = jobs[task] else { continue };
            let other = |signal: SignalId| poster[signal.0 as usize].is_some_and(|poster| poster != job);
            spec.script.retain(|op| !matches!(op, Op::Await(signal) if other(*signal)));
        }
    }

    /// For each task, the builder's child that it descends from.
    fn jobs(&self, builder: usize) -> Vec<Option<u32>> {
        let mut jobs = vec![None; self.tasks.len()];
        let children = |task: usize| {
            self.tasks[task].script.iter().filter_map(|op| if let Op::Fork(child) = op { Some(*child) } else { None })
        };
        for job in children(builder) {
            let mut todo = vec![job];
            while let Some(task) = todo.pop() {
                if jobs[task as usize].replace(job).is_none() {
                    todo.extend(children(task as usize));
                }
            }
        }
        jobs
    }

    /// The task that forks most; the first one in case of a tie.
    fn builder(&self) -> Option<usize> {
        let forks = |task: &TaskSpec| task.script.iter().filter(|op| matches!(op, Op::Fork(_))).count();
        let most = self.tasks.iter().map(forks).max().filter(|&most| most > 0)?;
        self.tasks.iter().position(|task| forks(task) == most)
    }
}

/// Meaning of a builder's operation.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Meaning {
    /// A job starts whose end is awaited.
    Begin,
    /// A job starts whose end is not awaited.
    BeginBrief,
    /// Wait for the end of a job.
    End,
    /// Any other operation.
    Other,
}

struct Builder<'a> {
    script: &'a [Op],
    meanings: Vec<Meaning>,
}

impl<'a> Builder<'a> {
    fn new(workload: &'a Workload, builder: usize) -> Builder<'a> {
        let script = &workload.tasks[builder].script;
        let mut ends = vec![false; workload.signals as usize];
        let mut others = ends.clone();
        let all_but_it = workload.tasks[..builder].iter().chain(&workload.tasks[builder + 1..]);
        for op in all_but_it.flat_map(|spec| &spec.script) {
            if let Op::Await(signal) = op {
                others[signal.0 as usize] = true;
            }
        }
        let end_of = |child: u32| {
            let end = end_of(&workload.tasks[child as usize].script);
            end.map(|signal| signal.0 as usize).filter(|&signal| !others[signal])
        };
        for op in script {
            if let &Op::Fork(child) = op
                && let Some(signal) = end_of(child)
            {
                ends[signal] = true;
            }
        }
        let meaning = |op: &Op| match op {
            Op::Fork(child) if end_of(*child).is_some() => Meaning::Begin,
            Op::Fork(_) => Meaning::BeginBrief,
            Op::Await(signal) if ends[signal.0 as usize] => Meaning::End,
            Op::Children(_) => Meaning::End,
            _ => Meaning::Other,
        };
        Builder { script, meanings: script.iter().map(meaning).collect() }
    }

    /// Waits for ends between consecutive forks, with the number of live jobs before them, as `(awaits, alive)`.
    fn groups(&self) -> Vec<(Vec<usize>, u32)> {
        let mut groups = vec![(Vec::new(), 0)];
        let mut alive: u32 = 0;
        for (at, meaning) in self.meanings.iter().enumerate() {
            match meaning {
                Meaning::Begin | Meaning::BeginBrief => {
                    alive += u32::from(*meaning == Meaning::Begin);
                    groups.push((Vec::new(), alive));
                }
                Meaning::End => {
                    // A file may contain a wait for a job before its start.
                    alive = alive.saturating_sub(1);
                    groups.last_mut().expect("there is a first group").0.push(at);
                }
                Meaning::Other => {}
            }
        }
        groups
    }

    /// Number of parallel jobs in the recording.
    fn recorded_jobs(&self) -> u32 {
        let mut waits = BTreeMap::<u32, u32>::new();
        for (_, alive) in self.groups().iter().filter(|(awaits, _)| awaits.len() == 1) {
            *waits.entry(*alive).or_default() += 1;
        }
        waits.into_iter().max_by_key(|(_, waits)| *waits).map_or(0, |(alive, _)| alive)
    }

    fn script(&self, recorded: u32, jobs: u32) -> Vec<Op> {
        let groups = self.groups();
        let mut slots = vec![false; self.script.len()];
        // After the last fork there is no need to wait for a free slot.
        for (awaits, alive) in &groups[..groups.len() - 1] {
            if let [at] = awaits[..] {
                slots[at] = *alive >= recorded;
            }
        }
        let mut script = Vec::with_capacity(self.script.len() + groups.len());
        for (at, op) in self.script.iter().enumerate() {
            if matches!(op, Op::Fork(_)) {
                script.push(Op::Children(jobs - 1));
            }
            if !slots[at] {
                script.push(op.clone());
            }
        }
        script.push(Op::Children(0));
        script
    }
}

/// The signal that a task posts at its end, if any.
fn end_of(script: &[Op]) -> Option<SignalId> {
    let work = |ops: &[Op]| {
        let time = |op: &Op| match op {
            Op::Work { user, system } => *user + *system,
            _ => Nanos::ZERO,
        };
        ops.iter().map(time).fold(Nanos::ZERO, |sum, time| sum + time)
    };
    let at = script.iter().rposition(|op| !matches!(op, Op::Work { .. }))?;
    match script[at] {
        Op::Post(signal) if work(&script[..at]) > work(&script[at..]) => Some(signal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Start;
    use expect_test::{Expect, expect};
    use ids::Policy;

    fn work(time: u64) -> Op {
        Op::Work { user: Nanos(time), system: Nanos::ZERO }
    }

    fn workload(scripts: Vec<Vec<Op>>, signals: u32) -> Workload {
        let spec = |(index, script): (usize, Vec<Op>)| TaskSpec {
            name: format!("t{index}"),
            command: None,
            start: if index == 0 { Start::At(Nanos::ZERO) } else { Start::Forked },
            policy: Policy::Other,
            nice: 0,
            cpus: None,
            peak_rss_bytes: 0,
            who: crate::Who::default(),
            window: None,
            memory: None,
            lends: None,
            script,
        };
        Workload {
            name: "w".into(),
            duration: None,
            tasks: scripts.into_iter().enumerate().map(spec).collect(),
            mutexes: Vec::new(),
            locks: Vec::new(),
            conditions: 0,
            barriers: Vec::new(),
            signals,
            references: 0,
            idle_exit_limit: None,
            groups: Vec::new(),
            is_grouped: false,
            caveats: Vec::new(),
            sources: Vec::new(),
            disks: Vec::new(),
            devices: Vec::new(),
            networks: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// A job that posts the even signal at its exec, as after `vfork`, and the odd one at its end.
    fn job(number: u32) -> Vec<Op> {
        let post = |number| Op::Post(SignalId(number));
        vec![work(1), post(2 * number), work(100), post(2 * number + 1), work(2)]
    }

    /// `make -j2` of four files and a program linked from them.
    fn build() -> Workload {
        let fork = |job: u32| [Op::Fork(job + 1), work(1), Op::Await(SignalId(2 * job)), work(3)];
        let end = |job: u32| Op::Await(SignalId(2 * job + 1));
        let mut make: Vec<Op> = Vec::new();
        make.extend(fork(0));
        make.extend(fork(1));
        make.push(end(0));
        make.extend(fork(2));
        make.push(end(2));
        make.extend(fork(3));
        make.extend([end(1), work(1), end(3), work(9)]);
        make.extend(fork(4));
        make.push(end(4));
        let scripts = std::iter::once(make).chain((0..5).map(job));
        workload(scripts.collect(), 10)
    }

    /// The builder's script in short form: `f` fork, `w3` wait until at most 3 children are alive, `e` wait for a
    /// specific end.
    fn show(workload: &Workload) -> String {
        let builder = Builder::new(workload, 0);
        let op = |(op, meaning): (&Op, &Meaning)| match (op, meaning) {
            (Op::Children(most), _) => format!("w{most} "),
            (Op::Fork(_), _) => "f ".into(),
            (_, Meaning::End) => "e ".into(),
            _ => String::new(),
        };
        builder.script.iter().zip(&builder.meanings).map(op).collect()
    }

    fn check(jobs: u32, expected: Expect) {
        let changed = build().with_jobs(jobs).unwrap();
        changed.validate().unwrap();
        expected.assert_eq(&show(&changed));
    }

    #[test]
    fn waits_for_make_job_slots_are_replaced_and_dependencies_kept() {
        expect!["f f e f e f e e f e "].assert_eq(&show(&build()));
        check(1, expect!["w0 f w0 f w0 f w0 f e e w0 f e w0 "]);
        check(8, expect!["w7 f w7 f w7 f w7 f e e w7 f e w0 "]);
    }

    /// Two jobs are alive whenever make waits for a slot, and either end satisfies the wait.
    #[test]
    fn waits_of_make_for_any_child_count_as_waits_for_a_job_slot() {
        let mut build = build();
        let is_slot = |op: &Op| [1, 5].map(|end| Op::Await(SignalId(end))).contains(op);
        for op in build.tasks[0].script.iter_mut().filter(|op| is_slot(op)).take(2) {
            *op = Op::Children(1);
        }
        expect!["f f w1 f w1 f e e f e "].assert_eq(&show(&build));
        let changed = build.with_jobs(8).unwrap();
        changed.validate().unwrap();
        expect!["w7 f w7 f w7 f w7 f e e w7 f e w0 "].assert_eq(&show(&changed));
    }

    #[test]
    fn work_and_exec_waits_are_unchanged() {
        let (before, after) = (build(), build().with_jobs(3).unwrap());
        assert_eq!(before.tasks[1..], after.tasks[1..]);
        let count = |workload: &Workload, which: fn(&Op) -> bool| {
            workload.tasks[0].script.iter().filter(|op| which(op)).count()
        };
        let works = |op: &Op| matches!(op, Op::Work { .. });
        assert_eq!(count(&before, works), count(&after, works));
        // As before, five awaits are for an exec and three for the end of a process.
        assert_eq!(count(&after, |op| matches!(op, Op::Await(_))), 8);
    }

    #[test]
    fn waits_between_jobs_are_removed() {
        let mut build = build();
        // The second compiler waits for a lock held by the first, and posts to make, which awaits it.
        build.signals = 12;
        build.tasks[1].script.insert(3, Op::Post(SignalId(10)));
        build.tasks[2].script.insert(3, Op::Await(SignalId(10)));
        build.tasks[2].script.insert(4, Op::Post(SignalId(11)));
        build.tasks[0].script.insert(6, Op::Await(SignalId(11)));
        let alone = build.with_jobs(1).unwrap();
        alone.validate().unwrap();
        assert!(!alone.tasks[2].script.contains(&Op::Await(SignalId(10))));
        assert!(alone.tasks[0].script.contains(&Op::Await(SignalId(11))));
    }

    #[test]
    fn workloads_that_are_no_build_are_refused() {
        let error = |workload: Workload, jobs| workload.with_jobs(jobs).unwrap_err().to_string();
        assert_eq!(error(build(), 0), "w, jobs=0: 0 jobs; expected 1 or more");
        let lone = workload(vec![vec![work(1)]], 0);
        assert_eq!(error(lone, 2), "w, jobs=2: no task forks; expected a recorded build");
        let looping = workload(vec![vec![Op::Fork(1), work(1), Op::Repeat { from: 1, times: Some(2) }], job(0)], 2);
        assert_eq!(error(looping, 2), "w, jobs=2: the scripts have loops; expected a recorded build");
        let early = vec![Op::Await(SignalId(1)), Op::Fork(1)];
        let early = workload(vec![early, job(0)], 2);
        early.validate().unwrap();
        assert!(early.with_jobs(2).is_err(), "a wait for a job that has not begun");
        let serial = vec![Op::Fork(1), Op::Await(SignalId(1)), Op::Fork(2), Op::Await(SignalId(3))];
        let serial = workload(vec![serial, job(0), job(1)], 4);
        assert_eq!(error(serial, 2), "w, jobs=2: recorded with one job at a time; expected a recording with 2 or more");
    }
}
