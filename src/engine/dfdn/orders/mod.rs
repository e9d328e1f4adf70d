//! The orders of the links that `dfdn` tries.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::engine::Task;
use crate::fabric::{Fabric, Guid, SwitchId};
use crate::lanes::LaneLimits;
use crate::ordering::{
    Dimensions, Rank, Rule, Tree, global_links_first, host_levels, leaf_links_last, up_down_from,
    up_down_rank,
};
use crate::routing::Hops;

/// An order of the links: how to order the links around a root.
struct Entry {
    name: &'static str,
    /// `None` if the fabric has no such order.
    make: MakeOrder,
    /// The roots that the search tries.
    roots: Roots,
    /// Whether hardly more than one path per pair ascends, so that the load makes little difference.
    one_path: bool,
    /// The rules for stable tables, each with its place in the sequence: the lowest number is tried first.
    stable: &'static [(u8, MakeRule)],
}

/// An order and a tree, by the dimensions of a grid and a root.
type MakeOrder = fn(&Fabric, Option<&Dimensions>, SwitchId) -> Option<(Rank, Tree)>;

/// A rule under an order.
type MakeRule = fn(Rank) -> Rule;

/// Which switches are roots of an order in the search.
#[derive(PartialEq, Eq)]
enum Roots {
    /// The switch that is farthest from another one: a corner of a grid.
    Corner,
    /// The switch with the lowest distances to all others.
    Center,
    /// See [`fullest`].
    Fullest,
    /// Several switches, leaves among them; the name states the root.
    Several,
}

/// It is also routed before anything is searched: see [`dimension_order`].
const DIMENSION_ORDER: Entry = Entry {
    name: "dimension by dimension",
    make: |fabric, dimensions, root| {
        dimensions.map(|d| with_shortest_tree(fabric, d.dimension_order(fabric, root), root))
    },
    roots: Roots::Corner,
    one_path: true,
    stable: &[(0, Rule::FirstTurnFree)],
};

/// On a damaged grid its tree leads where dimension order does not.
const DIMENSION_TREES: Entry = Entry {
    name: "trees by dimension",
    make: |fabric, dimensions, root| {
        let rank = dimensions?.dimension_trees(fabric, root);
        let tree = Tree::lowest(fabric, &rank, SwitchId(0));
        Some((rank, tree))
    },
    roots: Roots::Corner,
    one_path: true,
    stable: &[],
};

/// All orders, in the sequence of the search. A new order is a file in this folder and a line here.
///
/// For stable tables the orders of grids are tried first, with the first turn free. On one VL hardly more
/// than one path per pair is legal, and the first failed links would select another rule.
const REGISTRY: &[Entry] = &[
    DIMENSION_ORDER,
    DIMENSION_TREES,
    Entry {
        name: "host levels",
        make: |fabric, _, root| {
            Some(with_shortest_tree(fabric, host_levels(fabric, leaf_adapters(fabric)), root))
        },
        roots: Roots::Center,
        one_path: false,
        stable: &[(3, Rule::FirstTurnFree)],
    },
    Entry {
        name: "links between leaves last",
        make: |fabric, _, root| leaf_links_last(fabric, leaf_adapters(fabric), root),
        roots: Roots::Fullest,
        one_path: false,
        stable: &[(2, Rule::FirstTurnFree)],
    },
    Entry {
        name: "global links first",
        make: |fabric, _, root| Some(with_shortest_tree(fabric, global_links_first(fabric, root), root)),
        roots: Roots::Center,
        one_path: false,
        stable: &[(4, Rule::FirstTurnFree)],
    },
    Entry {
        name: "up*/down*",
        make: |fabric, _, root| Some(with_shortest_tree(fabric, up_down_rank(fabric, root), root)),
        roots: Roots::Several,
        one_path: false,
        stable: &[(1, Rule::OneVl), (5, Rule::FirstTurnFree)],
    },
];

impl Entry {
    fn order(&self, fabric: &Fabric, dimensions: Option<&Dimensions>, root: SwitchId) -> Option<LinkOrder> {
        let (rank, tree) = (self.make)(fabric, dimensions, root)?;
        let name = match self.roots {
            Roots::Several => format!("{} from {}", self.name, fabric.switch(root).description),
            Roots::Corner | Roots::Center | Roots::Fullest => self.name.to_owned(),
        };
        Some(LinkOrder { name, rank, tree, one_path: self.one_path })
    }
}

fn with_shortest_tree(fabric: &Fabric, rank: Rank, root: SwitchId) -> (Rank, Tree) {
    let tree = Tree::new(fabric, &rank, root);
    (rank, tree)
}

/// How many adapters make a leaf: a quarter of those of the switch with the most.
fn leaf_adapters(fabric: &Fabric) -> usize {
    fabric.switch_ids().map(|s| fabric.num_adapters_on(s)).max().unwrap_or(0).div_ceil(4)
}

