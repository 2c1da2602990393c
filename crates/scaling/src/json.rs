// SPDX-License-Identifier: GPL-2.0-only
//! A fit as JSON. The keys are a stable interface.

use crate::{Fit, LEVEL};
use serde_json::{Value, json};

/// The keys `fit` and `rows` of `weir scale --format json`. What cannot be said is null.
pub fn to_json(fit: &Fit) -> Value {
    let (law, errors, (low, high)) = (fit.law, fit.standard_errors, fit.intervals);
    let (usl_low, usl_high) = fit.intervals_usl;
    let (peak, (amdahl, amdahl_sd)) = (fit.peak(), fit.amdahl);
    json!({
        "fit": {
            "points": fit.points.len(),
            "gamma": law.gamma,
            "alpha": law.alpha,
            "beta": law.beta,
            "standard_errors": { "gamma": errors.gamma, "alpha": errors.alpha, "beta": errors.beta },
            "level_ppm": (LEVEL * 1e6).round() as u64,
            "intervals": {
                "gamma": [low.gamma, high.gamma],
                "alpha": [low.alpha, high.alpha],
                "beta": [low.beta, high.beta],
            },
            "intervals_usl": {
                "gamma": [usl_low.gamma, usl_high.gamma],
                "alpha": [usl_low.alpha, usl_high.alpha],
                "beta": [usl_low.beta, usl_high.beta],
            },
            "degrees_of_freedom": fit.degrees_of_freedom,
            "residual_sd": fit.residual_sd,
            "peak_n": peak.map(|peak| peak.n),
            "peak_throughput": peak.map(|peak| peak.throughput),
            "peak_extrapolated": peak.map(|peak| peak.extrapolated),
            "amdahl_limit": fit.amdahl_limit(),
            "optimal_n": fit.optimal_n(),
            "amdahl": { "gamma": amdahl.gamma, "alpha": amdahl.alpha, "residual_sd": amdahl_sd },
        },
        "rows": rows(fit),
    })
}

fn rows(fit: &Fit) -> Vec<Value> {
    let row = |point: &crate::Point| {
        let (share, fitted) = (fit.share(point.n), fit.law.throughput(point.n));
        json!({
            "n": whole(point.n),
            "throughput": point.throughput,
            "fitted": fitted,
            "residual": point.throughput - fitted,
            "efficiency": fit.efficiency(*point),
            "latency": point.n / point.throughput,
            "ideal": share.ideal,
            "contention": share.contention,
            "coherency": share.coherency,
        })
    };
    fit.points.iter().map(row).collect()
}

/// A size as an integer where it is one.
fn whole(n: f64) -> Value {
    if n.fract() == 0.0 { json!(n as u64) } else { json!(n) }
}
