//! Images of local processes: Python environments named by their content.
//!
//! An image has its own packages above those of the frameworks: of the server's own environment if it has one, otherwise
//! of what Muster installs, now or later. It is made in a folder of its own; its name is a link to that folder, put there
//! when everything else is done.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use muster_core::cluster::Framework;
use muster_core::ids::TaskId;
use muster_core::image_template::ImageSpec;
use muster_engine::ports::images::{BuildProgress, ImageBuild, ImageBuilder};
use muster_engine::ports::provider::{INVALID, ProviderError};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio::sync::OwnedMutexGuard;

use super::command::{self, Failed, Lines};
use super::{Environments, INTERPRETER, install};

/// The folder of images, below that of environments.
const IMAGES: &str = "images";

/// The program that installs packages of conda.
const MICROMAMBA: &str = "micromamba";

/// Lines that wait for a slow reader.
const LINES: usize = 64;

/// The folders of packages that an interpreter imports from, one a line.
const PACKAGE_FOLDERS: &str = "import sys; print('\\n'.join(p for p in sys.path if p.endswith(('site-packages', \
                               'dist-packages'))))";

/// Where an interpreter's own packages are, from its folder.
const OWN_PACKAGES: &str =
    "import sysconfig, sys; print(sysconfig.get_path('purelib')[len(sys.prefix) + 1:])";

impl Environments {
    /// The folder of images.
    fn images(&self) -> PathBuf {
        self.inner.folder.join(IMAGES)
    }

    /// The name of an image: it differs with its content, and with what is below.
    fn image_name(&self, spec: &ImageSpec) -> String {
        let mut hash = Sha256::new();
        hash.update(spec.content());
        hash.update(self.base().as_os_str().as_encoded_bytes());
        for folder in self.framework_folders() {
            hash.update(folder.as_os_str().as_encoded_bytes());
        }
        format!("{:.24}", format!("{:x}", hash.finalize()))
    }

    /// The interpreter that images are made with: of the server's own environment, if it has one.
    fn base(&self) -> &Path {
        self.inner.around.first().map_or(&self.inner.base, |(python, _)| python)
    }

    /// The environments of all frameworks that Muster installs, whether or not they are there.
    fn framework_folders(&self) -> Vec<PathBuf> {
        let all = Framework::ALL.iter().copied().filter_map(muster_frameworks::local);
        all.map(|framework| install::place(&self.inner.folder, framework)).collect()
    }
}

/// One image that is being made.
struct Making<'a> {
    environments: &'a Environments,
    spec: &'a ImageSpec,
    /// Where it is made.
    place: PathBuf,
    lock: &'a File,
    lines: Lines<BuildProgress>,
}

impl Making<'_> {
    async fn run(&mut self, what: &str, command: Command) -> Result<(), ProviderError> {
        command::run(command, self.lock, &mut self.lines).await.map_err(|failed| failure(what, &failed))
    }

    /// Makes the environment, and installs everything into it.
    async fn make(&mut self) -> Result<(), ProviderError> {
        if self.place.exists() {
            fs::remove_dir_all(&self.place).map_err(|error| on_disk(&error))?;
        }
        self.make_interpreter().await?;
        self.add_layers().await?;
        if !self.spec.pip_packages.is_empty() {
            self.lines.send(format!("installing {}", self.spec.pip_packages.join(", "))).await;
            let mut pip = Command::new(self.place.join(INTERPRETER));
            pip.current_dir(&self.place).args(["-I", "-m", "pip", "install", "--no-input"]);
            pip.args(["--progress-bar", "off", "--disable-pip-version-check", "--"])
                .args(&self.spec.pip_packages);
            self.run("pip", pip).await?;
        }
        if !self.spec.custom_commands.trim().is_empty() {
            self.lines.send("running custom_commands").await;
            let mut shell = Command::new("sh");
            shell.current_dir(&self.place).args(["-e", "-c", &self.spec.custom_commands]);
            shell.env("PATH", self.search_path()).env("VIRTUAL_ENV", &self.place);
            shell.envs(&self.spec.environment_variables);
            self.run("custom_commands", shell).await?;
        }
        Ok(())
    }

    async fn make_interpreter(&mut self) -> Result<(), ProviderError> {
        let base = self.environments.base().to_owned();
        self.lines.send(format!("making a Python environment in {}", self.place.display())).await;
        if self.spec.conda_packages.is_empty() {
            let mut venv = Command::new(base);
            venv.args(["-I", "-m", "venv"]).arg(&self.place);
            return self.run("venv", venv).await;
        }
        // The same version, or packages of the layers below could not be imported.
        let version = ask(&base, "import sys; print('%d.%d' % sys.version_info[:2])").await?;
        let mut conda = Command::new(MICROMAMBA);
        conda.args(["create", "--yes", "--quiet", "--prefix"]).arg(&self.place);
        conda.args([&format!("python={version}"), "pip"]).args(&self.spec.conda_packages);
        self.run(MICROMAMBA, conda).await
    }

    /// Makes packages of the layers below importable, behind its own, and sets variables.
    async fn add_layers(&mut self) -> Result<(), ProviderError> {
        let own = ask(&self.place.join(INTERPRETER), OWN_PACKAGES).await?;
        let mut layers = Vec::new();
        if let Some((python, _)) = self.environments.inner.around.first() {
            layers.extend(ask(python, PACKAGE_FOLDERS).await?.lines().map(PathBuf::from));
        }
        // What is not there yet is passed over until it is.
        layers.extend(self.environments.framework_folders().into_iter().map(|folder| folder.join(&own)));
        let mut text = String::new();
        for (name, value) in &self.spec.environment_variables {
            // JSON is how Python writes such texts, too.
            let (name, value) = (serde_json::json!(name), serde_json::json!(value));
            let _ = writeln!(text, "import os; os.environ.setdefault({name}, {value})");
        }
        for layer in layers {
            let _ = writeln!(text, "{}", layer.display());
        }
        fs::write(self.place.join(own).join("muster-layers.pth"), text).map_err(|error| on_disk(&error))
    }

    fn search_path(&self) -> OsString {
        let mut path = self.place.join("bin").into_os_string();
        if let Some(outer) = std::env::var_os("PATH") {
            path.push(":");
            path.push(outer);
        }
        path
    }
}

