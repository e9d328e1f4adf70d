//! The OpenSM plugin: the only place with `unsafe` and with OpenSM's types.
//!
//! OpenSM loads `libdfdn.so`, finds the one exported symbol [`osm_event_plugin`], and calls
//! `create`. That registers the routing engine `dfdn`, whose algorithm a configuration file
//! chooses, and every other deadlock-free engine under its own name. From then on, in each heavy
//! sweep:
//!
//! ```text
//! build_lid_matrices      snapshot -> Fabric -> engine::route -> verified Routes; hop counts where they are read
//! ucast_build_fwd_tables  LFTs written; the Routes published for the callbacks below
//! update_sl2vl, update_vlarb, path_sl     look-ups in the published Routes
//! mcast_build_stree       each multicast group gets what it needs of its tree; also when members join
//! report                  tables as sent re-checked; `psl` written beside OpenSM's dumps
//! ```
//!
//! Facts about OpenSM 3.3.23 that the plugin relies on or works around:
//!
//! - No events are reported once OpenSM is exiting, which `opensm -o` does right after its first
//!   SUBNET UP: then no `psl` is written, and no further sweep is made.
//! - QoS tables are sent and acknowledged before `UCAST_ROUTING_DONE` is reported; only after that
//!   are ports raised to the VLs that they can operate. Hence the SL2VL rows are re-checked then.
//! - The flag for another heavy sweep is checked at the end of a heavy sweep, before `SUBNET_UP` is
//!   reported, but not after the console's `reroute`; a signal to the sweeping thread helps there.
//! - When a master dies, the standby asks its own engine for tables and sends all of them: nothing
//!   changes, as they depend only on the fabric and the settings (`tests/handover.rs`).
//! - After an engine, hop counts are read only for OpenSM's own multicast trees and for dumps. Each
//!   row of them is an allocation, one for each two switches: a tenth of all the time at 2000
//!   switches.
//! - `building routing` is logged at VERBOSE, so OpenSM's own time for an engine is visible only
//!   with log flags that contain 0x04.
//! - Stock dfsssp picks one of its SLs at random for each PathRecord, and plans for pairs of
//!   adapters only: traffic from and to switch port 0 can close a credit loop.
//! - Adapters are programmed with VL 0 for every SL: no credit loop leads through an adapter, and a
//!   VL that the adapter does not operate would be masked to another one.
//!
//! An error before the commit changes nothing in OpenSM. If other engines are to be asked, the
//! callback returns -1, so that OpenSM continues with the next one in `routing_engine`; otherwise
//! the tables from before stay in force (`hold.rs`). LIDs are in host order except in arguments of
//! callbacks.

#![allow(unsafe_code)]

mod abi;
mod cables;
mod callbacks;
mod cgroup;
mod configuration;
mod distrust;
mod drill;
#[cfg(test)]
mod fake;
mod fault;
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
mod pending;
mod program;
mod psl;
mod recheck;
mod registration;
mod retry;
mod rows;
mod sent;
mod snapshot;
mod sweep_log;
mod threads;
mod transit;
mod unknown;

pub use loading::osm_event_plugin;
