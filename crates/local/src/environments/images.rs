//! Images of local nodes: Python environments that are named by a hash of their content.
//!
//! An image has its own packages, and imports those of the frameworks from lower layers: the server's preferred
//! environment, and the environments that Muster installs, even later. It is built in a folder of its own; a link with
//! the name of the image is created last, which publishes it atomically.

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

use super::command::{self, CommandFailure, LineSender};
use super::{Environments, INTERPRETER, install};

/// Name of the folder of images.
const IMAGES: &str = "images";

/// The program that installs packages of conda.
const MICROMAMBA: &str = "micromamba";

/// Capacity of the progress channel.
const PROGRESS_CAPACITY: usize = 64;

/// The file with the packages of an image, if they have hashes, in the format of pip.
const REQUIREMENTS: &str = "packages.txt";

/// The option of a package that pip accepts in files only.
const HASH_OPTION: &str = " --hash=";

/// A program that prints the package folders from which an interpreter imports, one per line.
const PACKAGE_FOLDERS: &str = "import sys; print('\\n'.join(p for p in sys.path if p.endswith(('site-packages', \
                               'dist-packages'))))";

/// A program that prints the folder of an interpreter's own packages, relative to the environment.
const OWN_PACKAGES: &str =
    "import sysconfig, sys; print(sysconfig.get_path('purelib')[len(sys.prefix) + 1:])";

impl Environments {
    /// Returns the folder of images.
    fn images(&self) -> PathBuf {
        self.inner.folder.join(IMAGES)
    }

    /// Returns the name of an image: a hash of its content and of its lower layers.
    fn image_name(&self, spec: &ImageSpec) -> String {
        let mut hash = Sha256::new();
        hash.update(spec.content());
        hash.update(self.base(spec).as_os_str().as_encoded_bytes());
        for folder in self.framework_folders() {
            hash.update(folder.as_os_str().as_encoded_bytes());
        }
        format!("{:.24}", format!("{:x}", hash.finalize()))
    }

    /// Returns the interpreter that creates an image.
    fn base<'a>(&'a self, spec: &'a ImageSpec) -> &'a Path {
        self.base_layer(spec).unwrap_or(&self.inner.base)
    }

    /// Returns the interpreter whose packages an image imports: that of the template, else the server's preferred one.
    fn base_layer<'a>(&'a self, spec: &'a ImageSpec) -> Option<&'a Path> {
        let preferred = self.inner.preferred.first().map(|(python, _)| python.as_path());
        base_interpreter(spec).or(preferred)
    }

    /// Lists the folders of all environments that Muster installs, whether or not they exist.
    fn framework_folders(&self) -> Vec<PathBuf> {
        let all = Framework::ALL.iter().copied().filter_map(muster_frameworks::local);
        all.map(|framework| install::environment_folder(&self.inner.folder, framework)).collect()
    }
}

/// Returns the interpreter that a template names as its base; other names of images have no effect here.
fn base_interpreter(spec: &ImageSpec) -> Option<&Path> {
    let base = Path::new(&spec.base_image);
    base.is_absolute().then_some(base)
}

/// Returns packages without their hashes, for people.
fn package_names(packages: &[String]) -> String {
    let names: Vec<&str> =
        packages.iter().filter_map(|package| package.split(HASH_OPTION).next()).map(str::trim).collect();
    names.join(", ")
}

/// The build of one image.
struct ImageAssembly<'a> {
    environments: &'a Environments,
    spec: &'a ImageSpec,
    /// The folder of the build.
    folder: PathBuf,
    lock: &'a File,
    lines: LineSender<BuildProgress>,
}

