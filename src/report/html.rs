//! Text in HTML: everything from a fabric passes here.

use std::fmt::{self, Display};

/// Text for an element or an attribute in quotation marks. Characters that would end either are escaped. Control
/// characters, and those that change the direction of what follows, are shown as U+FFFD.
pub(super) struct Text<T>(pub(super) T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Escape<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl fmt::Write for Escape<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                text.chars().try_for_each(|c| match c {
                    '&' => self.0.write_str("&amp;"),
                    '<' => self.0.write_str("&lt;"),
                    '>' => self.0.write_str("&gt;"),
                    '"' => self.0.write_str("&quot;"),
                    '\'' => self.0.write_str("&#39;"),
                    '\n' => self.0.write_str("\n"),
                    c if is_harmful(c) => self.0.write_str("\u{fffd}"),
                    c => fmt::Write::write_char(self.0, c),
                })
            }
        }
        fmt::write(&mut Escape(f), format_args!("{}", self.0))
    }
}

fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON for a `<script type="application/json">`: no character in it can end the element.
pub(super) fn json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A number with a blank between thousands, as text.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out() {
        let hostile = "</td><script>alert(1)</script>' onload=\"x\" &amp; \u{202e}gpj\0";
        let shown = Text(hostile).to_string();
        assert!(!shown.contains(['<', '>', '"', '\'', '\0', '\u{202e}']), "{shown}");
        assert!(shown.starts_with("&lt;/td&gt;&lt;script&gt;") && shown.contains("&amp;amp;"), "{shown}");
        let value = serde_json::json!({ "name": "</script><!--&" });
        let text = json(&value);
        assert!(!text.contains(['<', '>', '&']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(thousands),
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
    }
}
