//! The end of standard input: the process that started a program of the testkit has ended.

use std::io::{self, Read as _};
use std::thread;

use tokio::sync::oneshot;

/// Reports the end of standard input, from a thread that a runtime need not wait for when it ends.
pub(crate) fn end_of_stdin() -> io::Result<oneshot::Receiver<()>> {
    let (ended, eof) = oneshot::channel();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut buffer = [0; 1024];
        let mut stdin = io::stdin().lock();
        while stdin.read(&mut buffer).is_ok_and(|read| read > 0) {}
        let _ = ended.send(());
    })?;
    Ok(eof)
}
