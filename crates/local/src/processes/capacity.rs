//! The capacity of this machine for local processes, within the limits of the server's control groups.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use muster_core::capacity::Capacity;
use muster_core::quantity::{Cpu, Memory};

/// Returns the capacity of this machine. Accelerators are counted by their devices unless `gpus` is given.
pub(super) fn of_machine(gpus: Option<u32>) -> Capacity {
    let cores = available_parallelism().map_or(1, std::num::NonZero::get);
    Capacity {
        cpu: Cpu::from_millis(u64::try_from(cores).unwrap_or(1) * 1000),
        memory: Memory::from_bytes(memory()),
        gpu: accelerators(gpus),
    }
}

/// Returns the number of accelerators: the number of devices unless `gpus` is given.
pub(super) fn accelerators(gpus: Option<u32>) -> u32 {
    gpus.unwrap_or_else(count_accelerators)
}

/// Returns the memory of the machine, or the lowest limit of the control groups of this process.
fn memory() -> u64 {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let total = read(Path::new("/proc/meminfo")).and_then(|text| parse_total(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits =
        limit_files(&groups).into_iter().filter_map(|file| read(Path::new(&file))?.trim().parse().ok());
    limits.chain(total).min().unwrap_or(u64::MAX)
}

/// Parses `MemTotal` of `/proc/meminfo`, in bytes.
fn parse_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Lists the files with memory limits of the control groups in `/proc/self/cgroup`, inner to outer. Missing files, and
/// files that contain `max`, are no limit.
fn limit_files(groups: &str) -> Vec<String> {
    let group = |line: &str| -> Option<(&str, &str, String)> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let version_one = controllers.split(',').any(|controller| controller == "memory");
        match (controllers, version_one) {
            ("", _) => Some(("/sys/fs/cgroup", "memory.max", path.to_owned())),
            (_, true) => Some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes", path.to_owned())),
            _ => None,
        }
    };
    let files = |(root, file, path): (&str, &str, String)| -> Vec<String> {
        let folders = Path::new(&path).ancestors().map(|folder| folder.display().to_string());
        folders.map(|folder| format!("{root}{}/{file}", folder.trim_end_matches('/'))).collect()
    };
    groups.lines().filter_map(group).flat_map(files).collect()
}

/// Counts NVIDIA accelerators, which have a numbered device each.
fn count_accelerators() -> u32 {
    let Ok(entries) = fs::read_dir("/dev") else { return 0 };
    let names = entries.flatten().map(|entry| entry.file_name());
    u32::try_from(names.filter(|name| name.to_str().is_some_and(is_accelerator)).count()).unwrap_or(0)
}

fn is_accelerator(name: &str) -> bool {
    let number = name.strip_prefix("nvidia");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_machine_has_cores_and_memory() {
        let capacity = of_machine(Some(3));
        assert!(capacity.cpu >= Cpu::from_millis(1000), "{capacity:?}");
        assert!(capacity.memory > Memory::from_bytes(1 << 20), "{capacity:?}");
        assert!(capacity.memory < Memory::from_bytes(1 << 60), "{capacity:?}");
        assert_eq!(capacity.gpu, 3);
    }

    #[test]
    fn the_total_is_read_in_bytes() {
        assert_eq!(parse_total("MemTotal:       24629016 kB\nMemFree: 1 kB\n"), Some(25_220_112_384));
        assert_eq!(parse_total("MemFree: 1 kB\n"), None);
    }

    #[rstest]
    #[case::version_two(
        "0::/user.slice/me\n",
        &["/sys/fs/cgroup/user.slice/me/memory.max", "/sys/fs/cgroup/user.slice/memory.max", "/sys/fs/cgroup/memory.max"]
    )]
    #[case::container("0::/\n", &["/sys/fs/cgroup/memory.max"])]
    #[case::version_one(
        "5:cpu,cpuacct:/a\n4:memory:/a\n",
        &["/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    )]
    #[case::none("", &[])]
    fn limits_of_all_enclosing_groups_count(#[case] groups: &str, #[case] files: &[&str]) {
        assert_eq!(limit_files(groups), files);
    }

    #[rstest]
    #[case("nvidia0", true)]
    #[case("nvidia12", true)]
    #[case("nvidia", false)]
    #[case("nvidiactl", false)]
    #[case("nvidia-uvm", false)]
    fn accelerators_are_numbered_devices(#[case] name: &str, #[case] counts: bool) {
        assert_eq!(is_accelerator(name), counts);
    }
}
