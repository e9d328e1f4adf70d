//! A file of roles: which adapters compute, store or serve, and how much each counts.
//!
//! A line names adapters, a role, and optionally how often routes from them and routes to them count:
//!
//! ```text
//! # adapters         role     source destination
//! 0x0002c90300001010 storage
//! oss*               storage  2      4
//! "login? mlx5_0"    service
//! ```
//!
//! Adapters are named by the GUID of a port or of the node, or by the node description with `*` for any text, `?`
//! for any character and `[ab]` for one of some, in double quotes if it has blanks. The last line that fits an adapter
//! counts. Adapters that no line fits compute and count once. Blank lines and what follows `#` at the start of a word are
//! ignored.

use std::collections::HashMap;
use std::path::Path;

use glob::Pattern;

use super::config_error::ConfigError;
use super::{list_file, root_file};
use crate::fabric::{Duty, EndPort, EndPortId, Fabric, Guid, Nodes, Role};

/// A line of a file of roles.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleLine {
    /// The adapters that it is about.
    pub adapters: Nodes,
    /// What they are for.
    pub duty: Duty,
}

/// Reads a file of roles.
///
/// # Errors
/// The file and what is wrong with it: it cannot be read, or a line is not as it should be.
pub(super) fn read(path: &Path) -> Result<Vec<RoleLine>, String> {
    parse(&list_file::read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the text of such a file.
///
/// # Errors
/// The first line with a mistake.
pub fn parse(text: &str) -> Result<Vec<RoleLine>, ConfigError> {
    let mut roles = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        let read = list_file::words(text).and_then(entry);
        roles.extend(read.map_err(|reason| ConfigError { line, reason })?);
    }
    Ok(roles)
}

fn entry(words: Vec<&str>) -> Result<Option<RoleLine>, String> {
    let mut words = words.into_iter();
    let Some(name) = words.next() else { return Ok(None) };
    let role = match words.next() {
        Some("compute") => Role::Compute,
        Some("storage") => Role::Storage,
        Some("service") => Role::Service,
        Some(other) => return Err(format!("'{other}' is none of compute, storage, service")),
        None => return Err(format!("'{name}' has no role: compute, storage or service")),
    };
    let mut weight = |what: &str| match words.next() {
        None => Ok(1),
        Some(word) => {
            let weight = word.parse().ok().filter(|&n| n <= Duty::MOST);
            weight.ok_or_else(|| format!("the weight as {what} must be 0 to {}, not '{word}'", Duty::MOST))
        }
    };
    let duty = Duty { role, source: weight("source")?, destination: weight("destination")? };
    if let Some(word) = words.next() {
        return Err(format!("'{word}' is too much: a line has a name, a role and two weights"));
    }
    Ok(Some(RoleLine { adapters: list_file::nodes(name)?, duty }))
}

/// The roles that OpenSM's own files give: a port GUID a line, what follows it on the line is a comment. With a file of
/// compute nodes, what is in neither serves.
///
/// # Errors
/// The file and what is wrong with it.
pub fn read_guid_files(compute: Option<&Path>, storage: Option<&Path>) -> Result<Vec<RoleLine>, String> {
    let of_role = |path: &Path, role| {
        let line =
            move |guid| RoleLine { adapters: Nodes::Guid(guid), duty: Duty { role, ..Duty::default() } };
        Ok::<_, String>(root_file::read(path)?.into_iter().map(line))
    };
    let mut lines = Vec::new();
    if let Some(path) = compute {
        let adapters = Nodes::Described(Pattern::new("*").expect("a pattern"));
        lines.push(RoleLine { adapters, duty: Duty { role: Role::Service, ..Duty::default() } });
        lines.extend(of_role(path, Role::Compute)?);
    }
    if let Some(path) = storage {
        lines.extend(of_role(path, Role::Storage)?);
    }
    Ok(lines)
}

/// Gives the adapters of a fabric their duties. Returns the number of adapters of each role that some line fits.
///
/// Cost: O(n + P (l + m)) with n lines, P adapters, descriptions of l characters and m patterns that begin like one of
/// them.
pub fn assign(lines: &[RoleLine], fabric: &mut Fabric) -> [usize; 3] {
    let index = Index::new(lines);
    let line_of = |end| index.lines_of(fabric, fabric.endport(end)).max();
    let found = fabric.adapters().filter_map(|(id, _)| Some((id, lines[line_of(id)?].duty)));
    let found: Vec<(EndPortId, Duty)> = found.collect();
    let mut count = [0; 3];
    for (id, duty) in found {
        fabric.set_duty(id, duty);
        count[duty.role as usize] += 1;
    }
    count
}

/// The lines that fit no adapter of a fabric.
///
/// Cost: as [`assign`].
pub(super) fn unmatched<'a>(lines: &'a [RoleLine], fabric: &Fabric) -> Vec<&'a RoleLine> {
    let index = Index::new(lines);
    let mut fits = vec![false; lines.len()];
    for (_, end) in fabric.adapters() {
        index.lines_of(fabric, end).for_each(|number| fits[number] = true);
    }
    // Of several lines with the same GUID the index has the last one.
    let fits = |number: usize, line: &RoleLine| match &line.adapters {
        Nodes::Guid(guid) => fits[index.by_guid[guid]],
        Nodes::Described(_) => fits[number],
    };
    lines.iter().enumerate().filter(|(number, line)| !fits(*number, line)).map(|(_, line)| line).collect()
}

