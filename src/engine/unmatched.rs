//! Entries of the files `hold`, `roles` and `roots` that name nothing in a fabric: most are misspelt.

use std::collections::HashSet;

use super::{Settings, role_file};
use crate::fabric::{Fabric, Guid, Nodes, without_effect};

/// Entries of all these files that have no effect on a fabric, as sentences.
///
/// - `fabric`: before links are held out.
///
/// Cost: a comparison of each pattern of `hold` with each node, and that of [`unmatched_names`].
pub fn unmatched(fabric: &Fabric, settings: &Settings) -> Vec<String> {
    let mut texts = without_effect(fabric, &settings.hold);
    texts.extend(names(fabric, settings, |_| true));
    texts
}

/// Entries of the files of `roles` and `roots` that fit nothing in a fabric: a sentence for each of the two, with their
/// number and the first. Adapters that are named by GUID are not among them: they may be switched off, and come and go. So may
/// those in OpenSM's own files, for which the settings name none.
///
/// Cost: that of [`assign_roles`](super::assign_roles), and O(n + S) with n roots and S switches.
pub fn unmatched_names(fabric: &Fabric, settings: &Settings) -> Vec<String> {
    names(fabric, settings, |adapters| matches!(adapters, Nodes::Described(_)))
}

fn names(fabric: &Fabric, settings: &Settings, counts: fn(&Nodes) -> bool) -> Vec<String> {
    let Settings { roles, roots, .. } = settings;
    let mut texts = Vec::new();
    if roles.path.is_some() {
        let names = role_file::unmatched(roles, fabric).into_iter().filter(|line| counts(&line.adapters));
        let names = names.map(|line| line.adapters.to_string());
        texts.extend(in_words("roles", "adapter", &names.collect::<Vec<_>>()));
    }
    if roots.path.is_some() {
        let guids = |s| [fabric.switch(s).guid, fabric.switch(s).ports[0].guid];
        let known: HashSet<Guid> = fabric.switch_ids().flat_map(guids).collect();
        let names = roots.iter().filter(|guid| !known.contains(guid)).map(Guid::to_string);
        texts.extend(in_words("roots", "switch", &names.collect::<Vec<_>>()));
    }
    texts
}

/// - `names`: what is no `what` of the fabric.
fn in_words(key: &str, what: &str, names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("{key}: {one} has no effect: it is no {what} of the fabric")),
        [first, ..] => {
            let count = names.len();
            Some(format!(
                "{key}: {count} entries have no effect, {first} first: each is no {what} of the fabric"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Listed, parse_holds, parse_roles};
    use crate::topology::FatTree;

    #[test]
    fn entries_that_name_nothing_are_named() {
        let f = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let leaf = f.switch(f.switch_ids().next().unwrap());
        let adapter = f.adapters().next().unwrap().1.guid;
        let holds = format!("drain nobody\navoid {} 99\ndrain {}\n", leaf.guid, leaf.guid);
        let roles = format!("{adapter} storage\n{adapter} service\nelse* compute\n* compute\n0x77 storage\n");
        let settings = Settings {
            hold: Listed { path: Some("held".into()), entries: parse_holds(&holds, "held").unwrap() },
            roles: Listed { path: Some("roles".into()), entries: parse_roles(&roles).unwrap() },
            roots: Listed { path: Some("roots".into()), entries: vec![Guid(0x78), leaf.guid] },
            ..Settings::default()
        };
        let said = unmatched(&f, &settings);
        let words = [
            "line 1 of held has no effect: no node",
            "line 2 of held has no effect: ",
            "roles: 2 entries have no effect, 'else*' first",
            "roots: 0x0000000000000078 has no effect",
        ];
        assert_eq!(said.len(), words.len(), "{said:?}");
        for (text, word) in said.iter().zip(words) {
            assert!(text.starts_with(word), "no '{word}' in {text}");
        }
        let said = unmatched_names(&f, &settings);
        assert!(said.len() == 2 && said[0].starts_with("roles: 'else*' has no effect"), "{said:?}");
        assert!(unmatched(&f, &Settings::default()).is_empty());
    }
}
