// SPDX-License-Identifier: GPL-2.0-only
//! A table of text that fills the terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Draws a title, as many lines of the text as fit, and a foot.
pub fn draw_table(frame: &mut Frame<'_>, title: &str, text: &str, foot: &str) {
    let rows = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [head, body, end] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Line::from(title).style(Style::new().bold()), head);
    frame.render_widget(Paragraph::new(text), body);
    frame.render_widget(Line::from(foot).style(Style::new().dim()), end);
    crate::frame::clean(frame);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn table_keeps_room_for_title_and_foot() {
        let mut terminal = Terminal::new(TestBackend::new(12, 4)).unwrap();
        let text = "first\nsecond\nthird";
        terminal.draw(|frame| draw_table(frame, "locks", text, "q ends")).unwrap();
        let lines = ["locks       ", "first       ", "second      ", "q ends      "];
        let buffer = terminal.backend().buffer();
        for (row, line) in (0u16..).zip(lines) {
            let shown: String = (0..12).map(|column| buffer[(column, row)].symbol()).collect();
            assert_eq!(shown, line);
        }
    }
}
