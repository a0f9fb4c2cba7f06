//! Programs built by Go: every folder of `testbed/` with a `go.mod` is one part, its `tool` lines are the programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::Inventory;
use super::part::Part;
use crate::{layout, step};

pub(super) fn provide(testbed: &Path, inventory: &mut Inventory) -> Result<()> {
    let go = step::version_of("go", "version");
    for module in modules()? {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(module.join("go.mod"))?;
        let programs = programs(&name, &text);
        let given: Vec<_> =
            programs.iter().filter_map(|program| given(&program.name).map(|path| (program, path))).collect();
        if given.len() == programs.len() {
            for (program, path) in given {
                inventory.binaries.insert(program.name.clone(), path);
            }
            continue;
        }
        let outcome = match &go {
            Some(go) => build(testbed, &module, &name, &programs, go),
            None => Err(anyhow::anyhow!("needs Go {}, and `go` was not found", go_version(&text))),
        };
        match outcome {
            Ok(folder) => {
                for program in &programs {
                    let path = given_or(&program.name, folder.join(&program.name));
                    inventory.binaries.insert(program.name.clone(), path);
                }
            }
            Err(error) => {
                for program in &programs {
                    inventory.missing.insert(program.name.clone(), format!("{error:#}"));
                }
            }
        }
    }
    Ok(())
}

/// A program of the testbed: its name there, and the package that it is built from.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: String,
    package: String,
}

/// The `tool` lines of a go.mod. A single one is named like its folder (a module path may end in `/v3`).
fn programs(folder: &str, text: &str) -> Vec<Program> {
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
            Program { name: if single { folder.to_owned() } else { last.to_owned() }, package }
        })
        .collect()
}

fn go_version(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("")
}

fn modules() -> Result<Vec<PathBuf>> {
    let folder = layout::root().join("testbed");
    let mut modules: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("go.mod").exists())
        .collect();
    modules.sort();
    Ok(modules)
}

fn build(testbed: &Path, module: &Path, name: &str, programs: &[Program], go: &str) -> Result<PathBuf> {
    let pins = [std::fs::read(module.join("go.mod"))?, std::fs::read(module.join("go.sum"))?];
    let part = Part::new(testbed, name, &[&pins[0], &pins[1], go.as_bytes()]);
    let log = testbed.join(format!("{name}.log"));
    part.make(|folder| {
        for program in programs {
            let mut command = Command::new("go");
            command.arg("build").arg("-C").arg(module).args(["-trimpath", "-ldflags", "-s -w", "-o"]);
            command.arg(folder.join(&program.name)).arg(&program.package);
            step::run_quietly(
                &format!("building {} with Go (minutes, once)", program.name),
                &mut command,
                &log,
            )?;
        }
        Ok(())
    })?;
    Ok(part.folder)
}

/// A program that the machine has already, where Kubernetes projects look for it.
fn given(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?).join(name);
    path.exists().then_some(path)
}

fn given_or(name: &str, built: PathBuf) -> PathBuf {
    given(name).unwrap_or(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tool_is_named_like_its_folder() {
        let text = "module m\n\ngo 1.26\n\ntool go.etcd.io/etcd/server/v3\n";
        let package = "go.etcd.io/etcd/server/v3".to_owned();
        assert_eq!(programs("etcd", text), [Program { name: "etcd".into(), package }]);
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