/// The lines by what they name; each with its number.
#[derive(Default)]
struct Index<'a> {
    /// The last one for each GUID.
    by_guid: HashMap<Guid, usize>,
    /// Patterns by the text before the first wildcard.
    by_start: HashMap<&'a str, Vec<(&'a Pattern, usize)>>,
}

impl<'a> Index<'a> {
    fn new(lines: &'a [RoleLine]) -> Self {
        let mut index = Self::default();
        for (number, line) in lines.iter().enumerate() {
            match &line.adapters {
                Nodes::Guid(guid) => {
                    index.by_guid.insert(*guid, number);
                }
                Nodes::Described(pattern) => {
                    let start = pattern.as_str().split(['*', '?', '[']).next().unwrap_or_default();
                    index.by_start.entry(start).or_default().push((pattern, number));
                }
            }
        }
        index
    }

    /// The lines that fit an adapter.
    fn lines_of(&self, fabric: &Fabric, end: &EndPort) -> impl Iterator<Item = usize> {
        let node = fabric.node(end.node);
        let text = node.description.as_str();
        let guids = [end.guid, node.guid].into_iter().filter_map(|guid| self.by_guid.get(&guid).copied());
        let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        let near = ends.filter_map(move |end| self.by_start.get(&text[..end])).flatten();
        let patterns = near.filter(move |(pattern, _)| pattern.matches(text)).map(|&(_, number)| number);
        guids.chain(patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::FatTree;

    fn roles(text: &str) -> Vec<Duty> {
        let mut f = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        assign(&parse(text).unwrap(), &mut f);
        f.adapters().map(|(_, end)| f.duty(end)).collect()
    }

    #[test]
    fn the_last_line_that_fits_counts() {
        let f = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let (_, third) = f.adapters().nth(2).unwrap();
        let name = &f.node(third.node).description;
        let text =
            format!("# all\n*-ca-1 storage 2 3\n{} service # by port\n\"{name}\" compute 4", third.guid);
        let found = roles(&text);
        let storage = Duty { role: Role::Storage, source: 2, destination: 3 };
        assert_eq!(
            found[..4],
            [storage, Duty::default(), Duty { source: 4, ..Duty::default() }, Duty::default()]
        );
        assert_eq!(roles("\n# nothing\n"), vec![Duty::default(); 8]);
        assert_eq!(roles("l?-ca-? service").iter().filter(|d| d.role == Role::Service).count(), 0);
        assert_eq!(roles("*?*ca*2 service").iter().filter(|d| d.role == Role::Service).count(), 4);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (line, reason) in [
            ("oss* stroage", "line 2: 'stroage' is none of compute, storage, service"),
            ("oss*", "line 2: 'oss*' has no role"),
            ("\"oss 1 storage", "line 2: a quote is not closed"),
            ("oss[ storage", "line 2: 'oss[' is not a pattern"),
            ("0xzz storage", "line 2: '0xzz' is not a GUID"),
            ("a storage 9", "line 2: the weight as source must be 0 to 8, not '9'"),
            ("a storage 1 -1", "line 2: the weight as destination must be 0 to 8, not '-1'"),
            ("a storage 1 1 1", "line 2: '1' is too much"),
        ] {
            let error = parse(&format!("# first\n{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    #[test]
    fn the_files_of_opensm() {
        let mut f = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let guids: Vec<Guid> = f.adapters().map(|(_, end)| end.guid).collect();
        let folder = tempfile::tempdir().unwrap();
        let (cn, io) = (folder.path().join("cn"), folder.path().join("io"));
        std::fs::write(&cn, format!("# nodes\n{} n0\n{:x}\n\n", guids[0], guids[1].0)).unwrap();
        std::fs::write(&io, format!("{}\n", guids[4])).unwrap();
        let lines = read_guid_files(Some(&cn), Some(&io)).unwrap();
        assert_eq!(assign(&lines, &mut f), [2, 1, 5]);
        assert_eq!(assign(&read_guid_files(None, Some(&io)).unwrap(), &mut f), [0, 1, 0]);
        std::fs::write(&io, "0x1\nnode\n").unwrap();
        let error = read_guid_files(None, Some(&io)).unwrap_err();
        assert!(error.ends_with("io: line 2: 'node' is not a GUID"), "{error}");
    }

    #[test]
    fn ten_thousand_lines_are_read_and_applied_at_once() {
        let mut f = FatTree { k: 16, levels: 3, down: None, cas: None }.build().unwrap();
        let text: String =
            (0..10_000).map(|i| format!("node{i}-* storage 1 {}\n0x{i:x} service\n", i % 9)).collect();
        let text = text + "*-ca-3 storage\n";
        let start = std::time::Instant::now();
        let [_, storage, _] = assign(&parse(&text).unwrap(), &mut f);
        assert_eq!(storage, 128);
        assert!(start.elapsed().as_millis() < 1000, "{:?}", start.elapsed());
    }
}
