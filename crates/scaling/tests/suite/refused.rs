// SPDX-License-Identifier: GPL-2.0-only
//! Tables and points that are refused, each with one message.

use scaling::{Point, fit, read_csv, to_csv};

#[test]
fn tables_are_read_with_further_columns_and_comments() {
    let text = "# measured in November\nthroughput, host ,n\n10, a, 1\n19,b,2\n";
    let points = read_csv(text).unwrap();
    assert_eq!(points, [Point { n: 1.0, throughput: 10.0 }, Point { n: 2.0, throughput: 19.0 }]);
    assert_eq!(read_csv(&to_csv(&points)).unwrap(), points);
}

#[test]
fn faults_of_tables_name_line_and_expectation() {
    let cases = [
        ("x,throughput\n1,2\n", "line 1: no column \"n\" in \"x,throughput\"; expected the columns n,throughput"),
        ("n,throughput\n1,2\nzwei,3\n", "line 3: n is \"zwei\"; expected a number of at least 1"),
        ("n,throughput\n0,2\n", "line 2: n is \"0\"; expected a number of at least 1"),
        ("n,throughput\n1,-2\n", "line 2: throughput is \"-2\"; expected a number above 0"),
        ("n,throughput\n1,inf\n", "line 2: throughput is \"inf\"; expected a number above 0"),
    ];
    for (text, expected) in cases {
        assert_eq!(read_csv(text).unwrap_err().to_string(), expected);
    }
    let ragged = read_csv("n,throughput\n1\n").unwrap_err().to_string();
    assert!(ragged.starts_with("line 2: "), "{ragged}");
}

#[test]
fn five_points_are_too_few() {
    let points: Vec<Point> = (1..=5).map(|n| Point { n: f64::from(n), throughput: f64::from(n) * 9.0 }).collect();
    let error = fit(&points).unwrap_err().to_string();
    assert!(error.starts_with("5 points; a law with three parameters needs at least 6"), "{error}");
}

#[test]
fn repeated_sizes_do_not_replace_different_ones() {
    let points: Vec<Point> =
        (0..9).map(|at| Point { n: f64::from(at % 3 + 1), throughput: 1.0 + f64::from(at) }).collect();
    let error = fit(&points).unwrap_err().to_string();
    assert!(error.starts_with("3 different values of n"), "{error}");
}
