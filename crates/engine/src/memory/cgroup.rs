//! The memory limits of the control groups that the process is in, version 2 and version 1.
//!
//! A group's limit holds for all groups below it, so the process's own group and every ancestor that can be seen are asked.
//! Page cache counts as use there but gives way, so what is inactive of it counts as free.

use std::path::{Path, PathBuf};

/// What each group with a limit has left, by its folder. `groups` and `mounts` are `/proc/self/cgroup` and
/// `/proc/self/mountinfo`.
pub(super) fn headroom(groups: &str, mounts: &str) -> Vec<(PathBuf, usize)> {
    let mut found = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let Some(group) = groups.lines().find_map(|line| mount.version.group(line)) else { continue };
        for folder in mount.folders(group) {
            if let Some(left) = left(&folder, mount.version) {
                found.push((folder, left));
            }
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// The path of the process's group, if this line of `/proc/self/cgroup` names it: `4:memory:/a` or `0::/a`.
    fn group(self, line: &str) -> Option<&str> {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let names_it = match self {
            Version::V1 => controllers.split(',').any(|c| c == "memory"),
            Version::V2 => id == "0" && controllers.is_empty(),
        };
        names_it.then_some(path)
    }
}

/// Where a hierarchy of groups is to be seen.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A line of `/proc/self/mountinfo`: `35 31 0:32 ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS`.
    fn parse(line: &str) -> Option<Mount> {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let version = match kind {
            "cgroup2" => Version::V2,
            "cgroup" if options.split(',').any(|o| o == "memory") => Version::V1,
            _ => return None,
        };
        let mut fields = mount.split(' ').skip(3);
        Some(Mount { version, root: unescaped(fields.next()?), point: unescaped(fields.next()?) })
    }

    /// The folders of a group and its ancestors, up to the mount point.
    fn folders(&self, group: &str) -> Vec<PathBuf> {
        let group = Path::new(group);
        // A group outside of what is mounted can't be seen; its ancestor at the mount point can.
        let below = group.strip_prefix(&self.root).unwrap_or(Path::new(""));
        below.ancestors().map(|below| self.point.join(below)).collect()
    }
}

/// Spaces and the like are written as octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    PathBuf::from(out)
}

/// What the group in `folder` has left, if it has a limit.
fn left(folder: &Path, version: Version) -> Option<usize> {
    let (limit, used, inactive) = match version {
        Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        Version::V2 => ("memory.max", "memory.current", "inactive_file"),
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<usize>().ok();
    let limit = number(limit)?;
    // Version 1 says that there is no limit by one that no machine has.
    if limit > (1 << 60) {
        return None;
    }
    let used = number(used)?;
    let gives_way = read("memory.stat").and_then(|text| field(&text, inactive)).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(gives_way)))
}

fn field(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find(|l| l.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("minfer-cgroup-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn write(&self, group: &str, files: &[(&str, &str)]) {
            let folder = self.0.join(group);
            std::fs::create_dir_all(&folder).unwrap();
            for (name, text) in files {
                std::fs::write(folder.join(name), text).unwrap();
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn sorted(mut found: Vec<(PathBuf, usize)>) -> Vec<usize> {
        found.sort();
        found.into_iter().map(|f| f.1).collect()
    }

    #[test]
    fn nested_groups_of_version_2_all_count() {
        let folder = Folder::new("v2");
        folder.write("a", &[("memory.max", "1000\n"), ("memory.current", "300\n")]);
        let stat = "file 250\ninactive_file 100\n";
        folder.write("a/b", &[("memory.max", "500\n"), ("memory.current", "300\n"), ("memory.stat", stat)]);
        folder.write("a/b/c", &[("memory.max", "max\n"), ("memory.current", "300\n")]);
        let mounts = format!("36 35 0:28 / {} rw - cgroup2 cgroup2 rw\n", folder.0.display());
        assert_eq!(sorted(headroom("0::/a/b/c\n", &mounts)), [700, 300]);
        assert_eq!(sorted(headroom("0::/a\n", &mounts)), [700]);
        assert!(headroom("4:memory:/a\n", &mounts).is_empty());
    }

    #[test]
    fn a_group_of_version_1_is_found_among_the_hierarchies() {
        let folder = Folder::new("v1");
        let stat = "inactive_file 1\ntotal_inactive_file 50\n";
        let files =
            [("memory.limit_in_bytes", "800"), ("memory.usage_in_bytes", "600"), ("memory.stat", stat)];
        folder.write("x", &files);
        folder.write("", &[("memory.limit_in_bytes", "9223372036854771712"), ("memory.usage_in_bytes", "1")]);
        let mounts = format!(
            "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             35 31 0:32 / {} rw shared:9 - cgroup cgroup rw,memory\n",
            folder.0.display()
        );
        assert_eq!(sorted(headroom("3:cpu:/y\n4:memory:/x\n0::/\n", &mounts)), [250]);
    }

    #[test]
    fn in_a_container_the_mount_shows_the_group_itself() {
        let folder = Folder::new("own");
        folder.write("", &[("memory.max", "100"), ("memory.current", "10")]);
        let mounts = format!("36 35 0:28 /pods/7 {} rw - cgroup2 cgroup rw\n", folder.0.display());
        for group in ["0::/pods/7", "0::/somewhere/else", "0::/"] {
            assert_eq!(sorted(headroom(group, &mounts)), [90], "{group}");
        }
    }

    #[test]
    fn odd_lines_are_passed_over() {
        for mounts in ["", "x", "1 2 3 - cgroup2", "1 2 3 / - cgroup2 a b", "1 2 3 / /p rw - tmpfs t rw"] {
            assert!(headroom("0::/\n::\nx", mounts).is_empty(), "{mounts}");
        }
        assert_eq!(unescaped(r"/a\040b\134\x"), PathBuf::from(r"/a b\\x"));
    }
}
