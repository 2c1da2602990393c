// SPDX-License-Identifier: GPL-2.0-only
//! `weir claims`: judges what authors of schedulers claimed, by runs of both sides.

pub mod args;
mod figures;
mod json;
mod judged;
mod measure;
mod page;
mod runs;
mod searches;
mod text;

use crate::{input, notes, output};
use anyhow::{Context, Result, bail};
use args::{ClaimsArgs, ClaimsFormat};
use claims::{Claim, Test};
use judged::Judged;
use runs::Wanted;

/// Lists or judges claims.
///
/// # Errors
/// If a file or name is bad, or a run cannot start.
pub fn claims(args: &ClaimsArgs) -> Result<()> {
    let [page] = output::check([("--page", args.page.as_deref())])?;
    let all = read(args)?;
    output::refuse_inputs([&page])?;
    let chosen = choose(&all, args)?;
    if chosen.is_empty() {
        return output::print(&text::list(&all)).map(|_| ());
    }
    notes::give_each_once();
    let mut wanted = Wanted::default();
    for claim in &chosen {
        if let Test::Runs(runs) = &claim.test {
            judged::want(claim, runs, args.first_seed, &mut wanted)?;
        }
    }
    wanted.check()?;
    if args.check {
        let claims = report::counted(chosen.len() as u64, "claim");
        return output::print(&format!("{claims}: every name is known; {} runs\n", wanted.count())).map(|_| ());
    }
    let results = wanted.execute(args.jobs)?;
    let judged: Vec<Judged<'_>> = chosen.iter().map(|claim| judged::judge(claim, args.first_seed, &results)).collect();
    let commit = args.commit.as_deref();
    let printed = match args.format {
        ClaimsFormat::Json => json::document(&judged, commit)?,
        ClaimsFormat::Text if judged.len() == 1 => text::one(&judged[0]),
        ClaimsFormat::Text => text::table(&judged),
    };
    let written = page.map_or(Ok(()), |target| Ok(target.write(page::page(&judged, commit).as_bytes())?));
    output::print(&printed)?;
    written
}

/// Reads the shipped claims, or those of the given files.
fn read(args: &ClaimsArgs) -> Result<Vec<Claim>> {
    if args.files.is_empty() {
        return Ok(claims::read_all(claims::FILES)?);
    }
    let read = |path: &std::path::PathBuf| Ok((path.display().to_string(), input::text(path, input::CLAIMS)?));
    let files = args.files.iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(claims::read_all(files.iter().map(|(name, text)| (name.as_str(), text.as_str())))?)
}

/// The claims to judge; none if the command only lists them.
fn choose<'a>(all: &'a [Claim], args: &ClaimsArgs) -> Result<Vec<&'a Claim>> {
    if args.all {
        return Ok(all.iter().collect());
    }
    let find = |id: &String| {
        let found = all.iter().find(|claim| claim.id == *id);
        found.with_context(|| format!("no claim {id:?}{}; weir claims lists them", near(all, id)))
    };
    let chosen = args.ids.iter().map(find).collect::<Result<Vec<_>>>()?;
    if let Some(id) = args.ids.iter().enumerate().find_map(|(at, id)| args.ids[..at].contains(id).then_some(id)) {
        bail!("claim {id:?} is named twice; expected each once");
    }
    Ok(chosen)
}

/// A hint at the claim whose name is most like this.
fn near(all: &[Claim], id: &str) -> String {
    let near = all.iter().map(|claim| (strsim::damerau_levenshtein(id, &claim.id), &claim.id)).min();
    match near {
        Some((distance, near)) if distance * 3 <= near.len() => format!(", did you mean {near}?"),
        _ => String::new(),
    }
}
