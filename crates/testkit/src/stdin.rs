//! The end of standard input, which shows that the process that started a program of the testkit has ended.

use std::io::{self, Read as _};
use std::thread;

use tokio::sync::oneshot;

/// Reports the end of standard input. Reads on a separate thread, because a runtime would wait for a blocked read when
/// it shuts down.
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
