// SPDX-License-Identifier: GPL-2.0-only
//! Modelled kernel: version, lock implementation if it differs from that version, and whether kernel operations wait
//! for locks while other CPUs continue.

use crate::handover::Spinning;
use std::fmt;
use std::str::FromStr;

/// A kernel by version. Deviations are appended wherever the kernel is named: `7.2+ticket+waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelName {
    /// Major and minor version.
    pub version: (u16, u16),
    /// How CPUs wait for its locks.
    pub spinning: Spinning,
    /// Whether its operations take effect at one instant or are interleaved at lock waits.
    pub form: Form,
}

/// Time at which a kernel operation (a wakeup, a switch, a tick, a timer) makes its decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// When it begins. The CPU is charged for the locks afterwards, and the effects are visible while the CPU still
    /// waits for them.
    #[default]
    Instant,
    /// When its CPU holds the lock that the decision requires; other CPUs continue while it waits (`+waiting`). Takes
    /// two to three times as long to simulate.
    Waiting,
}

impl Form {
    /// Name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Form::Instant => "instant",
            Form::Waiting => "waiting",
        }
    }
}

/// The kernel that the whole model follows.
const NEWEST: (u16, u16) = (7, 2);
/// A second kernel whose own classes are modelled: its slices end at ticks, as HRTICK is enabled since 7.1 only
/// (`verify/conformance/recorded/order-6.18`).
const OLDER_FAIR: (u16, u16) = (6, 18);

/// First version in which a timer ends slices of the fair class.
const HRTICK_SINCE: (u16, u16) = (7, 1);

/// Suffix for lock implementations that differ from those of the version.
const SPINNING: [(&str, Spinning); 2] = [("ticket", Spinning::Ticket), ("test-and-set", Spinning::TestAndSet)];
/// Suffix for operations that wait.
const WAITING: &str = "waiting";

impl From<(u16, u16)> for KernelName {
    /// A kernel with the locks used since 4.2, and with instantaneous operations.
    fn from(version: (u16, u16)) -> KernelName {
        KernelName { version, spinning: Spinning::Queued, form: Form::Instant }
    }
}

impl KernelName {
    /// This kernel with operations that wait for locks.
    pub fn waiting(self) -> KernelName {
        KernelName { form: Form::Waiting, ..self }
    }

    /// Whether it deviates from the version, which requires lock costs of the machine.
    pub(crate) fn needs_locks(self) -> bool {
        self != KernelName::from(self.version)
    }

    /// Whether its sched_ext is modelled.
    pub fn has_sched_ext(self) -> bool {
        self.version == NEWEST
    }

    /// The modelled kernel whose own scheduler is most similar to that of this release (`6.18.44-amd64`), or the
    /// newest if the release cannot be parsed.
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

    /// Accepts only the versions that the model was validated against.
    fn from_str(text: &str) -> Result<KernelName, String> {
        let unknown = || {
            "expected kernel 7.2, or 6.18 for the default scheduler only, optionally followed by +ticket or +test-and-set for \
             these locks, and by +waiting for operations that wait for locks"
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
    fn kernel_names_parse_and_display() {
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
    fn nearest_kernel_ends_slices_in_the_same_way() {
        let releases = [("6.18.44-amd64", "6.18"), ("5.10.0", "6.18"), ("7.0", "6.18"), ("7.1.2", "7.2"), ("", "7.2")];
        for (release, nearest) in releases {
            assert_eq!(KernelName::nearest(release).to_string(), nearest, "{release}");
        }
    }
}
