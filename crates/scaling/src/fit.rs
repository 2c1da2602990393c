// SPDX-License-Identifier: GPL-2.0-only
//! The least-squares fit, its uncertainty, and what follows from it.

use crate::{FEWEST_POINTS, LEVEL, Point, ScalingError};
use distrs::StudentsT;
use rmpfit::{MPConfig, MPFitter, MPPar, MPResult, MPSide};

/// Number of parameters of the law.
const PARAMETERS: usize = 3;

/// Starting values of α and β. Several starts find the global minimum also of curves that are nearly straight, or that
/// fall steeply.
const STARTS: [(f64, f64); 4] = [(0.01, 1e-4), (0.1, 1e-3), (0.001, 1e-6), (0.5, 0.01)];

/// Values of the three parameters, or of their standard errors.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Parameters {
    /// γ: throughput at N = 1.
    pub gamma: f64,
    /// α: contention, 0 to 1.
    pub alpha: f64,
    /// β: coherency, 0 to 1.
    pub beta: f64,
}

impl Parameters {
    /// Throughput of the law at this size.
    pub fn throughput(&self, n: f64) -> f64 {
        self.gamma * n / self.denominator(n)
    }

    /// Factor by which the law is below linear scaling.
    fn denominator(&self, n: f64) -> f64 {
        1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0)
    }

    fn to_array(self) -> [f64; PARAMETERS] {
        [self.gamma, self.alpha, self.beta]
    }

    fn of([gamma, alpha, beta]: [f64; PARAMETERS]) -> Parameters {
        Parameters { gamma, alpha, beta }
    }

    /// Derivatives of the throughput with respect to the parameters.
    fn gradient(&self, n: f64) -> [f64; PARAMETERS] {
        let below = self.denominator(n);
        let slope = -self.gamma * n / (below * below);
        [n / below, slope * (n - 1.0), slope * n * (n - 1.0)]
    }
}

/// What capacity is lost to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Waiting for serialized work.
    Contention,
    /// Keeping the participants consistent with each other.
    Coherency,
}

/// Split of the capacity at one size: the parts add up to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// Part used for work: the efficiency of the law.
    pub ideal: f64,
    /// Part lost to contention.
    pub contention: f64,
    /// Part lost to coherency.
    pub coherency: f64,
}

impl Share {
    /// The larger one of the two losses, if it exceeds a hundredth of the capacity.
    pub fn largest_loss(&self) -> Option<Part> {
        let (part, loss) = if self.coherency > self.contention {
            (Part::Coherency, self.coherency)
        } else {
            (Part::Contention, self.contention)
        };
        (loss > 0.01).then_some(part)
    }
}

/// A maximum of the throughput.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Peak {
    /// Size at which the throughput is highest.
    pub n: f64,
    /// Highest throughput.
    pub throughput: f64,
    /// Whether it lies beyond the largest measured size.
    pub extrapolated: bool,
}

/// A fitted law.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The points, in order of their sizes.
    pub points: Vec<Point>,
    /// Fitted parameters.
    pub law: Parameters,
    /// Standard errors of the parameters.
    pub standard_errors: Parameters,
    /// Lower and upper ends of the parameters' intervals, which are not cut at the bounds of the fit.
    pub intervals: (Parameters, Parameters),
    /// The same as the R package usl 3.0.4 prints them, for comparison with published fits. They are too narrow: the
    /// package uses the one-sided quantile of Student's t, and one parameter instead of three for the degrees of
    /// freedom.
    pub intervals_usl: (Parameters, Parameters),
    /// Degrees of freedom: points minus parameters.
    pub degrees_of_freedom: usize,
    /// Residual standard deviation, in units of the throughput.
    pub residual_sd: f64,
    /// Amdahl's law (β = 0), fitted to the same points, and its residual standard deviation.
    pub amdahl: (Parameters, f64),
}

impl Fit {
    /// Largest measured size.
    pub fn largest_n(&self) -> f64 {
        self.points.last().map_or(1.0, |point| point.n)
    }

