//! Deadlock-free routing for InfiniBand: the library behind the OpenSM plugin and the command `dfdn`.
//!
//! A fabric comes in, an engine computes tables, an independent judge proves them, and only then do they go out:
//!
//! ```text
//!   topology ─┐                                                            ┌─> formats  (files)
//!   formats  ─┼─> Fabric ─> engine::route ────────────────────> Routed ────┼─> plugin   (OpenSM)
//!   plugin   ─┘             │ routing   next hops by LID   LFT │           └─> evaluate (figures)
//!                           │ lanes     VL and SL       SL2VL  │
//!                           │ multicast spanning trees         │
//!                           └ verify    nothing unproven leaves┘
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`fabric`] | nodes, links, LIDs, and the dense graph of channels |
//! | [`topology`] | generators of fabrics, and link failures |
//! | [`tables`] | what an engine hands over: LFT, SL2VL, path SLs, VL arbitration, multicast trees |
//! | [`ordering`] | orders of the channels; the theory behind the engine `dfdn` |
//! | [`routing`] | next hops: P-SSSP with or without an order, and the other routings |
//! | [`multicast`] | spanning trees, free of credit loops beside unicast |
//! | [`lanes`] | VLs and SLs for given next hops: DF-D2, DF-DN and others; classes of service |
//! | [`engine`] | the engines by name, their settings, and [`route`](engine::route) |
//! | [`verify`] | the judge: shares no code with what it checks |
//! | [`evaluate`] | edge-forwarding index, effective bisection bandwidth, path lengths, fault tolerance |
//! | [`simulate`] | packets, buffers and credits on given tables; finds deadlocks |
//! | [`whatif`] | what failures would cost: each link and switch in turn |
//! | [`reconfigure`] | the way from tables in force to new ones, in steps that are proven |
//! | `report` | a page about a fabric and its tables, for the command |
//! | [`cabling`] | a fabric as it is against the one that was planned |
//! | [`formats`] | readers and writers, one file a format |
//!
//! # Example
//!
//! Route a Dragonfly, judge the tables once more, and measure them:
//!
//! ```
//! use dfdn::{engine, evaluate, topology::Dragonfly, verify};
//!
//! let fabric = Dragonfly::balanced(2).build()?;
//! let routed = engine::route(&fabric, &engine::Settings::default())?;
//! let verdict = verify::verify(&fabric, &routed.routes);
//! assert!(verdict.is_safe() && verdict.minimal);
//! assert_eq!((verdict.vls, verdict.sls), (2, 1));
//! let figures = evaluate::evaluate(&fabric, &routed.routes, &evaluate::Options::default())?;
//! println!("{} of the full bisection bandwidth", figures.bisection.ebb);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/` has three small programs: route a file, compare two engines, and write an engine of your own.
//!
//! The same fabric and settings give the same tables, byte for byte, on any machine and for any number of threads.
//! In the plugin, tables may also keep to one earlier fabric, the baseline ([`engine::Baseline`]), so that the way to
//! them can be proven; then they are a function of both.

pub mod cabling;
pub mod engine;
pub mod evaluate;
pub mod fabric;
pub mod formats;
pub mod lanes;
pub mod multicast;
pub mod ordering;
#[cfg(feature = "plugin")]
pub mod plugin;
pub mod reconfigure;
#[cfg(feature = "command")]
pub mod report;
pub mod routing;
pub mod simulate;
pub mod tables;
pub mod topology;
pub mod verify;
pub mod whatif;
