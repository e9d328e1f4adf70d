//! Several SLs over one order: each SL has its own labels for the turns.

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, Sl, SwitchId, Vl};
use crate::ordering::{Labels, Rank, Rule};
use crate::tables::{Lft, PathSl, Sl2Vl, SlVlRow};

/// SLs for paths that break a rule. SL 0 keeps the labels of the rule; each such path gets the
/// first further SL in which it can be made legal. It takes the fewest VLs that bring no more SLs than all VLs do.
///
/// All SLs share the ranks of the rule, so every dependency of every path ascends in the same order
/// of virtual channels, and no SL can close a cycle with another. In each further SL a turn may
/// have any label: its first path sets the lowest that it can, and the label stays. The longest
/// paths come first, as the rest of a legal path is legal too.
///
/// - `rule`: with labels, or with the first turn free.
/// - `lft`: loop-free tables.
/// - `broken`: the (source switch, destination LID) whose paths break the rule.
///
/// # Errors
/// [`LanesError::TooFewSls`], [`LanesError::TooFewVls`]; both state how many would suffice.
///
/// Cost: O(V B K H) time with V VLs, B broken paths, K SLs and path length H; one byte for each SL and turn, and one for
/// each (switch, LID).
pub fn ordered(
    fabric: &Fabric,
    rule: &Rule,
    lft: &Lft,
    broken: &[(SwitchId, Lid)],
    limits: LaneLimits,
) -> Result<Lanes, LanesError> {
    if rule.vls() > limits.vls {
        return Err(LanesError::TooFewVls { needed: usize::from(rule.vls()), offered: limits.vls });
    }
    let (ranks, base) = match rule {
        Rule::Labelled { ranks, labels } => (ranks.as_slice(), labels.clone()),
        Rule::FirstTurnFree(rank) | Rule::OneVl(rank) => (std::slice::from_ref(rank), Labels::ones(fabric)),
        Rule::Any | Rule::Ordered { .. } => unreachable!("no path breaks it"),
    };
    let least = base.by_turn().iter().copied().max().unwrap_or(0);
    let columns = |most| SlColumns { ranks, most, base: &base, more: Vec::new(), highest: least };
    let mut lengths: Vec<(u32, Lid, SwitchId)> =
        broken.iter().map(|&(s, lid)| (length(fabric, lft, s, lid), lid, s)).collect();
    lengths.sort_unstable_by_key(|&(length, lid, s)| (std::cmp::Reverse(length), lid, s));
    let mut assigned = assign(fabric, lft, &lengths, columns(limits.vls - 1), usize::MAX)?;
    let sls = assigned.columns.sls();
    if sls > usize::from(limits.sls) {
        return Err(LanesError::TooFewSls { needed: sls, offered: limits.sls });
    }
    while assigned.columns.highest > least {
        let fewer = columns(assigned.columns.highest - 1);
        let Ok(fewer) = assign(fabric, lft, &lengths, fewer, sls) else { break };
        assigned = fewer;
    }
    let path_sl = match sls {
        1 => super::any_sl(limits),
        _ => PathSl::BySwitch(assigned.path_sl),
    };
    let (sl2vl, vls) = assigned.columns.tables(fabric);
    Ok(Lanes { sl2vl, path_sl, vls, sls: sls as u8 })
}

/// The labels of the SLs, and the SL of each path, by LID and switch.
struct Assigned<'a> {
    columns: SlColumns<'a>,
    path_sl: Vec<u8>,
}

/// - `paths`: with their lengths; the longest first.
///
/// # Errors
/// [`LanesError::TooFewVls`] if a path cannot be made legal with so few, [`LanesError::TooFewSls`] if that takes more than
/// `most_sls`.
fn assign<'a>(
    fabric: &Fabric,
    lft: &Lft,
    paths: &[(u32, Lid, SwitchId)],
    mut columns: SlColumns<'a>,
    most_sls: usize,
) -> Result<Assigned<'a>, LanesError> {
    let mut path_sl = vec![0_u8; fabric.num_switches() * fabric.lid_table_len()];
    let mut path = Vec::new();
    for &(_, lid, source) in paths {
        channels_of(fabric, lft, source, lid, &mut path);
        let offered = columns.most + 1;
        let sl = columns.assign(&path).ok_or(LanesError::TooFewVls { needed: path.len(), offered })?;
        if sl >= most_sls {
            return Err(LanesError::TooFewSls { needed: sl + 1, offered: most_sls as u8 });
        }
        path_sl[lid.index() * fabric.num_switches() + source.index()] = sl.min(255) as u8;
    }
    Ok(Assigned { columns, path_sl })
}

fn next(fabric: &Fabric, lft: &Lft, at: SwitchId, lid: Lid) -> Option<ChannelId> {
    fabric.channels().at_port(at, PortNum(lft.to(lid)[at.index()]))
}

fn length(fabric: &Fabric, lft: &Lft, from: SwitchId, lid: Lid) -> u32 {
    let mut at = from;
    let mut length = 0;
    while let Some(c) = next(fabric, lft, at, lid) {
        at = fabric.channels().get(c).to;
        length += 1;
    }
    length
}

fn channels_of(fabric: &Fabric, lft: &Lft, from: SwitchId, lid: Lid, path: &mut Vec<ChannelId>) {
    path.clear();
    let mut at = from;
    while let Some(c) = next(fabric, lft, at, lid) {
        path.push(c);
        at = fabric.channels().get(c).to;
    }
}

