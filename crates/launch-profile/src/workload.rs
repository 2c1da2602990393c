// SPDX-License-Identifier: GPL-2.0-only
//! Facts about the workload that a scheduler can be given: groups, windows of tasks, and lending between tasks, as a
//! program that creates them would pass them to the scheduler's user space.

use crate::source::{number, table};
use crate::{Constant, Profile, Setting};
use std::borrow::Cow;

/// A group of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Weight relative to its siblings, 1 to 10000.
    pub weight: u32,
    /// Cap on its CPU time, in percent of one CPU.
    pub cap_percent: Option<u32>,
    /// User that owns its tasks.
    pub uid: Option<u32>,
}

/// CPUs reserved for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Last component of the group's path, by which a scheduler identifies it.
    pub group: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Time from the start of its first task to the start of the reservation, in milliseconds.
    pub from_ms: u32,
    /// Duration in milliseconds; 0: unlimited.
    pub ms: u32,
}

/// Cap of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Last component of the group's path, by which a scheduler identifies it.
    pub group: String,
    /// Maximum CPU time, in percent of one CPU.
    pub percent: u32,
    /// The cap applies even if the CPU would be idle otherwise.
    pub hard: bool,
}

/// Window of a task: at most `late` of each `of` requests may be late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Name of the task, truncated as in the kernel.
    pub task: String,
    /// Number of requests per window that may be late.
    pub late: u32,
    /// Number of requests per window.
    pub of: u32,
    /// Time limit of a request, in microseconds.
    pub request_us: u64,
}

/// A task that lends to another one while it sleeps, or that receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lending {
    /// Name of the task, truncated as in the kernel.
    pub task: String,
    /// Number of the server it lends to; 0 if it does not lend.
    pub lends_to: u32,
    /// Its own number as a server, from 1; 0 if no task lends to it.
    pub lent_as: u32,
}

/// All facts about a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// Groups: parents first, siblings by name.
    pub groups: Vec<Group>,
    /// Reservations of groups, in the same order.
    pub reservations: Vec<Reservation>,
    /// Caps of groups, in the same order.
    pub caps: Vec<Cap>,
    /// Windows of tasks, by task name.
    pub windows: Vec<Window>,
    /// Tasks that lend or receive, by name.
    pub lending: Vec<Lending>,
}

/// A number or table of the workload, `{ workload = "NAME" }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WorkloadSource {
    Groups,
    Weights,
    Caps,
    Uids,
    ReservingGroups,
    ReservedCpus,
    ReservedFrom,
    ReservedFor,
    CappedGroups,
    CapsPercent,
    CapsHard,
    TaskWindows,
    WindowsLate,
    WindowsOf,
    Requests,
    Lending,
    LendingTasks,
    LendsTo,
    LentAs,
}

/// Names as spelled in a profile.
const NAMES: [(&str, WorkloadSource); 19] = [
    ("groups", WorkloadSource::Groups),
    ("group-weights", WorkloadSource::Weights),
    ("group-caps", WorkloadSource::Caps),
    ("group-uids", WorkloadSource::Uids),
    ("reserving-groups", WorkloadSource::ReservingGroups),
    ("reserved-cpus", WorkloadSource::ReservedCpus),
    ("reserved-from-ms", WorkloadSource::ReservedFrom),
    ("reserved-ms", WorkloadSource::ReservedFor),
    ("capped-groups", WorkloadSource::CappedGroups),
    ("caps-percent", WorkloadSource::CapsPercent),
    ("caps-hard", WorkloadSource::CapsHard),
    ("task-windows", WorkloadSource::TaskWindows),
    ("windows-late", WorkloadSource::WindowsLate),
    ("windows-of", WorkloadSource::WindowsOf),
    ("requests-us", WorkloadSource::Requests),
    ("lending", WorkloadSource::Lending),
    ("lending-tasks", WorkloadSource::LendingTasks),
    ("lends-to", WorkloadSource::LendsTo),
    ("lent-as", WorkloadSource::LentAs),
];

