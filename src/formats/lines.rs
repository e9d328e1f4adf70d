//! Lines and numbers of the text formats.

use std::borrow::Cow;
use std::io::BufRead;

use super::FormatError;
use crate::fabric::{Guid, Lid};

/// The lines of a text, numbered from 1; invalid UTF-8 becomes replacement characters.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), number: 0 }
    }

    /// The next line, trimmed, with its number.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Cow<'_, str>)>, FormatError> {
        Ok(self.next_bytes()?.map(|(number, line)| (number, String::from_utf8_lossy(line))))
    }

    /// The same as bytes, which takes a fraction of the time where most lines are of no use.
    pub(super) fn next_bytes(&mut self) -> Result<Option<(usize, &[u8])>, FormatError> {
        self.buffer.clear();
        self.number += 1;
        let read = self.input.read_until(b'\n', &mut self.buffer);
        match read.map_err(|e| FormatError::new(self.number, format!("cannot read any further: {e}")))? {
            0 => Ok(None),
            _ => Ok(Some((self.number, self.buffer.trim_ascii()))),
        }
    }
}

/// The LID at the start of a line, as `0x002a`.
pub(super) fn leading_lid(line: &[u8]) -> Option<Lid> {
    let digits = line.strip_prefix(b"0x")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(digits.len());
    let value = |byte: u8| u16::from((byte & 0xf) + 9 * (byte >> 6));
    let lid =
        digits[..end].iter().try_fold(0_u16, |lid, &byte| (lid < 0x1000).then(|| lid << 4 | value(byte)));
    Lid::new(lid.filter(|_| end > 0)?)
}

/// A hexadecimal number of at most 64 bits, with or without `0x`.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // from_str_radix alone would accept a sign.
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, 16).ok() }
}

/// A GUID in hexadecimal.
pub(super) fn guid(text: &str) -> Option<Guid> {
    hex(text).map(Guid)
}

/// The text before and after the first `end`, both without surrounding blanks.
pub(super) fn split<'a>(text: &'a str, end: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(end).map(|(a, b)| (a.trim(), b.trim()))
}

/// A description with line breaks removed.
pub(super) fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        Cow::Borrowed(text)
    }
}

/// A text for a message, truncated if long.
pub(super) fn quote(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("'{}'", short.escape_debug())
}