struct SlColumns<'a> {
    ranks: &'a [Rank],
    /// Largest label.
    most: u8,
    /// The labels of SL 0.
    base: &'a Labels,
    /// The labels of the further SLs by turn, 0 if a turn is unused.
    more: Vec<Vec<u8>>,
    /// The largest label in use.
    highest: u8,
}

impl SlColumns<'_> {
    fn sls(&self) -> usize {
        1 + self.more.len()
    }

    /// The first SL in which the path is legal or can be made so; records its labels there.
    fn assign(&mut self, path: &[ChannelId]) -> Option<usize> {
        let mut labels = Vec::new();
        let mut fits = |column: &[u8]| fit(self.ranks, self.most, self.base, column, path, &mut labels);
        let column = match self.more.iter().position(|column| fits(column)) {
            Some(column) => column,
            None => {
                let column = vec![0; self.base.by_turn().len()];
                if !fits(&column) {
                    return None;
                }
                self.more.push(column);
                self.more.len() - 1
            }
        };
        record(self.base, &mut self.more[column], path, &labels);
        self.highest = labels.iter().copied().fold(self.highest, u8::max);
        Some(column + 1)
    }

    fn tables(&self, fabric: &Fabric) -> (Sl2Vl, u8) {
        let mut sl2vl = Sl2Vl::new(fabric);
        let channels = fabric.channels();
        let mut highest = 0;
        for (first, c) in channels.iter() {
            for (second, d) in channels.out(c.to) {
                let turn = self.base.turn(first, second);
                let base = self.base.by_turn()[turn];
                let mut row = SlVlRow::uniform(Vl(base));
                highest = highest.max(base);
                for (i, column) in self.more.iter().enumerate() {
                    if column[turn] != 0 {
                        row = row.with(Sl(i as u8 + 1), Vl(column[turn]));
                        highest = highest.max(column[turn]);
                    }
                }
                sl2vl.set(c.to, c.in_port, d.out_port, row);
            }
        }
        (sl2vl, highest + 1)
    }
}

/// The labels that make a path legal in an SL, each the lowest possible.
fn fit(
    ranks: &[Rank],
    most: u8,
    turns: &Labels,
    column: &[u8],
    path: &[ChannelId],
    labels: &mut Vec<u8>,
) -> bool {
    labels.clear();
    let rank =
        |label: u8, c: ChannelId| ranks.get(usize::from(label)).unwrap_or(&ranks[ranks.len() - 1]).of(c);
    let mut now = 0;
    for two in path.windows(2) {
        let ascends = now > 0 && rank(now, two[0]) < rank(now, two[1]);
        let least = if ascends { now } else { now + 1 };
        let set = column[turns.turn(two[0], two[1])];
        if set != 0 && set < least || least > most {
            return false;
        }
        now = if set == 0 { least } else { set };
        labels.push(now);
    }
    true
}

fn record(turns: &Labels, column: &mut [u8], path: &[ChannelId], labels: &[u8]) {
    for (two, &label) in path.windows(2).zip(labels) {
        column[turns.turn(two[0], two[1])] = label;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::up_down_rank;
    use crate::routing::{Hops, Lookahead, NoLegalPath, ranked_sssp};
    use crate::topology::{Random, Ring, small_members};

    fn lanes(f: &Fabric, limits: LaneLimits) -> Result<Lanes, LanesError> {
        let hops = Hops::new(f).unwrap();
        let rule = Rule::FirstTurnFree(up_down_rank(f, SwitchId(0)));
        let ranked = ranked_sssp(f, &hops, &rule, Lookahead::LastOption, NoLegalPath::Break);
        ordered(f, &rule, &ranked.lft, &ranked.broken, limits)
    }

    #[test]
    fn a_ring_takes_two_sls_and_three_vls() {
        let f = Ring { switches: 12, cas: 1 }.build().unwrap();
        let lanes = lanes(&f, LaneLimits { vls: 8, sls: 16 }).unwrap();
        assert_eq!((lanes.sls, lanes.vls), (2, 3));
    }

    #[test]
    fn too_few_lanes_are_refused_with_what_it_takes() {
        let f = Ring { switches: 12, cas: 1 }.build().unwrap();
        let vls = lanes(&f, LaneLimits { vls: 1, sls: 16 }).unwrap_err();
        assert_eq!(vls, LanesError::TooFewVls { needed: 2, offered: 1 });
        let sls = lanes(&f, LaneLimits { vls: 8, sls: 1 }).unwrap_err();
        assert_eq!(sls, LanesError::TooFewSls { needed: 2, offered: 1 });
    }

    #[test]
    fn more_vls_on_offer_are_used_only_for_fewer_sls() {
        for (switches, seed) in [(24, 1), (64, 1), (64, 2), (128, 1)] {
            let f = Random { switches, degree: 4, cas: 1, seed }.build().unwrap();
            let all = lanes(&f, LaneLimits { vls: 15, sls: 16 }).unwrap();
            for vls in 2..all.vls {
                let fewer = lanes(&f, LaneLimits { vls, sls: 16 });
                assert!(fewer.is_err() || fewer.is_ok_and(|fewer| fewer.sls > all.sls), "{vls} VLs");
            }
        }
    }

    #[test]
    fn nothing_broken_is_one_sl() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let rule = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
            let ranked = ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Break);
            let lanes =
                ordered(&f, &rule, &ranked.lft, &ranked.broken, LaneLimits { vls: 8, sls: 16 }).unwrap();
            assert_eq!(lanes.sls == 1, ranked.broken.is_empty(), "{name}");
        }
    }
}
