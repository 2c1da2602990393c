// SPDX-License-Identifier: GPL-2.0-only
//! What the workload can tell a scheduler: its groups, windows of its tasks, and who lends to whom, as whoever made them
//! would tell its user space.

use crate::source::{number, table};
use crate::{Constant, Profile, Setting};
use std::borrow::Cow;

/// A group of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its share among its siblings, 1 to 10000.
    pub weight: u32,
    /// The most CPU time that it may have, in percent of one CPU.
    pub cap_percent: Option<u32>,
    /// Whose its tasks are.
    pub uid: Option<u32>,
}

/// CPUs that a group has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The last name of its path, by which a scheduler knows it.
    pub group: String,
    /// How many.
    pub cpus: u32,
    /// How long after its first task began, in milliseconds.
    pub from_ms: u32,
    /// For so many milliseconds; 0: for ever.
    pub ms: u32,
}

/// The cap of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The last name of its path, by which a scheduler knows it.
    pub group: String,
    /// Most CPU time, in percent of one CPU.
    pub percent: u32,
    /// It may not have more even where nobody else wants the CPU.
    pub hard: bool,
}

/// A task's window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// What the kernel keeps of its name.
    pub task: String,
    /// So many of its requests may be late …
    pub late: u32,
    /// … of each so many.
    pub of: u32,
    /// How long a request may take, in microseconds.
    pub request_us: u64,
}

/// A task that lends to another one while it sleeps, or is lent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lending {
    /// What the kernel keeps of its name.
    pub task: String,
    /// The number of its server; 0 if it lends nothing.
    pub lends_to: u32,
    /// Its number as a server, from 1; 0 if nobody lends to it.
    pub lent_as: u32,
}

/// All that a workload tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its groups: parents first, siblings by name.
    pub groups: Vec<Group>,
    /// Those that reserve CPUs, in the same order.
    pub reservations: Vec<Reservation>,
    /// Those that have a cap, in the same order.
    pub caps: Vec<Cap>,
    /// Tasks with windows, by name.
    pub windows: Vec<Window>,
    /// Tasks that lend or are lent to, by name.
    pub lending: Vec<Lending>,
}

/// A number or table of a workload, `{ workload = "NAME" }`.
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

/// Names as they are spelled in a profile.
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

/// The user of a group that is nobody's: no user has that number.
const NOBODY: u32 = u32::MAX;

impl WorkloadSource {
    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// The source with this name.
    pub fn find(name: &str) -> Option<WorkloadSource> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
    }

    /// What is told of it.
    pub(crate) fn of(self, told: &Told) -> Constant {
        let of_each = |value: fn(&Group) -> u32| table(told.groups.iter().map(|group| value(group) as usize));
        let reserved = |value: fn(&Reservation) -> u32| table(told.reservations.iter().map(|one| value(one) as usize));
        let caps = |value: fn(&Cap) -> u32| table(told.caps.iter().map(|cap| value(cap) as usize));
        let windows = |value: fn(&Window) -> u64| table(told.windows.iter().map(|window| value(window) as usize));
        let lending = |value: fn(&Lending) -> u32| table(told.lending.iter().map(|one| value(one) as usize));
        match self {
            WorkloadSource::Groups => number(told.groups.len()),
            WorkloadSource::Weights => of_each(|group| group.weight),
            WorkloadSource::Caps => of_each(|group| group.cap_percent.unwrap_or(0)),
            WorkloadSource::Uids => of_each(|group| group.uid.unwrap_or(NOBODY)),
            WorkloadSource::ReservingGroups => texts(told.reservations.iter().map(|one| &one.group)),
            WorkloadSource::ReservedCpus => reserved(|one| one.cpus),
            WorkloadSource::ReservedFrom => reserved(|one| one.from_ms),
            WorkloadSource::ReservedFor => reserved(|one| one.ms),
            WorkloadSource::CappedGroups => texts(told.caps.iter().map(|cap| &cap.group)),
            WorkloadSource::CapsPercent => caps(|cap| cap.percent),
            WorkloadSource::CapsHard => caps(|cap| cap.hard.into()),
            WorkloadSource::TaskWindows => texts(told.windows.iter().map(|window| &window.task)),
            WorkloadSource::WindowsLate => windows(|window| window.late.into()),
            WorkloadSource::WindowsOf => windows(|window| window.of.into()),
            WorkloadSource::Requests => windows(|window| window.request_us),
            WorkloadSource::Lending => number(told.lending.len()),
            WorkloadSource::LendingTasks => texts(told.lending.iter().map(|one| &one.task)),
            WorkloadSource::LendsTo => lending(|one| one.lends_to),
            WorkloadSource::LentAs => lending(|one| one.lent_as),
        }
    }
}

