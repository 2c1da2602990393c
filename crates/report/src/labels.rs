// SPDX-License-Identifier: GPL-2.0-only
//! Labels to distinguish setups of the same name: modelled effects, the scheduler's object, the source file, or else
//! a number.

use crate::setups::Setup;
use std::collections::BTreeSet;
use std::path::Path;

/// Digits of a hash that distinguish objects, as in git.
const HASH: usize = 7;

/// Appends distinguishing labels to the names of setups with the same name.
pub(crate) fn tell_apart(setups: &mut [Setup<'_>]) {
    let names: BTreeSet<String> = setups.iter().map(|setup| setup.name.clone()).collect();
    for name in names {
        let copies: Vec<usize> = (0..setups.len()).filter(|&index| setups[index].name == name).collect();
        if copies.len() == 1 {
            continue;
        }
        let same: Vec<&Setup<'_>> = copies.iter().map(|&index| &setups[index]).collect();
        let labels = labels(&same);
        for (index, label) in copies.into_iter().zip(labels) {
            if !label.is_empty() {
                setups[index].name = format!("{name} ({label})");
            }
        }
    }
}

/// A label for each setup; empty for the first one if only numbers distinguish them.
fn labels(same: &[&Setup<'_>]) -> Vec<String> {
    let effects = effects(same);
    let objects: Vec<String> = same.iter().map(|setup| object(setup)).collect();
    let mut parts: Vec<Vec<String>> = vec![Vec::new(); same.len()];
    let mut add = |some: &[String]| {
        parts
            .iter_mut()
            .zip(some)
            .for_each(|(parts, part)| parts.extend(Some(part.clone()).filter(|part| !part.is_empty())));
    };
    for some in [&effects, &objects] {
        if kinds(some) > 1 {
            add(some);
        }
    }
    // Effects describe the difference; a hash only shows that there is one, so the file is added.
    if kinds(&effects) < same.len() {
        let files: Vec<String> = files(same);
        if kinds(&files) > 1 {
            add(&files);
        }
    }
    let labels: Vec<String> = parts.into_iter().map(|parts| parts.join(", ")).collect();
    if kinds(&labels) == same.len() {
        return labels;
    }
    let numbered = |(index, label): (usize, String)| match (index, label.is_empty()) {
        (0, _) => label,
        (_, true) => (index + 1).to_string(),
        (_, false) => format!("{label}, {}", index + 1),
    };
    labels.into_iter().enumerate().map(numbered).collect()
}

fn kinds(labels: &[String]) -> usize {
    labels.iter().collect::<BTreeSet<_>>().len()
}

/// Effects that some of the setups left out: `without smt`, or `with smt` if nothing is left out.
fn effects(same: &[&Setup<'_>]) -> Vec<String> {
    let of =
        |setup: &&Setup<'_>| -> BTreeSet<String> { setup.runs[0].tags.effects.iter().flatten().cloned().collect() };
    let sets: Vec<BTreeSet<String>> = same.iter().map(of).collect();
    let all: BTreeSet<String> = sets.iter().flatten().cloned().collect();
    let disputed: BTreeSet<&String> =
        all.iter().filter(|effect| sets.iter().any(|set| !set.contains(*effect))).collect();
    let list = |words: Vec<&str>| words.join(",");
    let label = |set: &BTreeSet<String>| {
        let without: Vec<&str> =
            disputed.iter().filter(|word| !set.contains(**word)).map(|word| word.as_str()).collect();
        match without.is_empty() {
            true => format!("with {}", list(disputed.iter().map(|word| word.as_str()).collect())),
            false => format!("without {}", list(without)),
        }
    };
    sets.iter().map(label).collect()
}

/// Prefix of the object's hash: `#1a2b3c4`.
fn object(setup: &Setup<'_>) -> String {
    let hash = setup.runs[0].tags.object_hash.as_ref();
    hash.map(|hash| format!("#{}", hash.chars().take(HASH).collect::<String>())).unwrap_or_default()
}

/// Files that the first runs come from, without directories if the file names differ.
fn files(same: &[&Setup<'_>]) -> Vec<String> {
    let paths: Vec<String> = same.iter().map(|setup| setup.runs[0].file.clone().unwrap_or_default()).collect();
    let name =
        |path: &String| Path::new(path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned());
    let names: Vec<String> = paths.iter().map(name).collect();
    if kinds(&names) == kinds(&paths) { names } else { paths }
}
