//! What a process costs, as the kernel counts it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The kernel tells of processor time in hundredths of a second, whatever it counts in itself.
const TICK: Duration = Duration::from_millis(10);

/// Counts the processor time of a process from a moment on, of all its threads, in its own code and in the kernel's.
pub struct Meter {
    pid: u32,
    before: Duration,
}

impl Meter {
    /// Begins to count.
    pub fn start(pid: u32) -> Result<Self> {
        Ok(Self { pid, before: processor_time(pid)? })
    }

    /// What the process has used since.
    pub fn used(&self) -> Result<Duration> {
        Ok(processor_time(self.pid)?.saturating_sub(self.before))
    }

    /// The same, once it uses nothing any more for so long; what it does by the clock all the time does not count.
    pub async fn used_until_quiet(&self, quiet: Duration, longest: Duration) -> Result<Duration> {
        let started = Instant::now();
        let mut used = self.used()?;
        loop {
            tokio::time::sleep(quiet).await;
            let now = self.used()?;
            if now.saturating_sub(used) <= TICK || started.elapsed() > longest {
                return Ok(now);
            }
            used = now;
        }
    }
}

/// The processor time of a process so far.
fn processor_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks(&stat).with_context(|| format!("cannot read the times in '{}'", stat.trim()))?;
    Ok(TICK * ticks)
}

/// The fields 14 and 15; counted from behind the name, which may hold anything.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let (own, kernel): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(own + kernel)
}

/// The resident memory of a process in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    memory(pid, "VmRSS:")
}

/// The most resident memory that it ever had, in bytes.
pub fn peak(pid: u32) -> Result<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, field: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let line = line.with_context(|| format!("no {field}"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("nothing"), None);
    }

    #[test]
    fn a_process_was_never_larger_than_at_its_peak() {
        let own = std::process::id();
        assert!(resident(own).unwrap() <= peak(own).unwrap());
    }
}
