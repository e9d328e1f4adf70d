//! Multicast trees of every engine.

use std::collections::BTreeMap;

use dfdn::engine::{ENGINES, Settings, route};
use dfdn::topology::{fail_links, small_members};

#[test]
fn scratch() {
    let mut count: BTreeMap<(String, usize, u16), (usize, String)> = BTreeMap::new();
    for (name, fabric) in small_members() {
        let links = fabric.channels().len() / 2;
        let spare = links + 1 - fabric.num_switches();
        for (gone, seed) in [(0, 1), (spare.min(2), 1), (spare.min(links / 4), 2), (spare, 3)] {
            let f = fail_links(&fabric, gone, seed).expect("links to spare");
            for engine in ENGINES.iter().filter(|e| e.deadlock_free) {
              for (prefer, tag) in [(dfdn::engine::Prefer::Default, "-"), (dfdn::engine::Prefer::OneSl, "one"), (dfdn::engine::Prefer::Minimal, "min")] {
                if engine.name != "dfdn" && tag != "-" { continue }
                let s = Settings { engine: engine.name.to_owned(), vls: Some(8), prefer, ..Settings::default() };
                let Ok(r) = route(&f, &s) else { continue };
                let m = &r.routes.multicast;
                let served = m.iter().fold(0, |a, t| a | t.sls.unwrap());
                assert!(r.verdict.multicast.as_ref().is_some_and(|m| m.is_safe())); let e = count.entry((engine.name.to_owned() + tag, m.len(), !served)).or_default();
                e.0 += 1;
                if e.1.len() < 200 { e.1 += &format!(" {name}-{gone}({}sl)", r.verdict.sls_all); }
              }
            }
        }
    }
    for (k, v) in count { println!("{k:?} {v:?}"); }
}