/// Value for a group without a user; not a valid UID.
const NO_UID: u32 = u32::MAX;

impl WorkloadSource {
    /// Returns the names of all sources, as profiles write them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Returns the source with this name.
    pub fn find(name: &str) -> Option<WorkloadSource> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
    }

    /// Value for the given facts.
    pub(crate) fn of(self, facts: &WorkloadFacts) -> Constant {
        let of_each = |value: fn(&Group) -> u32| table(facts.groups.iter().map(|group| value(group) as usize));
        let reserved = |value: fn(&Reservation) -> u32| table(facts.reservations.iter().map(|one| value(one) as usize));
        let caps = |value: fn(&Cap) -> u32| table(facts.caps.iter().map(|cap| value(cap) as usize));
        let windows = |value: fn(&Window) -> u64| table(facts.windows.iter().map(|window| value(window) as usize));
        let lending = |value: fn(&Lending) -> u32| table(facts.lending.iter().map(|one| value(one) as usize));
        match self {
            WorkloadSource::Groups => number(facts.groups.len()),
            WorkloadSource::Weights => of_each(|group| group.weight),
            WorkloadSource::Caps => of_each(|group| group.cap_percent.unwrap_or(0)),
            WorkloadSource::Uids => of_each(|group| group.uid.unwrap_or(NO_UID)),
            WorkloadSource::ReservingGroups => texts(facts.reservations.iter().map(|one| &one.group)),
            WorkloadSource::ReservedCpus => reserved(|one| one.cpus),
            WorkloadSource::ReservedFrom => reserved(|one| one.from_ms),
            WorkloadSource::ReservedFor => reserved(|one| one.ms),
            WorkloadSource::CappedGroups => texts(facts.caps.iter().map(|cap| &cap.group)),
            WorkloadSource::CapsPercent => caps(|cap| cap.percent),
            WorkloadSource::CapsHard => caps(|cap| cap.hard.into()),
            WorkloadSource::TaskWindows => texts(facts.windows.iter().map(|window| &window.task)),
            WorkloadSource::WindowsLate => windows(|window| window.late.into()),
            WorkloadSource::WindowsOf => windows(|window| window.of.into()),
            WorkloadSource::Requests => windows(|window| window.request_us),
            WorkloadSource::Lending => number(facts.lending.len()),
            WorkloadSource::LendingTasks => texts(facts.lending.iter().map(|one| &one.task)),
            WorkloadSource::LendsTo => lending(|one| one.lends_to),
            WorkloadSource::LentAs => lending(|one| one.lent_as),
        }
    }
}

fn texts<'a>(texts: impl Iterator<Item = &'a String>) -> Constant {
    Constant::Array(texts.cloned().map(Constant::Text).collect())
}

impl Profile {
    /// The profile with the given facts filled in; the profile itself if it uses no workload value.
    pub fn for_workload(&self, facts: &WorkloadFacts) -> Cow<'_, Profile> {
        let mut own = self.clone();
        let replaced = own.settings().filter_map(|setting| fill_in(&mut setting.value, facts)).count();
        if replaced > 0 { Cow::Owned(own) } else { Cow::Borrowed(self) }
    }

    /// All values of the profile.
    fn settings(&mut self) -> impl Iterator<Item = &mut Setting> {
        let named = [&mut self.variables, &mut self.sizes, &mut self.capacities, &mut self.fills];
        let named = named.into_iter().flat_map(|settings| settings.values_mut());
        let elements = self.elements.iter_mut().flat_map(|element| element.key.iter_mut().chain([&mut element.value]));
        let contexts = self.calls.iter_mut().flat_map(|call| call.context.iter_mut().map(|(_, setting)| setting));
        named.chain(elements).chain(contexts)
    }
}