/// What an interpreter prints.
async fn ask(python: &Path, program: &str) -> Result<String, ProviderError> {
    let answered = Command::new(python).args(["-I", "-c", program]).output().await;
    match answered {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(ProviderError::permanent("BuildFailed", format!("{} failed: {said}", python.display())))
        }
        Err(error) => {
            let message = format!("{} cannot be run: {error}", python.display());
            Err(ProviderError::permanent("BuildFailed", message))
        }
    }
}

/// The line that says what went wrong: an error of pip, otherwise the last one.
fn failure(what: &str, failed: &Failed) -> ProviderError {
    let message = match failed {
        Failed::NotStarted(error) => format!("{what} cannot be run: {error}"),
        Failed::Ended { status, said } => {
            let is_error = |line: &&str| line.to_ascii_lowercase().starts_with("error");
            let line = said.lines().rfind(is_error).or_else(|| said.lines().next_back());
            format!("{what} failed: {}", line.unwrap_or(status))
        }
    };
    ProviderError::permanent("BuildFailed", message)
}

fn on_disk(error: &io::Error) -> ProviderError {
    ProviderError::permanent("BuildFailed", format!("the folder of images cannot be used: {error}"))
}

/// The folders in which an image was or is being made.
fn folders_of(images: &Path, name: &str) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("{name}-");
    let of_image = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.starts_with(&prefix).then(|| entry.path())
    };
    Ok(fs::read_dir(images)?.filter_map(of_image).collect())
}

impl Environments {
    /// The lock of an image. This server alone uses the folder: what holds the lock without its turn is what a server left
    /// behind that is dead.
    async fn image_lock(
        &self,
        images: &Path,
        name: &str,
        lines: Option<&mut Lines<BuildProgress>>,
    ) -> Result<(OwnedMutexGuard<()>, File), ProviderError> {
        let turn = self.inner.image_turns.lock(name.to_owned()).await;
        let path = images.join(format!("{name}.lock"));
        let killed = command::kill_holders(&path);
        if let Some(lines) = lines.filter(|_| killed > 0) {
            lines.send(format!("ended {killed} processes of a build whose server is gone")).await;
        }
        let lock = command::lock::<BuildProgress>(&path, None).await.map_err(|error| on_disk(&error))?;
        Ok((turn, lock))
    }

