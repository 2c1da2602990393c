// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::{DeviceId, NetworkCall, NetworkId, Submission};
use proptest::prelude::*;

/// A finite workload of two tasks with one of each resource; the first forks a third.
const ALL: &str = r#"{
    "tasks": {
        "a": {"loop": 1, "lends": "b", "lock": "m", "signal": "c", "unlock": "m", "timer": {"ref": "t", "period": 1000}, "barrier": "b",
              "fork": "child", "resume": "a", "run": 10},
        "b": {"loop": 1, "cpus": [1, 2], "policy": "SCHED_FIFO", "priority": 5, "barrier": "b", "run": 20},
        "child": {"instance": 0, "loop": 1, "run": 30}
    }
}"#;
const ENDLESS: &str = r#"{"tasks": {"spin": {"loop": -1, "run": 100, "sleep": 100}}, "global": {"duration": 2}}"#;

const GROUPED: &str = r#"{"taskgroups": {"/a": {"weight": 300, "cpus": "0-1"}},
    "tasks": {"in": {"taskgroup": "/a/x", "run": 1}, "out": {"run": 1}}, "global": {"duration": 2}}"#;
const SHARED: &str = r#"{"taskgroups": {"/a": {"weight": 200, "uid": 9}}, "tasks": {"t": {"run": 1}},
    "global": {"duration": 2}}"#;

fn load(what: &str) -> Workload {
    let text = match what {
        "all" => ALL,
        "endless" => ENDLESS,
        "grouped" => GROUPED,
        "shared" => SHARED,
        _ => panic!("{what}"),
    };
    Workload::from_rt_app(&format!("{what}.json"), text).expect("a workload")
}

fn compose(text: &str) -> Result<Workload, WorkloadError> {
    let parts = PartSpec::parse_all(text)?;
    Workload::compose(parts.into_iter().map(|part| (part.clone(), load(&part.what))).collect())
}

fn names(workload: &Workload) -> Vec<&str> {
    workload.tasks.iter().map(|task| task.name.as_str()).collect()
}

#[test]
fn single_part_without_label_is_unchanged() {
    let all = load("all");
    assert_eq!(compose("all").unwrap(), all);
    let nice = compose("all,nice=3").unwrap();
    assert_eq!((nice.name.as_str(), names(&nice)), ("all,nice=3", names(&all)));
    assert_eq!(compose("endless,nice=3").unwrap().duration, Some(Nanos::from_ms(2_000)));
}

#[test]
fn parts_have_separate_resources_and_names() {
    let two = compose("all+x=all,start=5ms").unwrap();
    assert_eq!(two.name, "all+x=all,start=5ms");
    assert_eq!(names(&two), ["all/a", "all/b", "all/child", "x/a", "x/b", "x/child"]);
    let all = load("all");
    let both = |count: u32| 2 * count;
    assert_eq!((two.mutexes.len(), two.conditions), (2 * all.mutexes.len(), both(all.conditions)));
    assert_eq!((two.references, two.barriers.len()), (both(all.references), 2));
    // Each resource number of the second part is that of the first plus an offset.
    let [first, second] = [&two.tasks[0].script, &two.tasks[3].script];
    for (first, second) in first.iter().zip(second) {
        match (first, second) {
            (Op::Lock(one), Op::Lock(other)) | (Op::Unlock(one), Op::Unlock(other)) => assert_eq!(one.0 + 1, other.0),
            (Op::Signal(one), Op::Signal(other)) => assert_eq!(one.0 + 1, other.0),
            (Op::Barrier(one), Op::Barrier(other)) => assert_eq!(one.0 + 1, other.0),
            (Op::Timer { reference: one, .. }, Op::Timer { reference: other, .. }) => assert_eq!(one.0 + 1, other.0),
            (Op::Fork(one), Op::Fork(other)) => assert_eq!(one + 3, *other),
            (Op::Resume(one), Op::Resume(other)) => assert_eq!(one[0] + 3, other[0]),
            (one, other) => assert_eq!(one, other),
        }
    }
    assert_eq!((two.tasks[0].start, two.tasks[3].start), (Start::At(Nanos::ZERO), Start::At(Nanos::from_ms(5))));
    assert_eq!(two.tasks[5].start, Start::Forked);
    assert_eq!((two.tasks[0].lends, two.tasks[3].lends), (Some(1), Some(4)));
    assert_eq!((two.part_of(2).unwrap().label.as_str(), two.part_of(3).unwrap().label.as_str()), ("all", "x"));
}

/// A workload of one task with these devices, networks and operations.
fn using(name: &str, devices: &[&str], networks: &[&str], script: Vec<Op>) -> Workload {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut workload = load("shared");
    (workload.name, workload.devices, workload.networks) = (name.to_owned(), owned(devices), owned(networks));
    workload.tasks[0].script = script;
    workload
}

