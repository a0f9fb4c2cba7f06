//! The Dockerfile of an image template. Pure.

use muster_core::image_template::ImageSpec;
use serde_json::json;

/// Renders a template. Every command is in its exec form, which needs no quoting of its own.
pub(super) fn render(spec: &ImageSpec) -> String {
    let mut lines = vec![format!("FROM {}", spec.base_image)];
    if !spec.system_packages.is_empty() {
        let packages = shell_quoted(&spec.system_packages);
        // Images of frameworks often run as a user who may only become root by sudo.
        lines.push(run_instruction(&format!(
            "as_root=; [ \"$(id -u)\" = 0 ] || as_root=sudo; $as_root apt-get update && $as_root apt-get install -y \
             --no-install-recommends -- {packages} && $as_root rm -rf /var/lib/apt/lists/*"
        )));
    }
    if !spec.conda_packages.is_empty() {
        let packages = shell_quoted(&spec.conda_packages);
        lines.push(run_instruction(&format!(
            "conda install --yes --quiet {packages} && conda clean --all --yes"
        )));
    }
    if !spec.pip_packages.is_empty() {
        let packages = shell_quoted(&spec.pip_packages);
        lines.push(run_instruction(&format!("pip install --no-cache-dir --no-input -- {packages}")));
    }
    for (name, value) in &spec.environment_variables {
        lines.push(format!("ENV {name}={}", env_value(value)));
    }
    if !spec.custom_commands.trim().is_empty() {
        lines.push(run_instruction(&spec.custom_commands));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn run_instruction(command: &str) -> String {
    format!("RUN {}", json!(["sh", "-e", "-c", command]))
}

/// Returns the words as arguments of a shell command.
fn shell_quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.trim().replace('\'', r"'\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Returns a value in double quotes, in which a Dockerfile replaces variables.
fn env_value(value: &str) -> String {
    let mut text = String::from("\"");
    for letter in value.chars() {
        if matches!(letter, '"' | '\\' | '$') {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_becomes_a_dockerfile() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let spec = ImageSpec {
            base_image: "rayproject/ray:2.46.0".to_owned(),
            pip_packages: texts(&["six==1.16.0", "it's; rm -rf /"]),
            conda_packages: texts(&["numpy"]),
            system_packages: texts(&["git", "curl"]),
            environment_variables: [("A".to_owned(), r#"1 "$HOME" \"#.to_owned())].into(),
            custom_commands: "echo one\necho \"two\"".to_owned(),
            ..ImageSpec::default()
        };
        let expected = r#"FROM rayproject/ray:2.46.0
RUN ["sh","-e","-c","as_root=; [ \"$(id -u)\" = 0 ] || as_root=sudo; $as_root apt-get update && $as_root apt-get install -y --no-install-recommends -- 'git' 'curl' && $as_root rm -rf /var/lib/apt/lists/*"]
RUN ["sh","-e","-c","conda install --yes --quiet 'numpy' && conda clean --all --yes"]
RUN ["sh","-e","-c","pip install --no-cache-dir --no-input -- 'six==1.16.0' 'it'\\''s; rm -rf /'"]
ENV A="1 \"\$HOME\" \\"
RUN ["sh","-e","-c","echo one\necho \"two\""]
"#;
        assert_eq!(render(&spec), expected);
    }

    #[test]
    fn an_empty_template_is_its_base_image() {
        let spec = ImageSpec { base_image: "a:1".to_owned(), ..ImageSpec::default() };
        assert_eq!(render(&spec), "FROM a:1\n");
    }
}
