// SPDX-License-Identifier: GPL-2.0-only
//! How a user names a scheduler: `NAME[@PRESET][,key=value…]`.

/// Parts of a scheduler's specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerSpec<'a> {
    /// Name of a policy, or path of an object or source.
    pub what: &'a str,
    /// Preset of its profile.
    pub preset: Option<&'a str>,
    /// Tunables with their values, in order.
    pub tunables: Vec<(String, String)>,
}

impl<'a> SchedulerSpec<'a> {
    /// Parses a specification. `is_path` tells whether its head is a path, which has no preset.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn parse(text: &'a str, is_path: impl Fn(&str) -> bool) -> Result<SchedulerSpec<'a>, String> {
        let mut parts = text.split(',');
        let head = parts.next().unwrap_or_default();
        let (what, preset) = match head.split_once('@') {
            Some((what, preset)) if !is_path(head) => (what, Some(preset)),
            _ => (head, None),
        };
        if what.is_empty() || preset == Some("") {
            return Err(format!("{text:?} is not a scheduler such as NAME, NAME@PRESET,key=value or FILE.bpf.o"));
        }
        let tunables = parts.map(|part| match part.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("{text}: {part:?} is not a tunable such as key=value")),
        });
        Ok(SchedulerSpec { what, preset, tunables: tunables.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_spec_has_name_preset_and_tunables() {
        let tunables = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let spec =
            |what, preset, pairs: &[(&str, &str)]| Some(SchedulerSpec { what, preset, tunables: tunables(pairs) });
        let cases = [
            ("bfs", spec("bfs", None, &[])),
            ("bfs@0.360", spec("bfs", Some("0.360"), &[])),
            ("bfs@0.360,a=1,b=x=y", spec("bfs", Some("0.360"), &[("a", "1"), ("b", "x=y")])),
            ("bfs,a=", spec("bfs", None, &[("a", "")])),
            ("./a@b.bpf.o,c=1", spec("./a@b.bpf.o", None, &[("c", "1")])),
            ("x.bpf.o", spec("x.bpf.o", None, &[])),
            ("", None),
            ("@0.360", None),
            ("bfs@", None),
            ("bfs,a", None),
            ("bfs,=1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(SchedulerSpec::parse(text, |head| head.ends_with(".o")).ok(), expected, "{text}");
        }
    }
}
