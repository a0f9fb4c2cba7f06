//! Packages in the inline metadata of a script (PEP 723).

use std::path::Path;

use serde::Deserialize;

use crate::failure::{Exit, Failure};

/// The used part of the inline metadata.
#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Reads the packages in the inline metadata of a script.
pub(super) fn dependencies(file: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let Some(metadata) = inline_metadata(&text) else { return Ok(Vec::new()) };
    let read: Metadata = toml::from_str(&metadata)
        .map_err(|error| wrong(format!("inline metadata is not valid TOML: {error}")))?;
    Ok(read.dependencies)
}

/// Returns the lines between `# /// script` and `# ///`, without their comment signs.
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
            "a block without an end is ignored"
        );
        let wrong = read("# /// script\n# dependencies = 7\n# ///\n").expect_err("a list is expected");
        assert_eq!(wrong.exit, Exit::Usage);
    }
}
