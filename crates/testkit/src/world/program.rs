//! The paths of the testkit's own programs.

use std::env;
use std::path::PathBuf;

/// The path of a program of the testkit that was built together with the calling test.
pub fn program(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    // A test is in `deps`, an example in `examples`; programs are one folder up.
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "the testkit's program `{name}` is not near {}: build with `cargo build --workspace`, or run \
             `cargo xtask test`, which does",
            test.display()
        )
    })
}
