// SPDX-License-Identifier: GPL-2.0-only
//! The schedulers of `policies/`, compiled by clang when this crate is built, with their profiles.

/// A policy that ships with Weir.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Name of the policy and of its directory below `policies/`.
    pub name: &'static str,
    /// One-line description from the profile's `summary`.
    pub summary: &'static str,
    /// Compiled BPF object, byte for byte as the kernel would load it.
    pub object: &'static [u8],
    /// Text of its `profile.toml`.
    pub profile: &'static str,
}

const ALL: &[Policy] = include!(concat!(env!("OUT_DIR"), "/policies.rs"));

/// Headers of `policies/include`: name as in `#include <weir/scx.bpf.h>`, and text. `weir` writes them out when it
/// compiles a user's own source.
pub const HEADERS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// All policies in alphabetical order.
pub fn all() -> &'static [Policy] {
    ALL
}

/// Returns the policy of this name.
pub fn find(name: &str) -> Option<&'static Policy> {
    all().iter().find(|policy| policy.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_a_bpf_object_with_a_profile_and_a_summary() {
        assert!(!all().is_empty());
        assert!(all().is_sorted_by_key(|policy| policy.name));
        for policy in all() {
            // ELF, 64 bits, little-endian; machine 247 is EM_BPF.
            assert_eq!(policy.object[..6], *b"\x7fELF\x02\x01", "{}", policy.name);
            assert_eq!(policy.object[18..20], [247, 0], "{}", policy.name);
            assert!(policy.profile.contains(policy.summary), "{}", policy.name);
            assert!(!policy.summary.is_empty() && policy.summary.len() <= 80, "{}", policy.name);
        }
    }

    #[test]
    fn debug_info_names_sources_relative_to_the_repository() {
        for policy in all() {
            let path = format!("./policies/{0}/{0}.bpf.c", policy.name);
            let found = policy.object.windows(path.len()).any(|bytes| bytes == path.as_bytes());
            assert!(found, "{}: no {path} in the object", policy.name);
        }
    }

    #[test]
    fn headers_are_embedded_and_sorted_by_name() {
        let names: Vec<&str> = HEADERS.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&"weir/scx.bpf.h") && names.is_sorted(), "{names:?}");
        assert!(HEADERS.iter().all(|(_, text)| text.contains("SPDX-License-Identifier")));
    }

    #[test]
    fn policy_is_found_by_name() {
        assert_eq!(find("fifo").unwrap().name, "fifo");
        assert!(find("fif").is_none());
    }
}
