//! Paths to one target on a grid with missing links or switches.

use super::{BROKEN, HOME, Slot, distance};
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{Datelines, Grid};
use crate::routing::{Hops, adapters_by_switch};

/// What all targets share.
pub(super) struct Escape<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    grid: &'a Grid,
    datelines: &'a Datelines,
    adapters: Vec<u64>,
    /// Switches by their distance from the root of up*/down*, then by number.
    order: Vec<SwitchId>,
    /// By switch: its index in `order`.
    position: Vec<u32>,
    sidesteps: bool,
}

/// The path of a switch to the target.
#[derive(Clone, Copy)]
struct Path {
    hops: u16,
    /// Whether it leads through a switch that left dimension order.
    escaped: bool,
    /// Whether it obeys up*/down*.
    legal: bool,
    /// Whether it only goes down.
    down: bool,
}

/// What is known of a path.
#[derive(Clone, Copy)]
enum State {
    Unknown,
    Open,
    /// It does not reach the target.
    Lost,
    Known(Path),
}

impl<'a> Escape<'a> {
    pub(super) fn new(
        fabric: &'a Fabric,
        hops: &'a Hops,
        grid: &'a Grid,
        datelines: &'a Datelines,
        root: SwitchId,
        sidesteps: bool,
    ) -> Self {
        let mut order: Vec<SwitchId> = fabric.switch_ids().collect();
        order.sort_by_key(|&s| (hops.get(root, s), s));
        let mut position = vec![0; order.len()];
        for (i, s) in order.iter().enumerate() {
            position[s.index()] = i as u32;
        }
        Self {
            fabric,
            hops,
            grid,
            datelines,
            adapters: adapters_by_switch(fabric),
            order,
            position,
            sidesteps,
        }
    }

    /// Fills the slots to a target, and says how paths [start](super::GridRoutes::starts). Returns the pairs of adapters
    /// on detours.
    pub(super) fn route(&self, target: SwitchId, slots: &mut [Slot], starts: &mut [u8]) -> u64 {
        let next = |s: usize| self.in_dimension_order(SwitchId::at(s), target);
        slots.iter_mut().enumerate().for_each(|(s, slot)| *slot = next(s));
        let mut paths = self.paths(target, slots, &vec![false; slots.len()]);
        if self.sidesteps {
            for (s, _) in paths.iter().enumerate().filter(|(_, path)| matches!(path, State::Lost)) {
                slots[s] = self.best_sidestep(s, target, slots, &paths);
                starts[s] = if slots[s] == BROKEN { Datelines::ESCAPES } else { slots[s] };
            }
            paths = self.paths(target, slots, &vec![false; slots.len()]);
        }
        if paths.iter().any(|path| matches!(path, State::Lost)) {
            let up_down = self.up_down(target, slots);
            let mut moved: Vec<bool> = slots.iter().map(|&slot| slot == BROKEN).collect();
            loop {
                for (s, slot) in slots.iter_mut().enumerate().filter(|(s, _)| moved[*s]) {
                    *slot = up_down[s];
                }
                paths = self.paths(target, slots, &moved);
                if !self.move_more(slots, &paths, &mut moved) {
                    break;
                }
            }
        }
        let mut detours = 0;
        for (s, path) in paths.iter().enumerate() {
            let State::Known(path) = path else { unreachable!("up*/down* reaches every switch") };
            if path.escaped {
                starts[s] = Datelines::ESCAPES;
            }
            if path.hops > u16::from(self.hops.get(SwitchId::at(s), target)) {
                detours += self.adapters[s] * self.adapters[target.index()];
            }
        }
        detours
    }

    /// The next step in dimension order. Where only the long way is left, that is taken without sidesteps, and in the
    /// last dimension: a step in another dimension does not help there, as packets would come back first.
    fn in_dimension_order(&self, s: SwitchId, target: SwitchId) -> Slot {
        let Some((i, up)) = self.datelines.way(self.grid, s, target) else { return HOME };
        let dimensions = self.grid.dimensions();
        let long_way = dimensions[i].ring && (!self.sidesteps || i + 1 == dimensions.len());
        let open = |up: bool| self.grid.reach(s, i, up) >= distance(self.grid, s, target, i, up);
        if open(up) {
            Datelines::sidestep(i, up)
        } else if long_way && open(!up) {
            Datelines::sidestep(i, !up)
        } else {
            BROKEN
        }
    }

