// SPDX-License-Identifier: GPL-2.0-only
//! Writes the result tables into the document pages that the mutant files name.

use super::Outcome;
use super::data::RuleMutant;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- made by cargo xtask mutants rules --docs -->\n";
const END: &str = "<!-- end of what is made -->\n";

/// Replaces the tables of the pages. Mutants that were not tried keep their rows.
pub fn write(root: &Path, all: &[RuleMutant], outcomes: &[Outcome<'_>]) -> Result<()> {
    let pages: BTreeSet<&Path> = outcomes.iter().map(|outcome| outcome.mutant.page.as_path()).collect();
    for page in pages {
        let (path, name) = (root.join(page), page.display().to_string());
        let text = fs::read_to_string(&path).with_context(|| name.clone())?;
        let table = table(&text, all.iter().filter(|one| one.page == page && !one.canary), outcomes);
        let text = replaced(&text, &table).with_context(|| format!("{name}: the markers for the table are missing"))?;
        fs::write(&path, text).context(name)?;
    }
    Ok(())
}

fn table<'a>(old: &str, mutants: impl Iterator<Item = &'a RuleMutant>, outcomes: &[Outcome<'_>]) -> String {
    let mut text = String::from("| rule | mutation | killed by |\n|---|---|---|\n");
    for one in mutants {
        let begin = format!("| {} | {} | ", one.rule, one.what);
        let outcome = outcomes.iter().find(|outcome| outcome.mutant.name == one.name);
        let new = outcome.map(|outcome| format!("{begin}{} |", outcome.killers.describe(&one.expect)));
        let row = new.or_else(|| old.lines().find(|line| line.starts_with(&begin)).map(str::to_owned));
        row.into_iter().for_each(|row| text.push_str(&format!("{row}\n")));
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
    use super::super::killers::Killers;
    use super::*;

    #[test]
    fn mutant_that_was_not_tried_keeps_its_row() {
        let one =
            |name: &str| RuleMutant { name: name.into(), rule: "R".into(), what: name.into(), ..RuleMutant::default() };
        let all = [one("a"), one("b"), one("c")];
        let killers = Killers { tests: vec!["t".into()], ..Killers::default() };
        let outcomes = [Outcome { mutant: &all[0], killers, seconds: 1 }];
        let old = "| R | a | old |\n| R | b | old |\n";
        let expected = "| rule | mutation | killed by |\n|---|---|---|\n| R | a | t |\n| R | b | old |\n";
        assert_eq!(table(old, all.iter(), &outcomes), expected);
    }

    #[test]
    fn new_table_replaces_the_old_one() {
        let page = format!("a\n{BEGIN}\nold\n{END}b\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n\n{END}b\n"));
        assert_eq!(replaced("a\nb\n", "new\n"), None);
        for one in super::super::data::read(crate::root()).unwrap() {
            let real = fs::read_to_string(crate::root().join(&one.page)).unwrap();
            assert!(replaced(&real, "x\n").is_some(), "{}", one.page.display());
        }
    }
}
