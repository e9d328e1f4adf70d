//! The OpenSM plugin: the only place with `unsafe` and with OpenSM's types.
//!
//! OpenSM loads `libdfdn.so`, finds the one exported symbol [`osm_event_plugin`], and calls
//! `create`, which registers the routing engine `dfdn`, whose algorithm a configuration file chooses, and
//! every other deadlock-free engine under its own name. From then on, in each heavy sweep:
//!
//! ```text
//! build_lid_matrices      snapshot -> Fabric -> engine::route -> verified Routes; hop counts written
//! ucast_build_fwd_tables  LFTs written; the Routes published for the callbacks below
//! update_sl2vl, update_vlarb, path_sl     look-ups in the published Routes
//! report                  SL2VL rows as sent re-checked; `psl` written beside OpenSM's dumps
//! ```
//!
//! An error before the commit changes nothing in OpenSM and returns -1, so that OpenSM goes on to
//! the next engine in `routing_engine`. LIDs are host order everywhere but in arguments of
//! callbacks.

#![allow(unsafe_code)]

mod abi;
mod configuration;
mod guard;
mod hooks;
mod host;
mod message;
mod program;
mod psl;
mod recheck;
mod snapshot;

pub use hooks::osm_event_plugin;
