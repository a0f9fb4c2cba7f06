//! Poll URLs: nodes are asked how they are by a GET.

use std::time::Duration;

use async_trait::async_trait;
use muster_core::policy::health::PollUrl;
use muster_engine::ports::probe::{PollResult, Probe};
use regex::bytes::{Regex, RegexBuilder};
use reqwest::Response;

use super::destination::{admit, place};
use super::{Egress, reason, refusal};

/// Where a pattern is looked for: at most in the beginning of an answer.
const READ: usize = 512 * 1024;

/// How large a pattern may become that users write.
const PATTERN: usize = 256 * 1024;

/// The longest time for one question.
const LONGEST: i64 = 60;

#[async_trait]
impl Probe for Egress {
    fn check_poll(&self, url: &str, options: &PollUrl) -> Result<(), String> {
        pattern(options).map_err(|error| {
            let given = &options.poll_url_healthy_response;
            format!("'poll_url_healthy_response' is '{given}', and that is no pattern: {error}")
        })?;
        admit(&self.rule, url).map(drop).map_err(|refused| refused.to_string())
    }

    async fn poll(&self, url: &str, options: &PollUrl) -> PollResult {
        let url = match admit(&self.rule, url) {
            Ok(url) => url,
            Err(refused) => return not_asked(&refused.to_string()),
        };
        let pattern = match pattern(options) {
            Ok(pattern) => pattern,
            Err(error) => return not_asked(&error.to_string()),
        };
        let place = place(&url);
        let client = if options.poll_url_ssl_verify { &self.questions } else { &self.trusting };
        let answered = client.get(url).timeout(within(options)).send().await;
        let polled = match answered {
            Ok(answer) if answer.status().is_success() => match read(answer).await {
                Ok(answer) if pattern.is_match(&answer) => PollResult::Healthy,
                Ok(_) => {
                    PollResult::Unhealthy("it answers something else than its policy expects".to_owned())
                }
                Err(error) => PollResult::Unreachable(reason(&error)),
            },
            Ok(answer) => PollResult::Unhealthy(format!("it answers {}", answer.status())),
            Err(error) => match refusal(&error) {
                Some(refused) => return not_asked(&refused.to_string()),
                None => PollResult::Unreachable(reason(&error)),
            },
        };
        tracing::debug!(place, ?polled, "polled");
        polled
    }
}

/// Nobody knows how the node is.
fn not_asked(why: &str) -> PollResult {
    tracing::warn!(why, "a poll URL is not asked, so its nodes count as well");
    PollResult::NotAllowed
}

/// Nothing expected is found in every answer.
fn pattern(options: &PollUrl) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&options.poll_url_healthy_response).size_limit(PATTERN).build()
}

/// A tenth of the time between two tries, and at least a second.
fn within(options: &PollUrl) -> Duration {
    let millis = options.poll_url_retry_interval.saturating_mul(100).clamp(1_000, LONGEST * 1_000);
    Duration::from_millis(millis.unsigned_abs())
}

/// The beginning of an answer, however long it goes on.
async fn read(mut answer: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut all = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        let room = READ.saturating_sub(all.len());
        all.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if all.len() == READ {
            break;
        }
    }
    Ok(all)
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
    fn a_question_has_a_tenth_of_the_pause_and_at_least_a_second(#[case] interval: i64, #[case] millis: u64) {
        assert_eq!(within(&options("", interval)), Duration::from_millis(millis));
    }

    #[rstest]
    #[case("", "anything", true)]
    #[case("", "", true)]
    #[case("up|ok", "all is ok here", true)]
    #[case("^ok$", "all is ok here", false)]
    fn a_pattern_is_looked_for_anywhere(#[case] wanted: &str, #[case] answer: &str, #[case] found: bool) {
        assert_eq!(pattern(&options(wanted, 3)).unwrap().is_match(answer.as_bytes()), found);
    }
}