/// The first switch with the most adapters; of these, with the most links, then with neighbours that have the most, or but one
/// less. As a root, a leaf that has lost some would join few of the spines of a tree, and others would be left over. A single
/// link beyond does not matter, so its failure leaves the root where it is.
fn fullest(fabric: &Fabric) -> Option<SwitchId> {
    let links = |s: SwitchId| fabric.channels().out_range(s).len();
    let beyond = |s: SwitchId| fabric.channels().out(s).map(|(_, c)| links(c.to)).sum::<usize>();
    let key = |s: SwitchId| (fabric.num_adapters_on(s), links(s), beyond(s));
    let (adapters, most, beyond) = fabric.switch_ids().map(key).max()?;
    fabric.switch_ids().find(|&s| key(s) >= (adapters, most, beyond.saturating_sub(1)))
}

/// An order of the links with a tree.
pub(super) struct LinkOrder {
    pub(super) name: String,
    pub(super) rank: Rank,
    pub(super) tree: Tree,
    /// Whether hardly more than one path per pair ascends, so that the load makes little difference.
    pub(super) one_path: bool,
}

impl LinkOrder {
    /// The rules that the search makes of it as it is: on one VL, and with the first turn free.
    pub(super) fn plain_rules(&self, limits: LaneLimits) -> impl Iterator<Item = Rule> {
        let kinds: [MakeRule; 2] = [Rule::OneVl, Rule::FirstTurnFree];
        kinds.into_iter().map(|kind| kind(self.rank.clone())).filter(move |rule| rule.vls() <= limits.vls)
    }
}

/// Dimension order on a grid; `None` elsewhere.
pub(super) fn dimension_order(task: Task<'_>) -> Option<LinkOrder> {
    DIMENSION_ORDER.order(task.fabric, Some(task.dimensions()?), corner(task))
}

/// Trees by dimension on a grid; `None` elsewhere.
pub(super) fn dimension_trees(task: Task<'_>) -> Option<LinkOrder> {
    DIMENSION_TREES.order(task.fabric, Some(task.dimensions()?), corner(task))
}

/// The switch that is farthest from another one.
fn corner(Task { fabric, hops, .. }: Task<'_>) -> SwitchId {
    fabric.switch_ids().max_by_key(|&s| (eccentricity(hops, s), Reverse(s))).unwrap_or(SwitchId(0))
}

/// The distance to the farthest switch.
fn eccentricity(hops: &Hops, s: SwitchId) -> Option<u8> {
    hops.row(s).iter().copied().max()
}

/// The orders for the search. Up*/down* from the roots that the administrator names is tried first.
pub(super) fn orders(task: Task<'_>) -> Vec<Arc<LinkOrder>> {
    let Task { fabric, hops, settings, .. } = task;
    let n = fabric.num_switches();
    let center = fabric.switch_ids().min_by_key(|&s| eccentricity(hops, s)).unwrap_or(SwitchId(0));
    let corner = corner(task);
    let mut several: Vec<SwitchId> = Vec::new();
    let spread = (0..4).map(|i| SwitchId::at(i * n / 4));
    let fullest = fullest(fabric).unwrap_or(SwitchId(0));
    // Not the fullest: on a grid, where all have as many adapters, that would be one more root.
    let leaf = fabric.switch_ids().max_by_key(|&s| (fabric.num_adapters_on(s), Reverse(s)));
    for root in spread.chain([SwitchId::at(n - 1), leaf.unwrap_or(SwitchId(0)), center]) {
        if !several.contains(&root) {
            several.push(root);
        }
    }
    let mut list: Vec<LinkOrder> = from_named(fabric, &settings.roots).into_iter().collect();
    for entry in REGISTRY {
        let roots = match entry.roots {
            Roots::Corner => &[corner][..],
            Roots::Center => &[center],
            Roots::Fullest => &[fullest],
            Roots::Several => &several,
        };
        list.extend(roots.iter().filter_map(|&root| entry.order(fabric, task.dimensions(), root)));
    }
    list.into_iter().map(Arc::new).collect()
}

/// Up*/down* from the switches with these node or port GUIDs; `None` where the fabric has none of them.
fn from_named(fabric: &Fabric, guids: &[Guid]) -> Option<LinkOrder> {
    let named = |s: &SwitchId| {
        let node = fabric.switch(*s);
        guids.contains(&node.guid) || guids.contains(&node.ports[0].guid)
    };
    if guids.is_empty() {
        return None;
    }
    let roots: Vec<SwitchId> = fabric.switch_ids().filter(named).collect();
    let first = *roots.first()?;
    let rank = up_down_from(fabric, &roots);
    let tree = Tree::new(fabric, &rank, first);
    let name = format!("up*/down* from {} named roots", roots.len());
    Some(LinkOrder { name, rank, tree, one_path: false })
}

