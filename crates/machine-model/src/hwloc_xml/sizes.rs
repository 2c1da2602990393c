// SPDX-License-Identifier: GPL-2.0-only
//! Sizes of the caches in an hwloc XML file.

use super::attributes::Element;

/// Sizes of caches in KiB; 0: unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sizes {
    /// The largest cache that belongs to one core.
    pub private_kb: u64,
    /// The outermost cache.
    pub llc_kb: u64,
}

/// Sizes of the caches of the first CPU in the file; a machine has one size of each level in this model.
pub(super) fn of_first_cpu(root: Element<'_, '_>) -> Sizes {
    let kind = |node: &roxmltree::Node<'_, '_>| node.attribute("type").unwrap_or_default().to_owned();
    let mut sizes = Sizes::default();
    let Some(cpu) = root.node.descendants().find(|node| kind(node) == "PU") else { return sizes };
    let core = cpu.ancestors().find(|node| kind(node) == "Core").unwrap_or(cpu).attribute("cpuset");
    for node in cpu.ancestors() {
        let kind = kind(&node);
        let is_data = kind.ends_with("Cache") && !kind.ends_with("iCache") && !kind.starts_with("MemSide");
        let bytes = node.attribute("cache_size").and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
        if !is_data || bytes < 1_024 {
            continue;
        }
        // Ancestors come from the inside to the outside. The set of a core is never empty in a valid file.
        if core.is_some() && node.attribute("cpuset") == core {
            sizes.private_kb = bytes / 1_024;
        }
        sizes.llc_kb = bytes / 1_024;
    }
    sizes
}
