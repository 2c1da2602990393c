// SPDX-License-Identifier: GPL-2.0-only
//! What the playground takes from a page of the course: title, question, workloads and runs.

use serde_json::{Value, json};

/// Beginning of the address of a run, as written in the manual.
pub const PLAYGROUND: &str = "../../playground/index.html";

/// A lesson.
#[derive(Debug)]
pub struct Lesson<'a> {
    /// Title of its page.
    pub title: &'a str,
    /// Its question: the paragraph that begins with `**Question.**`.
    question: String,
    /// Workloads that the reader saves, with the names that commands use: `./NAME.json`.
    pub files: Vec<(String, String)>,
    /// Links to runs: text, and the part of the address after the page's name.
    runs: Vec<(&'a str, &'a str)>,
}

impl<'a> Lesson<'a> {
    /// Reads a page.
    pub fn of(text: &'a str) -> Lesson<'a> {
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        let question = text.split("\n\n").find_map(|paragraph| paragraph.trim().strip_prefix("**Question.** "));
        let question = question.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        let files = text.split("\n```json file=").skip(1).filter_map(|block| {
            let (name, rest) = block.split_once('\n')?;
            Some((format!("./{name}"), rest.split_once("\n```")?.0.to_owned() + "\n"))
        });
        let runs = text.split('[').skip(1).filter_map(|link| {
            let (name, rest) = link.split_once("](")?;
            let (target, _) = rest.split_once(')')?;
            Some((name, target.strip_prefix(PLAYGROUND)?))
        });
        Lesson { title, question, files: files.collect(), runs: runs.collect() }
    }

    /// Its entry in the page's list.
    pub fn to_json(&self) -> Value {
        let run = |(name, hash): &(&str, &str)| json!({ "name": name, "hash": hash });
        let runs: Vec<Value> = self.runs.iter().map(run).collect();
        json!({ "title": self.title, "question": self.question, "runs": runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LESSONS;

    #[test]
    fn every_lesson_has_a_question_and_runs_of_known_files() {
        for lesson in LESSONS.map(Lesson::of) {
            assert!(lesson.question.ends_with('?'), "{}: {:?}", lesson.title, lesson.question);
            assert!(!lesson.runs.is_empty() && !lesson.files.is_empty(), "{}", lesson.title);
            for (_, hash) in &lesson.runs {
                assert!(hash.starts_with("#s=") && hash.ends_with("&run"), "{}: {hash}", lesson.title);
                let workload = hash.split("&w=").nth(1).unwrap().split(['&', ',', '%']).next().unwrap();
                assert!(lesson.files.iter().any(|(name, _)| name == workload), "{}: {hash}", lesson.title);
            }
        }
    }

    #[test]
    fn lesson_is_read_from_its_page() {
        let page = "# A\n\n**Question.** Why\nso?\n\n```json file=a.json\n{}\n```\n\n\
                    [Run it](../../playground/index.html#s=bfs&w=./a.json&run) [other](b.md)\n";
        let lesson = Lesson::of(page);
        assert_eq!((lesson.title, lesson.question.as_str()), ("A", "Why so?"));
        assert_eq!(lesson.files, [("./a.json".to_owned(), "{}\n".to_owned())]);
        assert_eq!(lesson.runs, [("Run it", "#s=bfs&w=./a.json&run")]);
    }
}
