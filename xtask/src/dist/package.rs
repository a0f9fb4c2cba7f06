//! The archive: its content and checksum.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

/// The files of the tree that are copied into the archive.
const FILES: [&str; 6] =
    ["LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/RESULTS.md"];

/// The folder of documents, which the README links to.
const DOCUMENTS: &str = "docs";

/// The shells with completions, and the file name that each shell expects.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "muster.bash"), ("zsh", "_muster"), ("fish", "muster.fish")];

/// The time of all files in an archive, so that the same content gives the same checksum.
const TIME: &str = "@0";

/// The content of an archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArchiveContent<'p> {
    pub(super) version: &'p str,
    pub(super) target: &'p str,
    /// The top of the tree.
    pub(super) root: &'p Path,
    /// The binary.
    pub(super) muster: &'p Path,
}

impl ArchiveContent<'_> {
    /// The name of the archive, and of the one folder in it.
    fn name(&self) -> String {
        format!("muster-{}-{}", self.version, self.target)
    }

    /// Writes the archive and its checksum into a folder; returns the archive.
    pub(super) fn write(&self, to: &Path) -> Result<PathBuf> {
        fs::create_dir_all(to)?;
        let staging = tempfile::tempdir_in(to)?;
        self.fill(&staging.path().join(self.name()))?;
        let archive = to.join(format!("{}.tar.gz", self.name()));
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime", TIME]);
        // `-n` keeps the file's time and name out of the header.
        tar.args(["--use-compress-program", "gzip -9n", "-cf"]).arg(&archive);
        tar.arg("-C").arg(staging.path()).arg(self.name());
        run(&mut tar)?;
        let digest = Sha256::digest(fs::read(&archive)?);
        // The form that `sha256sum --check` reads.
        fs::write(
            to.join(format!("{}.tar.gz.sha256", self.name())),
            format!("{digest:x}  {}.tar.gz\n", self.name()),
        )?;
        Ok(archive)
    }

    fn fill(&self, folder: &Path) -> Result<()> {
        let completions = folder.join("completions");
        fs::create_dir_all(&completions)?;
        copy(self.muster, &folder.join("muster"))?;
        for file in FILES {
            copy(&self.root.join(file), &folder.join(file))?;
        }
        copy_folder(&self.root.join(DOCUMENTS), &folder.join(DOCUMENTS))?;
        for (shell, file) in COMPLETIONS {
            let script = run(Command::new(self.muster).args(["completion", shell]))?;
            fs::write(completions.join(file), script)?;
        }
        run(Command::new(self.muster).arg("man").arg(folder.join("man/man1")))?;
        Ok(())
    }
}

/// Copies a file into a folder that may not exist yet.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Copies all files of a folder and of the folders in it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            copy(&entry.path(), &to)?;
        }
    }
    Ok(())
}

/// Runs a program, and returns its output.
fn run(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A stand-in for the binary that prints completions and writes one page.
    const PROGRAM: &str = "#!/bin/sh\ncase $1 in\n\
        completion) echo \"completion of $2\";;\n\
        man) mkdir -p \"$2\" && echo page > \"$2/muster.1\";;\nesac\n";

    fn pack(to: &Path) -> PathBuf {
        let program = to.join("program");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let root = crate::layout::root();
        let package =
            ArchiveContent { version: "1.2.3", target: "some-linux", root: &root, muster: &program };
        package.write(&to.join("dist")).unwrap()
    }

    #[test]
    fn an_archive_has_the_binary_and_all_that_belongs_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let archive = pack(folder.path());
        let listed = run(Command::new("tar").arg("-tzf").arg(&archive)).unwrap();
        let listed = String::from_utf8(listed).unwrap();
        let files = listed.lines().filter(|name| !name.ends_with('/'));
        let (documents, files): (Vec<&str>, Vec<&str>) = files.partition(|name| name.contains("/docs/"));
        for document in ["docs/README.md", "docs/images/overview.svg"] {
            let path = format!("muster-1.2.3-some-linux/{document}");
            assert!(documents.contains(&path.as_str()), "{documents:?}");
        }
        let expected = [
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "LICENSE",
            "README.md",
            "SECURITY.md",
            "bench/RESULTS.md",
            "completions/_muster",
            "completions/muster.bash",
            "completions/muster.fish",
            "man/man1/muster.1",
            "muster",
        ];
        assert_eq!(files, expected.map(|file| format!("muster-1.2.3-some-linux/{file}")));
        let fish =
            run(Command::new("tar").arg("-xzOf").arg(&archive).arg("--wildcards").arg("*/muster.fish"))
                .unwrap();
        assert_eq!(String::from_utf8(fish).unwrap(), "completion of fish\n");
    }

    #[test]
    fn sha256sum_accepts_the_checksum_and_the_same_content_has_the_same_one() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let checksum = |archive: &Path| fs::read_to_string(archive.with_extension("gz.sha256")).unwrap();
        let archives = [pack(one.path()), pack(two.path())];
        assert_eq!(checksum(&archives[0]), checksum(&archives[1]));
        let mut check = Command::new("sha256sum");
        run(check
            .args(["--check", "muster-1.2.3-some-linux.tar.gz.sha256"])
            .current_dir(one.path().join("dist")))
        .unwrap();
    }

    #[test]
    fn a_binary_that_fails_makes_no_archive() {
        let folder = tempfile::tempdir().unwrap();
        let root = crate::layout::root();
        let program = Path::new("/bin/false");
        let package = ArchiveContent { version: "1.2.3", target: "some-linux", root: &root, muster: program };
        let error = package.write(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("/bin/false"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
    }
}
