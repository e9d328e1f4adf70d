//! The fabrics in `DFDN_FABRICS` that are not part of the project.

use std::path::PathBuf;

use super::*;

/// Name, switches, CAs and cables of fabrics in `DFDN_FABRICS`.
const FOREIGN: [(&str, [usize; 3]); 12] = [
    ("ufm_sdk/selene.storage.txt", [160, 1247, 3286]),
    ("ufm_sdk/ibnetdiscover_director.txt", [400, 2328, 8723]),
    ("ufm_sdk/small_topo_file", [2, 13, 16]),
    ("topograph/example.out", [40, 582, 1114]),
    ("tartu/topo", [8, 144, 192]),
    ("x5/X5.topofile", [11, 89, 159]),
    ("ibutils/subnet.lst", [62, 3, 172]),
    ("ibutils/RhinoBased512.lst", [216, 512, 2752]),
    ("pentagon/pentagon.ibnl.net", [5, 11, 21]),
    ("xpander/xpander_n16_d3.net", [16, 64, 88]),
    ("xpander/xpander_n128_d16.net", [128, 512, 1536]),
    ("xpander/xpander_n216_d11.net", [216, 864, 2052]),
];

fn foreign_folder() -> PathBuf {
    std::env::var_os("DFDN_FABRICS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/fabrics"), PathBuf::from)
}

/// The fabrics that exist, with their counts; reports the missing ones.
pub(super) fn foreign_files() -> impl Iterator<Item = (PathBuf, [usize; 3])> {
    let dir = foreign_folder();
    FOREIGN.into_iter().map(move |(name, counts)| (dir.join(name), counts)).filter(|(path, _)| {
        if !path.exists() {
            println!("skipped: {} is not there", path.display());
        }
        path.exists()
    })
}

#[test]
fn fabrics_of_others_load() {
    for (path, counts) in foreign_files() {
        let name = path.display();
        let (f, warnings) = load_fabric(&path).unwrap_or_else(|e| panic!("{e}"));
        let cas = f.nodes().iter().filter(|n| n.kind == NodeKind::ChannelAdapter).count();
        let cables: usize = f.nodes().iter().flat_map(|n| &n.ports).filter(|p| p.peer.is_some()).count();
        println!("{name}: {f}, {cas} CAs, {cables} cable ends; {warnings:?}");
        assert_eq!([f.num_switches(), cas, cables / 2], counts, "{name}");
    }
    let bad = foreign_folder().join("topograph/example-bad.out");
    if bad.exists() {
        let e = load_fabric(&bad).unwrap_err();
        assert!(e.line > 0 && e.file.is_some(), "{e}");
    }
}
