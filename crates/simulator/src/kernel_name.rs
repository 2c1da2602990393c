// SPDX-License-Identifier: GPL-2.0-only
//! Which kernel is modelled, and how: a version, how it makes its locks if not as that version does, and whether its
//! operations wait for locks while other CPUs go on.

use crate::handover::Spinning;
use std::fmt;
use std::str::FromStr;

/// A kernel by version. What is otherwise than usual stands behind it, wherever the kernel is named: `7.2+ticket+waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelName {
    /// Major and minor version.
    pub version: (u16, u16),
    /// How CPUs wait for its locks.
    pub spinning: Spinning,
    /// Which form its operations have.
    pub form: Form,
}

/// When an operation of the kernel (a wakeup, a switch, a tick, a timer) decides what it decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// When it begins. It is charged for its locks afterwards, and what it did can be seen while its CPU still waits for them.
    #[default]
    Instant,
    /// When it has the lock that this needs; other CPUs go on while it waits. Takes two to three times as long to simulate.
    Waiting,
}

impl Form {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Form::Instant => "instant",
            Form::Waiting => "waiting",
        }
    }
}

/// The kernel that all of the model follows.
const NEWEST: (u16, u16) = (7, 2);
/// The kernel whose own classes are modelled as well: its slices end at ticks, as HRTICK is on since 7.1 only
/// (`verify/conformance/recorded/order-6.18`).
const OLDER_FAIR: (u16, u16) = (6, 18);

/// Since then turns of the fair class end by a timer.
const HRTICK_SINCE: (u16, u16) = (7, 1);

/// What stands behind the version for locks that are not those of that version.
const SPINNING: [(&str, Spinning); 2] = [("ticket", Spinning::Ticket), ("test-and-set", Spinning::TestAndSet)];
/// And for operations that wait.
const WAITING: &str = "waiting";

impl From<(u16, u16)> for KernelName {
    /// With the locks of kernels since 4.2, and operations at one instant.
    fn from(version: (u16, u16)) -> KernelName {
        KernelName { version, spinning: Spinning::Queued, form: Form::Instant }
    }
}

impl KernelName {
    /// The same kernel with operations that wait.
    pub fn waiting(self) -> KernelName {
        KernelName { form: Form::Waiting, ..self }
    }

    /// Whether it says something of locks, which the machine must have then.
    pub(crate) fn needs_locks(self) -> bool {
        self != KernelName::from(self.version)
    }

    /// Whether its sched_ext is modelled.
    pub fn has_sched_ext(self) -> bool {
        self.version == NEWEST
    }

    /// The modelled kernel whose own scheduler is most like that of this release (`6.18.44-amd64`), or the newest if the
    /// release says nothing.
    pub fn nearest(release: &str) -> KernelName {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|word| word.parse::<u16>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) if (major, minor) < HRTICK_SINCE => OLDER_FAIR.into(),
            _ => NEWEST.into(),
        }
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.version.0, self.version.1)?;
        if let Some((word, _)) = SPINNING.iter().find(|(_, kind)| *kind == self.spinning) {
            write!(f, "+{word}")?;
        }
        if self.form == Form::Waiting { write!(f, "+{WAITING}") } else { Ok(()) }
    }
}

impl FromStr for KernelName {
    type Err = String;

    /// Only those versions that the model was held against: another one would be a promise that it does not keep.
    fn from_str(text: &str) -> Result<KernelName, String> {
        let unknown = || {
            "only kernel 7.2 is modelled, and of 6.18 its own scheduler; +ticket or +test-and-set behind it has such locks, \
             and +waiting behind any of them has operations that wait for locks"
                .to_owned()
        };
        let mut words = text.split('+');
        let version = match words.next() {
            Some("7.2") => NEWEST,
            Some("6.18") => OLDER_FAIR,
            _ => return Err(unknown()),
        };
        let mut name = KernelName::from(version);
        for word in words {
            match SPINNING.iter().find(|(spinning, _)| *spinning == word) {
                Some((_, spinning)) if name.spinning == Spinning::Queued => name.spinning = *spinning,
                None if word == WAITING && name.form == Form::Instant => name.form = Form::Waiting,
                _ => return Err(unknown()),
            }
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in
            ["7.2", "6.18", "6.18+ticket", "7.2+ticket", "7.2+test-and-set", "7.2+waiting", "7.2+ticket+waiting"]
        {
            assert_eq!(name.parse::<KernelName>().unwrap().to_string(), name);
        }
        assert_eq!("7.2+waiting+ticket".parse::<KernelName>().unwrap().to_string(), "7.2+ticket+waiting");
        for wrong in
            ["", "6.17", "7.1", "7.2+", "7.2+mcs", "7.20", "7.2+ticket+test-and-set", "7.2+waiting+waiting", "+waiting"]
        {
            assert!(wrong.parse::<KernelName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_nearest_kernel_has_its_slices_end_in_the_same_way() {
        let releases = [("6.18.44-amd64", "6.18"), ("5.10.0", "6.18"), ("7.0", "6.18"), ("7.1.2", "7.2"), ("", "7.2")];
        for (release, nearest) in releases {
            assert_eq!(KernelName::nearest(release).to_string(), nearest, "{release}");
        }
    }
}
