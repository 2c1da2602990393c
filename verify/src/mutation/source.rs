// SPDX-License-Identifier: GPL-2.0-only
//! A policy with its own headers, and its mutants.

use super::policy::HEADERS;
use super::sites::{self, Site};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Headers that do not belong to a policy: language, kernel interface, and the host shim for tests.
const FOREIGN: [&str; 4] = ["bpf.bpf.h", "kernel.bpf.h", "scx.bpf.h", "host.h"];

/// The files of a policy.
pub struct Source {
    /// Path below the root, and text: the policy first, then its own headers, then the others.
    files: Vec<(String, String)>,
    /// Number of leading files that have mutants.
    own: usize,
}

/// One change of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// File, line and change, in a form that survives changes elsewhere in the file.
    pub name: String,
    file: usize,
    site: Site,
}

impl Mutant {
    /// Index of the file in [`Source::files`].
    pub fn file(&self) -> usize {
        self.file
    }

    /// Byte offset of the change in the file.
    pub fn offset(&self) -> usize {
        self.site.at
    }

    /// Returns the file name without directory, and the line.
    pub fn line(&self, source: &Source) -> Option<(String, u64)> {
        let (path, text) = &source.files[self.file];
        let line = text[..self.site.at].matches('\n').count() as u64 + 1;
        Some((path.rsplit('/').next()?.to_owned(), line))
    }
}

/// Writes the files, the first of which is the policy, below `tree` and compiles it. Returns `None` if clang rejects
/// it.
fn compile<'a>(tree: &Path, files: impl Iterator<Item = (&'a str, String)>) -> Result<Option<PathBuf>> {
    let mut source = None;
    for (path, text) in files {
        let to = tree.join(path);
        fs::create_dir_all(to.parent().context("the file has no directory")?)?;
        fs::write(&to, text).with_context(|| to.display().to_string())?;
        source.get_or_insert(to);
    }
    let source = source.context("a policy without files")?;
    let object = tree.join(source.with_extension("o").file_name().context("a file's name")?);
    Ok(bpf_clang::compile_in(tree, &source, &object, &["-Wno-error"]).is_ok().then_some(object))
}

impl Source {
    /// Reads `policies/NAME/NAME.bpf.c` and the headers it includes from its directory and from
    /// `policies/include/weir`.
    ///
    /// # Errors
    /// If there is no such policy.
    pub fn read(root: &Path, policy: &str) -> Result<Source> {
        let read = |path: String| -> Result<(String, String)> {
            let text = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
            Ok((path, text))
        };
        let mut files = vec![read(format!("policies/{policy}/{policy}.bpf.c"))?];
        let mut next = 0;
        while next < files.len() {
            for header in includes(&files[next].1) {
                // A header beside the policy, or a shared one.
                let beside = format!("policies/{policy}/{header}");
                let shared = format!("{HEADERS}/{header}");
                let path = if root.join(&beside).is_file() { beside } else { shared };
                if !FOREIGN.contains(&&*header) && files.iter().all(|(known, _)| *known != path) {
                    files.push(read(path)?);
                }
            }
            next += 1;
        }
        let own = files.len();
        for header in FOREIGN {
            files.push(read(format!("{HEADERS}/{header}"))?);
        }
        Ok(Source { files, own })
    }

