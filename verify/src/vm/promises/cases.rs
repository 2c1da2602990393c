// SPDX-License-Identifier: GPL-2.0-only
//! What is run, and what must come of it.

/// One run in the kernel.
pub struct Case {
    /// Name, of its report as well.
    pub name: &'static str,
    /// The scheduler, as on the command line.
    pub scheduler: &'static str,
    /// CPUs of the machine.
    pub cpus: usize,
    /// The workload, as of rt-app.
    pub workload: &'static str,
    /// How long, as on the command line.
    pub time: &'static str,
    /// What must come of it.
    pub expected: Expected,
}

/// What must come of a run.
pub enum Expected {
    /// No promise is broken, and these, by their names in reports, could have been.
    Kept(&'static [&'static str]),
    /// This one is broken.
    Broken(&'static str),
    /// Parts of all CPU time by names of tasks, as the model has them; and what is due, in percent, if the theory says so.
    Shares(&'static [(&'static str, Option<f64>)]),
}

use Expected::{Broken, Kept, Shares};

/// More than four CPUs have time for, some of them short.
const CROWD: &str = r#"{"tasks": {
  "short": {"instance": 4, "loop": -1, "run": 2000, "sleep": 9000},
  "long": {"instance": 5, "loop": -1, "run": 30000, "sleep": 4000}
}}"#;

/// One task of CPU 0, and one that has to be beside it by turns and then may go anywhere: it is on CPU 0 then, whatever the
/// scheduler, and its next slice ends beside idle CPUs. Somebody has CPU 1 now and then.
const BESIDE_A_PINNED_ONE: &str = r#"{"tasks": {
  "free": {"loop": -1, "phases": {
    "beside": {"cpus": [0], "run": 60000},
    "anywhere": {"cpus": [0, 1, 2, 3], "run": 200000}
  }},
  "pinned": {"loop": -1, "cpus": [0], "run": 100000},
  "guest": {"loop": -1, "cpus": [1], "run": 5000, "sleep": 90000}
}}"#;

/// Two groups of two and four.
const TWO_JOBS: &str = r#"{"taskgroups": {"/a": {"weight": 300}, "/b": {"weight": 100}}, "tasks": {
  "a": {"instance": 2, "taskgroup": "/a", "loop": -1, "run": 100000},
  "b": {"instance": 4, "taskgroup": "/b", "loop": -1, "run": 100000}
}}"#;

/// 95 % of a CPU for two who may be late now and then, and one who wants all of it (docs/explanation/sharing.md).
const SOUND_AND_FILM: &str = r#"{"tasks": {
  "sound": {"window": [1, 10], "request-us": 10000, "run": 2000, "timer": {"ref": "a", "period": 10000}},
  "film": {"window": [1, 2], "request-us": 40000, "run": 30000, "timer": {"ref": "v", "period": 40000}},
  "hog": {"loop": -1, "run": 1000000}
}}"#;

/// Ten to one (docs/explanation/sharing.md).
const TEN_TO_ONE: &str = r#"{"taskgroups": {"/a": {"weight": 1000}, "/b": {"weight": 100}}, "tasks": {
  "a": {"taskgroup": "/a", "loop": -1, "run": 1000000},
  "b": {"taskgroup": "/b", "loop": -1, "run": 1000000}
}}"#;

/// 120 : 20 : 10 shares.
const NICE: &str = r#"{"tasks": {
  "eager": {"priority": -10, "loop": -1, "run": 1000000},
  "plain": {"loop": -1, "run": 1000000},
  "meek": {"priority": 10, "loop": -1, "run": 1000000}
}}"#;

/// Two users, one with three tasks.
const USERS: &str = r#"{"taskgroups": {"/a": {"weight": 300}, "/b": {"weight": 100}}, "tasks": {
  "a": {"taskgroup": "/a", "loop": -1, "run": 1000000},
  "b": {"instance": 3, "taskgroup": "/b", "loop": -1, "run": 1000000}
}}"#;

/// Workers have what their clients lend them (docs/explanation/sharing.md).
const QUERIES: &str = r#"{"taskgroups": {"/a": {"weight": 800}, "/b": {"weight": 300}, "/c": {"weight": 100}}, "tasks": {
  "client_a": {"loop": -1, "taskgroup": "/a", "lends": "worker_a", "run": 50, "sync": {"ref": "a", "mutex": "a"}},
  "client_b": {"loop": -1, "taskgroup": "/b", "lends": "worker_b", "run": 50, "sync": {"ref": "b", "mutex": "b"}},
  "client_c": {"loop": -1, "taskgroup": "/c", "lends": "worker_c", "run": 50, "sync": {"ref": "c", "mutex": "c"}},
  "worker_a": {"loop": -1, "run": 110000, "sync": {"ref": "a", "mutex": "a"}},
  "worker_b": {"loop": -1, "run": 110000, "sync": {"ref": "b", "mutex": "b"}},
  "worker_c": {"loop": -1, "run": 110000, "sync": {"ref": "c", "mutex": "c"}}
}}"#;

/// One may have a fifth of a CPU, one 30 % while others want it, one all that is left.
const CAPPED: &str = r#"{
  "taskgroups": {"/hard": {"cap_percent": 20, "hard": true}, "/soft": {"cap_percent": 30}},
  "tasks": {
    "hard": {"taskgroup": "/hard", "loop": -1, "run": 100000},
    "soft": {"taskgroup": "/soft", "loop": -1, "run": 100000},
    "rest": {"loop": -1, "run": 100000}
  }
}"#;

/// Two of four CPUs are a job's for a half of the time; else it shares with six others.
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

/// All runs.
///
/// Quanta are short, so that many of them fit into seconds: 1,500 draws of `lottery` have a standard deviation of
/// sqrt(10/11 * 1/11 / 1500) = 0.74 points, and turns of the others are less than a hundredth of the run.
pub const CASES: &[Case] = &[
    kept("fifo", BESIDE_A_PINNED_ONE, &["work-conserving"]),
    kept("bfs", CROWD, &["work-conserving"]),
    kept("lottery", CROWD, &["work-conserving"]),
    kept("stride", CROWD, &["work-conserving"]),
    // Whether jobs run as one is judged in the model alone, which shows all tasks.
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
    // 10,000 quanta of a tick: a standard deviation of at most 0.5 points, and of 0.7 against the model.
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
    // The capped ones take a third of a second or two to have had what they may.
    Case {
        name: "shares-caps",
        scheduler: "entitlement,half_life_ms=500,slice_us=8000",
        cpus: 1,
        workload: CAPPED,
        time: "15s",
        expected: Shares(&[("hard", Some(20.0)), ("soft", Some(30.0)), ("rest", Some(50.0))]),
    },
    // Its users take the first ten seconds to come where they are going to be, each world in its own steps; what they have
    // by the end only the model says.
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