fn texts<'a>(texts: impl Iterator<Item = &'a String>) -> Constant {
    Constant::Array(texts.cloned().map(Constant::Text).collect())
}

impl Profile {
    /// The profile for a workload that tells this: itself, unless it asks for any of it.
    pub fn for_workload(&self, told: &Told) -> Cow<'_, Profile> {
        let mut own = self.clone();
        let asks = own.settings().filter_map(|setting| put(&mut setting.value, told)).count();
        if asks > 0 { Cow::Owned(own) } else { Cow::Borrowed(self) }
    }

    /// All values of all kinds.
    fn settings(&mut self) -> impl Iterator<Item = &mut Setting> {
        let named = [&mut self.variables, &mut self.sizes, &mut self.capacities, &mut self.fills];
        let named = named.into_iter().flat_map(|settings| settings.values_mut());
        let elements = self.elements.iter_mut().flat_map(|element| element.key.iter_mut().chain([&mut element.value]));
        let contexts = self.calls.iter_mut().flat_map(|call| call.context.iter_mut().map(|(_, setting)| setting));
        named.chain(elements).chain(contexts)
    }
}

/// Puts what is told where it is asked for, if it is.
fn put(constant: &mut Constant, told: &Told) -> Option<()> {
    let asked = match constant {
        Constant::Workload(source) => {
            *constant = source.of(told);
            1
        }
        Constant::Array(values) => values.iter_mut().filter_map(|value| put(value, told)).count(),
        Constant::Members(members) => members.iter_mut().filter_map(|(_, value)| put(value, told)).count(),
        Constant::Formula(formula) => formula.operations.iter_mut().filter_map(|(_, right)| put(right, told)).count(),
        _ => 0,
    };
    (asked > 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_describes_every_source() {
        let book = include_str!("../../../docs/launch-profile.md");
        for name in WorkloadSource::names() {
            assert!(book.contains(&format!("| `{name}` |")), "docs/launch-profile.md does not describe {name}");
        }
    }

    #[test]
    fn what_is_told_is_put_where_it_is_asked_for() {
        let text = "summary = \"s\"\n[rodata]\nweights = { workload = \"group-weights\" }\nplain = 3\n\
                    [[call]]\nprogram = \"set\"\ncontext = { uid = { workload = \"group-uids\" }, \
                    more = { machine = \"cpus\", plus = { workload = \"groups\" } } }\n";
        let profile = Profile::from_toml("profile.toml", text).unwrap();
        let groups = [
            Group { weight: 300, cap_percent: None, uid: Some(7) },
            Group { weight: 100, cap_percent: Some(50), uid: None },
        ];
        let told = Told { groups: groups.to_vec(), ..Told::default() };
        let given = profile.for_workload(&told);
        assert_eq!(given.variables["weights"].value, table([300, 100].into_iter()));
        assert_eq!(given.calls[0].context[1].1.value, table([7, u32::MAX as usize].into_iter()));
        assert_eq!(WorkloadSource::Caps.of(&told), table([0, 50].into_iter()));
        assert!(matches!(given.for_workload(&told), Cow::Borrowed(_)), "nothing is left to ask for");
        let none = profile.for_workload(&Told::default());
        assert_eq!(none.variables["weights"].value, Constant::Array(vec![]));
        let window = Window { task: "t".to_owned(), late: 1, of: 2, request_us: 5 };
        let reservation = Reservation { group: "g".to_owned(), cpus: 2, from_ms: 3, ms: 4 };
        let lending = Lending { task: "c".to_owned(), lends_to: 6, lent_as: 7 };
        let caps = [(8, false), (9, true)].map(|(percent, hard)| Cap { group: "g".to_owned(), percent, hard }).to_vec();
        let (windows, reservations, lending) = (vec![window], vec![reservation], vec![lending]);
        let told = Told { groups: vec![], windows, reservations, caps, lending };
        let shown = |name| WorkloadSource::find(name).unwrap().of(&told);
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
