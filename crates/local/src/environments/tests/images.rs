//! Images with a fake Python.

use futures::StreamExt as _;
use muster_core::ids::TaskId;
use muster_core::image_template::ImageSpec;
use muster_core::shape::Shape;
use muster_engine::ports::images::{BuildProgress, ImageBuild, ImageBuilder};

use super::*;

/// Creates a fake Python that imports from this folder; its environments have a pip that prints its arguments.
fn python(folder: &Path, name: &str, packages: &str) -> PathBuf {
    let script = format!(
        r#"case "$*" in
*"-m venv "*) mkdir -p "$4/bin" "$4/own" && ln -s "$0" "$4/bin/python" ;;
*" pip install "*) echo "$*"; cat packages.txt 2>/dev/null ;;
*get_path*) echo own ;;
*) echo {packages} ;;
esac; exit 0"#
    );
    interpreter(folder, name, &script)
}

fn spec(base: &Path, packages: &[&str]) -> ImageSpec {
    let pip_packages = packages.iter().map(|package| (*package).to_owned()).collect();
    let base_image = base.to_string_lossy().into_owned();
    ImageSpec { base_image, pip_packages, ..ImageSpec::default() }
}

/// Builds an image and returns its interpreter and the lines of the build.
async fn build(environments: &Environments, spec: ImageSpec) -> (PathBuf, Vec<String>) {
    let image = environments.image_of("demo", "a", &spec).expect("a name");
    let python = PathBuf::from(&image);
    let (namespace, name, shape) = ("demo".to_owned(), "a".to_owned(), Shape::default());
    let build = ImageBuild { namespace, name, image, spec, shape };
    let mut progress = environments.build(TaskId::from_uuid(uuid::Uuid::from_u128(1)), build);
    let mut lines = Vec::new();
    while let Some(message) = progress.next().await {
        match message {
            BuildProgress::Line(line) => lines.push(line),
            BuildProgress::Done { .. } => return (python, lines),
            BuildProgress::Failed(error) => panic!("{error}: {lines:?}"),
        }
    }
    panic!("the build ended without a result: {lines:?}")
}

#[tokio::test]
async fn an_image_imports_the_packages_of_the_interpreter_that_it_is_based_on() {
    let folder = tempfile::tempdir().unwrap();
    let of_server = python(folder.path(), "server", "/server/site-packages");
    let of_caller = python(folder.path(), "caller", "/caller/site-packages");
    let around = vec![(of_server, EnvironmentSource::Variable)];
    let environments = Environments::with_interpreters(folder.path().join("made"), around);
    let mut built = Vec::new();
    for (base, layer) in
        [(of_caller.as_path(), "/caller/site-packages"), (Path::new("some:1"), "/server/site-packages")]
    {
        let (python, _) = build(&environments, spec(base, &["six"])).await;
        let image = python.parent().and_then(Path::parent).expect("a folder");
        let layers = std::fs::read_to_string(image.join("own/muster-layers.pth")).unwrap();
        assert_eq!(layers.lines().next(), Some(layer), "{layers}");
        built.push(python);
    }
    assert_ne!(built[0], built[1]);
    assert_eq!(environments.admit(&spec(&of_caller, &[])).await, Ok(Vec::new()));
    let warning = &environments.admit(&spec(Path::new("some:1"), &[])).await.unwrap()[0];
    assert!(warning.starts_with("base_image 'some:1' has no effect"), "{warning}");
    let gone = folder.path().join("gone");
    let refused = environments.admit(&spec(&gone, &[])).await.unwrap_err().message;
    assert!(refused.contains("gone': must be a Python interpreter ("), "{refused}");
}

#[tokio::test]
async fn packages_with_hashes_are_checked_by_pip() {
    let folder = tempfile::tempdir().unwrap();
    let base = python(folder.path(), "base", "/site-packages");
    let environments = Environments::with_interpreters(folder.path().join("made"), Vec::new());
    let (_, lines) = build(&environments, spec(&base, &["six==1.16.0", "attrs"])).await;
    assert!(lines.iter().any(|line| line.ends_with("-- six==1.16.0 attrs")), "{lines:?}");
    let (_, lines) = build(&environments, spec(&base, &["six==1.16.0 --hash=sha256:ab", "attrs"])).await;
    assert!(lines.contains(&"installing six==1.16.0, attrs".to_owned()), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("--requirement packages.txt")), "{lines:?}");
    assert!(lines.contains(&"six==1.16.0 --hash=sha256:ab".to_owned()), "{lines:?}");
}