    /// Throughput maximum; `None` if the interval of β includes 0.
    pub fn peak(&self) -> Option<Peak> {
        if self.intervals.0.beta <= 0.0 || self.law.beta <= 0.0 || self.law.alpha >= 1.0 {
            return None;
        }
        let n = ((1.0 - self.law.alpha) / self.law.beta).sqrt();
        Some(Peak { n, throughput: self.law.throughput(n), extrapolated: n > self.largest_n() })
    }

    /// Throughput that the law without coherency cost approaches, γ / α; `None` if α is 0.
    pub fn amdahl_limit(&self) -> Option<f64> {
        (self.law.alpha > 0.0).then(|| self.law.gamma / self.law.alpha)
    }

    /// Size 1 / α at which linear scaling reaches the limit; `None` if α is 0.
    pub fn optimal_n(&self) -> Option<f64> {
        (self.law.alpha > 0.0).then(|| 1.0 / self.law.alpha)
    }

    /// Measured throughput of a point relative to linear scaling.
    pub fn efficiency(&self, point: Point) -> f64 {
        point.throughput / (self.law.gamma * point.n)
    }

    /// Split of the capacity at this size.
    pub fn share(&self, n: f64) -> Share {
        let below = self.law.denominator(n);
        Share {
            ideal: 1.0 / below,
            contention: self.law.alpha * (n - 1.0) / below,
            coherency: self.law.beta * n * (n - 1.0) / below,
        }
    }

    /// Names of the parameters whose intervals include 0.
    pub fn not_significant(&self) -> Vec<&'static str> {
        let low = self.intervals.0;
        let all = [("alpha", low.alpha), ("beta", low.beta)];
        all.into_iter().filter(|(_, low)| *low <= 0.0).map(|(name, _)| name).collect()
    }
}

/// Fits the law to these points.
///
/// # Errors
/// If there are too few points, or the points do not determine the parameters.
pub fn fit(points: &[Point]) -> Result<Fit, ScalingError> {
    if points.len() < FEWEST_POINTS {
        return Err(ScalingError::TooFew(points.len()));
    }
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.n.total_cmp(&b.n));
    let sizes = 1 + points.windows(2).filter(|pair| pair[0].n < pair[1].n).count();
    if sizes <= PARAMETERS {
        return Err(ScalingError::TooFewSizes(sizes));
    }
    let (law, norm) = minimum(&points, false)?;
    let (amdahl, amdahl_norm) = minimum(&points, true)?;
    let degrees_of_freedom = points.len() - PARAMETERS;
    let residual_sd = (norm / degrees_of_freedom as f64).sqrt();
    let amdahl_sd = (amdahl_norm / (degrees_of_freedom + 1) as f64).sqrt();
    let errors = standard_errors(&points, &law, residual_sd)?;
    let interval = |probability: f64, freedom: usize| {
        let reach = StudentsT::ppf(probability, freedom as f64);
        let (middle, errors) = (law.to_array(), errors.to_array());
        let end = |sign: f64| Parameters::of(std::array::from_fn(|at| middle[at] + sign * reach * errors[at]));
        (end(-1.0), end(1.0))
    };
    Ok(Fit {
        law,
        standard_errors: errors,
        intervals: interval((1.0 + LEVEL) / 2.0, degrees_of_freedom),
        intervals_usl: interval(LEVEL, points.len() - 1),
        degrees_of_freedom,
        residual_sd,
        amdahl: (amdahl, amdahl_sd),
        points,
    })
}

/// Least-squares minimum over all starts, with its sum of squares.
fn minimum(points: &[Point], amdahl: bool) -> Result<(Parameters, f64), ScalingError> {
    // Throughput is scaled to about 1, so that the tolerances mean the same for every unit.
    let scale = points.iter().map(|point| point.throughput / point.n).fold(0.0, f64::max);
    let mut problem = Problem::new(points, scale, amdahl);
    let mut best: Option<([f64; PARAMETERS], f64)> = None;
    for (alpha, beta) in STARTS {
        let mut at = [1.0, alpha, if amdahl { 0.0 } else { beta }];
        // A start that fails is no result; another one may succeed.
        let Ok(status) = problem.mpfit(&mut at) else { continue };
        if best.is_none_or(|(_, norm)| status.best_norm < norm) {
            best = Some((at, status.best_norm));
        }
    }
    let (at, norm) = best.ok_or_else(|| ScalingError::NoFit("the search did not converge".to_owned()))?;
    let law = Parameters::of(at);
    Ok((Parameters { gamma: law.gamma * scale, ..law }, norm * scale * scale))
}

