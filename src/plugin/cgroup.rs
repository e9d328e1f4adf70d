//! The memory that the control groups of the process leave.

use std::fs;
use std::path::{Path, PathBuf};

/// The names of one version of control groups.
struct Names {
    limit: &'static str,
    usage: &'static str,
    /// In `memory.stat`: file pages that the kernel drops before it fails an allocation.
    reclaimable: &'static str,
}

const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
const V2: Names = Names { limit: "memory.max", usage: "memory.current", reclaimable: "inactive_file" };

/// Bytes available under the tightest limit, and its file; `None` if there is no limit.
pub(super) fn available() -> Option<(usize, PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    available_in(&groups, &fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// - `groups`, `mounts`: `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn available_in(groups: &str, mounts: &str) -> Option<(usize, PathBuf)> {
    mounts.lines().filter_map(|mount| of_mount(mount, groups)).min()
}

/// The tightest limit in one hierarchy, from the group of the process up to the mount.
fn of_mount(mount: &str, groups: &str) -> Option<(usize, PathBuf)> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, at) = (place.next()?, Path::new(place.next()?));
    let mut kind = kind.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
    let has_memory = |list: &str| list.split(',').any(|one| one == "memory");
    let (names, own): (_, fn(&str) -> bool) = match kind {
        "cgroup2" => (V2, str::is_empty),
        "cgroup" if has_memory(options) => (V1, |list| list.split(',').any(|one| one == "memory")),
        _ => return None,
    };
    // Lines such as `4:memory:/system.slice/opensm.service`.
    let group = groups.lines().find_map(|line| {
        let (list, group) = line.split_once(':')?.1.split_once(':')?;
        own(list).then_some(group)
    })?;
    // In a container the mount shows only a part of the tree.
    let below = Path::new(group).strip_prefix(root).or_else(|_| Path::new(group).strip_prefix("/")).ok()?;
    let mut folder = at.join(below);
    let mut tightest = None;
    while folder.starts_with(at) {
        let here = of_group(&folder, &names).map(|bytes| (bytes, folder.join(names.limit)));
        tightest = tightest.into_iter().chain(here).min();
        if !folder.pop() {
            break;
        }
    }
    tightest
}

fn of_group(folder: &Path, names: &Names) -> Option<usize> {
    let number = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<usize>().ok();
    // "max" in version 2 is not a number; no limit in version 1 is a number larger than any memory.
    let (limit, usage) = (number(names.limit)?, number(names.usage)?);
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let reclaimable = stat.lines().find_map(|line| line.strip_prefix(names.reclaimable)?.trim().parse().ok());
    Some(limit.saturating_sub(usage.saturating_sub(reclaimable.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).expect("a folder");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("it is written");
        }
    }

    #[test]
    fn the_tightest_limit_of_version_2_counts() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let at = root.path();
        put(at, &[("memory.max", "max\n"), ("memory.current", "5000\n")]);
        let slice = [
            ("memory.max", "9000\n"),
            ("memory.current", "8000\n"),
            ("memory.stat", "anon 1\ninactive_file 300\n"),
        ];
        put(&at.join("a.slice"), &slice);
        put(&at.join("a.slice/b.service"), &[("memory.max", "7000\n"), ("memory.current", "1000\n")]);
        let mounts = format!(
            "29 23 0:26 / /sys rw - sysfs sysfs rw\n30 29 0:27 / {} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
            at.display()
        );
        let found = available_in("0::/a.slice/b.service\n", &mounts);
        assert_eq!(found, Some((1300, at.join("a.slice/memory.max"))));
        assert_eq!(available_in("0::/\n", &mounts), None);
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let at = root.path();
        let files = [("memory.limit_in_bytes", "4096\n"), ("memory.usage_in_bytes", "1000\n")];
        put(&at.join("x"), &files);
        put(at, &[("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "1\n")]);
        // A container: the mount shows the tree from /docker on.
        let mounts = format!("30 29 0:27 /docker {} rw - cgroup cgroup rw,memory\n", at.display());
        let found = available_in("5:cpu,cpuacct:/\n4:memory:/docker/x\n", &mounts);
        assert_eq!(found, Some((3096, at.join("x/memory.limit_in_bytes"))));
    }
}