/// The candidates for stable tables in a fixed sequence, each built when it is requested: up*/down* from the roots that
/// the administrator names, then the registry's. The root of these is the [fullest](fullest) switch.
pub(super) fn stable(task: Task<'_>) -> impl Iterator<Item = (LinkOrder, Rule)> {
    let Task { fabric, settings, .. } = task;
    let kinds: [MakeRule; 2] = [Rule::OneVl, Rule::FirstTurnFree];
    let named = kinds.into_iter().filter_map(|kind| {
        let order = from_named(fabric, &settings.roots)?;
        let rule = kind(order.rank.clone());
        Some((order, rule))
    });
    let root = fullest(fabric);
    let mut list: Vec<_> =
        REGISTRY.iter().flat_map(|entry| entry.stable.iter().map(move |kind| (kind, entry))).collect();
    list.sort_by_key(|((number, _), _)| *number);
    named.chain(list.into_iter().filter_map(move |((_, kind), entry)| {
        let order = entry.order(fabric, task.dimensions(), root?)?;
        let rule = kind(order.rank.clone());
        Some((order, rule))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::dfdn::tests::with_task;
    use crate::engine::{Listed, Settings};
    use crate::topology::{FatTree, HyperX, fail_links, small_members};

    /// What a task comes to whose settings name these roots.
    fn with_roots<T>(fabric: &Fabric, roots: &[Guid], run: impl FnOnce(Task<'_>) -> T) -> T {
        let roots = Listed { path: None, entries: roots.to_vec() };
        let settings = Settings { roots, ..Settings::default() };
        with_task(fabric, &settings, run).expect("it can be routed")
    }

    #[test]
    fn the_registry_has_each_name_and_each_number_once() {
        let mut names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
        let mut numbers: Vec<u8> =
            REGISTRY.iter().flat_map(|entry| entry.stable.iter().map(|&(number, _)| number)).collect();
        let (all, kinds) = (names.len(), numbers.len());
        names.sort_unstable();
        names.dedup();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((names.len(), numbers.len()), (all, kinds));
    }

    #[test]
    fn the_search_has_an_order_for_every_entry() {
        let grid = HyperX { dims: vec![4, 3], cas: 1 }.build().unwrap();
        for (name, f) in small_members().into_iter().chain([("a grid", grid)]) {
            let orders = with_roots(&f, &[], orders);
            let grid = Dimensions::find(&f).is_some();
            for entry in REGISTRY {
                let has_one = orders.iter().any(|order| order.name.starts_with(entry.name));
                let may_have_one = match entry.roots {
                    Roots::Corner => grid,
                    Roots::Fullest => ["grown", "rails"].contains(&name),
                    Roots::Center | Roots::Several => true,
                };
                assert_eq!(has_one, may_have_one, "{name}: {}", entry.name);
            }
        }
    }

    #[test]
    fn no_leaf_that_has_lost_a_link_is_a_root() {
        let tree = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
        let links = |f: &Fabric, s: SwitchId| f.channels().out_range(s).len();
        let first = fullest(&tree).unwrap();
        let mut met = 0;
        for seed in 1..=40 {
            let f = fail_links(&tree, 12, seed).unwrap();
            let root = fullest(&f).unwrap();
            assert_eq!((f.num_adapters_on(root), links(&f, root)), (4, 4));
            if links(&f, first) < 4 {
                assert_ne!(root, first);
                met += 1;
            }
        }
        assert!(met > 0);
    }

    #[test]
    fn named_roots_come_first_where_they_are_in_the_fabric() {
        let f = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let spines: Vec<Guid> =
            (f.switch_ids().filter(|&s| f.num_adapters_on(s) == 0)).map(|s| f.switch(s).guid).collect();
        let plain = with_roots(&f, &[], orders);
        for nobody in [&[][..], &[Guid(0x99)]] {
            assert_eq!(with_roots(&f, nobody, orders).len(), plain.len());
        }
        let name = format!("up*/down* from {} named roots", spines.len());
        assert!(with_roots(&f, &spines, orders)[0].name.starts_with(&name));
        let (order, _) = with_roots(&f, &spines, |task| stable(task).next().expect("a candidate"));
        assert_eq!(order.name, name);
        // From the spines all ups come before all downs.
        let leaf = |s: SwitchId| f.num_adapters_on(s) > 0;
        let ups = f.channels().iter().filter(|(_, c)| leaf(c.from)).map(|(id, _)| order.rank.of(id)).max();
        let downs = f.channels().iter().filter(|(_, c)| leaf(c.to)).map(|(id, _)| order.rank.of(id)).min();
        assert!(ups < downs);
    }
}