/// The least-squares problem as `rmpfit` takes it.
struct Problem<'a> {
    points: &'a [Point],
    scale: f64,
    bounds: [MPPar; PARAMETERS],
    config: MPConfig,
}

impl Problem<'_> {
    fn new(points: &[Point], scale: f64, amdahl: bool) -> Problem<'_> {
        let low = || MPPar { limited_low: true, side: MPSide::User, ..MPPar::default() };
        let share = || MPPar { limited_up: true, limit_up: 1.0, ..low() };
        let bounds = [low(), share(), MPPar { fixed: amdahl, ..share() }];
        let config = MPConfig { ftol: 1e-15, xtol: 1e-13, gtol: 1e-15, max_iter: 2000, ..MPConfig::default() };
        Problem { points, scale, bounds, config }
    }

    fn law(parameters: &[f64]) -> Parameters {
        Parameters { gamma: parameters[0], alpha: parameters[1], beta: parameters[2] }
    }
}

impl MPFitter for Problem<'_> {
    fn eval(&mut self, parameters: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        let law = Problem::law(parameters);
        for (deviate, point) in deviates.iter_mut().zip(self.points) {
            *deviate = point.throughput / self.scale - law.throughput(point.n);
        }
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.points.len()
    }

    fn config(&self) -> &MPConfig {
        &self.config
    }

    fn parameters(&self) -> &[MPPar] {
        &self.bounds
    }

    fn jacobian(
        &mut self,
        parameters: &[f64],
        deviates: &mut [f64],
        derivatives: &mut [Option<Vec<f64>>],
    ) -> MPResult<()> {
        self.eval(parameters, deviates)?;
        let law = Problem::law(parameters);
        for (at, column) in derivatives.iter_mut().enumerate() {
            let Some(column) = column else { continue };
            for (value, point) in column.iter_mut().zip(self.points) {
                *value = -law.gradient(point.n)[at];
            }
        }
        Ok(())
    }
}

/// Standard errors: square roots of the diagonal of s² (JᵀJ)⁻¹. All three parameters are regarded as free, so that one
/// at its bound has an interval too.
fn standard_errors(points: &[Point], law: &Parameters, sd: f64) -> Result<Parameters, ScalingError> {
    let mut normal = [[0.0; PARAMETERS]; PARAMETERS];
    // Columns are scaled to length 1, because their magnitudes differ by a factor of millions.
    let rows: Vec<_> = points.iter().map(|point| law.gradient(point.n)).collect();
    let length: [f64; PARAMETERS] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at] * row[at]).sum::<f64>().sqrt());
    for row in &rows {
        for i in 0..PARAMETERS {
            for j in 0..PARAMETERS {
                normal[i][j] += row[i] / length[i] * (row[j] / length[j]);
            }
        }
    }
    let cofactor = |i: usize| {
        let (j, k) = ((i + 1) % PARAMETERS, (i + 2) % PARAMETERS);
        normal[j][j] * normal[k][k] - normal[j][k] * normal[k][j]
    };
    let minor = |a: usize, b: usize| normal[1][a] * normal[2][b] - normal[1][b] * normal[2][a];
    let determinant = normal[0][0] * minor(1, 2) - normal[0][1] * minor(0, 2) + normal[0][2] * minor(0, 1);
    let error = |at: usize| sd * (cofactor(at) / determinant).sqrt() / length[at];
    let errors: [f64; PARAMETERS] = std::array::from_fn(error);
    if determinant <= 0.0 || errors.iter().any(|error| !error.is_finite()) {
        return Err(ScalingError::NoFit("they do not determine all three parameters".to_owned()));
    }
    Ok(Parameters::of(errors))
}
