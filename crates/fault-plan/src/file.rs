// SPDX-License-Identifier: GPL-2.0-only
//! Fault plan as a TOML file. Unknown keys are errors, and every error names its line.

use crate::{Action, ClockFault, Fault, FaultError, FaultPlan, add, faults_at};
use ids::{CpuId, Nanos};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Node<'i> = Spanned<DeValue<'i>>;

/// The file's text, to convert spans into lines.
struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl FaultPlan {
    /// Parses a plan in TOML; `name` is the file name in errors.
    pub fn from_toml(name: &str, text: &str) -> Result<FaultPlan, FaultError> {
        let reader = Reader { name, text };
        let table = DeTable::parse(text)
            .map_err(|error| reader.error(error.span().unwrap_or(0..0), format!("not TOML: {}", error.message())))?;
        let mut found = Vec::new();
        for (key, value) in table.get_ref() {
            let faults = match (key.get_ref().as_ref(), value.get_ref()) {
                ("fault", DeValue::Array(faults)) => faults,
                _ => return Err(reader.error(key.span(), "expected only [[fault]] tables")),
            };
            for fault in faults {
                let faults = reader.fault(fault)?;
                add(&mut found, fault.span().start, faults).map_err(|problem| reader.error(fault.span(), problem))?;
            }
        }
        FaultPlan::checked(found, |start| reader.place(start..start))
    }
}