    /// The step to the neighbour with the shortest path in dimension order. Of several, which one is taken depends on
    /// the target.
    fn best_sidestep(&self, s: usize, target: SwitchId, slots: &[Slot], paths: &[State]) -> Slot {
        let width = 2 * self.grid.dimensions().len();
        let continues = |slot: Slot, next: usize| {
            // On from the first step in a ring, the VL would be that of the steps after.
            let (dimension, _) = Datelines::dimension_and_direction(slot);
            slots[next] == slot && self.datelines.is_by_entry(dimension)
        };
        let steps = (0..width as Slot).filter_map(|slot| match paths[self.step(s, slot)?] {
            State::Known(_) if continues(slot, self.step(s, slot)?) => None,
            State::Known(path) => Some((path.hops, (usize::from(slot) + target.index()) % width, slot)),
            _ => None,
        });
        steps.min().map_or(BROKEN, |(.., slot)| slot)
    }

    fn step(&self, s: usize, slot: Slot) -> Option<usize> {
        let (i, up) = Datelines::dimension_and_direction(slot);
        self.grid.step(self.fabric, SwitchId::at(s), i, up).map(SwitchId::index)
    }

    /// The path of each switch.
    fn paths(&self, target: SwitchId, slots: &[Slot], moved: &[bool]) -> Vec<State> {
        let mut states = vec![State::Unknown; slots.len()];
        let home = Path { hops: 0, escaped: false, legal: true, down: true };
        states[target.index()] = State::Known(home);
        let mut walked = Vec::new();
        for start in 0..slots.len() {
            let mut at = start;
            let mut end = loop {
                match states[at] {
                    State::Unknown => {}
                    State::Open => break State::Lost,
                    known => break known,
                }
                let next = if slots[at] == BROKEN { None } else { self.step(at, slots[at]) };
                states[at] = State::Open;
                walked.push(at);
                match next {
                    Some(next) => at = next,
                    None => break State::Lost,
                }
            };
            let mut before = at;
            while let Some(s) = walked.pop() {
                if let State::Known(path) = &mut end {
                    let up = self.position[before] < self.position[s];
                    path.hops += 1;
                    path.escaped |= moved[s];
                    path.legal &= up || path.down;
                    path.down &= !up;
                }
                states[s] = end;
                before = s;
            }
        }
        states
    }

    /// The next steps of up*/down*, those of dimension order first: down where that is possible, which is the same for
    /// all switches before; otherwise up.
    fn up_down(&self, target: SwitchId, slots: &[Slot]) -> Vec<Slot> {
        let width = 2 * self.grid.dimensions().len();
        let n = slots.len();
        let (mut hops, mut only_down) = (vec![u32::MAX; n], vec![false; n]);
        (hops[target.index()], only_down[target.index()]) = (0, true);
        let mut queue = vec![target.index()];
        let mut at = 0;
        while let Some(&s) = queue.get(at) {
            at += 1;
            for before in (0..width).filter_map(|slot| self.step(s, slot as Slot)) {
                if self.position[before] < self.position[s] && hops[before] == u32::MAX {
                    (hops[before], only_down[before]) = (hops[s] + 1, true);
                    queue.push(before);
                }
            }
        }
        let mut best = vec![HOME; n];
        for s in self.order.iter().map(|s| s.index()).filter(|&s| s != target.index()) {
            let allowed = |next: usize| match only_down[s] {
                true => only_down[next] && self.position[next] > self.position[s],
                false => self.position[next] < self.position[s],
            };
            let steps = (0..width as Slot).filter_map(|slot| Some((slot, self.step(s, slot)?)));
            let steps = steps.filter(|&(_, next)| allowed(next));
            let key = |&(slot, next): &(Slot, usize)| {
                (hops[next], slot != slots[s], (usize::from(slot) + target.index()) % width)
            };
            if let Some((slot, next)) = steps.min_by_key(key) {
                best[s] = slot;
                hops[s] = hops[next] + 1;
            }
        }
        best
    }

    /// Moves switches whose paths are lost or escape without obeying up*/down*. Returns whether there were any.
    ///
    /// A path of moved switches alone is legal, so this ends.
    fn move_more(&self, slots: &[Slot], paths: &[State], moved: &mut [bool]) -> bool {
        let mut more = Vec::new();
        for (s, path) in paths.iter().enumerate() {
            match path {
                State::Known(path) if path.legal || !path.escaped => {}
                _ if !moved[s] => more.push(s),
                // The switch after it is to blame, if not one that follows.
                _ => more.extend(self.step(s, slots[s]).filter(|&next| !moved[next] && slots[next] != HOME)),
            }
        }
        let any = !more.is_empty();
        more.into_iter().for_each(|s| moved[s] = true);
        any
    }
}
