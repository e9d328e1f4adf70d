//! The file of hold-outs: links and switches that shall carry no packets, one a line.
//!
//! ```text
//! # what  node             port
//! drain   spine-03
//! avoid   0x0002c902004a1b 17
//! drain   "MF0;core:SX6536/L*"
//! ```

use std::path::Path;

use super::config_error::ConfigError;
use super::list_file;
use crate::fabric::{Hold, Measure, PortNum};

/// Reads a file of hold-outs.
///
/// # Errors
/// The file and what is wrong with it: it cannot be read, or a line is not as it should be.
pub(super) fn read(path: &Path) -> Result<Vec<Hold>, String> {
    let text = list_file::read(path)?;
    parse(&text, &path.display().to_string()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the text of such a file.
///
/// - `name`: the name of the file, for [`Hold::source`].
///
/// # Errors
/// The first line with a mistake.
pub fn parse(text: &str, name: &str) -> Result<Vec<Hold>, ConfigError> {
    let mut holds = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let read =
            list_file::words(line).and_then(|words| entry(&words, || format!("line {number} of {name}")));
        holds.extend(read.map_err(|reason| ConfigError { line: number, reason })?);
    }
    Ok(holds)
}

fn entry(words: &[&str], source: impl FnOnce() -> String) -> Result<Option<Hold>, String> {
    let (measure, node, port) = match *words {
        [] => return Ok(None),
        [measure, node] => (measure, node, None),
        [measure, node, port] => (measure, node, Some(port)),
        [_] => return Err("the node is missing: a GUID or a description".to_owned()),
        _ => {
            return Err(format!(
                "{} words instead of: avoid or drain, a node, and perhaps a port. A description with blanks needs \
                 quotes",
                words.len()
            ));
        }
    };
    let measure = match measure {
        "avoid" => Measure::Avoid,
        "drain" => Measure::Drain,
        other => return Err(format!("'{other}' is neither avoid nor drain")),
    };
    let nodes = list_file::nodes(node)?;
    let port = match port {
        None => None,
        Some(text) => {
            let number = text.parse().ok().filter(|number| (1..=254).contains(number));
            Some(PortNum(number.ok_or_else(|| format!("port '{text}' is not 1 to 254"))?))
        }
    };
    Ok(Some(Hold { measure, nodes, port, source: source() }))
}

#[cfg(test)]
mod tests {
    use glob::Pattern;

    use super::*;
    use crate::fabric::{Guid, Nodes};

    #[test]
    fn entries_have_a_node_and_perhaps_a_port() {
        let text = "# all\n\ndrain spine-* # soon off\navoid 0x2c9 17\n  avoid \"leaf 3;x#\" 4\n";
        let holds = parse(text, "hold").expect("it is right");
        let described = |text: &str| Nodes::Described(Pattern::new(text).expect("a pattern"));
        let hold = |measure, nodes, port: Option<u8>, line| Hold {
            measure,
            nodes,
            port: port.map(PortNum),
            source: format!("line {line} of hold"),
        };
        assert_eq!(
            holds,
            [
                hold(Measure::Drain, described("spine-*"), None, 3),
                hold(Measure::Avoid, Nodes::Guid(Guid(0x2c9)), Some(17), 4),
                hold(Measure::Avoid, described("leaf 3;x#"), Some(4), 5),
            ]
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, word) in [
            ("avoid x\ndrian y", 2, "'drian' is neither avoid nor drain"),
            ("drain", 1, "missing"),
            ("drain 0xleaf", 1, "not a GUID"),
            ("drain leaf 3 4", 1, "quotes"),
            ("\n\ndrain leaf 0", 3, "'0' is not 1 to 254"),
            ("drain leaf 255", 1, "'255'"),
            ("drain \"leaf", 1, "not closed"),
            ("drain leaf[", 1, "not a pattern"),
        ] {
            let error = parse(text, "hold").expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.reason.contains(word), "{text}: {error}");
        }
    }
}