impl ImageAssembly<'_> {
    async fn run_command(&mut self, what: &str, command: Command) -> Result<(), ProviderError> {
        command::run_command(command, self.lock, &mut self.lines)
            .await
            .map_err(|failed| build_error(what, &failed))
    }

    /// Creates the environment and installs all packages.
    async fn assemble(&mut self) -> Result<(), ProviderError> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(|error| on_disk(&error))?;
        }
        self.create_interpreter().await?;
        self.add_layers().await?;
        if !self.spec.pip_packages.is_empty() {
            self.lines.send(format!("installing {}", package_names(&self.spec.pip_packages))).await;
            let mut pip = Command::new(self.folder.join(INTERPRETER));
            pip.current_dir(&self.folder).args(["-I", "-m", "pip", "install", "--no-input"]);
            pip.args(["--progress-bar", "off", "--disable-pip-version-check"]);
            if self.spec.pip_packages.iter().any(|package| package.contains(HASH_OPTION)) {
                let text = self.spec.pip_packages.join("\n") + "\n";
                fs::write(self.folder.join(REQUIREMENTS), text).map_err(|error| on_disk(&error))?;
                pip.args(["--requirement", REQUIREMENTS]);
            } else {
                pip.arg("--").args(&self.spec.pip_packages);
            }
            self.run_command("pip", pip).await?;
        }
        if !self.spec.custom_commands.trim().is_empty() {
            self.lines.send("running custom_commands").await;
            let mut shell = Command::new("sh");
            shell.current_dir(&self.folder).args(["-e", "-c", &self.spec.custom_commands]);
            shell.env("PATH", self.search_path()).env("VIRTUAL_ENV", &self.folder);
            shell.envs(&self.spec.environment_variables);
            self.run_command("custom_commands", shell).await?;
        }
        Ok(())
    }

    async fn create_interpreter(&mut self) -> Result<(), ProviderError> {
        let base = self.environments.base(self.spec).to_owned();
        self.lines.send(format!("creating a Python environment in {}", self.folder.display())).await;
        if self.spec.conda_packages.is_empty() {
            let mut venv = Command::new(base);
            venv.args(["-I", "-m", "venv"]).arg(&self.folder);
            return self.run_command("venv", venv).await;
        }
        // The same version as the base, since packages of the lower layers depend on it.
        let version = run_python(&base, "import sys; print('%d.%d' % sys.version_info[:2])").await?;
        let mut conda = Command::new(MICROMAMBA);
        conda.args(["create", "--yes", "--quiet", "--prefix"]).arg(&self.folder);
        conda.args([&format!("python={version}"), "pip"]).args(&self.spec.conda_packages);
        self.run_command(MICROMAMBA, conda).await
    }

    /// Writes a `.pth` file that sets the variables and makes packages of the lower layers importable, after the
    /// image's own packages.
    async fn add_layers(&mut self) -> Result<(), ProviderError> {
        let own = run_python(&self.folder.join(INTERPRETER), OWN_PACKAGES).await?;
        let mut layers = Vec::new();
        if let Some(python) = self.environments.base_layer(self.spec) {
            layers.extend(run_python(python, PACKAGE_FOLDERS).await?.lines().map(PathBuf::from));
        }
        // Python skips folders that do not exist, so later installations are found.
        layers.extend(self.environments.framework_folders().into_iter().map(|folder| folder.join(&own)));
        let mut text = String::new();
        for (name, value) in &self.spec.environment_variables {
            // JSON strings are valid Python strings.
            let (name, value) = (serde_json::json!(name), serde_json::json!(value));
            let _ = writeln!(text, "import os; os.environ.setdefault({name}, {value})");
        }
        for layer in layers {
            let _ = writeln!(text, "{}", layer.display());
        }
        fs::write(self.folder.join(own).join("muster-layers.pth"), text).map_err(|error| on_disk(&error))
    }

    fn search_path(&self) -> OsString {
        let mut path = self.folder.join("bin").into_os_string();
        if let Some(outer) = std::env::var_os("PATH") {
            path.push(":");
            path.push(outer);
        }
        path
    }
}

/// Runs a program in an interpreter and returns its output.
async fn run_python(python: &Path, program: &str) -> Result<String, ProviderError> {
    let answered = Command::new(python).args(["-I", "-c", program]).output().await;
    match answered {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => {
            let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(ProviderError::permanent("BuildFailed", format!("{} failed: {output}", python.display())))
        }
        Err(error) => {
            let message = format!("{} cannot be run: {error}", python.display());
            Err(ProviderError::permanent("BuildFailed", message))
        }
    }
}

/// Returns the error of a failed command, with the error line of pip or else the last line.
fn build_error(what: &str, failed: &CommandFailure) -> ProviderError {
    let message = match failed {
        CommandFailure::NotStarted(error) => format!("{what} cannot be run: {error}"),
        CommandFailure::Ended { status, output } => {
            let is_error = |line: &&str| line.to_ascii_lowercase().starts_with("error");
            let line = output.lines().rfind(is_error).or_else(|| output.lines().next_back());
            format!("{what} failed: {}", line.unwrap_or(status))
        }
    };
    ProviderError::permanent("BuildFailed", message)
}

fn on_disk(error: &io::Error) -> ProviderError {
    ProviderError::permanent("BuildFailed", format!("the folder of images cannot be used: {error}"))
}

/// Lists the folders of the builds of an image.
fn build_folders(images: &Path, name: &str) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("{name}-");
    let of_image = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.starts_with(&prefix).then(|| entry.path())
    };
    Ok(fs::read_dir(images)?.filter_map(of_image).collect())
}

impl Environments {
    /// Locks an image. Only this server uses the folder, so other holders of the file lock are commands of a dead
    /// server, which are killed.
    async fn lock_image(
        &self,
        images: &Path,
        name: &str,
        lines: Option<&mut LineSender<BuildProgress>>,
    ) -> Result<(OwnedMutexGuard<()>, File), ProviderError> {
        let guard = self.inner.image_locks.lock(name.to_owned()).await;
        let path = images.join(format!("{name}.lock"));
        let killed = command::kill_lock_holders(&path);
        if let Some(lines) = lines.filter(|_| killed > 0) {
            lines.send(format!("killed {killed} processes of an interrupted build")).await;
        }
        let lock = command::lock_file::<BuildProgress>(&path, None).await.map_err(|error| on_disk(&error))?;
        Ok((guard, lock))
    }

