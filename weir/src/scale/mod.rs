// SPDX-License-Identifier: GPL-2.0-only
//! `weir scale`: throughput by CPUs, jobs or clients, simulated, measured or read, and the law that fits it.

pub mod args;
mod command;
mod simulated;

use crate::args::Format;
use crate::{input, output};
use anyhow::{Context, Result, bail};
use args::Scale;
use output_file::Target;
use report::escape;
use scaling::{Fit, Part, Point};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// Points of one scheduler, command or file.
pub struct Curve {
    /// Name of what was measured.
    name: String,
    /// Name of the sizes, in the plural.
    unit: &'static str,
    points: Vec<Point>,
    /// Further values of each point for the JSON, in the order of the points.
    details: Vec<Value>,
    /// Sentences that the law does not contain, such as the parallelism available.
    notes: Vec<String>,
    /// Next step for each kind of loss, from the run with the largest size.
    next: Next,
}

/// What to do next, by the kind of the largest loss.
#[derive(Clone, Debug, Default)]
struct Next {
    contention: String,
    coherency: String,
    none: String,
}

impl Next {
    /// Advice without any knowledge of what was measured.
    fn of_file() -> Next {
        Next {
            contention: "find the serialized work: weir meter locks -- COMMAND shows the locks that tasks wait for, weir workload \
                         the longest chain of a recording"
                .to_owned(),
            coherency: "find the shared data: weir meter locks -- COMMAND shows locks that many tasks take at a time; false sharing \
                        shows in no lock table, so vary one data structure at a time"
                .to_owned(),
            none: "measure larger sizes: nothing limits these".to_owned(),
        }
    }

    fn for_loss(&self, loss: Option<Part>) -> &str {
        match loss {
            Some(Part::Contention) => &self.contention,
            Some(Part::Coherency) => &self.coherency,
            None => &self.none,
        }
    }
}

/// A curve with its law.
struct Fitted {
    curve: Curve,
    fit: Fit,
}

/// Measures or reads, fits, and prints.
///
/// # Errors
/// [`Failed`](crate::failed::Failed) if a run or command failed; others if the usage or an input is bad.
pub fn scale(args: &Scale) -> Result<()> {
    let [page] = output::check([("--report", args.report.as_deref())])?;
    let mut fitted = Vec::new();
    for curve in curves(args, &page)? {
        let fit = scaling::fit(&curve.points).with_context(|| curve.name.clone())?;
        fitted.push(Fitted { curve, fit });
    }
    output::print(&match args.format {
        Format::Text => to_text(&fitted),
        Format::Json => format!("{:#}\n", to_json(&fitted)),
        Format::Csv => to_csv(&fitted),
    })?;
    if let Some(target) = page {
        let of = |fitted: &Fitted| page::Scaling {
            name: fitted.curve.name.clone(),
            unit: fitted.curve.unit.to_owned(),
            fit: fitted.fit.clone(),
            notes: notes(fitted),
        };
        let page = page::scaling(output::VERSION, &fitted.iter().map(of).collect::<Vec<_>>());
        output::write_page(&target, &page)?;
    }
    Ok(())
}

/// The curves of the command line. `page` is checked against the inputs before anything runs.
fn curves(args: &Scale, page: &Option<Target>) -> Result<Vec<Curve>> {
    let is_file = |name: &String| name.ends_with(".csv");
    match args.what.as_slice() {
        [] => Ok(vec![command::measure(args)?]),
        [file] if is_file(file) => {
            let curve = read(args, Path::new(file))?;
            output::refuse_inputs([page])?;
            Ok(vec![curve])
        }
        names if names.iter().any(is_file) => bail!("expected one FILE.csv, or schedulers"),
        _ => simulated::simulate(args, page),
    }
}