#[test]
fn parts_share_devices_and_networks_of_the_same_name() {
    let submit = |device| {
        let (device, service) = (DeviceId(device), Nanos(7));
        Op::Submit(Box::new(Submission { device, write: true, bytes: 4_096, service }))
    };
    let requests = |device| Op::AwaitRequests { device: DeviceId(device), most: 0, slept: Nanos(9) };
    let call = |network| Op::Call(Box::new(NetworkCall { network: NetworkId(network), bytes: 5, reply: 6 }));
    let all = |number| vec![submit(number), requests(number), call(number)];
    let parts = PartSpec::parse_all("a+b").unwrap().into_iter().map(|part| {
        let workload = match part.what.as_str() {
            "a" => using("a", &["vda"], &["eth0"], all(0)),
            _ => using("b", &["sr0", "vda"], &["eth1", "eth0"], [all(0), all(1)].concat()),
        };
        (part, workload)
    });
    let whole = Workload::compose(parts.collect()).unwrap();
    assert_eq!(whole.devices, ["vda", "sr0"]);
    assert_eq!(whole.networks, ["eth0", "eth1"]);
    assert_eq!(whole.tasks[0].script, all(0));
    assert_eq!(whole.tasks[1].script, [all(1), all(0)].concat(), "sr0 and eth1 come second, vda and eth0 first");
}

#[test]
fn duplicate_labels_are_numbered() {
    let labels = |text| compose(text).unwrap().parts.into_iter().map(|part| part.label).collect::<Vec<_>>();
    assert_eq!(labels("endless+endless+endless"), ["endless", "endless.2", "endless.3"]);
    assert_eq!(labels("all,count=2+x=all"), ["all.1", "all.2", "x"]);
    assert_eq!(labels("y=all"), ["y"]);
    assert_eq!(names(&compose("y=endless").unwrap()), ["y/spin"]);
}

#[test]
fn run_waits_for_finite_parts_only() {
    let beside = compose("endless+all").unwrap();
    assert_eq!((beside.duration, beside.is_finite()), (None, true));
    assert_eq!([0, 1, 3].map(|task| beside.is_beside(task)), [true, false, false]);
    let endless = compose("endless+endless,start=500ms").unwrap();
    assert_eq!((endless.duration, endless.is_finite()), (Some(Nanos::from_ms(2_500)), false));
    assert!(!endless.is_beside(0));
}

#[test]
fn part_options_apply_to_tasks_without_own_settings() {
    let changed = compose(r"all,nice=19,policy=rr:7,cpus=0\,2,slow=b:1.5").unwrap();
    let task = |number: usize| &changed.tasks[number];
    let cpus = |number| task(number).cpus.as_ref().map(ToString::to_string);
    assert_eq!((task(0).policy, task(0).nice, cpus(0).as_deref()), (Policy::RoundRobin(7), 19, Some("0,2")));
    // The task has its own policy and CPUs.
    assert_eq!((task(1).policy, cpus(1).as_deref()), (Policy::Fifo(5), Some("2")));
    let work = |number: usize| {
        task(number).script.iter().find_map(|op| if let Op::Work { user, .. } = op { Some(user.0) } else { None })
    };
    assert_eq!((work(0), work(1)), (Some(10_000), Some(30_000)));
    let elsewhere = compose("all,cpus=5").unwrap();
    assert_eq!(
        elsewhere.tasks[1].cpus.as_ref().map(ToString::to_string).as_deref(),
        Some("5"),
        "none of its own is there"
    );
}