    /// Builds an image unless it exists.
    async fn build_image(
        &self,
        task: TaskId,
        build: &ImageBuild,
        mut lines: LineSender<BuildProgress>,
    ) -> Result<String, ProviderError> {
        let (images, name, spec) = (self.images(), image_name_of(build)?, &build.spec);
        fs::create_dir_all(&images).map_err(|error| on_disk(&error))?;
        let (_guard, lock) = self.lock_image(&images, &name, Some(&mut lines)).await?;
        let link = images.join(&name);
        if !link.join(INTERPRETER).exists() {
            // Removes the folders of interrupted builds.
            for left in build_folders(&images, &name).map_err(|error| on_disk(&error))? {
                fs::remove_dir_all(&left).map_err(|error| on_disk(&error))?;
            }
            let folder = images.join(format!("{name}-{}", task.short()));
            let mut assembly =
                ImageAssembly { environments: self, spec, folder: folder.clone(), lock: &lock, lines };
            if let Err(error) = assembly.assemble().await {
                drop(fs::remove_dir_all(&folder));
                return Err(error);
            }
            publish(&folder, &link).map_err(|error| on_disk(&error))?;
        }
        Ok(format!("sha256:{name}"))
    }
}

/// Returns the name of the image of a build. It is the one from the creation of the template, since lower layers may
/// have changed since.
fn image_name_of(build: &ImageBuild) -> Result<String, ProviderError> {
    let folder = Path::new(&build.image).parent().and_then(Path::parent);
    let name = folder.and_then(Path::file_name).and_then(|name| name.to_str());
    let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.filter(is_name).map(str::to_owned).ok_or_else(|| {
        ProviderError::permanent(
            INVALID,
            format!("'{}' is not an image of the provider 'local'", build.image),
        )
    })
}

/// Creates or replaces the link of an image atomically.
fn publish(folder: &Path, link: &Path) -> io::Result<()> {
    let new = link.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(folder, &new)?;
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
        if !spec.conda_packages.is_empty() && !is_runnable(MICROMAMBA).await {
            return Err(invalid(format!(
                "conda_packages require the program {MICROMAMBA}, which is not installed on this machine: install it, or use \
                 pip_packages"
            )));
        }
        for package in &spec.system_packages {
            if !is_installed(package).await {
                return Err(invalid(format!(
                    "system_packages has '{package}', which is not installed on this machine: install it, or remove it from the list"
                )));
            }
        }
        if let Some(base) = base_interpreter(spec) {
            let wrong = |error: ProviderError| {
                invalid(format!(
                    "base_image is '{}': must be a Python interpreter ({})",
                    spec.base_image, error.message
                ))
            };
            run_python(base, "pass").await.map_err(wrong)?;
            return Ok(Vec::new());
        }
        let base = (!spec.base_image.is_empty()).then(|| {
            format!(
                "base_image '{}' has no effect: images of the provider 'local' are Python environments, whose base is the \
                 absolute path of an interpreter",
                spec.base_image
            )
        });
        Ok(base.into_iter().collect())
    }

    fn build(&self, task: TaskId, build: ImageBuild) -> BoxStream<'static, BuildProgress> {
        let environments = self.clone();
        let (mut sender, lines) = futures::channel::mpsc::channel(PROGRESS_CAPACITY);
        let build = async move {
            let lines = LineSender::new(sender.clone(), BuildProgress::Line);
            let result = environments.build_image(task, &build, lines).await;
            let end = match result {
                Ok(digest) => BuildProgress::Done { digest },
                Err(error) => BuildProgress::Failed(error),
            };
            drop(sender.send(end).await);
        };
        let build = futures::stream::once(build).filter_map(|()| std::future::ready(None));
        futures::stream::select(lines, build).boxed()
    }

    async fn remove(
        &self,
        _: TaskId,
        build: &ImageBuild,
        is_used: BoxFuture<'_, bool>,
    ) -> Result<(), ProviderError> {
        let (images, name) = (self.images(), image_name_of(build)?);
        if !images.exists() {
            return Ok(());
        }
        let (_guard, _lock) = self.lock_image(&images, &name, None).await?;
        // A template with the same content that is created later waits for the lock and builds the image again.
        if is_used.await {
            return Ok(());
        }
        drop(fs::remove_file(images.join(&name)));
        for folder in build_folders(&images, &name).map_err(|error| on_disk(&error))? {
            fs::remove_dir_all(&folder).map_err(|error| on_disk(&error))?;
        }
        Ok(())
    }
}

async fn is_runnable(program: &str) -> bool {
    Command::new(program).arg("--version").output().await.is_ok_and(|output| output.status.success())
}

/// Returns true if the machine's package manager has installed a package.
async fn is_installed(package: &str) -> bool {
    let debian = Command::new("dpkg-query").args(["-W", "-f=${Status}", "--", package]).output().await;
    if let Ok(output) = debian {
        return String::from_utf8_lossy(&output.stdout).contains("install ok installed");
    }
    Command::new("rpm").args(["-q", "--", package]).output().await.is_ok_and(|output| output.status.success())
}
