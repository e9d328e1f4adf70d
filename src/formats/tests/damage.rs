//! Round trips of random fabrics, and damaged texts.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::compacted::{packed, path_sls, unpacked};
use super::foreign::foreign_files;
use super::*;
use crate::fabric::{LinkSpeed, NodeId};

/// Node descriptions of a random fabric.
fn fabric(numbers: &[(u8, u8, u16)]) -> Fabric {
    let speeds = [LinkSpeed::Sdr, LinkSpeed::Qdr, LinkSpeed::Fdr10, LinkSpeed::Ndr, LinkSpeed::Xdr];
    let names = ["plain", "with \"quotes\" lid 7", "braces {x} LID:1", "# 'x')", "Ü ß"];
    let mut b = FabricBuilder::new();
    for (i, &(a, _, c)) in numbers.iter().enumerate() {
        let kind = if i == 0 || a % 3 == 0 { NodeKind::Switch } else { NodeKind::ChannelAdapter };
        let ports = if kind == NodeKind::Switch { 12 } else { 2 };
        let guid = Guid(0x1000 * (u64::from(c) * 1000 + i as u64 + 1));
        let mut node = Node::new(kind, guid, ports, names[usize::from(a) % names.len()]);
        (node.vendor_id, node.device_id) = (0x2c9, u32::from(c));
        node.enhanced_port0 = kind == NodeKind::Switch && a % 2 == 0;
        b.add(node).unwrap();
    }
    for (i, &(a, p, _)) in numbers.iter().enumerate().skip(1) {
        let [here, there] = [(i, 1), (usize::from(a) % i, p % 12 + 1)]
            .map(|(n, port)| PortRef { node: NodeId::at(n), port: PortNum(port) });
        if b.connect(here, there).is_ok() {
            let speed = Some(speeds[usize::from(p) % speeds.len()]);
            for end in [here, there] {
                let port = &mut b.node_mut(end.node).ports[end.port.index()];
                (port.width, port.speed) = (Some(4), speed);
            }
        }
    }
    b.finish(Lmc::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fabrics_survive_the_topology_text_and_json(
        numbers in prop::collection::vec(any::<(u8, u8, u16)>(), 1..24)
    ) {
        let f = fabric(&numbers);
        let (back, _) = read_fabric(&text(|out| ibnetdiscover::write(out, &f))).unwrap();
        prop_assert_eq!(f.nodes(), back.nodes());
        prop_assert_eq!(f.endports(), back.endports());
        let (back, _) = read_fabric(&text(|out| json::write(out, &f))).unwrap();
        prop_assert_eq!(f.nodes(), back.nodes());
    }

    #[test]
    fn damage_makes_no_reader_panic(
        which in 0..16_usize, seed in prop::collection::vec(any::<(u16, u16, u8)>(), 1..6)
    ) {
        let f = sample();
        let r = routes(&f);
        let mut bytes = match which {
            0 => SHORT.as_bytes().to_vec(),
            1 => text(|out| ibnetdiscover::write(out, &f)),
            2 => text(|out| subnet_lst::write(out, &f)),
            3 => text(|out| lfts_dump::write(out, &f, &r.lft)),
            4 => text(|out| sl2vl_dump::write(out, &f, &r.sl2vl)),
            5 => text(|out| fdbs::write(out, &f, &r.lft)),
            6 => text(|out| psl::write(out, &f, r.path_sl.classes(), |from, to| r.path_sl.known(&f, from, to))),
            7 => text(|out| guid2lid::write(out, &f)),
            8 => text(|out| slvl::write(out, &f, &r.sl2vl)),
            // Compact forms, with and without damage to the packed data.
            9 => text(|out| compact::lfts::write(out, &f, &r.lft)),
            10 => unpacked(&text(|out| compact::lfts::write(out, &f, &r.lft))),
            11 => unpacked(&text(|out| compact::sl2vl::write(out, &f, &r.sl2vl))),
            12..15 => unpacked(&text(|out| compact::psl::write(out, &f, &path_sls(&f)[which - 12]))),
            _ => text(|out| json::write(out, &f)),
        };
        seed.into_iter().for_each(|(at, other, byte)| damage(&mut bytes, at.into(), other.into(), byte));
        read_as_everything(&bytes, &f);
    }
}

/// Changes, drops, inserts or copies something at positions given by the numbers.
fn damage(bytes: &mut Vec<u8>, at: usize, other: usize, byte: u8) {
    let (i, j) = (at % bytes.len(), other % bytes.len());
    match byte % 4 {
        0 => bytes[i] = byte,
        1 => {
            bytes.remove(i);
        }
        2 => bytes.insert(i, b"0f{\"\x00\xff9["[usize::from(byte) % 8]),
        _ => {
            let tail = bytes[j..].to_vec();
            bytes.splice(i.., tail);
        }
    }
    if bytes.is_empty() {
        bytes.push(b'\n');
    }
}

/// No reader may panic on any input.
fn read_as_everything(bytes: &[u8], fabric: &Fabric) {
    let _ = read_fabric(bytes);
    let _ = lfts_dump::read(bytes, fabric);
    let _ = sl2vl_dump::read(bytes, fabric);
    let _ = slvl::read(bytes, fabric);
    let _ = fdbs::read(bytes, fabric);
    let _ = psl::read(bytes, fabric);
    let _ = guid2lid::read(bytes, fabric);
    for bytes in [bytes, &packed(bytes)] {
        let _ = compact::lids(bytes);
        let _ = compact::lfts::read(bytes, fabric);
        let _ = compact::sl2vl::read(bytes, fabric);
        let _ = compact::psl::read(bytes, fabric);
    }
}

/// Runs for 5 seconds, or for `DFDN_FUZZ_SECONDS`.
#[test]
fn damage_to_fabrics_of_others_makes_no_reader_panic() {
    let files: Vec<Vec<u8>> = foreign_files()
        .map(|(path, _)| std::fs::read(path).unwrap())
        // Many small texts find more than a few large ones.
        .map(|bytes| bytes[..bytes.len().min(60_000)].to_vec())
        .collect();
    if files.is_empty() {
        return;
    }
    let seconds: u64 = std::env::var("DFDN_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(5);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let fabric = sample();
    let mut rng = ChaCha8Rng::seed_from_u64(seconds);
    let mut texts = 0;
    while std::time::Instant::now() < end {
        for file in &files {
            let mut bytes = file.clone();
            for _ in 0..rng.random_range(1..8) {
                damage(&mut bytes, rng.random_range(0..1 << 20), rng.random_range(0..1 << 20), rng.random());
            }
            // Copying may double the text each time.
            bytes.truncate(1 << 20);
            read_as_everything(&bytes, &fabric);
            texts += 1;
        }
    }
    println!("{texts} damaged texts in {seconds} s");
}
