//! Processor time and memory of a process, as the kernel counts them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The unit in which the kernel reports processor time, whatever its own clock is.
const TICK: Duration = Duration::from_millis(10);

/// Measures the processor time of a process: of all its threads, in user and kernel mode.
pub struct Meter {
    pid: u32,
    before: Duration,
}

impl Meter {
    /// Starts to measure.
    pub fn start(pid: u32) -> Result<Self> {
        Ok(Self { pid, before: processor_time(pid)? })
    }

    /// The processor time since the start.
    pub fn used(&self) -> Result<Duration> {
        Ok(processor_time(self.pid)?.saturating_sub(self.before))
    }

    /// The processor time until the process has been idle for `quiet`; periodic work does not prevent that.
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

/// The sum of fields 14 and 15, counted from the end of the name, which may contain any character.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let (own, kernel): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(own + kernel)
}

/// The resident memory of a process in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    memory(pid, "VmRSS:")
}

/// The peak of the resident memory of a process in bytes.
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
    fn times_are_found_after_any_name() {
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
