//! Tables in a compact form of our own: megabytes instead of gigabytes of text.
//!
//! | file | in place of | body |
//! |---|---|---|
//! | `lfts.dfdn` | `opensm-lfts.dump` | for each LID from 0 on, the out port by switch, a byte each, 255 for none |
//! | `sl2vl.dfdn` | `opensm-sl2vl.dump` | the row of all adapters; for each switch, the rows by in port and out port, from port 0 on. A row has 8 bytes, 4 bits per SL, SL 0 in the highest bits of the first |
//! | `psl.dfdn` | `psl` | see [`psl`] |
//!
//! A file is a series of gzip members (RFC 1952), so that ordinary tools unpack it and damage is
//! detected. Unpacked, it has a header and the body without gaps, numbers in little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `dfdn-tab` |
//! | 1, 1 | version, which is 1; `L`, `V` or `P` for the three files above |
//! | 4, 4, 4 | number of switches, of end ports, of LIDs (one more than the largest in use) |
//! | per switch 8, 1, 1, n | node GUID, number of ports, n, description in UTF-8 |
//! | per end port 8, 2, 1, 1, n | port GUID, base LID, LMC, n, description of its node |

pub mod lfts;
pub mod psl;
pub mod sl2vl;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use rayon::prelude::*;

use super::lfts_dump::Switches;
use super::lines::one_line;
use super::{FormatError, Warnings};
use crate::fabric::{Fabric, Guid, Lid, Lmc, SwitchId};

const MAGIC: &[u8; 8] = b"dfdn-tab";
const VERSION: u8 = 1;

/// Bytes of a gzip member before compression.
const MEMBER: usize = 1 << 20;

/// Members that are compressed in parallel.
const AT_ONCE: usize = 16;

/// Which table a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lfts = b'L' as isize,
    Sl2Vl = b'V' as isize,
    Psl = b'P' as isize,
}

/// Compresses what is written to it. The output does not depend on the thread count.
struct Packer<W> {
    out: W,
    pending: Vec<u8>,
}

impl<W: Write> Packer<W> {
    /// Starts a file with its header.
    fn begin(out: W, kind: Kind, fabric: &Fabric) -> io::Result<Self> {
        let mut packer = Self { out, pending: Vec::new() };
        packer.put(MAGIC)?;
        packer.put(&[VERSION, kind as u8])?;
        for n in [fabric.num_switches(), fabric.endports().len(), fabric.lid_table_len()] {
            packer.put(&(n as u32).to_le_bytes())?;
        }
        for s in fabric.switch_ids() {
            let node = fabric.switch(s);
            packer.put(&node.guid.0.to_le_bytes())?;
            packer.put(&[node.num_ports()])?;
            packer.name(&node.description)?;
        }
        for e in fabric.endports() {
            packer.put(&e.guid.0.to_le_bytes())?;
            packer.put(&e.lid.get().to_le_bytes())?;
            packer.put(&[e.lmc.get()])?;
            packer.name(&fabric.node(e.node).description)?;
        }
        Ok(packer)
    }

    /// A description. InfiniBand's have 64 bytes; files may state longer ones, which are truncated
    /// to 255.
    fn name(&mut self, text: &str) -> io::Result<()> {
        let text = one_line(text);
        let end = (0..=text.len().min(255)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.put(&[end as u8])?;
        self.put(&text.as_bytes()[..end])
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= AT_ONCE * MEMBER {
            let whole = self.pending.len() / MEMBER * MEMBER;
            self.pack(whole)?;
        }
        Ok(())
    }

    /// Writes the first bytes to the output.
    fn pack(&mut self, bytes: usize) -> io::Result<()> {
        let pack = |member: &[u8]| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(member)?;
            packed.finish()
        };
        let members: Vec<io::Result<Vec<u8>>> = self.pending[..bytes].par_chunks(MEMBER).map(pack).collect();
        for member in members {
            self.out.write_all(&member?)?;
        }
        self.pending.drain(..bytes);
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.pack(self.pending.len())
    }
}

/// A switch in a header.
struct SwitchHead {
    guid: Guid,
    ports: u8,
    name: String,
}

/// An end port in a header.
pub(super) struct EndPortHead {
    pub(super) guid: Guid,
    pub(super) lid: Lid,
    pub(super) lmc: Lmc,
    pub(super) name: String,
}

/// The header: the fabric that the tables are for.
pub(super) struct Head {
    switches: Vec<SwitchHead>,
    pub(super) endports: Vec<EndPortHead>,
    lids: usize,
}

/// Decompresses a file.
struct Unpacker<R> {
    input: BufReader<MultiGzDecoder<R>>,
}

