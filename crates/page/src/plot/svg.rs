// SPDX-License-Identifier: GPL-2.0-only
//! Drawing backend of plotters that produces SVG elements with a class instead of a color. So the style sheet decides
//! their appearance in light, dark and print, and lines differ in dashes as well as in color.

use maud::{Markup, PreEscaped, html};
use plotters::style::RGBColor;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;
use std::fmt::Write;

/// Number of line and area styles that are distinguishable without color; further ones start over.
pub const SERIES: u8 = 8;

/// Kind of element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Axis,
    Grid,
    Text,
    /// The line of the series with this number.
    Line(u8),
    /// The band around the line of this series.
    Band(u8),
    /// A point on the line of this series.
    Point(u8),
    /// A category of CPU time, as an index into [`crate::owners::OWNERS`].
    Owner(u8),
}

impl Paint {
    /// Encodes it as a color, which is all that plotters passes on: its three components are kind, number and 0.
    pub fn color(self) -> RGBColor {
        let (kind, number) = match self {
            Paint::Axis => (0, 0),
            Paint::Grid => (1, 0),
            Paint::Text => (2, 0),
            Paint::Line(number) => (3, number % SERIES),
            Paint::Band(number) => (4, number % SERIES),
            Paint::Point(number) => (5, number % SERIES),
            Paint::Owner(number) => (6, number),
        };
        RGBColor(kind, number, 0)
    }

    fn class((kind, number, _): (u8, u8, u8)) -> String {
        match kind {
            0 => "axis".to_owned(),
            1 => "grid".to_owned(),
            3 => format!("line s{number}"),
            4 => format!("band s{number}"),
            5 => format!("point s{number}"),
            6 => format!("owner o{number}"),
            _ => "text".to_owned(),
        }
    }
}

/// Elements in drawing order.
pub struct Svg<'a> {
    pub width: u32,
    pub height: u32,
    pub elements: &'a mut Vec<Markup>,
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl Svg<'_> {
    fn add(&mut self, color: BackendColor, element: impl FnOnce(&str) -> Markup) -> Drawn {
        if color.alpha > 0.0 {
            self.elements.push(element(&Paint::class(color.rgb)));
        }
        Ok(())
    }
}

fn points(path: impl IntoIterator<Item = BackendCoord>) -> String {
    let mut text = String::new();
    for (x, y) in path {
        let _ = write!(text, "{}{x},{y}", if text.is_empty() { "" } else { " " });
    }
    text
}

impl DrawingBackend for Svg<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.add(color, |class| html! { rect class=(class) x=(x) y=(y) width="1" height="1" {} })
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(style.color(), |class| html! { line class=(class) x1=(x1) y1=(y1) x2=(x2) y2=(y2) {} })
    }

    fn draw_rect<S: BackendStyle>(&mut self, (x, y): BackendCoord, to: BackendCoord, style: &S, _: bool) -> Drawn {
        let (width, height) = (to.0 - x, to.1 - y);
        self.add(style.color(), |class| html! { rect class=(class) x=(x) y=(y) width=(width) height=(height) {} })
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        self.add(style.color(), |class| html! { polyline class=(class) points=(points(path)) {} })
    }

    fn draw_circle<S: BackendStyle>(&mut self, (x, y): BackendCoord, radius: u32, style: &S, _: bool) -> Drawn {
        self.add(style.color(), |class| html! { circle class=(class) cx=(x) cy=(y) r=(radius) {} })
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        self.add(style.color(), |class| html! { polygon class=(class) points=(points(path)) {} })
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Drawn {
        let anchor = style.anchor();
        let across = match anchor.h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        let down = match anchor.v_pos {
            VPos::Top => "0.75em",
            VPos::Center => "0.35em",
            VPos::Bottom => "-0.1em",
        };
        self.add(
            style.color(),
            |class| html! { text class=(class) x=(x) y=(y) dy=(down) text-anchor=(across) { (text) } },
        )
    }
}

/// A point at which a reader can request values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub x: i32,
    pub y: i32,
    pub text: String,
}

/// The picture, with its name for screen readers.
pub fn picture(class: &str, (width, height): (u32, u32), name: &str, elements: &[Markup], spots: &[Spot]) -> Markup {
    let list: Vec<(i32, i32, &str)> = spots.iter().map(|spot| (spot.x, spot.y, spot.text.as_str())).collect();
    let spots = serde_json::to_string(&list).expect("numbers and texts");
    html! {
        svg class={ "plot " (class) } viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(name) tabindex="0"
            data-spots=(spots) {
            @for element in elements { (PreEscaped(&element.0)) }
            circle.picked r="6" {}
        }
    }
}
