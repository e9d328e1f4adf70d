//! Typed identifiers: InfiniBand's own, and the dense indices of this crate.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A 64-bit globally unique identifier of a node, a port or a system image, in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

/// A unicast local identifier in host byte order, `1..=0xBFFF`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lid(u16);

impl Lid {
    /// The largest unicast LID; multicast LIDs follow.
    pub const MAX: u16 = 0xBFFF;

    /// `None` if `raw` is not a unicast LID (0, multicast or permissive).
    pub fn new(raw: u16) -> Option<Self> {
        (1..=Self::MAX).contains(&raw).then_some(Self(raw))
    }

    /// The number itself.
    #[inline]
    pub fn get(self) -> u16 {
        self.0
    }

    /// The number as an index into a table whose first entry is LID 0.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// LID mask control, `0..=7`: an end port answers to `2^lmc` consecutive LIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lmc(u8);

impl Lmc {
    /// `None` if `raw` is above 7.
    pub fn new(raw: u8) -> Option<Self> {
        (raw <= 7).then_some(Self(raw))
    }

    /// The number itself.
    #[inline]
    pub fn get(self) -> u8 {
        self.0
    }

    /// Number of LIDs of an end port with this LMC.
    pub fn lids(self) -> u16 {
        1 << self.0
    }
}

/// A port number on its node; 0 is a switch's management port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortNum(pub u8);

impl PortNum {
    /// The switch management port.
    pub const ZERO: Self = Self(0);

    /// The number as an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A service level, `0..=15`: written into a packet by its sender, constant along the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sl(pub u8);

impl Sl {
    /// Number of service levels in InfiniBand.
    pub const COUNT: usize = 16;
}

/// A virtual lane, `0..=14` for data; 15 carries management only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Vl(pub u8);

impl Vl {
    /// The largest number of data VLs of a port.
    pub const MAX_DATA: u8 = 15;

    /// The VL as a bit; none for VL 15, which carries no data.
    pub fn data_bit(self) -> u16 {
        if self.0 < Self::MAX_DATA { 1 << self.0 } else { 0 }
    }
}

/// The positions of the bits in a set of VLs, or of other small numbers, ascending.
#[inline]
pub fn bits(set: impl Into<u64>) -> impl Iterator<Item = usize> {
    let mut set = set.into();
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}

macro_rules! dense_index {
    ($(#[$doc:meta] $name:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier as an index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The identifier of the element at `index`.
            ///
            /// # Panics
            /// If there are 2^32 elements or more, which no subnet has.
            #[inline]
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("a subnet has fewer than 2^32 elements"))
            }
        }
    )*};
}

dense_index! {
    /// Index into [`Fabric::nodes`](super::Fabric::nodes), in GUID order.
    NodeId;
    /// Index of a switch, in GUID order.
    SwitchId;
    /// Index into [`Fabric::endports`](super::Fabric::endports), in port GUID order.
    EndPortId;
    /// Index of a channel: one direction of a cable between two different switches.
    ChannelId;
}
