// SPDX-License-Identifier: GPL-2.0-only
//! A recorded build as it would have been with another number of jobs.
//!
//! A recording keeps every cause, and one of them is the builder's own: at `make -j4` it starts the fifth job when one
//! of four has ended. To ask what `-j8` would have done, that cause must go and a wait for a free slot must take its
//! place. What tells it from a true dependency:
//!
//! 1. The *builder* is the task that forks most; its children are the jobs. The recorded number of jobs is how many of
//!    them lived most often when it waited for one end before it forked the next. A child that ended while the builder
//!    was busy left no trace of when: it is not counted, and a wait beside it passes for a true dependency.
//! 2. A child's *end* is a post after which nothing but work follows, and less of it than before. (Who forks with
//!    `vfork` waits for the exec first, which comes early in the child.) The builder awaits it, or where any child's end
//!    will do, so many ends ([`Op::Children`]); then nobody awaits the post.
//! 3. When as many jobs live as were allowed, and the builder waits for one end and then forks, it waited for a slot.
//!    When it waits with slots to spare, or for several ends in a row, it needed these jobs' results.
//! 4. One job that waits for another waited by chance, for a lock of the kernel or a token of the job server: these two
//!    may not even overlap any more, so that wait goes as well.
//!
//! So the slots are exact for a builder that is one process, the dependencies a lower bound: what the recorded schedule
//! never had to wait for is not known, and a prediction for many more jobs is optimistic.

use crate::{Op, SignalId, TaskSpec, Workload, WorkloadError};
use ids::Nanos;
use std::collections::BTreeMap;

impl Workload {
    /// The same build with `jobs` jobs at once (1 or more).
    ///
    /// # Errors
    /// If `jobs` is 0; if the scripts have loops, as recordings never do; if no task forks, so that there is no builder;
    /// or if the recorded build had one job at a time, so that every wait may have been either.
    pub fn with_jobs(&self, jobs: u32) -> Result<Workload, WorkloadError> {
        let fail = |problem: String| WorkloadError { place: format!("{}, jobs={jobs}", self.name), problem };
        if jobs == 0 {
            return Err(fail("0 jobs would never end; expected 1 or more".into()));
        }
        if self.tasks.iter().flat_map(|task| &task.script).any(|op| matches!(op, Op::Repeat { .. })) {
            return Err(fail("its scripts have loops; expected a recorded build".into()));
        }
        let builder = self.builder().ok_or_else(|| fail("no task forks others; expected a recorded build".into()))?;
        let plan = Builder::new(self, builder);
        let recorded = plan.recorded_jobs();
        if recorded < 2 {
            return Err(fail("recorded with one job at a time; expected a recording with 2 or more".into()));
        }
        let script = plan.script(recorded, jobs);
        let mut workload = self.clone();
        workload.tasks[builder].script = script;
        workload.part_jobs(builder);
        Ok(workload)
    }

    /// Removes waits of one job's tasks for another's.
    fn part_jobs(&mut self, builder: usize) {
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

    /// The child of the builder that each task descends from.
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

    /// The task that forks most; the first of them.
    fn builder(&self) -> Option<usize> {
        let forks = |task: &TaskSpec| task.script.iter().filter(|op| matches!(op, Op::Fork(_))).count();
        let most = self.tasks.iter().map(forks).max().filter(|&most| most > 0)?;
        self.tasks.iter().position(|task| forks(task) == most)
    }
}

/// What an operation of the builder means.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Meaning {
    /// A job begins whose end it will wait for.
    Begin,
    /// A job begins that will end while it does something else.
    BeginBrief,
    /// It waits for the end of a job.
    End,
    /// Anything else.
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

    /// Waits for ends between one fork and the next, and jobs alive before them: `(awaits, alive)` by operation.
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
                    // A file may say that it waits for a job before it starts it.
                    alive = alive.saturating_sub(1);
                    groups.last_mut().expect("there is a first group").0.push(at);
                }
                Meaning::Other => {}
            }
        }
        groups
    }

    /// How many jobs at once the build was recorded with.
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
        // After the last fork there is no slot to wait for.
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

/// The signal that a task posts at its end, if it does.
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
            lends: None,
            script,
        };
        Workload {
            name: "w".into(),
            duration: None,
            tasks: scripts.into_iter().enumerate().map(spec).collect(),
            mutexes: 0,
            locks: Vec::new(),
            conditions: 0,
            barriers: Vec::new(),
            signals,
            references: 0,
            groups: Vec::new(),
            is_grouped: false,
            parts: Vec::new(),
        }
    }

    /// A job that tells of its exec with the even signal, as after `vfork`, and of its end with the odd one.
    fn job(number: u32) -> Vec<Op> {
        let post = |number| Op::Post(SignalId(number));
        vec![work(1), post(2 * number), work(100), post(2 * number + 1), work(2)]
    }

    /// `make -j2` of four files and a program that is linked from them.
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

    /// The builder's script in short: `f` fork, `w3` wait until at most 3 children live, `e` wait for a certain end.
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
    fn waits_for_a_slot_go_and_waits_for_results_stay() {
        expect!["f f e f e f e e f e "].assert_eq(&show(&build()));
        check(1, expect!["w0 f w0 f w0 f w0 f e e w0 f e w0 "]);
        check(8, expect!["w7 f w7 f w7 f w7 f e e w7 f e w0 "]);
    }

    /// Two jobs live whenever make waits for a slot, and whichever ends first will do.
    #[test]
    fn ends_of_any_jobs_are_ends() {
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
    fn work_and_execs_are_untouched() {
        let (before, after) = (build(), build().with_jobs(3).unwrap());
        assert_eq!(before.tasks[1..], after.tasks[1..]);
        let count = |workload: &Workload, which: fn(&Op) -> bool| {
            workload.tasks[0].script.iter().filter(|op| which(op)).count()
        };
        let works = |op: &Op| matches!(op, Op::Work { .. });
        assert_eq!(count(&before, works), count(&after, works));
        // Five execs are awaited as before, and three ends.
        assert_eq!(count(&after, |op| matches!(op, Op::Await(_))), 8);
    }

    #[test]
    fn jobs_do_not_wait_for_each_other() {
        let mut build = build();
        // The second file's compiler meets a lock that the first one's holds, and posts to make, which awaits it.
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
    fn what_is_no_build_is_refused() {
        let error = |workload: Workload, jobs| workload.with_jobs(jobs).unwrap_err().to_string();
        assert_eq!(error(build(), 0), "w, jobs=0: 0 jobs would never end; expected 1 or more");
        let lone = workload(vec![vec![work(1)]], 0);
        assert_eq!(error(lone, 2), "w, jobs=2: no task forks others; expected a recorded build");
        let looping = workload(vec![vec![Op::Fork(1), work(1), Op::Repeat { from: 1, times: Some(2) }], job(0)], 2);
        assert_eq!(error(looping, 2), "w, jobs=2: its scripts have loops; expected a recorded build");
        let early = vec![Op::Await(SignalId(1)), Op::Fork(1)];
        let early = workload(vec![early, job(0)], 2);
        early.validate().unwrap();
        assert!(early.with_jobs(2).is_err(), "a wait for a job that has not begun");
        let serial = vec![Op::Fork(1), Op::Await(SignalId(1)), Op::Fork(2), Op::Await(SignalId(3))];
        let serial = workload(vec![serial, job(0), job(1)], 4);
        assert_eq!(error(serial, 2), "w, jobs=2: recorded with one job at a time; expected a recording with 2 or more");
    }
}
