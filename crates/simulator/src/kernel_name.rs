// SPDX-License-Identifier: GPL-2.0-only
//! Which kernel is modelled: a version, and how it makes its locks if not as that version does.

use crate::handover::Spinning;
use std::fmt;
use std::str::FromStr;

/// A kernel by version; with other locks it has another name, which stands wherever the kernel is named: `7.2+ticket`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelName {
    /// Major and minor version.
    pub version: (u16, u16),
    /// How CPUs wait for its locks.
    pub spinning: Spinning,
}

/// What stands behind the version.
const VARIANTS: [(&str, Spinning); 3] =
    [("", Spinning::Queued), ("+ticket", Spinning::Ticket), ("+test-and-set", Spinning::TestAndSet)];

impl From<(u16, u16)> for KernelName {
    /// With the locks of kernels since 4.2.
    fn from(version: (u16, u16)) -> KernelName {
        KernelName { version, spinning: Spinning::Queued }
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (variant, _) = VARIANTS.iter().find(|(_, kind)| *kind == self.spinning).expect("all are named");
        write!(f, "{}.{}{variant}", self.version.0, self.version.1)
    }
}

impl FromStr for KernelName {
    type Err = String;

    /// Only 7.2: the model follows that, and another version would be a promise that it does not keep.
    fn from_str(text: &str) -> Result<KernelName, String> {
        let variant = text.strip_prefix("7.2").and_then(|rest| VARIANTS.iter().find(|(name, _)| *name == rest));
        match variant {
            Some(&(_, spinning)) => Ok(KernelName { version: (7, 2), spinning }),
            None => Err("only kernel 7.2 is modelled, or 7.2+ticket and 7.2+test-and-set with such locks".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["7.2", "7.2+ticket", "7.2+test-and-set"] {
            assert_eq!(name.parse::<KernelName>().unwrap().to_string(), name);
        }
        for wrong in ["", "6.18", "7.2+", "7.2+mcs", "7.20"] {
            assert!(wrong.parse::<KernelName>().is_err(), "{wrong}");
        }
    }
}