    /// Makes an image, unless it is there.
    async fn make_image(
        &self,
        task: TaskId,
        build: &ImageBuild,
        mut lines: Lines<BuildProgress>,
    ) -> Result<String, ProviderError> {
        let (images, name, spec) = (self.images(), name_of(build)?, &build.spec);
        fs::create_dir_all(&images).map_err(|error| on_disk(&error))?;
        let (_turn, lock) = self.image_lock(&images, &name, Some(&mut lines)).await?;
        let link = images.join(&name);
        if !link.join(INTERPRETER).exists() {
            // What a build left behind that did not end.
            for left in folders_of(&images, &name).map_err(|error| on_disk(&error))? {
                fs::remove_dir_all(&left).map_err(|error| on_disk(&error))?;
            }
            let place = images.join(format!("{name}-{}", task.short()));
            let mut making = Making { environments: self, spec, place: place.clone(), lock: &lock, lines };
            if let Err(error) = making.make().await {
                drop(fs::remove_dir_all(&place));
                return Err(error);
            }
            publish(&place, &link).map_err(|error| on_disk(&error))?;
        }
        Ok(format!("sha256:{name}"))
    }
}

/// The name of the image of a build, as it was given when the template was created: what is below may have changed since.
fn name_of(build: &ImageBuild) -> Result<String, ProviderError> {
    let folder = Path::new(&build.image).parent().and_then(Path::parent);
    let name = folder.and_then(Path::file_name).and_then(|name| name.to_str());
    let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.filter(is_name).map(str::to_owned).ok_or_else(|| {
        ProviderError::permanent(INVALID, format!("'{}' is no image of local processes", build.image))
    })
}

/// Gives a folder its name, in one step.
fn publish(place: &Path, link: &Path) -> io::Result<()> {
    let new = link.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(place, &new)?;
    fs::rename(&new, link)
}

#[async_trait]
impl ImageBuilder for Environments {
    fn image_of(&self, _: &str, _: &str, spec: &ImageSpec) -> Result<String, ProviderError> {
        let python = self.images().join(self.image_name(spec)).join(INTERPRETER);
        Ok(python.to_string_lossy().into_owned())
    }

    async fn admit(&self, spec: &ImageSpec) -> Result<Vec<String>, ProviderError> {
        let invalid = |message: String| ProviderError::permanent(INVALID, message);
        if !spec.conda_packages.is_empty() && !is_there(MICROMAMBA).await {
            return Err(invalid(format!(
                "conda_packages need the program {MICROMAMBA}, which is not on this machine: install it, or give \
                 pip_packages"
            )));
        }
        for package in &spec.system_packages {
            if !is_installed(package).await {
                return Err(invalid(format!(
                    "system_packages has '{package}', which is not installed on this machine: install it, or leave it out"
                )));
            }
        }
        let base = (!spec.base_image.is_empty()).then(|| {
            format!(
                "base_image '{}' is recorded and has no effect: images of local processes are Python environments",
                spec.base_image
            )
        });
        Ok(base.into_iter().collect())
    }

    fn build(&self, task: TaskId, build: ImageBuild) -> BoxStream<'static, BuildProgress> {
        let environments = self.clone();
        let (mut sender, lines) = futures::channel::mpsc::channel(LINES);
        let making = async move {
            let lines = Lines::new(sender.clone(), BuildProgress::Line);
            let made = environments.make_image(task, &build, lines).await;
            let end = match made {
                Ok(digest) => BuildProgress::Done { digest },
                Err(error) => BuildProgress::Failed(error),
            };
            drop(sender.send(end).await);
        };
        let making = futures::stream::once(making).filter_map(|()| std::future::ready(None));
        futures::stream::select(lines, making).boxed()
    }

    async fn remove(
        &self,
        _: TaskId,
        build: &ImageBuild,
        is_used: BoxFuture<'_, bool>,
    ) -> Result<(), ProviderError> {
        let (images, name) = (self.images(), name_of(build)?);
        if !images.exists() {
            return Ok(());
        }
        let (_turn, _lock) = self.image_lock(&images, &name, None).await?;
        // A template of the same content that is created from now on is built after this.
        if is_used.await {
            return Ok(());
        }
        drop(fs::remove_file(images.join(&name)));
        for folder in folders_of(&images, &name).map_err(|error| on_disk(&error))? {
            fs::remove_dir_all(&folder).map_err(|error| on_disk(&error))?;
        }
        Ok(())
    }
}

async fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().await.is_ok_and(|output| output.status.success())
}

/// Whether the machine's package manager has a package installed.
async fn is_installed(package: &str) -> bool {
    let debian = Command::new("dpkg-query").args(["-W", "-f=${Status}", "--", package]).output().await;
    if let Ok(output) = debian {
        return String::from_utf8_lossy(&output.stdout).contains("install ok installed");
    }
    Command::new("rpm").args(["-q", "--", package]).output().await.is_ok_and(|output| output.status.success())
}
