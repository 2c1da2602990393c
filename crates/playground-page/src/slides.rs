// SPDX-License-Identifier: GPL-2.0-only
//! Slides of the course, made from its pages: a page of its own beside the playground, whose runs they open.

use crate::lesson::PLAYGROUND;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Beginning and end of the part of a lesson that is folded away.
const SOLUTION: (&str, &str) = ("<details><summary>Solution</summary>", "</details>");

/// All slides: a first one with the list of lessons, then those of each lesson.
pub fn all(lessons: &[&str]) -> Markup {
    let titles = lessons.iter().map(|lesson| title(lesson));
    let mut first = 2;
    let starts: Vec<(usize, &str)> = titles
        .zip(lessons)
        .map(|(title, lesson)| {
            let start = first;
            first += of_lesson(lesson).len();
            (start, title)
        })
        .collect();
    html! {
        section {
            h1 { "How schedulers decide" }
            p { "A course of " (lessons.len()) " lessons. Each has a question, a prediction, runs and an exercise." }
            ol { @for (start, title) in &starts { li { a href={ "#" (start) } { (title) } } } }
            p.quiet { "Next: right arrow or space. Back: left arrow. This list: Home. Print for one slide a page." }
        }
        @for lesson in lessons {
            @for slide in of_lesson(lesson) {
                section { (PreEscaped(to_html(&slide))) }
            }
        }
    }
}

/// The title of a lesson, without its number.
fn title(lesson: &str) -> &str {
    let line = lesson.lines().next().unwrap_or_default();
    line.split_once(": ").map_or(line, |(_, title)| title)
}

/// The slides of a lesson in Markdown: its question, its workload, each of its parts, and the solution. A part that links
/// to a run is divided there: what is to be seen, and what it means.
fn of_lesson(lesson: &str) -> Vec<String> {
    let (shown, folded) = lesson.split_once(SOLUTION.0).unwrap_or((lesson, ""));
    let mut parts = shown.split("\n## ");
    let opening = parts.next().unwrap_or_default();
    let (question, workload) = opening.split_once("\n```").unwrap_or((opening, ""));
    let mut slides = vec![question.to_owned()];
    if !workload.is_empty() {
        slides.push(format!("## The workload\n\n```{workload}"));
    }
    for part in parts {
        let last_run = part.rfind(PLAYGROUND).and_then(|at| Some(at + part[at..].find("\n\n")?));
        let (seen, meaning) = part.split_at(last_run.unwrap_or(part.len()));
        slides.push(format!("## {seen}"));
        if !meaning.trim().is_empty() {
            slides.push(format!("## What happens\n{meaning}"));
        }
    }
    let solution = folded.split(SOLUTION.1).next().unwrap_or_default();
    if !solution.is_empty() {
        slides.push(format!("## Solution\n{solution}"));
    }
    slides
}

/// HTML of a slide. Links to runs open the playground beside this page; other pages of the manual are not there, so that
/// links to them are plain text.
fn to_html(markdown: &str) -> String {
    let mut kept = Vec::new();
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let target = match dest_url.strip_prefix(PLAYGROUND) {
                Some(run) => Some(format!("index.html{run}")),
                None => dest_url.starts_with("https:").then(|| dest_url.to_string()),
            };
            kept.push(target.is_some());
            let link = |target: String| Tag::Link { link_type, dest_url: target.into(), title, id };
            target.map(|target| Event::Start(link(target)))
        }
        Event::End(TagEnd::Link) => kept.pop().unwrap_or(true).then_some(event),
        event => Some(event),
    });
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LESSONS;

    #[test]
    fn lesson_becomes_slides_in_the_order_of_its_page() {
        let lesson = "# Lesson 9: nine\n\n**Question.** Why?\n\n```json file=a.json\n{}\n```\n\n## Predict\n\nP\n\n## See\n\n\
                      [Run](../../playground/index.html#s=bfs&run)\n\nBecause of [this](b.md).\n\n## Exercise\n\nE\n\n\
                      <details><summary>Solution</summary>\n\nS\n\n</details>\n";
        let slides: Vec<String> = of_lesson(lesson).iter().map(|slide| to_html(slide)).collect();
        assert_eq!(slides.len(), 7);
        assert_eq!(slides[0], "<h1>Lesson 9: nine</h1>\n<p><strong>Question.</strong> Why?</p>\n");
        assert!(slides[1].contains("<h2>The workload</h2>\n<pre>"), "{}", slides[1]);
        assert_eq!(slides[2], "<h2>Predict</h2>\n<p>P</p>\n");
        assert_eq!(slides[3], "<h2>See</h2>\n<p><a href=\"index.html#s=bfs&amp;run\">Run</a></p>\n");
        assert_eq!(slides[4], "<h2>What happens</h2>\n<p>Because of this.</p>\n");
        assert_eq!(slides[5], "<h2>Exercise</h2>\n<p>E</p>\n");
        assert_eq!(slides[6], "<h2>Solution</h2>\n<p>S</p>\n");
    }

    #[test]
    fn list_of_lessons_leads_to_their_first_slides() {
        let html = all(&LESSONS).into_string();
        let sections: Vec<&str> = html.split("<section>").skip(1).collect();
        let targets = sections[0].split("href=\"#").skip(1).map(|link| link.split('"').next().unwrap());
        let targets: Vec<usize> = targets.map(|target| target.parse().unwrap()).collect();
        assert_eq!(targets.len(), LESSONS.len());
        for (index, target) in targets.iter().enumerate() {
            let heading = format!("<h1>Lesson {}: {}</h1>", index + 1, title(LESSONS[index]));
            assert!(sections[target - 1].starts_with(&heading), "{heading}: {}", sections[target - 1]);
        }
        assert_eq!(html.matches("<h2>Solution</h2>").count(), LESSONS.len());
        assert_eq!(html.matches(".md").count(), 0);
    }
}
