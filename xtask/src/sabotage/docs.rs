// SPDX-License-Identifier: GPL-2.0-only
//! The table of docs/fidelity.md.

use super::Outcome;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/fidelity.md";
const BEGIN: &str = "<!-- made by cargo xtask sabotage --docs -->\n";
const END: &str = "<!-- end of what is made -->\n";

/// Writes the table in place of the one that is there.
pub fn write(root: &Path, outcomes: &[Outcome<'_>]) -> Result<()> {
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).context(PAGE)?;
    let page = replaced(&page, &table(outcomes)).with_context(|| format!("{PAGE} has no place for the table"))?;
    fs::write(&path, page).context(PAGE)
}

fn table(outcomes: &[Outcome<'_>]) -> String {
    let mut text = String::from("| rule | broken so that | who notices |\n|---|---|---|\n");
    for outcome in outcomes.iter().filter(|outcome| !outcome.sabotage.canary) {
        let words = outcome.noticed.in_words(&outcome.sabotage.expect);
        text.push_str(&format!("| {} | {} | {words} |\n", outcome.sabotage.rule, outcome.sabotage.what));
    }
    text
}

fn replaced(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_the_place_of_the_old_one() {
        let page = format!("a\n{BEGIN}\nold\n{END}b\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n\n{END}b\n"));
        assert_eq!(replaced("a\nb\n", "new\n"), None);
        let real = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        assert!(replaced(&real, "x\n").is_some());
    }
}