/// Replaces workload values by the given facts; `None` if there are no workload values.
fn fill_in(constant: &mut Constant, facts: &WorkloadFacts) -> Option<()> {
    let replaced = match constant {
        Constant::Workload(source) => {
            *constant = source.of(facts);
            1
        }
        Constant::Array(values) => values.iter_mut().filter_map(|value| fill_in(value, facts)).count(),
        Constant::Members(members) => members.iter_mut().filter_map(|(_, value)| fill_in(value, facts)).count(),
        Constant::Formula(formula) => {
            formula.operations.iter_mut().filter_map(|(_, right)| fill_in(right, facts)).count()
        }
        _ => 0,
    };
    (replaced > 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_describes_every_source() {
        let document = include_str!("../../../docs/reference/launch-profile.md");
        for name in WorkloadSource::names() {
            assert!(
                document.contains(&format!("| `{name}` |")),
                "docs/reference/launch-profile.md does not describe {name}"
            );
        }
    }

    #[test]
    fn workload_values_are_replaced_by_the_facts() {
        let text = "summary = \"s\"\n[rodata]\nweights = { workload = \"group-weights\" }\nplain = 3\n\
                    [[call]]\nprogram = \"set\"\ncontext = { uid = { workload = \"group-uids\" }, \
                    more = { machine = \"cpus\", plus = { workload = \"groups\" } } }\n";
        let profile = Profile::from_toml("profile.toml", text).unwrap();
        let groups = [
            Group { weight: 300, cap_percent: None, uid: Some(7) },
            Group { weight: 100, cap_percent: Some(50), uid: None },
        ];
        let facts = WorkloadFacts { groups: groups.to_vec(), ..WorkloadFacts::default() };
        let given = profile.for_workload(&facts);
        assert_eq!(given.variables["weights"].value, table([300, 100].into_iter()));
        assert_eq!(given.calls[0].context[1].1.value, table([7, u32::MAX as usize].into_iter()));
        assert_eq!(WorkloadSource::Caps.of(&facts), table([0, 50].into_iter()));
        assert!(matches!(given.for_workload(&facts), Cow::Borrowed(_)), "no workload value remains");
        let none = profile.for_workload(&WorkloadFacts::default());
        assert_eq!(none.variables["weights"].value, Constant::Array(vec![]));
        let window = Window { task: "t".to_owned(), late: 1, of: 2, request_us: 5 };
        let reservation = Reservation { group: "g".to_owned(), cpus: 2, from_ms: 3, ms: 4 };
        let lending = Lending { task: "c".to_owned(), lends_to: 6, lent_as: 7 };
        let caps = [(8, false), (9, true)].map(|(percent, hard)| Cap { group: "g".to_owned(), percent, hard }).to_vec();
        let (windows, reservations, lending) = (vec![window], vec![reservation], vec![lending]);
        let facts = WorkloadFacts { groups: vec![], windows, reservations, caps, lending };
        let shown = |name| WorkloadSource::find(name).unwrap().of(&facts);
        let all = ["windows-late", "windows-of", "requests-us", "reserved-cpus", "reserved-from-ms", "reserved-ms"];
        assert_eq!(all.map(shown), [1, 2, 5, 2, 3, 4].map(|one| table([one].into_iter())));
        assert_eq!(["lends-to", "lent-as"].map(shown), [6, 7].map(|one| table([one].into_iter())));
        assert_eq!(["caps-percent", "caps-hard"].map(shown), [[8, 9], [0, 1]].map(|two| table(two.into_iter())));
        let names = ["task-windows", "reserving-groups", "lending-tasks"].map(shown);
        assert_eq!(names, ["t", "g", "c"].map(|name| Constant::Array(vec![Constant::Text(name.to_owned())])));
        let wrong = text.replace("group-weights", "group-weight");
        let error = Profile::from_toml("profile.toml", &wrong).unwrap_err().to_string();
        assert!(error.contains("did you mean") && error.contains("group-weights"), "{error}");
    }
}
