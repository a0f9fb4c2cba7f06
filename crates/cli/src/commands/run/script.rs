//! The inline metadata of a script (PEP 723): its packages, and the Python that it requires.

use std::path::Path;

use serde::Deserialize;

use super::requirement::PythonRequirement;
use crate::failure::{Exit, Failure};

/// The first line of inline metadata.
const BEGIN: &str = "# /// script";

/// The last line of a block of metadata.
const END: &str = "# ///";

/// The used part of the inline metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<String>,
    requires_python: Option<String>,
}

/// What a script needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptNeeds {
    /// The packages to install.
    pub(super) packages: Vec<String>,
    /// The versions of Python that it can run in.
    pub(super) python: Option<PythonRequirement>,
}

/// Reads the inline metadata of a script.
pub(super) fn needs(file: &Path) -> Result<ScriptNeeds, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let blocks = inline_metadata(&text);
    let metadata = match blocks.as_slice() {
        [] => return Ok(ScriptNeeds::default()),
        [metadata] => metadata,
        several => {
            let why =
                format!("has {} blocks of inline metadata ({BEGIN}): must be at most one", several.len());
            return Err(wrong(why));
        }
    };
    let read: Metadata = toml::from_str(metadata)
        .map_err(|error| wrong(format!("inline metadata is not valid TOML: {error}")))?;
    let python = read.requires_python.map(|text| PythonRequirement::parse(file, &text)).transpose()?;
    Ok(ScriptNeeds { packages: read.dependencies, python })
}

/// Returns the lines of each block from `# /// script` to the last `# ///` among the comments below it, without their
/// comment signs.
fn inline_metadata(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut blocks = Vec::new();
    let mut rest = lines.as_slice();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != BEGIN {
            continue;
        }
        let comments = after.iter().take_while(|line| **line == "#" || line.starts_with("# ")).count();
        if let Some(end) = after[..comments].iter().rposition(|line| *line == END) {
            let block = after[..end].iter().map(|line| line.get(2..).unwrap_or_default());
            blocks.push(block.flat_map(|line| [line, "\n"]).collect());
            rest = &after[end + 1..];
        }
    }
    blocks
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
            needs(&file)
        };
        let script = "#!/usr/bin/env python\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"six==1.16.0\",\n# ]\n# ///\nprint(1)\n";
        let read_needs = read(script).expect("it is valid");
        assert_eq!(read_needs.packages, ["six==1.16.0"]);
        assert_eq!(read_needs.python, PythonRequirement::parse(&file, ">=3.11").ok());
        assert_eq!(read("print(1)\n"), Ok(ScriptNeeds::default()));
        let open = "# /// script\n# dependencies = []\n";
        assert_eq!(read(open), Ok(ScriptNeeds::default()), "a block without an end is ignored");
        let wrong = read("# /// script\n# dependencies = 7\n# ///\n").expect_err("a list is expected");
        assert_eq!(wrong.exit, Exit::Usage);
    }

    #[test]
    fn invalid_inline_metadata_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("job.py");
        let refused = |text: &str| {
            std::fs::write(&file, text).expect("a script");
            needs(&file).expect_err("it is invalid")
        };
        let block = "# /// script\n# dependencies = []\n# ///\n";
        for text in [format!("{block}\nprint(1)\n{block}"), format!("{block}{block}")] {
            assert_eq!(refused(&text).exit, Exit::Usage, "{text}");
        }
        assert!(refused(&format!("{block}\n{block}")).what.contains("has 2 blocks of inline metadata"));
        let specifier = refused("# /// script\n# requires-python = \">3.x\"\n# ///\n");
        assert!(specifier.what.contains("requires-python is '>3.x'"), "{specifier}");
    }
}
