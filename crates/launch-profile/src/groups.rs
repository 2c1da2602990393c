// SPDX-License-Identifier: GPL-2.0-only
//! What the workload can tell a scheduler: its groups, as whoever made them would tell its user space.

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

/// A number or table of the groups, `{ workload = "NAME" }`: parents first, siblings by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum GroupSource {
    Groups,
    Weights,
    Caps,
    Uids,
}

/// Names as they are spelled in a profile.
const NAMES: [(&str, GroupSource); 4] = [
    ("groups", GroupSource::Groups),
    ("group-weights", GroupSource::Weights),
    ("group-caps", GroupSource::Caps),
    ("group-uids", GroupSource::Uids),
];

/// The user of a group that is nobody's: no user has that number.
const NOBODY: u32 = u32::MAX;

impl GroupSource {
    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// The source with this name.
    pub fn find(name: &str) -> Option<GroupSource> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
    }

    /// What these groups answer.
    pub(crate) fn of(self, groups: &[Group]) -> Constant {
        let of_each = |value: fn(&Group) -> u32| table(groups.iter().map(|group| value(group) as usize));
        match self {
            GroupSource::Groups => number(groups.len()),
            GroupSource::Weights => of_each(|group| group.weight),
            GroupSource::Caps => of_each(|group| group.cap_percent.unwrap_or(0)),
            GroupSource::Uids => of_each(|group| group.uid.unwrap_or(NOBODY)),
        }
    }
}

impl Profile {
    /// The profile for a workload with these groups: itself, unless it asks for them.
    pub fn for_groups(&self, groups: &[Group]) -> Cow<'_, Profile> {
        let mut own = self.clone();
        let asks = own.settings().filter_map(|setting| put(&mut setting.value, groups)).count();
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

/// Puts the groups where they are asked for, if they are.
fn put(constant: &mut Constant, groups: &[Group]) -> Option<()> {
    let asked = match constant {
        Constant::Workload(source) => {
            *constant = source.of(groups);
            1
        }
        Constant::Array(values) => values.iter_mut().filter_map(|value| put(value, groups)).count(),
        Constant::Members(members) => members.iter_mut().filter_map(|(_, value)| put(value, groups)).count(),
        Constant::Formula(formula) => formula.operations.iter_mut().filter_map(|(_, right)| put(right, groups)).count(),
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
        for name in GroupSource::names() {
            assert!(book.contains(&format!("| `{name}` |")), "docs/launch-profile.md does not describe {name}");
        }
    }

    #[test]
    fn groups_are_put_where_they_are_asked_for() {
        let text = "summary = \"s\"\n[rodata]\nweights = { workload = \"group-weights\" }\nplain = 3\n\
                    [[call]]\nprogram = \"set\"\ncontext = { uid = { workload = \"group-uids\" }, \
                    more = { machine = \"cpus\", plus = { workload = \"groups\" } } }\n";
        let profile = Profile::from_toml("profile.toml", text).unwrap();
        let groups = [
            Group { weight: 300, cap_percent: None, uid: Some(7) },
            Group { weight: 100, cap_percent: Some(50), uid: None },
        ];
        let given = profile.for_groups(&groups);
        assert_eq!(given.variables["weights"].value, table([300, 100].into_iter()));
        assert_eq!(given.calls[0].context[1].1.value, table([7, u32::MAX as usize].into_iter()));
        assert_eq!(GroupSource::Caps.of(&groups), table([0, 50].into_iter()));
        assert!(matches!(given.for_groups(&groups), Cow::Borrowed(_)), "nothing is left to ask for");
        let none = profile.for_groups(&[]);
        assert_eq!(none.variables["weights"].value, Constant::Array(vec![]));
        let wrong = text.replace("group-weights", "group-weight");
        let error = Profile::from_toml("profile.toml", &wrong).unwrap_err().to_string();
        assert!(error.contains("did you mean") && error.contains("group-weights"), "{error}");
    }
}