impl<R: BufRead> Unpacker<R> {
    /// Reads the header.
    fn begin(input: R, kind: Kind) -> Result<(Self, Head), FormatError> {
        let input = BufReader::with_capacity(MEMBER, MultiGzDecoder::new(input));
        let mut file = Self { input };
        let mut start = [0; 10];
        let no_head = || FormatError::new(0, "not one of dfdn's compact tables");
        match file.take(&mut start) {
            Ok(()) if start[..8] == *MAGIC => {}
            Err(error) if error.reason.starts_with(CUT) => return Err(error),
            _ => return Err(no_head()),
        }
        if start[8] != VERSION {
            let reason = format!("version {} of the format; this dfdn reads version {VERSION}", start[8]);
            return Err(FormatError::new(0, reason).hint("a newer dfdn may have written it"));
        }
        if start[9] != kind as u8 {
            return Err(FormatError::new(0, "the table in it is not the one that its name says"));
        }
        let [switches, endports, lids] = [file.u32()?, file.u32()?, file.u32()?];
        let most = u32::from(Lid::MAX) + 1;
        if switches > most || endports > most || lids > most {
            return Err(FormatError::new(
                0,
                "more switches, end ports or LIDs than InfiniBand has unicast LIDs",
            ));
        }
        let mut head = Head { switches: Vec::new(), endports: Vec::new(), lids: lids as usize };
        for _ in 0..switches {
            let guid = Guid(file.u64()?);
            head.switches.push(SwitchHead { guid, ports: file.u8()?, name: file.name()? });
        }
        for _ in 0..endports {
            let (guid, lid, lmc) = (Guid(file.u64()?), Lid::new(file.u16()?), Lmc::new(file.u8()?));
            let (Some(lid), Some(lmc)) = (lid, lmc) else {
                return Err(FormatError::new(0, format!("the LID or LMC of port {guid} is out of range")));
            };
            head.endports.push(EndPortHead { guid, lid, lmc, name: file.name()? });
        }
        Ok((file, head))
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), FormatError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FormatError::new(0, format!("{CUT}: it ends too early")),
            _ => FormatError::new(0, format!("the file is damaged: {error}")),
        })
    }

    fn u8(&mut self) -> Result<u8, FormatError> {
        let mut bytes = [0; 1];
        self.take(&mut bytes).map(|()| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, FormatError> {
        let mut bytes = [0; 2];
        self.take(&mut bytes).map(|()| u16::from_le_bytes(bytes))
    }

    fn u32(&mut self) -> Result<u32, FormatError> {
        let mut bytes = [0; 4];
        self.take(&mut bytes).map(|()| u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, FormatError> {
        let mut bytes = [0; 8];
        self.take(&mut bytes).map(|()| u64::from_le_bytes(bytes))
    }

    fn name(&mut self) -> Result<String, FormatError> {
        let mut bytes = vec![0; usize::from(self.u8()?)];
        self.take(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Checks that nothing follows the body; reading on also checks the checksum of the last
    /// member.
    fn end(mut self) -> Result<(), FormatError> {
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(FormatError::new(0, "the file is damaged: there is data after the tables")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(FormatError::new(0, format!("{CUT}: it ends too early")))
            }
            Err(error) => Err(FormatError::new(0, format!("the file is damaged: {error}"))),
        }
    }
}

const CUT: &str = "the file is truncated";

impl Head {
    /// The fabric's switch for each switch of the file, matched by GUID or else by description.
    ///
    /// # Errors
    /// If two match the same switch.
    fn switches_of(
        &self,
        fabric: &Fabric,
        warnings: &mut Warnings,
    ) -> Result<Vec<Option<SwitchId>>, FormatError> {
        let switches = Switches::new(fabric);
        let mut seen = vec![0; fabric.num_switches()];
        let mut found = Vec::with_capacity(self.switches.len());
        for stated in &self.switches {
            let switch = switches.find(stated.guid, Some(&stated.name));
            match switch {
                None => warnings.add(0, "switch not in the fabric"),
                Some(s) if std::mem::replace(&mut seen[s.index()], 1) != 0 => {
                    return Err(FormatError::new(0, format!("switch {} is stated twice", stated.guid)));
                }
                Some(_) => {}
            }
            found.push(switch);
        }
        super::lfts_dump::note_missing(&seen, warnings);
        Ok(found)
    }

    /// The file's end port for each of the fabric, matched by port GUID.
    fn endports_by_guid(&self) -> HashMap<Guid, usize> {
        self.endports.iter().enumerate().map(|(i, e)| (e.guid, i)).collect()
    }
}

/// The end ports and LIDs that `lfts.dfdn` states.
///
/// # Errors
/// A file without such a header.
pub(super) fn lids(input: impl BufRead) -> Result<Vec<EndPortHead>, FormatError> {
    Unpacker::begin(input, Kind::Lfts).map(|(_, head)| head.endports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_come_out_whatever_the_thread_count() {
        let bytes: Vec<u8> = (0..18 * MEMBER + 77).map(|i| (i ^ i >> 9) as u8).collect();
        let pack = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut out = Vec::new();
                let mut packer = Packer { out: &mut out, pending: Vec::new() };
                bytes.chunks(3001).try_for_each(|part| packer.put(part)).unwrap();
                packer.finish().unwrap();
                out
            })
        };
        let (one, four) = (pack(1), pack(4));
        assert!(one == four && one.len() < bytes.len());
        let mut back = Vec::new();
        MultiGzDecoder::new(&one[..]).read_to_end(&mut back).unwrap();
        assert!(back == bytes);
    }
}