fn read(args: &Scale, path: &Path) -> Result<Curve> {
    if args.duration.is_some() || args.seeds.is_some() || !args.without.is_empty() || args.profile.is_some() {
        bail!("--for, --seeds, --without and --profile belong to simulated runs; {} is only fitted", path.display());
    }
    if !args.cpus.is_empty() || !args.jobs.is_empty() || !args.clients.is_empty() || !args.spindles.is_empty() {
        bail!(
            "--cpus, --jobs, --clients and --spindles belong to simulated runs; {} has its own sizes",
            path.display()
        );
    }
    let text = input::text(path, input::POINTS)?;
    let points = scaling::read_csv(&text).with_context(|| path.display().to_string())?;
    let (name, details) = (path.display().to_string(), vec![json!({}); points.len()]);
    Ok(Curve { name, unit: "N", points, details, notes: vec![], next: Next::of_file() })
}

/// Refuses lists of sizes that no law can be fitted to, before anything runs.
fn check_sizes(sizes: &[u32], repeats: u64) -> Result<()> {
    let different: std::collections::BTreeSet<u32> = sizes.iter().copied().collect();
    let point = |&n: &u32| Point { n: f64::from(n), throughput: f64::from(n) };
    let points: Vec<Point> = (0..repeats).flat_map(|_| different.iter().map(point)).collect();
    match scaling::fit(&points) {
        Err(error @ (scaling::ScalingError::TooFew(_) | scaling::ScalingError::TooFewSizes(_))) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Sentences about a curve: what it contains besides the law, and what to do next.
fn notes(fitted: &Fitted) -> Vec<String> {
    let loss = fitted.fit.share(fitted.fit.largest_n()).largest_loss();
    let next = format!("next: {}", fitted.curve.next.for_loss(loss));
    fitted.curve.notes.iter().cloned().chain([next]).collect()
}

fn to_text(all: &[Fitted]) -> String {
    let mut text = String::new();
    for fitted in all {
        let _ = writeln!(text, "{}\n", escape(&fitted.curve.name));
        text += &scaling::to_text(&fitted.fit, fitted.curve.unit);
        text += "\n";
        for note in notes(fitted) {
            text += &(report::wrap("", &escape(&note)) + "\n");
        }
        if !std::ptr::eq(fitted, &raw const all[all.len() - 1]) {
            text += "\n";
        }
    }
    text
}

fn one_to_json(fitted: &Fitted) -> Value {
    let mut json = scaling::to_json(&fitted.fit);
    let loss = fitted.fit.share(fitted.fit.largest_n()).largest_loss();
    json["name"] = json!(fitted.curve.name);
    json["sizes"] = json!(fitted.curve.unit);
    json["largest_loss"] = json!(match loss {
        Some(Part::Contention) => Some("contention"),
        Some(Part::Coherency) => Some("coherency"),
        _ => None,
    });
    json["notes"] = json!(notes(fitted));
    // The law sorts its points stably by size; so are the details.
    let mut order: Vec<usize> = (0..fitted.curve.points.len()).collect();
    order.sort_by(|&a, &b| fitted.curve.points[a].n.total_cmp(&fitted.curve.points[b].n));
    if let Some(rows) = json["rows"].as_array_mut() {
        for (row, &at) in rows.iter_mut().zip(&order) {
            let details = fitted.curve.details[at].as_object().into_iter().flatten();
            details.for_each(|(key, value)| row[key] = value.clone());
        }
    }
    json
}

/// One curve has its keys at the top; several are in `curves`.
fn to_json(all: &[Fitted]) -> Value {
    match all {
        [one] => {
            let mut json = json!({ "weir": 1 });
            if let Some(object) = one_to_json(one).as_object() {
                object.iter().for_each(|(key, value)| json[key] = value.clone());
            }
            json
        }
        several => json!({ "weir": 1, "curves": several.iter().map(one_to_json).collect::<Vec<_>>() }),
    }
}

fn to_csv(all: &[Fitted]) -> String {
    let mut text = "n,throughput,fitted,residual,efficiency,contention,coherency,name\n".to_owned();
    for Fitted { curve, fit } in all {
        for point in &fit.points {
            let (fitted, share) = (fit.law.throughput(point.n), fit.share(point.n));
            let name = report::cell(&curve.name);
            let (residual, efficiency) = (point.throughput - fitted, fit.efficiency(*point));
            let _ = writeln!(
                text,
                "{},{},{fitted},{residual},{efficiency},{},{},{name}",
                point.n, point.throughput, share.contention, share.coherency
            );
        }
    }
    text
}
