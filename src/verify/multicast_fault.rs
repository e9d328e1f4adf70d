//! Violated multicast properties, with examples, as text and as JSON.

use serde_json::{Value, json};

use super::packet::{Packet, credit_loop};
use crate::fabric::{ChannelId, EndPortId, Fabric, PortNum, Sl, SwitchId, Vl};

/// One example of a violated multicast property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McastFault {
    /// Packets of a group loop.
    Loop {
        /// The group.
        mlid: u16,
        /// The loop.
        channels: Vec<ChannelId>,
    },
    /// A member does not get the packets of another.
    Unreachable {
        /// The group.
        mlid: u16,
        /// The sender.
        from: EndPortId,
        /// The member without a copy.
        to: EndPortId,
    },
    /// An end port gets the packets of another twice.
    Twice {
        /// The group.
        mlid: u16,
        /// The sender.
        from: EndPortId,
        /// The end port that gets two copies.
        to: EndPortId,
    },
    /// Virtual channels that wait for each other, each for the next and the last for the first.
    CreditLoop(Vec<McastWait>),
    /// Adapters map the SL to VL 15, so they do not send.
    Unsent {
        /// The group.
        mlid: u16,
        /// The SL of the packet.
        sl: Sl,
        /// An adapter that does not send.
        from: EndPortId,
    },
    /// A copy is dropped or needs a VL that an end of the link cannot operate.
    NoVl {
        /// The group.
        mlid: u16,
        /// The SL of the packet.
        sl: Sl,
        /// The switch that copies it.
        at: SwitchId,
        /// The port that the copy leaves by.
        port: PortNum,
    },
}

/// A virtual channel of a credit loop, and the packet in it that waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McastWait {
    /// The channel.
    pub channel: ChannelId,
    /// Its VL.
    pub vl: Vl,
    /// The packet.
    pub cause: Cause,
}

/// A packet in a credit loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Unicast, to one LID.
    Unicast(Packet),
    /// To a group.
    Multicast {
        /// The group.
        mlid: u16,
        /// An end port that sends.
        source: EndPortId,
        /// The SL in use.
        sl: Sl,
    },
}

impl McastFault {
    /// The fault as text, over several lines.
    pub fn explain(&self, fabric: &Fabric) -> String {
        let end = |e: EndPortId| {
            let end = fabric.endport(e);
            format!("{} port {}", fabric.describe(end.node), end.port)
        };
        match self {
            Self::Loop { mlid, channels } => {
                let list: Vec<String> = channels.iter().map(|&c| fabric.describe_channel(c)).collect();
                format!("packets of group 0x{mlid:04x} loop:\n  {}", list.join("\n  "))
            }
            Self::Unreachable { mlid, from, to } => {
                format!("packets of group 0x{mlid:04x} from {} do not reach {}", end(*from), end(*to))
            }
            Self::Twice { mlid, from, to } => {
                format!("packets of group 0x{mlid:04x} from {} reach {} twice", end(*from), end(*to))
            }
            Self::Unsent { mlid, sl, from } => format!(
                "packets of group 0x{mlid:04x} with SL {} from {} are not sent, as adapters map it to VL 15",
                sl.0,
                end(*from)
            ),
            Self::NoVl { mlid, sl, at, port } => format!(
                "a packet of group 0x{mlid:04x} with SL {} cannot leave {} by port {port}: its VL is 15 or more \
                 than the link can operate",
                sl.0,
                fabric.describe_switch(*at)
            ),
            Self::CreditLoop(waits) => {
                let cause = |cause: &Cause| match cause {
                    Cause::Unicast(packet) => packet.describe(fabric),
                    Cause::Multicast { mlid, source, sl } => {
                        format!("a packet from {} to group 0x{mlid:04x} with SL {}", end(*source), sl.0)
                    }
                };
                let waits = waits.iter().map(|wait| (wait.channel, wait.vl, cause(&wait.cause)));
                credit_loop(fabric, &waits.collect::<Vec<_>>())
            }
        }
    }

    /// The fault as JSON.
    pub(super) fn to_json(&self) -> Value {
        let kind = match self {
            Self::Loop { .. } => "multicast_loop",
            Self::Unreachable { .. } => "multicast_unreachable",
            Self::CreditLoop(_) => "multicast_credit_loop",
            Self::Twice { .. } => "multicast_twice",
            Self::NoVl { .. } => "multicast_no_vl",
            Self::Unsent { .. } => "multicast_unsent",
        };
        json!({ "kind": kind })
    }
}
