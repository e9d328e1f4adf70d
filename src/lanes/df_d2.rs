//! DF-D2: two VLs and one SL for diameter two.

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{Fabric, PortNum, Sl, Vl};
use crate::tables::{PathSl, Sl2Vl, SlVlRow};

/// The SL to VL mapping of DF-D2 (Schneider et al., section IV and Fig. 3).
///
/// A packet from an adapter, a router or port 0 leaves its first switch on VL 0; one from another
/// switch continues on VL 1, for every SL. Fig. 3 as printed looks at `head(i)`, the switch itself;
/// it must be `tail(i)`, the node at the in port.
///
/// - `fabric`: if its forwarding tables have a path of more than `longest` channels between switches, the
///   caller ensures that such paths close no cycle on VL 1.
/// - `longest`: 0, 1 or 2; with at most 1 no path has a turn between switches, and VL 0 suffices.
/// - `limits`: VLs and SLs of the fabric.
///
/// # Errors
/// [`LanesError::DiameterAboveTwo`], [`LanesError::TooFewVls`].
///
/// Cost: O(sum over switches of ports^2) time and memory: the size of the tables.
pub fn df_d2(fabric: &Fabric, longest: usize, limits: LaneLimits) -> Result<Lanes, LanesError> {
    if longest > 2 {
        return Err(LanesError::DiameterAboveTwo { hops: longest });
    }
    let vls = longest.max(1) as u8;
    if vls > limits.vls {
        return Err(LanesError::TooFewVls { needed: longest, offered: limits.vls });
    }
    let mut sl2vl = Sl2Vl::new(fabric);
    if longest == 2 {
        for (_, c) in fabric.channels().iter() {
            for out in 0..sl2vl.ports_of(c.to) {
                sl2vl.set(c.to, c.in_port, PortNum(out as u8), SlVlRow::uniform(Vl(1)));
            }
        }
    }
    let all = u16::MAX >> (Sl::COUNT - usize::from(limits.sls));
    Ok(Lanes { sl2vl, path_sl: PathSl::Any(all), vls, sls: 1 })
}