    /// Writes the policy below `tree`, with or without a mutant, and compiles it there to `NAME.bpf.o`. Returns
    /// whether clang accepts it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn compile(&self, tree: &Path, mutant: Option<&Mutant>) -> Result<bool> {
        Ok(compile(tree, self.files(mutant))?.is_some())
    }

    /// As [`Source::compile`], with changes of the policy's own text. Returns the path of the object.
    ///
    /// # Errors
    /// If a text does not occur exactly once, a file cannot be written, or clang rejects it.
    pub fn compile_changed(&self, tree: &Path, changes: &[(&str, &str)]) -> Result<PathBuf> {
        let mut files: Vec<(&str, String)> = self.files(None).collect();
        let (path, text) = &mut files[0];
        for (from, to) in changes {
            if text.matches(from).count() != 1 {
                bail!("{path}: `{from}` occurs {} times; expected once", text.matches(from).count());
            }
            *text = text.replace(from, to);
        }
        let path = *path;
        compile(tree, files.into_iter())?.with_context(|| format!("clang rejects {path} with {changes:?}"))
    }

    /// Returns all files, with or without a mutant.
    pub fn files(&self, mutant: Option<&Mutant>) -> impl Iterator<Item = (&str, String)> {
        self.files.iter().enumerate().map(move |(index, (path, text))| match mutant {
            Some(Mutant { file, site, .. }) if *file == index => {
                (path.as_str(), format!("{}{}{}", &text[..site.at], site.new, &text[site.at + site.old.len()..]))
            }
            _ => (path.as_str(), text.clone()),
        })
    }

    /// Returns all mutants in an order that depends on the seed.
    pub fn draw(&self, seed: u64) -> impl Iterator<Item = Mutant> {
        let mut all = Vec::new();
        for (file, (path, text)) in self.files[..self.own].iter().enumerate() {
            let mut names = Vec::new();
            for site in sites::sites(text) {
                let mut name = name(path, text, &site);
                let twins = names.iter().filter(|known| **known == name).count();
                names.push(name.clone());
                if twins > 0 {
                    name = format!("{name} ({})", twins + 1);
                }
                all.push(Mutant { name, file, site });
            }
        }
        shuffle(&mut all, seed);
        all.into_iter()
    }
}

/// Returns the names of included headers.
fn includes(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.strip_prefix("#include ")?;
        let rest = rest.strip_prefix("<weir/").or_else(|| rest.strip_prefix('"'))?;
        Some(rest.trim_end_matches(['>', '"']).to_owned())
    };
    text.lines().filter_map(name).collect()
}

fn name(path: &str, text: &str, site: &Site) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let begin = text[..site.at].rfind('\n').map_or(0, |end| end + 1);
    let end = text[site.at..].find('\n').map_or(text.len(), |end| site.at + end);
    let line =
        format!("{}[{} => {}]{}", &text[begin..site.at], site.old, site.new, &text[site.at + site.old.len()..end]);
    format!("{file}: {}", line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Fisher-Yates shuffle with the SplitMix64 generator of Steele, Lea and Flood.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        items.swap(last, ((drawn ^ (drawn >> 31)) % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_decides_the_order_of_the_same_mutants() {
        let source = Source::read(crate::root(), "bfs").unwrap();
        let names = |seed| source.draw(seed).map(|mutant| mutant.name).collect::<Vec<_>>();
        let (one, two) = (names(1), names(2));
        assert_eq!(one, names(1));
        assert_ne!(one, two);
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let all = sorted(one);
        assert_eq!(all, sorted(two));
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "names are unique");
        assert!(all.len() > 300 && all.iter().any(|name| name.starts_with("idle.bpf.h: ")), "{}", all.len());
    }

    #[test]
    fn headers_beside_the_policy_have_mutants_too() {
        let source = Source::read(crate::root(), "cfs").unwrap();
        let all: Vec<Mutant> = source.draw(1).collect();
        for file in ["cfs.bpf.c", "balance.bpf.h", "queue.bpf.h", "hotplug.bpf.h"] {
            assert!(all.iter().any(|mutant| mutant.name.starts_with(&format!("{file}: "))), "{file}");
        }
        assert_eq!(source.files[source.own..].len(), FOREIGN.len());
    }

    #[test]
    fn mutant_changes_exactly_one_file() {
        let source = Source::read(crate::root(), "bfs").unwrap();
        let plain: Vec<String> = source.files(None).map(|(_, text)| text).collect();
        for mutant in source.draw(3).take(50) {
            let changed: Vec<String> = source.files(Some(&mutant)).map(|(_, text)| text).collect();
            let differ = plain.iter().zip(&changed).filter(|(a, b)| a != b).count();
            assert_eq!(differ, 1, "{}", mutant.name);
        }
    }
}