impl Reader<'_> {
    fn place(&self, span: Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or("");
        format!("{}:{}", self.name, before.matches('\n').count() + 1)
    }

    fn error(&self, span: Range<usize>, problem: impl Into<String>) -> FaultError {
        FaultError::new(self.place(span), problem)
    }

    /// Parses `at` and one action; an action on several CPUs gives one fault per CPU.
    fn fault(&self, node: &Node<'_>) -> Result<Vec<Fault>, FaultError> {
        let expected = "expected at = \"TIME\" and one of offline = \"CPUS\", online = \"CPUS\", suspend = \"LENGTH\", \
                        or cpus = \"CPUS\" with clock = \"+TIME\" or drift = \"+NUMBERppm\" (or -)";
        let DeValue::Table(table) = node.get_ref() else { return Err(self.error(node.span(), expected)) };
        let (mut at, mut action, mut cpus_node) = (None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "at" => at = Some(self.time(value)?),
                "cpus" => cpus_node = Some(value),
                "offline" | "online" | "suspend" | "clock" | "drift" if action.is_none() => action = Some((key, value)),
                _ => return Err(self.error(key.span(), expected)),
            }
        }
        let (Some(at), Some((key, value))) = (at, action) else { return Err(self.error(node.span(), expected)) };
        let cpus = |action: fn(CpuId) -> Action| {
            let faults = self.string(value).and_then(|cpus| faults_at(at, cpus, action));
            faults.ok_or_else(|| self.error(value.span(), "expected a list of CPUs, such as \"3\" or \"1-2,5\""))
        };
        let key = key.get_ref().as_ref();
        if cpus_node.is_some() != matches!(key, "clock" | "drift") {
            return Err(self.error(node.span(), expected));
        }
        match key {
            "clock" | "drift" => {
                let word = self.string(value).and_then(|by| format!("{key}{by}").parse().ok());
                let word: ClockFault = word.ok_or_else(|| self.error(value.span(), expected))?;
                let faults =
                    cpus_node.and_then(|cpus| faults_at(at, self.string(cpus)?, |cpu| Action::Clock(cpu, word)));
                faults.ok_or_else(|| self.error(node.span(), expected))
            }
            "offline" => cpus(Action::Offline),
            "online" => cpus(Action::Online),
            _ => match self.time(value)? {
                Nanos::ZERO => Err(self.error(value.span(), "expected a length above 0")),
                length => Ok(vec![Fault { at, action: Action::Suspend(length) }]),
            },
        }
    }

    fn string<'n>(&self, node: &'n Node<'_>) -> Option<&'n str> {
        match node.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        }
    }

    fn time(&self, node: &Node<'_>) -> Result<Nanos, FaultError> {
        let time = self.string(node).and_then(|text| text.parse().ok());
        time.ok_or_else(|| self.error(node.span(), "expected a time with unit, such as \"1.5s\" or \"500ms\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_file_and_one_line_form_give_the_same_plan() {
        let text = "[[fault]]\nat = \"2s\"\nonline = \"1-2\"\n[[fault]]\nat = \"1s\"\noffline = \"1-2\"\n\
                    [[fault]]\nat = \"3s\"\nsuspend = \"500ms\"\n";
        let text = &format!(
            "{text}[[fault]]\nat = \"4s\"\ncpus = \"1\"\nclock = \"-1ms\"\n[[fault]]\nat = \"5s\"\ncpus = \"0-1\"\ndrift = \"+9ppm\"\n"
        );
        let line = "cpu1-2:offline@1s,cpu1-2:online@2s,suspend@3s+500ms,cpu1:clock-1ms@4s,cpu0-1:drift+9ppm@5s";
        assert_eq!(FaultPlan::from_toml("f", text), line.parse());
        assert!(FaultPlan::from_toml("f", "").unwrap().is_empty());
    }

    #[test]
    fn toml_errors_name_the_line() {
        let keys = "expected at = \"TIME\" and one of offline = \"CPUS\", online = \"CPUS\", suspend = \"LENGTH\", \
                    or cpus = \"CPUS\" with clock = \"+TIME\" or drift = \"+NUMBERppm\" (or -)";
        let time = "expected a time with unit, such as \"1.5s\" or \"500ms\"";
        let cases = [
            ("\nx = 1", "f.toml:2: expected only [[fault]] tables"),
            ("fault = 3", "f.toml:1: expected only [[fault]] tables"),
            ("fault = [3]", &format!("f.toml:1: {keys}")),
            ("[[fault]]\nat = \"1s\"", &format!("f.toml:1: {keys}")),
            ("[[fault]]\noffline = \"1\"", &format!("f.toml:1: {keys}")),
            ("[[fault]]\nat = \"1s\"\noffline = \"1\"\nonline = \"2\"", &format!("f.toml:4: {keys}")),
            ("[[fault]]\nat = \"1s\"\nofline = \"1\"", &format!("f.toml:3: {keys}")),
            ("[[fault]]\nat = \"1s\"\nclock = \"+1s\"", &format!("f.toml:1: {keys}")),
            ("[[fault]]\nat = \"1s\"\ncpus = \"1\"\noffline = \"1\"", &format!("f.toml:1: {keys}")),
            ("[[fault]]\nat = \"1s\"\ncpus = \"1\"\ndrift = \"5\"", &format!("f.toml:4: {keys}")),
            ("[[fault]]\nat = 1\noffline = \"1\"", &format!("f.toml:2: {time}")),
            ("[[fault]]\nat = \"1s\"\nsuspend = \"5\"", &format!("f.toml:3: {time}")),
            ("[[fault]]\nat = \"1s\"\nsuspend = \"0s\"", "f.toml:3: expected a length above 0"),
            ("[[fault]]\nat = \"1s\"\noffline = \"\"", "f.toml:3: expected a list of CPUs, such as \"3\" or \"1-2,5\""),
            ("[[fault]]\nat = \"1s\"\noffline = \"0\"", "f.toml:1: CPU 0 cannot go offline: it is the boot CPU"),
        ];
        for (text, error) in cases {
            assert_eq!(FaultPlan::from_toml("f.toml", text).map_err(|error| error.to_string()), Err(error.to_owned()));
        }
        assert!(FaultPlan::from_toml("f", "[").unwrap_err().to_string().starts_with("f:1: not TOML: "));
    }
}