#[test]
fn invalid_specifications_give_one_line_errors() {
    let error = |text| compose(text).unwrap_err().to_string();
    let cases = [
        ("all,nice=x", r#"workload "all,nice=x": nice=x; expected nice=NUMBER, added to the nice value of its tasks"#),
        ("all,count=0", r#"workload "all,count=0": count=0; expected count=NUMBER, 1 to 10000"#),
        (
            "all,policy=fifo",
            r#"workload "all,policy=fifo": policy=fifo; expected policy=other, batch, idle, fifo:1..99 or rr:1..99"#,
        ),
        ("all,uid=-5", r#"workload "all,uid=-5": uid=-5; expected uid=UID, the number of a user"#),
        ("all,cap=5", r#"workload "all,cap=5": a cap needs group=PATH, the group to be limited"#),
        (
            "all,group=/a,hard-cap=0",
            r#"workload "all,group=/a,hard-cap=0": hard-cap=0; expected hard-cap=PERCENT of one CPU, such as 50"#,
        ),
        (
            "all,group=/a,cap=0,hard-cap=5",
            r#"workload "all,group=/a,cap=0,hard-cap=5": cap and hard-cap given, or one of them twice; expected one"#,
        ),
        (
            "all,group=/a,cap=5+x=shared,group=/u+endless,group=/a,cap=6",
            r#"endless,group=/a,cap=6: group "/a" has a different description in an earlier part"#,
        ),
        ("all,group=a", r#"workload "all,group=a": group=a; expected group=PATH, such as /a or /a/x"#),
        ("all,weight=3", r#"workload "all,weight=3": weight needs group=PATH, the group of this weight"#),
        ("all,group=/a,weight=0", r#"workload "all,group=/a,weight=0": weight=0; expected weight=NUMBER, 1 to 10000"#),
        (
            "all,group=/a,weight=2+x=all,group=/a,weight=3",
            r#"x=all,group=/a,weight=3: group "/a" has a different description in an earlier part"#,
        ),
        ("grouped+x=shared", r#"x=shared: group "/a" has a different description in an earlier part"#),
        ("all,slow=x:2", "all,slow=x:2: slow=x: no task has this name"),
        ("all,slow=a:", r#"workload "all,slow=a:": slow=a:; expected slow=TASK:FACTOR, such as cc1:1.5"#),
        ("all,slow=a:0", r#"workload "all,slow=a:0": slow=a:0; expected slow=TASK:FACTOR, such as cc1:1.5"#),
        ("a=b=all", r#"workload "a=b=all": more than one =; expected [LABEL=]NAME (write \= for a literal =)"#),
        ("+all", r#"workload "": expected [LABEL=]NAME or [LABEL=]FILE, and no / in a label"#),
        ("all,jobs=0", r#"workload "all,jobs=0": jobs=0; expected jobs=NUMBER, 1 or more"#),
        (
            "all,fast",
            r#"workload "all,fast": "fast"; expected jobs=N, load=PERCENT, nice=N, policy=P, cpus=LIST, uid=N, group=PATH, weight=N, cap=PERCENT, hard-cap=PERCENT, process=NAME, memory=CLASS, footprint=SIZE, dirty=PERCENT, stream=MB/S, memory-share=PERCENT, region=NAME, placement=WHERE, rate=N, service=TIME, draw=HOW, arrivals=HOW, warmup=TIME, workers=N, start=TIME, count=N or slow=TASK:FACTOR"#,
        ),
        (
            "all,jobs=2,load=50",
            r#"workload "all,jobs=2,load=50": jobs and load exclude each other; expected one of them"#,
        ),
        ("all,load=0", r#"workload "all,load=0": load=0; expected load=PERCENT of the machine's CPUs, such as 150"#),
        ("all,load=50", "all,load=50: load=50 is a percentage of a machine's CPUs, but no machine is given"),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), expected);
    }
    let whats: Vec<_> =
        PartSpec::parse_all(r"./c\+\+/a\,b.json+x=y\=z").unwrap().into_iter().map(|part| part.what).collect();
    assert_eq!(whats, ["./c++/a,b.json", "y=z"]);
}

proptest! {
    #[test]
    fn any_specification_is_parsed_or_refused(text in "[a-z+,=\\\\:.0-9/]{0,40}") {
        if let Ok(parts) = PartSpec::parse_all(&text) {
            prop_assert_eq!(parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("+"), text);
        }
    }
}

/// An option of a part applies to all tasks of every copy; a workload file sets the process of a single task.
#[test]
fn process_option_puts_all_tasks_of_a_part_into_one_process() {
    let shown = |text: &str| {
        let workload = compose(text).unwrap();
        workload.tasks.iter().map(|task| task.who.process.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(shown("grouped,process=p"), ["p", "p"]);
    assert_eq!(shown("grouped,count=2,process=p+endless+x=endless,process=q"), ["p", "p", "p", "p", "", "q"]);
    assert!(compose("all,process=").unwrap_err().problem.contains("expected process=NAME"));
    let text = r#"{"tasks": {"a": {"process": "p", "run": 1}, "b": {"run": 1}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    assert_eq!([0, 1].map(|task: usize| workload.tasks[task].who.process.clone()), [Some("p".to_owned()), None]);
}

#[test]
fn group_option_nests_the_groups_of_a_part_and_uid_applies_to_all_tasks() {
    let shown = |text: &str| {
        let workload = compose(text).unwrap();
        let task = |(spec, task): (u32, &TaskSpec)| {
            format!("{} {} {:?}", task.name, workload.group_of(spec).unwrap_or("/"), task.who.uid)
        };
        let groups = workload.all_groups().into_iter().map(|group| format!("{} {}", group.path, group.weight));
        groups.chain((0..).zip(&workload.tasks).map(task)).collect::<Vec<_>>()
    };
    let alone = ["/u 100", "/u/a 300", "/u/a/x 100", "in /u/a/x Some(5)", "out /u Some(5)"];
    assert_eq!(shown("grouped,group=/u,uid=5"), alone);
    // Groups with the same path are one group, also across copies.
    let two = shown("grouped,count=2,group=/u+endless,group=/u/a");
    assert_eq!(two[..3], alone[..3]);
    assert_eq!(
        two[3..],
        [
            "grouped.1/in /u/a/x None",
            "grouped.1/out /u None",
            "grouped.2/in /u/a/x None",
            "grouped.2/out /u None",
            "endless/spin /u/a None"
        ]
    );
    // `weight` applies to the part's outer group only.
    assert_eq!(shown("grouped,group=/u,weight=7")[..3], ["/u 7", "/u/a 300", "/u/a/x 100"]);
    // A group's description applies to tasks of other parts in it.
    let cpus = compose("grouped+endless,group=/a").unwrap().tasks[2].cpus.clone().unwrap();
    assert_eq!(cpus.to_string(), "0-1");
    let users = shown("endless,group=/a+shared");
    assert_eq!(users[1], "endless/spin /a Some(9)");
}

#[test]
fn cap_option_applies_to_the_outer_group() {
    let caps = |text: &str| {
        let groups = compose(text).unwrap().all_groups().into_iter();
        groups.map(|group| (group.path, group.cap_percent, group.hard)).collect::<Vec<_>>()
    };
    let of = |path: &str, cap, hard| (path.to_owned(), cap, hard);
    assert_eq!(caps("endless,group=/u/a,cap=0"), [of("/u", None, false), of("/u/a", Some(0), false)]);
    let shared = caps("endless,hard-cap=50,group=/u+endless,group=/u+grouped,group=/v,count=2,cap=7");
    let (u, v) = (of("/u", Some(50), true), of("/v", Some(7), false));
    assert_eq!(shared, [u, v, of("/v/a", None, false), of("/v/a/x", None, false)]);
}

#[test]
fn recorded_groups_are_ignored_unless_a_part_has_groups() {
    let recorded = |text: &str| {
        let mut part = load("endless");
        part.tasks[0].who.group = Some("/user.slice".into());
        let spec = PartSpec::parse_all(text).unwrap().remove(0);
        Workload::compose(vec![(spec, part)]).unwrap()
    };
    assert_eq!(recorded("endless").group_of(0), None);
    assert_eq!(recorded("endless,group=/x").group_of(0), Some("/x"));
    let beside = PartSpec::parse_all("endless+grouped").unwrap();
    let parts = beside.into_iter().zip([recorded("endless"), load("grouped")]).collect();
    let groups: Vec<_> = Workload::compose(parts).unwrap().all_groups().into_iter().map(|group| group.path).collect();
    assert_eq!(groups, ["/a", "/a/x"]);
}

#[test]
fn request_keys_change_the_source_of_their_part() {
    use crate::Arrivals;
    let composed = |text: &str| {
        let parts = PartSpec::parse_all(text).unwrap();
        Workload::compose(
            parts
                .into_iter()
                .map(|part| {
                    let made = crate::generate(&part.what, 2).unwrap();
                    (part, made)
                })
                .collect(),
        )
    };
    let one = composed("requests,rate=800,service=2ms,draw=constant,warmup=1s,workers=3").unwrap();
    let source = &one.sources[0];
    assert_eq!(source.arrivals, Arrivals::Poisson(Nanos(1_250_000)));
    assert_eq!(
        (source.service, source.exponential, source.measured_from),
        (Nanos::from_ms(2), false, Nanos::from_secs(1))
    );
    assert_eq!(
        one.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(),
        ["worker-0", "worker-1", "worker-2"]
    );
    let two = composed("a=requests,arrivals=periodic,start=1s+b=requests,rate=0.5").unwrap();
    assert_eq!(two.sources[0].arrivals, Arrivals::Periodic(Nanos(2_000_000)));
    assert_eq!((two.sources[0].start, two.sources[1].start), (Nanos::from_secs(1), Nanos::ZERO));
    let last = two.tasks.last().unwrap();
    assert_eq!(last.script[..2], [Op::TakeRequest(SourceId(1)), Op::Serve(SourceId(1))]);
    assert!(one.is_open_station() && !two.is_open_station());
    let problem = composed("pair,rate=5").unwrap_err().to_string();
    assert!(
        problem.contains("belong to workloads with one source of requests") && problem.contains("has 0"),
        "{problem}"
    );
    for (bad, expected) in [
        ("requests,rate=0", "rate=NUMBER of requests for each second"),
        ("requests,service=5", "service=TIME"),
        ("requests,draw=normal", "draw=exponential or constant"),
        ("requests,arrivals=never", "arrivals=poisson, periodic, or FILE"),
        ("requests,workers=0", "workers=NUMBER of tasks"),
    ] {
        let problem = PartSpec::parse_all(bad).unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem}");
    }
}
