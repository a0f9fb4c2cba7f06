//! Packages that a script names for itself (PEP 723), and the image that has them.

use std::path::Path;
use std::time::Duration;

use muster_core::image_template::ImageState;
use muster_proto::v1alpha2::{CreateImageTemplateRequest, ImageTemplate};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use crate::commands::image;
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::say;

/// How often a build is read that is being waited for.
const PERIOD: Duration = Duration::from_millis(500);

/// The part of inline metadata that matters here.
#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<String>,
}

/// The packages that a script names in its inline metadata.
pub(super) fn dependencies(file: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let Some(metadata) = inline_metadata(&text) else { return Ok(Vec::new()) };
    let read: Metadata = toml::from_str(&metadata)
        .map_err(|error| wrong(format!("its inline metadata is no TOML: {error}")))?;
    Ok(read.dependencies)
}

/// The lines between `# /// script` and `# ///`, without their comment signs.
fn inline_metadata(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != "# /// script").skip(1);
    let mut metadata = String::new();
    loop {
        let line = lines.next()?.trim_end();
        if line == "# ///" {
            return Some(metadata);
        }
        let rest = line.strip_prefix('#')?;
        metadata.push_str(rest.strip_prefix(' ').unwrap_or(rest));
        metadata.push('\n');
    }
}

/// The name of the image with just these packages: a script that is run again finds it.
fn image_name(dependencies: &[String]) -> String {
    let hash = format!("{:x}", Sha256::digest(dependencies.join("\n")));
    format!("script-{hash:.12}")
}

/// Builds the image with these packages, or finds it; its name and its interpreter.
pub(super) async fn environment(
    client: &mut Client,
    namespace: &str,
    dependencies: Vec<String>,
) -> Result<(String, String), Failure> {
    let name = image_name(&dependencies);
    say!("Preparing an environment with {}", dependencies.join(", "));
    let template = ImageTemplate {
        name: name.clone(),
        namespace: namespace.to_owned(),
        pip_packages: dependencies,
        provider: "local".to_owned(),
        ..ImageTemplate::default()
    };
    let request =
        CreateImageTemplateRequest { image_template: Some(template), namespace: namespace.to_owned() };
    let created =
        client.ask(async |client| client.images().create_image_template(request.clone()).await).await;
    match created {
        Err(failure) if !failure.is_taken => return Err(failure),
        _ => {}
    }
    loop {
        let found = image::get(client, namespace, &name).await?;
        match found.state.as_str() {
            state if state == ImageState::Ready.as_str() => return Ok((name, found.image)),
            state if state == ImageState::Failed.as_str() => {
                let what = format!("the environment of the script cannot be built: {}", found.status_reason);
                let hint = format!(
                    "`muster image logs {name} -n {namespace}` says more; `muster image delete` lets it be built again"
                );
                return Err(Failure::new(Exit::Failed, what).hint(hint));
            }
            _ => sleep(PERIOD).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_inline_metadata() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("job.py");
        let read = |text: &str| {
            std::fs::write(&file, text).expect("a script");
            dependencies(&file)
        };
        let script = "#!/usr/bin/env python\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"six==1.16.0\",\n# ]\n# ///\nprint(1)\n";
        assert_eq!(read(script), Ok(vec!["six==1.16.0".to_owned()]));
        assert_eq!(read("print(1)\n"), Ok(Vec::new()));
        assert_eq!(
            read("# /// script\n# dependencies = []\n"),
            Ok(Vec::new()),
            "a block that does not end is none"
        );
        let wrong = read("# /// script\n# dependencies = 7\n# ///\n").expect_err("a list is expected");
        assert_eq!(wrong.exit, Exit::Usage);
    }

    #[test]
    fn the_same_packages_have_the_same_image() {
        let packages = ["six".to_owned()];
        assert_eq!(image_name(&packages), image_name(&packages));
        assert_ne!(image_name(&packages), image_name(&["seven".to_owned()]));
        assert_eq!(image_name(&packages).len(), 19);
    }
}
