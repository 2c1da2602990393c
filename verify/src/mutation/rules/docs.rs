// SPDX-License-Identifier: GPL-2.0-only
//! The tables of the pages that the files of breaks name.

use super::Outcome;
use super::data::Break;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- made by cargo xtask mutants rules --docs -->\n";
const END: &str = "<!-- end of what is made -->\n";

/// Writes tables in place of those that are there. Breaks that were not tried keep their rows.
pub fn write(root: &Path, all: &[Break], outcomes: &[Outcome<'_>]) -> Result<()> {
    let pages: BTreeSet<&Path> = outcomes.iter().map(|outcome| outcome.sabotage.page.as_path()).collect();
    for page in pages {
        let (path, name) = (root.join(page), page.display().to_string());
        let text = fs::read_to_string(&path).with_context(|| name.clone())?;
        let table = table(&text, all.iter().filter(|one| one.page == page && !one.canary), outcomes);
        let text = replaced(&text, &table).with_context(|| format!("{name} has no place for the table"))?;
        fs::write(&path, text).context(name)?;
    }
    Ok(())
}

fn table<'a>(old: &str, breaks: impl Iterator<Item = &'a Break>, outcomes: &[Outcome<'_>]) -> String {
    let mut text = String::from("| rule | broken so that | who notices |\n|---|---|---|\n");
    for one in breaks {
        let begin = format!("| {} | {} | ", one.rule, one.what);
        let outcome = outcomes.iter().find(|outcome| outcome.sabotage.name == one.name);
        let new = outcome.map(|outcome| format!("{begin}{} |", outcome.noticed.in_words(&one.expect)));
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
    use super::super::noticers::Noticed;
    use super::*;

    #[test]
    fn a_break_that_was_not_tried_keeps_its_row() {
        let one = |name: &str| Break { name: name.into(), rule: "R".into(), what: name.into(), ..Break::default() };
        let all = [one("a"), one("b"), one("c")];
        let noticed = Noticed { tests: vec!["t".into()], ..Noticed::default() };
        let outcomes = [Outcome { sabotage: &all[0], noticed, seconds: 1 }];
        let old = "| R | a | old |\n| R | b | old |\n";
        let expected = "| rule | broken so that | who notices |\n|---|---|---|\n| R | a | t |\n| R | b | old |\n";
        assert_eq!(table(old, all.iter(), &outcomes), expected);
    }

    #[test]
    fn the_table_takes_the_place_of_the_old_one() {
        let page = format!("a\n{BEGIN}\nold\n{END}b\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n\n{END}b\n"));
        assert_eq!(replaced("a\nb\n", "new\n"), None);
        for one in super::super::data::read(crate::root()).unwrap() {
            let real = fs::read_to_string(crate::root().join(&one.page)).unwrap();
            assert!(replaced(&real, "x\n").is_some(), "{}", one.page.display());
        }
    }
}
