//! Programs built by Go: every folder of `testbed/` with a `go.mod` is one part, and the `tool` lines name the
//! programs. The part of an operator also contains the manifests of its module.

use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::Inventory;
use super::manifests;
use super::part::{CachedPart, scratch};
use crate::step::StepFailure;
use crate::{layout, step};

pub(super) fn provide(testbed: &Path, inventory: &mut Inventory) -> Result<()> {
    for folder in folders()? {
        let module = Module::read(folder)?;
        let names = || module.programs.iter().map(|program| program.name.clone());
        let given: Vec<_> = names().filter_map(|name| Some((given(&name)?, name))).collect();
        if given.len() < module.programs.len() {
            match module.make(testbed, inventory) {
                Ok(folder) => {
                    inventory.binaries.extend(names().map(|name| (name.clone(), folder.join(name))));
                    manifests::note(&module.name, &folder, inventory);
                }
                Err(error) => inventory.lack(names().collect(), &error),
            }
        }
        for (path, name) in given {
            inventory.missing.remove(&name);
            inventory.binaries.insert(name, path);
        }
    }
    Ok(())
}

/// A program of the testbed, with the package that it is built from.
#[derive(Debug, PartialEq, Eq)]
struct TestbedProgram {
    name: String,
    package: String,
}

/// The pins of a go.mod.
struct Module {
    name: String,
    folder: PathBuf,
    text: String,
    programs: Vec<TestbedProgram>,
}

impl Module {
    fn read(folder: PathBuf) -> Result<Self> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(folder.join("go.mod"))?;
        let programs = programs(&name, &text);
        Ok(Self { name, folder, text, programs })
    }

    /// Builds the programs if they are missing, and returns their folder.
    fn make(&self, testbed: &Path, inventory: &mut Inventory) -> Result<PathBuf> {
        let sums = std::fs::read(self.folder.join("go.sum"))?;
        let ingredients = [self.text.as_bytes(), &sums, OS.as_bytes(), ARCH.as_bytes()];
        let part = CachedPart::new(testbed, &self.name, &ingredients);
        let files: Vec<&str> = self.programs.iter().map(|program| program.name.as_str()).collect();
        let lock = part.make(&files, |folder| {
            if step::version_of("go", "version").is_none() {
                bail!("needs Go {}, and `go` was not found", go_version(&self.text));
            }
            for program in &self.programs {
                self.build(program, folder, &part.log())?;
                manifests::copy(&self.source(program)?, folder)?;
            }
            Ok(())
        })?;
        inventory.in_use.push(lock);
        Ok(part.folder())
    }

    fn build(&self, program: &TestbedProgram, into: &Path, log: &Path) -> Result<()> {
        let mut go = Command::new("go");
        go.arg("build").arg("-C").arg(&self.folder).args(["-trimpath", "-ldflags", "-s -w", "-o"]);
        go.arg(into.join(&program.name)).arg(&program.package).env("TMPDIR", scratch(into));
        let what = format!("building {} with Go", program.name);
        step::run_quietly(&what, &mut step::dying_with_us(&go), log)
            .map_err(|error| StepFailure::needing(error, "Go modules"))
    }

    /// The folder of the module that contains a program.
    fn source(&self, program: &TestbedProgram) -> Result<PathBuf> {
        let mut go = Command::new("go");
        go.arg("list").arg("-C").arg(&self.folder).args(["-f", "{{.Module.Dir}}", &program.package]);
        let output = go.output().context("cannot start go")?;
        if !output.status.success() {
            bail!("go list {}: {}", program.package, String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().into())
    }
}

/// The programs of the `tool` lines of a go.mod. A single one is named like the folder, because a module path may end
/// in `/v3`.
fn programs(folder: &str, text: &str) -> Vec<TestbedProgram> {
    let mut packages = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        match line {
            "tool (" => inside = true,
            ")" => inside = false,
            package if inside && !package.is_empty() => packages.push(package.to_owned()),
            line => packages.extend(line.strip_prefix("tool ").map(|package| package.trim().to_owned())),
        }
    }
    let single = packages.len() == 1;
    packages
        .into_iter()
        .map(|package| {
            let last = package.rsplit('/').next().unwrap_or(&package);
            TestbedProgram { name: if single { folder.to_owned() } else { last.to_owned() }, package }
        })
        .collect()
}

fn go_version(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("")
}

fn folders() -> Result<Vec<PathBuf>> {
    let folder = layout::root().join("testbed");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("go.mod").exists())
        .collect();
    folders.sort();
    Ok(folders)
}

/// A program that is installed on the machine, in the folder that Kubernetes projects use.
fn given(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?).join(name);
    path.exists().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tool_is_named_like_its_folder() {
        let text = "module m\n\ngo 1.26\n\ntool go.etcd.io/etcd/server/v3\n";
        let package = "go.etcd.io/etcd/server/v3".to_owned();
        assert_eq!(programs("etcd", text), [TestbedProgram { name: "etcd".into(), package }]);
        assert_eq!(go_version(text), "1.26");
    }

    #[test]
    fn several_tools_are_named_by_their_package() {
        let text =
            "tool (\n\tk8s.io/kubernetes/cmd/kube-apiserver\n\tk8s.io/kubernetes/cmd/kube-scheduler\n)\n";
        let names: Vec<String> =
            programs("kubernetes", text).into_iter().map(|program| program.name).collect();
        assert_eq!(names, ["kube-apiserver", "kube-scheduler"]);
    }
}
