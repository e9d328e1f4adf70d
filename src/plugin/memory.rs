//! Whether there is enough memory for a computation.
//!
//! If an allocation fails, Rust ends the process, and stable Rust offers no way to check before.
//! The subnet manager must not die because a routing engine needs memory, so the engine checks
//! first: the address space, by reserving what it will need and giving it back; what the kernel
//! calls available; and what the limits of its control groups leave. All can change while it
//! computes; neither dfdn nor OpenSM can prevent what other processes take then.

use super::cgroup;
use super::host::{self, Host};
use super::threads;
use crate::engine::{MAX_MENDED, max_counts};

/// What the memory of a run depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Switches.
    switches: usize,
    /// Largest LID plus one.
    lids: usize,
    /// Sum over all switches of the number of ports (0 included) squared.
    turns: usize,
    /// Ports of all nodes.
    ports: usize,
}

impl Size {
    /// The size of the subnet in OpenSM. Cost: O(nodes).
    pub(super) fn of(host: &Host) -> Self {
        let mut size = Self::default();
        for node in host.nodes() {
            let ports = node.physp_tbl_size as usize;
            size.ports += ports;
            if !node.sw.is_null() {
                size.switches += 1;
                size.turns += ports * ports;
            }
            for physp in (0..ports).filter_map(|port| host::physp(node, port)) {
                // SAFETY: only reads the port's own PortInfo.
                let lmc = unsafe { super::abi::ib_port_info_get_lmc(&physp.port_info) };
                let top = usize::from(u16::from_be(physp.port_info.base_lid)) + (1 << lmc.min(7));
                size.lids = size.lids.max(top.min(0xc000));
            }
        }
        size
    }

    /// Upper bound of the bytes that a run takes with a thread per core: a generous multiple of the
    /// tables (one byte per switch and LID for forwarding tables and for SLs, one byte per pair of
    /// switches for hop counts, 8 bytes per SL2VL row), 512 bytes per port for the fabric, what
    /// mending needs, stacks, and 16 MiB.
    ///
    /// Mending, where tables are not too large for it, has its counts for each thread, their sum and a copy; and 2 bytes
    /// per turn and data VL and 4 per turn and class of SLs for each of five graphs of dependencies: two that all attempts
    /// begin with for new paths, one for old ones, and a copy of two of them.
    fn bytes(self) -> usize {
        const MIB: usize = 1 << 20;
        const DATA_VLS: usize = 15;
        const CLASSES: usize = 16;
        let threads = threads::wanted();
        let graphs = 5 * (2 * DATA_VLS + 4 * CLASSES) * self.turns;
        let mending = match self.switches * self.lids <= MAX_MENDED {
            true => 2 * max_counts(self.turns) * (threads + 2) + graphs,
            false => 0,
        };
        16 * MIB
            + 8 * self.switches * self.lids
            + 8 * self.switches * self.switches
            + 32 * self.turns
            + mending
            + 512 * self.ports
            + threads * 3 * MIB
    }

    /// Whether a run may start.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub(super) fn check(self) -> Result<(), String> {
        let needed = self.bytes();
        let available = available();
        if !can_reserve(needed) {
            return Err(too_little(needed, "the address space of this process (ulimit -v) has less"));
        }
        if let Some(available) = available.filter(|&available| available < needed) {
            return Err(too_little(needed, &format!("the system has {} MiB available", available >> 20)));
        }
        match cgroup::available() {
            Some((available, limit)) if available < needed => {
                let left = available >> 20;
                Err(too_little(needed, &format!("the limit in {} leaves {left} MiB", limit.display())))
            }
            _ => Ok(()),
        }
    }
}

fn too_little(needed: usize, why: &str) -> String {
    format!(
        "routing this fabric may take {} MiB of memory, and {why}; nothing was computed. Give the host of OpenSM \
         more memory, or lift its limit",
        needed >> 20
    )
}

/// Whether that much can be mapped at once. It is unmapped untouched and costs no memory. The
/// allocator is not asked: it may have room in one thread's cache and then none for the others.
fn can_reserve(bytes: usize) -> bool {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let room = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if room == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping made above; no other pointer to it exists.
    unsafe { libc::munmap(room, bytes) };
    true
}

/// Memory that the kernel estimates to be available without swapping; `None` if it does not say.
fn available() -> Option<usize> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{Size, available_in, can_reserve};

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(can_reserve(1 << 20) && !can_reserve(1 << 50));
        assert!(Size { switches: 36, lids: 110, turns: 36 * 64, ports: 400 }.check().is_ok());
        let vast = Size { switches: 40_000_000, lids: 0xc000, turns: 1 << 40, ports: 1 << 33 };
        assert!(vast.check().expect_err("no such host").contains("MiB"));
    }

    #[test]
    fn what_is_available_is_read() {
        assert_eq!(available_in("MemTotal: 9 kB\nMemAvailable:   2048 kB\nX: 1\n"), Some(2 << 20));
        assert_eq!(available_in("MemTotal: 9 kB\n"), None);
    }
}
