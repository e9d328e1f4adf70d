//! The dense graph of switch-to-switch channels.

use super::ids::{ChannelId, PortNum, SwitchId};

/// One direction of a cable between two different switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The switch that sends.
    pub from: SwitchId,
    /// The switch that receives.
    pub to: SwitchId,
    /// The sender's port.
    pub out_port: PortNum,
    /// The receiver's port.
    pub in_port: PortNum,
    /// The other direction of the same cable.
    pub reverse: ChannelId,
}

/// All channels, sorted by sending switch and then by its port.
///
/// Also numbers the ports of all switches densely (*slots*), so that tables by (switch, port)
/// are flat arrays: the slot of port `p` of switch `s` is `first_slot(s) + p`, port 0 included.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    list: Vec<Channel>,
    first_out: Vec<u32>,
    first_slot: Vec<u32>,
    by_slot: Vec<Option<ChannelId>>,
}

impl Channels {
    /// `num_ports[s]` is the number of physical ports of switch `s`; `list` is sorted by (from,
    /// out_port) and every `reverse` is set.
    pub(super) fn new(num_ports: &[u8], list: Vec<Channel>) -> Self {
        let mut first_slot = Vec::with_capacity(num_ports.len() + 1);
        let mut slots = 0;
        for &n in num_ports {
            first_slot.push(slots);
            slots += u32::from(n) + 1;
        }
        first_slot.push(slots);
        let mut first_out = vec![0; num_ports.len() + 1];
        let mut by_slot = vec![None; slots as usize];
        for (i, c) in list.iter().enumerate() {
            first_out[c.from.index() + 1] += 1;
            by_slot[first_slot[c.from.index()] as usize + c.out_port.index()] = Some(ChannelId::at(i));
        }
        for s in 0..num_ports.len() {
            first_out[s + 1] += first_out[s];
        }
        Self { list, first_out, first_slot, by_slot }
    }

    /// Number of channels: two per cable.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no channels.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// One channel.
    #[inline]
    pub fn get(&self, id: ChannelId) -> &Channel {
        &self.list[id.index()]
    }

    /// All channels with their identifiers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ChannelId, &Channel)> {
        self.list.iter().enumerate().map(|(i, c)| (ChannelId::at(i), c))
    }

    /// All channels as a slice indexed by [`ChannelId`].
    pub fn as_slice(&self) -> &[Channel] {
        &self.list
    }

    /// The channels that leave a switch, as a range of channel indices in port order.
    #[inline]
    pub fn out_range(&self, switch: SwitchId) -> std::ops::Range<usize> {
        self.first_out[switch.index()] as usize..self.first_out[switch.index() + 1] as usize
    }

    /// The channels that leave a switch, in port order.
    #[inline]
    pub fn out(&self, switch: SwitchId) -> impl ExactSizeIterator<Item = (ChannelId, &Channel)> {
        self.out_range(switch).map(|i| (ChannelId::at(i), &self.list[i]))
    }

    /// The channel that leaves a switch by a port; `None` for port 0, ports to adapters, ports
    /// without a link, and ports that the switch does not have.
    #[inline]
    pub fn at_port(&self, switch: SwitchId, port: PortNum) -> Option<ChannelId> {
        if port.index() >= self.slots_of(switch) {
            return None;
        }
        self.by_slot[self.first_slot(switch) + port.index()]
    }

    /// First slot of a switch; see [`Channels`].
    pub fn first_slot(&self, switch: SwitchId) -> usize {
        self.first_slot[switch.index()] as usize
    }

    /// Number of slots of a switch: its physical ports and port 0.
    pub fn slots_of(&self, switch: SwitchId) -> usize {
        (self.first_slot[switch.index() + 1] - self.first_slot[switch.index()]) as usize
    }

    /// Number of slots of all switches.
    #[inline]
    pub fn num_slots(&self) -> usize {
        self.by_slot.len()
    }
}
