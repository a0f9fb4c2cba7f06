//! Sets `MUSTER_COMMIT`, the commit that the binary reports as its version.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=MUSTER_COMMIT");
    // Builds of images and source archives have no repository: the builder passes the commit in the environment.
    let commit = std::env::var("MUSTER_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=MUSTER_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // A commit changes the file of HEAD's branch, or packed-refs once branches are packed.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(file) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && Path::new(&file).exists()
        {
            println!("cargo::rerun-if-changed={file}");
        }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
