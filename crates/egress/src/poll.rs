//! Polls URLs: a GET request checks the health of a node.

use std::time::Duration;

use async_trait::async_trait;
use muster_core::policy::health::PollUrl;
use muster_engine::ports::probe::{PollResult, Probe};
use regex::bytes::{Regex, RegexBuilder};

use crate::destination::{admit, origin};
use crate::{Egress, read, reason, refusal};

/// The number of bytes from the start of a response in which the pattern is searched.
const READ: usize = 512 * 1024;

/// The largest compiled pattern in bytes.
const PATTERN: usize = 256 * 1024;

/// The longest time-out of one poll, in seconds.
const LONGEST: i64 = 60;

#[async_trait]
impl Probe for Egress {
    fn check_poll(&self, url: &str, options: &PollUrl) -> Result<(), String> {
        pattern(options).map_err(|error| {
            let given = &options.poll_url_healthy_response;
            format!("'poll_url_healthy_response' is '{given}': must be a regular expression: {error}")
        })?;
        admit(&self.rule, url).map(drop).map_err(|refused| refused.to_string())
    }

    async fn poll(&self, url: &str, options: &PollUrl) -> PollResult {
        let url = match admit(&self.rule, url) {
            Ok(url) => url,
            Err(refused) => return not_polled(&refused.to_string()),
        };
        let pattern = match pattern(options) {
            Ok(pattern) => pattern,
            Err(error) => return not_polled(&error.to_string()),
        };
        let origin = origin(&url);
        let client = if options.poll_url_ssl_verify { &self.polls } else { &self.unverified_polls };
        let response = client.get(url).timeout(within(options)).send().await;
        let polled = match response {
            Ok(answer) if answer.status().is_success() => match read::read_at_most(answer, READ).await {
                Ok(answer) if pattern.is_match(&answer) => PollResult::Healthy,
                Ok(_) => {
                    PollResult::Unhealthy("the response does not match poll_url_healthy_response".to_owned())
                }
                Err(error) => PollResult::Unreachable(reason(&error)),
            },
            Ok(answer) => PollResult::Unhealthy(format!("the response has status {}", answer.status())),
            Err(error) => match refusal(&error) {
                Some(refused) => return not_polled(&refused.to_string()),
                None => PollResult::Unreachable(reason(&error)),
            },
        };
        tracing::debug!(origin, ?polled, "polled");
        polled
    }
}

/// The result for a URL that is not polled: the health of the node stays unknown.
fn not_polled(why: &str) -> PollResult {
    tracing::warn!(why, "a poll URL is not polled, so its nodes count as healthy");
    PollResult::NotAllowed
}

/// Compiles the pattern of a healthy response; an empty one matches every response.
fn pattern(options: &PollUrl) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&options.poll_url_healthy_response).size_limit(PATTERN).build()
}

/// The time-out of a poll: a tenth of the interval between polls, and at least a second.
fn within(options: &PollUrl) -> Duration {
    let millis = options.poll_url_retry_interval.saturating_mul(100).clamp(1_000, LONGEST * 1_000);
    Duration::from_millis(millis.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn options(pattern: &str, interval: i64) -> PollUrl {
        PollUrl {
            poll_url: String::new(),
            poll_url_ssl_verify: true,
            poll_url_conn_error_as_unhealthy: true,
            poll_url_healthy_response: pattern.to_owned(),
            poll_url_retry_limit: 3,
            poll_url_retry_interval: interval,
        }
    }

    #[rstest]
    #[case(0, 1_000)]
    #[case(3, 1_000)]
    #[case(30, 3_000)]
    #[case(-1, 1_000)]
    #[case(i64::MAX, 60_000)]
    fn a_poll_has_a_tenth_of_the_interval_and_at_least_a_second(#[case] interval: i64, #[case] millis: u64) {
        assert_eq!(within(&options("", interval)), Duration::from_millis(millis));
    }

    #[rstest]
    #[case("", "anything", true)]
    #[case("", "", true)]
    #[case("up|ok", "all is ok here", true)]
    #[case("^ok$", "all is ok here", false)]
    fn a_pattern_may_match_anywhere(#[case] wanted: &str, #[case] answer: &str, #[case] found: bool) {
        assert_eq!(pattern(&options(wanted, 3)).unwrap().is_match(answer.as_bytes()), found);
    }
}
