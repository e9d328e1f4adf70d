//! What OpenSM programs, in the order in which it sends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dfdn::fabric::{Fabric, Guid, NodeId, PortNum, Vl};
use dfdn::tables::{Lft, PortSet, SlVlRow, Step};
use tempfile::TempDir;

use super::opensm::Config;
use super::readback;
use super::sweeps::Tail;

const SL2VL: u64 = 0x17;
const LFT: u64 = 0x19;
const MFT: u64 = 0x1b;

/// `tests/tools/sets.c` and its notes.
pub(crate) struct Sets {
    library: PathBuf,
    folder: TempDir,
    tail: Tail,
    /// By switch and MLID: the ports of each block of 16.
    trees: BTreeMap<(Guid, u16), [u16; 16]>,
}

impl Sets {
    /// # Panics
    /// If the C program does not compile.
    pub(crate) fn new() -> Self {
        let library = readback::compile_shared("sets").unwrap_or_else(|why| panic!("{why}"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tail = Tail::new(log_in(folder.path()));
        Self { library, folder, tail, trees: BTreeMap::new() }
    }

    /// An OpenSM whose Sets are noted.
    pub(crate) fn config(&self, config: Config) -> Config {
        let mut env = config.env;
        env.push(("LD_PRELOAD".to_owned(), self.library.clone()));
        env.push(("SETS_LOG".to_owned(), log_in(self.folder.path())));
        Config { env, ..config }
    }

    /// The Sets since the last call. What was sent between two discoveries is a step: OpenSM discovers the fabric
    /// anew when it has all answers.
    ///
    /// - `fabric`: as it was since then.
    /// - `own`: the node that OpenSM runs on.
    /// - `lids`: length of the tables; entries for further LIDs are left out.
    ///
    /// # Panics
    /// If something was programmed twice within a step, and differently.
    pub(crate) fn steps(&mut self, fabric: &Fabric, own: NodeId, lids: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut step = Step::default();
        let mut seen = BTreeMap::new();
        for line in self.tail.lines() {
            if line == "discovery" {
                steps.push(std::mem::take(&mut step));
                seen.clear();
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number in hex");
            let (attribute, modifier) = (hex(words[0]), hex(words[1]));
            let data: Vec<u8> = (0..64).map(|i| hex(&words[3][2 * i..2 * i + 2]) as u8).collect();
            let route = words[2].split('-').filter(|port| !port.is_empty()).map(|port| hex(port) as usize);
            let Some(node) = walk(fabric, own, route) else { continue };
            if !fabric.node(node).is_switch() {
                continue;
            }
            let (guid, ports) = (fabric.node(node).guid, fabric.node(node).ports.len());
            let before = seen.insert((guid, attribute, modifier), data.clone());
            assert!(before.is_none_or(|before| before == data), "{line}: twice without a discovery");
            match attribute {
                LFT => step.lft.extend((0..).zip(&data).filter_map(|(i, &port)| {
                    let lid = 64 * modifier as usize + i;
                    let port = if usize::from(port) < ports { port } else { Lft::NO_PATH };
                    (1..lids).contains(&lid).then_some((guid, lid as u16, port))
                })),
                SL2VL => {
                    let vl = |sl: usize| Vl(if sl % 2 == 0 { data[sl / 2] >> 4 } else { data[sl / 2] & 15 });
                    let row = SlVlRow::from_vls(std::array::from_fn(vl));
                    step.sl2vl.push((guid, (modifier >> 8) as u8, modifier as u8, row));
                }
                MFT => {
                    let (position, block) = ((modifier >> 28) as usize, modifier as u16 & 0x1ff);
                    for (i, mask) in (0..).zip(data.chunks(2)) {
                        let mlid = 0xc000 + 32 * block + i;
                        let masks = self.trees.entry((guid, mlid)).or_default();
                        masks[position] = u16::from_be_bytes([mask[0], mask[1]]);
                        let mut set = PortSet::default();
                        let ports =
                            (0..ports as u8).filter(|p| masks[usize::from(p / 16)] >> (p % 16) & 1 != 0);
                        ports.for_each(|port| set.insert(PortNum(port)));
                        step.mcast.push((guid, mlid, set));
                    }
                }
                _ => panic!("{line}"),
            }
        }
        steps.push(step);
        steps.retain(|step| !step.is_empty());
        steps
    }
}

fn log_in(folder: &Path) -> PathBuf {
    folder.join("sets")
}

/// The node at the end of a directed route; `None` if it leads nowhere any more.
fn walk(fabric: &Fabric, own: NodeId, route: impl Iterator<Item = usize>) -> Option<NodeId> {
    let mut at = own;
    for port in route {
        at = fabric.node(at).ports.get(port)?.peer?.node;
    }
    Some(at)
}
