// SPDX-License-Identifier: GPL-2.0-only
//! Runs in the kernel and their expected results.

/// One run in the kernel.
pub struct Case {
    /// Name of the case and of its report.
    pub name: &'static str,
    /// Scheduler specification, as on the command line.
    pub scheduler: &'static str,
    /// Number of CPUs of the machine.
    pub cpus: usize,
    /// Workload in rt-app's format.
    pub workload: &'static str,
    /// Duration, as on the command line.
    pub time: &'static str,
    /// Expected result.
    pub expected: Expected,
}

/// Expected result of a run.
pub enum Expected {
    /// No promise is violated, and these properties, by their names in reports, were checked.
    Kept(&'static [&'static str]),
    /// This property is violated.
    Broken(&'static str),
    /// Shares of the tasks' total CPU time by task names, compared with the model; and the expected share in percent,
    /// where the theory states one.
    Shares(&'static [(&'static str, Option<f64>)]),
}

use Expected::{Broken, Kept, Shares};

/// More tasks than four CPUs can run, some of them short.
const CROWD: &str = r#"{"tasks": {
  "short": {"instance": 4, "loop": -1, "run": 2000, "sleep": 9000},
  "long": {"instance": 5, "loop": -1, "run": 30000, "sleep": 4000}
}}"#;

/// One task pinned to CPU 0, and one that is alternately pinned there and unpinned: whatever the scheduler, it then
/// starts on CPU 0, and its next slice ends while other CPUs are idle. A third task uses CPU 1 now and then.
const BESIDE_A_PINNED_ONE: &str = r#"{"tasks": {
  "free": {"loop": -1, "phases": {
    "beside": {"cpus": [0], "run": 60000},
    "anywhere": {"cpus": [0, 1, 2, 3], "run": 200000}
  }},
  "pinned": {"loop": -1, "cpus": [0], "run": 100000},
  "guest": {"loop": -1, "cpus": [1], "run": 5000, "sleep": 90000}
}}"#;

/// Two jobs, of two and four tasks.
const TWO_JOBS: &str = r#"{"taskgroups": {"/a": {"weight": 300}, "/b": {"weight": 100}}, "tasks": {
  "a": {"instance": 2, "taskgroup": "/a", "loop": -1, "run": 100000},
  "b": {"instance": 4, "taskgroup": "/b", "loop": -1, "run": 100000}
}}"#;

/// Two streams that need 95 % of a CPU and may miss some deadlines, and a hog (docs/explanation/sharing.md).
const SOUND_AND_FILM: &str = r#"{"tasks": {
  "sound": {"window": [1, 10], "request-us": 10000, "run": 2000, "timer": {"ref": "a", "period": 10000}},
  "film": {"window": [1, 2], "request-us": 40000, "run": 30000, "timer": {"ref": "v", "period": 40000}},
  "hog": {"loop": -1, "run": 1000000}
}}"#;

/// Weights of 10 : 1 (docs/explanation/sharing.md).
const TEN_TO_ONE: &str = r#"{"taskgroups": {"/a": {"weight": 1000}, "/b": {"weight": 100}}, "tasks": {
  "a": {"taskgroup": "/a", "loop": -1, "run": 1000000},
  "b": {"taskgroup": "/b", "loop": -1, "run": 1000000}
}}"#;

/// Shares of 120 : 20 : 10.
const NICE: &str = r#"{"tasks": {
  "eager": {"priority": -10, "loop": -1, "run": 1000000},
  "plain": {"loop": -1, "run": 1000000},
  "meek": {"priority": 10, "loop": -1, "run": 1000000}
}}"#;

/// Two users, one of them with three tasks.
const USERS: &str = r#"{"taskgroups": {"/a": {"weight": 300}, "/b": {"weight": 100}}, "tasks": {
  "a": {"taskgroup": "/a", "loop": -1, "run": 1000000},
  "b": {"instance": 3, "taskgroup": "/b", "loop": -1, "run": 1000000}
}}"#;

/// Workers run with the tickets that their clients transfer (docs/explanation/sharing.md).
const QUERIES: &str = r#"{"taskgroups": {"/a": {"weight": 800}, "/b": {"weight": 300}, "/c": {"weight": 100}}, "tasks": {
  "client_a": {"loop": -1, "taskgroup": "/a", "lends": "worker_a", "run": 50, "sync": {"ref": "a", "mutex": "a"}},
  "client_b": {"loop": -1, "taskgroup": "/b", "lends": "worker_b", "run": 50, "sync": {"ref": "b", "mutex": "b"}},
  "client_c": {"loop": -1, "taskgroup": "/c", "lends": "worker_c", "run": 50, "sync": {"ref": "c", "mutex": "c"}},
  "worker_a": {"loop": -1, "run": 110000, "sync": {"ref": "a", "mutex": "a"}},
  "worker_b": {"loop": -1, "run": 110000, "sync": {"ref": "b", "mutex": "b"}},
  "worker_c": {"loop": -1, "run": 110000, "sync": {"ref": "c", "mutex": "c"}}
}}"#;

