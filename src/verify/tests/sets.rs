//! The judge of sets of next hops against a slow reference that sends every packet over every way.

use std::collections::BTreeSet;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::random::{Dice, case, cases, some_cases};
use super::reference::{self, Lane, Waits, next, without_dead_ends};
use crate::fabric::{EndPortId, Fabric, Lid, PortNum, Sl, SwitchId};
use crate::tables::{McastGroup, PortSets, Routes};
use crate::verify::{SetsVerdict, SlPolicy, verify_sets};

/// All that packets may do.
#[derive(Default)]
struct Truth {
    lanes: BTreeSet<Lane>,
    waits: Waits,
    dead_ends: BTreeSet<(SwitchId, Lid)>,
    copied: BTreeSet<(Lane, u8, u16)>,
}

impl Truth {
    fn of(f: &Fabric, r: &Routes, sets: &PortSets) -> Self {
        let mut t = Self::default();
        let ends = || {
            let attached = f.endports().iter().enumerate().filter(|(_, e)| e.attachment.is_some());
            attached.map(|(i, e)| (EndPortId::at(i), e))
        };
        for ((to, end), lid) in ends().flat_map(|to| to.1.lids().map(move |lid| (to, lid))) {
            for (from, sender) in ends().filter(|&(from, _)| from != to) {
                let (s, port) = sender.attachment.expect("attached");
                for sl in reference::sls(f, r, SlPolicy::AsTold, from, to, lid).1 {
                    if reference::withheld(r, sender, sl) {
                        t.dead_ends.insert((s, lid));
                    } else {
                        t.send(f, r, sets, (s.index(), port.0), end.attachment, lid, sl);
                    }
                }
            }
        }
        for group in &r.multicast {
            for sl in (0..16).filter(|sl| group.sls.unwrap_or(1) >> sl & 1 != 0) {
                for (s, port) in ends().filter_map(|(_, end)| end.attachment) {
                    t.copy(f, r, group, (s.index(), port.0), None, sl);
                }
            }
        }
        t
    }

    /// Copies a packet that came to a switch by a port, holding a lane.
    fn copy(
        &mut self,
        f: &Fabric,
        r: &Routes,
        group: &McastGroup,
        (s, in_port): (usize, u8),
        held: Option<Lane>,
        sl: u8,
    ) {
        for out in group.at(SwitchId::at(s)).iter().filter(|out| out.0 != in_port) {
            let Some(ahead) = next(f, s, out.0) else { continue };
            let vl = r.sl2vl.row(SwitchId::at(s), PortNum(in_port), out).get(Sl(sl)).0;
            if vl != 15 {
                let lane = (s, out.0, vl);
                let is_new = held.is_none_or(|held| self.waits.insert((held, lane)));
                if self.lanes.insert(lane)
                    || is_new && held.is_some()
                    || self.copied.insert((lane, sl, group.mlid))
                {
                    self.copy(f, r, group, ahead, Some(lane), sl);
                }
            }
        }
    }

    /// Sends a packet over every way. `start`: the first switch and the in port; `home`: the last switch and its port.
    #[allow(clippy::too_many_arguments)]
    fn send(
        &mut self,
        f: &Fabric,
        r: &Routes,
        sets: &PortSets,
        start: (usize, u8),
        home: Option<(SwitchId, PortNum)>,
        lid: Lid,
        sl: u8,
    ) {
        let mut open = vec![(start.0, start.1, None::<Lane>)];
        let mut met: BTreeSet<_> = open.iter().copied().collect();
        while let Some((s, in_port, held)) = open.pop() {
            let at = SwitchId::at(s);
            let mut stuck = sets.get(at, lid).is_empty();
            for out in sets.get(at, lid).iter() {
                let ahead = next(f, s, out.0);
                let there = home == Some((at, out)) || ahead.is_some();
                let vl = there.then(|| r.sl2vl.row(at, PortNum(in_port), out).get(Sl(sl)).0);
                let Some(vl) = vl.filter(|&vl| vl != 15) else {
                    stuck = true;
                    continue;
                };
                let Some((to, to_port)) = ahead else { continue };
                let lane = (s, out.0, vl);
                self.lanes.insert(lane);
                self.waits.extend(held.map(|held| (held, lane)));
                if met.insert((to, to_port, Some(lane))) {
                    open.push((to, to_port, Some(lane)));
                }
            }
            if stuck {
                self.dead_ends.insert((at, lid));
            }
        }
    }
}

