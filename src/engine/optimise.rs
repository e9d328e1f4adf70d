//! The setting `optimise`: equally long paths are exchanged while the load of the channels gets more even.

use super::Settings;
use super::words::words;
use crate::fabric::{ChannelId, Fabric, Lid};
use crate::routing::{Picks, hill_climb};
use crate::tables::Lft;

words! {
    /// How finished tables are balanced further (Chiu et al., section 6.4). In words `no`, `best` and `random`.
    pub enum Optimise {
        /// They are not.
        #[default]
        No = "no",
        /// By the best exchange at each switch.
        Best = "best",
        /// By exchanges picked at random, with [`Settings::patience`](super::Settings::patience) and
        /// [`Settings::draw_seed`](super::Settings::draw_seed).
        Random = "random",
    }
}

/// Balances tables as the settings say, and adds a remark on what that did.
///
/// `allow`: whether a path to a LID may go over the first channel and then over the second.
pub(super) fn optimise(
    fabric: &Fabric,
    settings: &Settings,
    lft: &mut Lft,
    remarks: &mut Vec<String>,
    allow: impl Fn(Lid, ChannelId, ChannelId) -> bool,
) {
    let picks = match settings.optimise {
        Optimise::No => return,
        Optimise::Best => Picks::Best { budget: u64::MAX },
        Optimise::Random => Picks::Random { patience: settings.patience, seed: settings.draw_seed.into() },
    };
    let climb = hill_climb(fabric, lft, allow, picks);
    remarks.push(format!(
        "{} of {} exchanges of equally long paths made the load of the channels more even: its standard \
         deviation is {:.2}, it was {:.2}",
        climb.moves,
        climb.trials,
        climb.after.sqrt(),
        climb.before.sqrt()
    ));
}
