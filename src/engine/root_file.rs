//! Files with a GUID a line, as OpenSM has them: `root_guid_file`, `cn_guid_file` and `io_guid_file`.

use std::path::Path;

use super::config_error::ConfigError;
use super::list_file;
use crate::fabric::Guid;

/// Reads a file of GUIDs.
///
/// # Errors
/// The file and what is wrong with it: it cannot be read, or a line has no GUID.
pub fn read(path: &Path) -> Result<Vec<Guid>, String> {
    parse(&list_file::read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the text of such a file. What follows a GUID is a comment, with or without `#`.
///
/// # Errors
/// The first line without a GUID.
pub(super) fn parse(text: &str) -> Result<Vec<Guid>, ConfigError> {
    let words =
        text.lines().zip(1..).filter_map(|(line, number)| Some((number, line.split_whitespace().next()?)));
    let guid = |(line, word): (usize, &str)| {
        let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
        list_file::guid(hex).ok_or_else(|| ConfigError { line, reason: format!("'{word}' is not a GUID") })
    };
    words.filter(|(_, word)| !word.starts_with('#')).map(guid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_a_guid() {
        let text = "# spines\n0x0002c902004a1b58 spine-1\n\n 2c9 # spine-2\n";
        assert_eq!(parse(text), Ok(vec![Guid(0x0002_c902_004a_1b58), Guid(0x2c9)]));
        for (text, line) in [("0x1\nspine", 2), ("0x", 1), ("+1", 1), ("0x10000000000000000", 1)] {
            let error = parse(text).expect_err(text);
            assert!(error.line == line && error.reason.contains("is not a GUID"), "{text}: {error}");
        }
    }
}
