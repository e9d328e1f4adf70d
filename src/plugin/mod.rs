//! The OpenSM plugin: the only place with `unsafe` and with OpenSM's types.
//!
//! OpenSM loads `libdfdn.so`, finds the one exported symbol [`osm_event_plugin`], and calls
//! `create`, which registers the routing engine `dfdn`, whose algorithm a configuration file chooses, and
//! every other deadlock-free engine under its own name. From then on, in each heavy sweep:
//!
//! ```text
//! build_lid_matrices      snapshot -> Fabric -> engine::route -> verified Routes; hop counts where they are read
//! ucast_build_fwd_tables  LFTs written; the Routes published for the callbacks below
//! update_sl2vl, update_vlarb, path_sl     look-ups in the published Routes
//! mcast_build_stree       each multicast group gets what it needs of its tree; also when members join
//! report                  tables as sent re-checked; `psl` written beside OpenSM's dumps
//! ```
//!
//! What was found out about OpenSM 3.3.23 on the way, and is relied on or worked around:
//!
//! - Events are not reported any more once OpenSM is ending, which `opensm -o` is right after its
//!   first SUBNET UP: no `psl` is written then, and no further sweep is made.
//! - QoS tables are sent, and acknowledged, before `UCAST_ROUTING_DONE` is reported; ports are raised
//!   to the VLs that they can operate only after that. Hence the SL2VL rows are re-checked then.
//! - The flag for another heavy sweep is looked at where a heavy sweep ends, before `SUBNET_UP` is
//!   reported, and not behind the console's `reroute`; a signal to the sweeping thread helps there.
//! - When a master dies the standby sends all tables again, and asks its own engine for them: nothing
//!   changes, as they depend on the fabric and the settings alone (`tests/handover.rs`).
//! - Behind an engine hop counts are read for OpenSM's own multicast trees and for dumps alone. Each row
//!   of them is an allocation, one for each two switches: a tenth of all the time at 2000 switches.
//! - `building routing` is logged at VERBOSE, so OpenSM's own time for an engine shows with log flags
//!   that contain 0x04.
//! - Stock dfsssp picks among its SLs at random at each PathRecord, and plans for pairs of adapters
//!   only: traffic from and to switch port 0 can close a credit loop.
//! - Adapters are programmed with VL 0 for every SL: no credit loop leads through an adapter, and a
//!   VL that the adapter does not operate would be masked to another one.
//!
//! An error before the commit changes nothing in OpenSM. Where other engines are to be asked the callback
//! returns -1, so that OpenSM goes on to the next one in `routing_engine`; otherwise the tables from before
//! stay in force (`hold.rs`). LIDs are host order everywhere but in arguments of callbacks.

#![allow(unsafe_code)]

mod abi;
mod cables;
mod callbacks;
mod cgroup;
mod configuration;
mod distrust;
mod drill;
mod guard;
mod hold;
mod host;
mod instance;
mod loading;
mod mcast;
mod memory;
mod message;
mod notes;
mod options;
mod program;
mod psl;
mod recheck;
mod registration;
mod retry;
mod rows;
mod sent;
mod snapshot;
mod threads;

pub use loading::osm_event_plugin;
