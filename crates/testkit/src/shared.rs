//! Requests to the testbed, and the skipping of tests.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::kubernetes::Component;
use crate::testbed::SOCKET;
use crate::wire::{Order, ProcessParts, TestbedAnswer, TestbedRequest};

pub(crate) const NO_TESTBED: &str = "MUSTER_TESTBED is not set, so there is no testbed to ask: run `cargo xtask test`, or run \
    `cargo xtask testbed start` in another terminal and export what it prints";

const SAME_BUILD: &str = "the testbed is of the same build and describes its parts alike";

/// Requests a part from the testbed of a folder, such as `kubernetes`, `postgres` or `python/<environment>`.
pub async fn request_part(testbed: &Path, want: &str) -> io::Result<TestbedAnswer> {
    send(testbed, &TestbedRequest::Want(want.to_owned())).await
}

async fn send(testbed: &Path, request: &TestbedRequest) -> io::Result<TestbedAnswer> {
    let mut stream = UnixStream::connect(testbed.join(SOCKET)).await?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).await?;
    let mut answer = String::new();
    if BufReader::new(stream).read_line(&mut answer).await? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the testbed ended before it answered"));
    }
    Ok(serde_json::from_str(&answer)?)
}

/// Gets a part from this run's testbed; `None` means that the test is skipped.
pub(crate) async fn obtain<T: DeserializeOwned>(want: &str) -> Option<T> {
    let testbed = env::var_os("MUSTER_TESTBED").expect(NO_TESTBED);
    obtain_from(Path::new(&testbed), want).await
}

/// Gets a part from the testbed of a folder; `None` means that the test is skipped.
pub(crate) async fn obtain_from<T: DeserializeOwned>(testbed: &Path, want: &str) -> Option<T> {
    match request_part(testbed, want).await.unwrap_or_else(|error| silent(testbed, &error)) {
        TestbedAnswer::Have(parts) => Some(serde_json::from_value(parts).expect(SAME_BUILD)),
        TestbedAnswer::Missing(why) => {
            skip(&why);
            None
        }
        TestbedAnswer::Failed(why) => panic!("{why}"),
    }
}

/// Sends an order to a component of the testbed of a folder.
pub(crate) async fn order(testbed: &Path, command: Order, component: Component) -> ProcessParts {
    let sent = send(testbed, &TestbedRequest::Do(command, component)).await;
    match sent.unwrap_or_else(|error| silent(testbed, &error)) {
        TestbedAnswer::Have(parts) => serde_json::from_value(parts).expect(SAME_BUILD),
        TestbedAnswer::Missing(why) | TestbedAnswer::Failed(why) => panic!("{why}"),
    }
}

fn silent(testbed: &Path, error: &io::Error) -> ! {
    panic!("the testbed in {} (MUSTER_TESTBED) does not answer: {error}", testbed.display())
}

/// Records that the calling test is skipped, with the reason; panics where no test may be skipped (`CI=true`).
pub fn skip(why: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "with CI=true no test may be skipped, but: {why}");
    let test = test_name();
    eprintln!("{test} is skipped: {why}");
    let Some(skips) = env::var_os("MUSTER_TEST_SKIPS") else { return };
    let line = format!("{test}\t{}\n", why.replace(['\n', '\t'], " "));
    // One write of one line to a file opened for appending, so that concurrent test programs do not mix their lines.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&skips)
        .and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!(
            "cannot note the skipped test in {} (MUSTER_TEST_SKIPS): {error}",
            Path::new(&skips).display()
        );
    }
}

/// The name of the test, which is that of the thread; the name of the program if tests run on a single thread.
fn test_name() -> String {
    let name = thread::current().name().unwrap_or("main").to_owned();
    if name != "main" {
        return name;
    }
    let program = env::current_exe().unwrap_or_default();
    format!("a test of {}", program.file_stem().unwrap_or_default().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_knows_its_name() {
        let name = test_name();
        assert!(name.ends_with("a_test_knows_its_name") || name.starts_with("a test of"), "{name}");
    }
}