/// A hard cap of 20 % of a CPU, a soft cap of 30 %, and a task that gets the rest.
const CAPPED: &str = r#"{
  "taskgroups": {"/hard": {"cap_percent": 20, "hard": true}, "/soft": {"cap_percent": 30}},
  "tasks": {
    "hard": {"taskgroup": "/hard", "loop": -1, "run": 100000},
    "soft": {"taskgroup": "/soft", "loop": -1, "run": 100000},
    "rest": {"loop": -1, "run": 100000}
  }
}"#;

/// Two of four CPUs are reserved for a job half of the time; otherwise it shares the machine with six other tasks.
const RESERVED: &str = r#"{
  "taskgroups": {"/job": {"reserve": {"cpus": 2, "from-ms": 500, "ms": 2000}}, "/rest": {}},
  "tasks": {
    "job": {"instance": 2, "taskgroup": "/job", "loop": -1, "run": 100000},
    "rest": {"instance": 6, "taskgroup": "/rest", "loop": -1, "run": 100000}
  }
}"#;

const fn kept(scheduler: &'static str, workload: &'static str, seen: &'static [&'static str]) -> Case {
    Case { name: scheduler, scheduler, cpus: 4, workload, time: "2s", expected: Kept(seen) }
}

const fn shares(
    name: &'static str,
    scheduler: &'static str,
    workload: &'static str,
    due: &'static [(&'static str, Option<f64>)],
) -> Case {
    Case { name, scheduler, cpus: 1, workload, time: "6s", expected: Shares(due) }
}

const TEN: &[(&str, Option<f64>)] = &[("a", Some(100.0 * 10.0 / 11.0)), ("b", Some(100.0 / 11.0))];

/// All cases.
///
/// Quanta are short, so that many fit into a few seconds: 1,500 lotteries have a standard deviation of sqrt(10/11 *
/// 1/11 / 1500) = 0.74 points, and slices of the other policies are below a hundredth of the run.
pub const CASES: &[Case] = &[
    kept("fifo", BESIDE_A_PINNED_ONE, &["work-conserving"]),
    kept("bfs", CROWD, &["work-conserving"]),
    kept("lottery", CROWD, &["work-conserving"]),
    kept("stride", CROWD, &["work-conserving"]),
    // Co-running of jobs is checked only in the model, where all tasks are visible.
    kept("gang", TWO_JOBS, &["affinity"]),
    Case {
        name: "fifo-blind",
        scheduler: "/in/fifo-blind.bpf.o",
        cpus: 4,
        workload: BESIDE_A_PINNED_ONE,
        time: "2s",
        expected: Broken("work-conserving"),
    },
    Case {
        name: "shares-sets",
        scheduler: "sets",
        cpus: 4,
        workload: RESERVED,
        time: "4s",
        expected: Shares(&[("job", Some(37.5)), ("rest", Some(62.5))]),
    },
    Case {
        name: "dwcs-film",
        scheduler: "dwcs,slot_us=40000",
        cpus: 1,
        workload: SOUND_AND_FILM,
        time: "4s",
        expected: Kept(&["windows"]),
    },
    Case {
        name: "stride-film",
        scheduler: "stride",
        cpus: 1,
        workload: SOUND_AND_FILM,
        time: "4s",
        expected: Kept(&["work-conserving"]),
    },
    shares("shares-lottery", "lottery,quantum_us=4000", TEN_TO_ONE, TEN),
    // 10,000 quanta of one tick: a standard deviation of at most 0.5 points, and of 0.7 against the model.
    Case {
        name: "shares-lent",
        scheduler: "lottery,quantum_us=4000",
        cpus: 1,
        workload: QUERIES,
        time: "40s",
        expected: Shares(&[
            ("worker_a", Some(100.0 * 8.0 / 12.0)),
            ("worker_b", Some(100.0 * 3.0 / 12.0)),
            ("worker_c", Some(100.0 / 12.0)),
        ]),
    },
    shares("shares-stride", "stride,quantum_us=20000", TEN_TO_ONE, TEN),
    shares("shares-hierarchical", "stride@hierarchical,quantum_us=20000", TEN_TO_ONE, TEN),
    shares("shares-currency", "currency", TEN_TO_ONE, TEN),
    shares(
        "shares-entitlement",
        "entitlement,half_life_ms=500,slice_us=8000",
        NICE,
        &[("eager", Some(80.0)), ("plain", Some(100.0 * 2.0 / 15.0)), ("meek", Some(100.0 / 15.0))],
    ),
    // The capped tasks take a few tenths of a second to two seconds to reach their caps.
    Case {
        name: "shares-caps",
        scheduler: "entitlement,half_life_ms=500,slice_us=8000",
        cpus: 1,
        workload: CAPPED,
        time: "15s",
        expected: Shares(&[("hard", Some(20.0)), ("soft", Some(30.0)), ("rest", Some(50.0))]),
    },
    // The users need the first ten seconds to reach equilibrium, at a different pace in kernel and model; the final
    // shares are known only from the model.
    Case {
        name: "shares-share",
        scheduler: "entitlement@share,half_life_ms=500,user_half_life_ms=1000",
        cpus: 1,
        workload: USERS,
        time: "30s",
        expected: Shares(&[("a", None), ("b", None)]),
    },
    shares(
        "shares-dwcs",
        "dwcs,slot_us=40000",
        SOUND_AND_FILM,
        &[("sound", Some(20.0)), ("film", Some(75.0)), ("hog", Some(5.0))],
    ),
];