/// The entries of tables, with a few more ports and some without any.
fn port_sets(f: &Fabric, r: &Routes, dice: &mut Dice) -> PortSets {
    let mut sets = PortSets::of_lft(f, &r.lft);
    let lids: Vec<Lid> = f.endports().iter().flat_map(|e| e.lids()).collect();
    for _ in 0..[0, 1, 4, 20][dice.random_range(0..4)] {
        let s = SwitchId::at(dice.random_range(0..f.num_switches()));
        let lid = *lids.choose(dice).expect("that of a switch");
        let mut set = sets.get(s, lid);
        let channels: Vec<_> = f.channels().out(s).map(|(_, c)| c.out_port).collect();
        match (dice.random_range(0..40), channels.choose(dice)) {
            (0, _) => set = Default::default(),
            (1, _) => set.insert(PortNum(dice.random())),
            (_, Some(&port)) => set.insert(port),
            (_, None) => {}
        }
        sets.set(s, lid, set);
    }
    sets
}

#[test]
fn agrees_with_the_reference() {
    let mut said = std::collections::BTreeMap::new();
    for seed in cases(600) {
        let mut dice = Dice::seed_from_u64(seed);
        let (f, r) = case(&mut dice);
        let sets = port_sets(&f, &r, &mut dice);
        let t = Truth::of(&f, &r, &sets);
        let v: SetsVerdict = verify_sets(&f, &sets, &r.sl2vl, &r.path_sl, &r.multicast);
        assert_eq!(v.buffers, t.lanes.len(), "seed {seed}");
        assert_eq!(v.credit_loop.is_empty(), without_dead_ends(t.waits.clone()).is_empty(), "seed {seed}");
        assert_eq!(v.dead_end.is_some(), !t.dead_ends.is_empty(), "seed {seed}");
        assert!(v.dead_end.is_none_or(|place| t.dead_ends.contains(&place)), "seed {seed}");
        let is_illegal = |&(s, port, vl): &Lane| {
            let (to, to_port) = next(&f, s, port).expect("a channel");
            let vls = |s: usize, port: u8| f.switch(SwitchId::at(s)).ports[usize::from(port)].data_vls;
            [vls(s, port), vls(to, to_port)].into_iter().flatten().any(|vls| vl >= vls)
        };
        assert_eq!(v.illegal.is_some(), t.lanes.iter().any(is_illegal), "seed {seed}");
        assert_eq!(v.is_safe(), v.credit_loop.is_empty() && v.dead_end.is_none() && v.illegal.is_none());
        let lane = |&(channel, vl): &(crate::fabric::ChannelId, crate::fabric::Vl)| {
            let c = f.channels().get(channel);
            (c.from.index(), c.out_port.0, vl.0)
        };
        let after = v.credit_loop.iter().cycle().skip(1);
        let waits = |(a, b): (&_, &_)| t.waits.contains(&(lane(a), lane(b)));
        assert!(v.credit_loop.iter().zip(after).all(waits), "seed {seed}: each waits for the next");
        assert!(v.illegal.is_none_or(|buffer| is_illegal(&lane(&buffer))), "seed {seed}");
        let found = [
            ("loop", !v.credit_loop.is_empty()),
            ("dead end", v.dead_end.is_some()),
            ("no such VL", v.illegal.is_some()),
        ];
        for (what, holds) in found {
            *said.entry((what, holds)).or_insert(0) += 1;
        }
        *said.entry(("safe", v.is_safe())).or_insert(0) += 1;
    }
    assert!(some_cases().is_some() || said.len() == 8 && said.values().all(|&n| n >= 20), "{said:#?}");
}
