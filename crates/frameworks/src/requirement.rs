//! Programs that a framework needs beside its Python package.

use std::path::PathBuf;

/// A program that must be installed, with the oldest version that works.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    /// The name of the program in messages.
    pub name: &'static str,
    /// The file name of the program in folder `bin` of its installation.
    pub program: &'static str,
    /// The variable that names the installation. It is searched first, and is set for nodes and clients.
    pub variable: &'static str,
    /// Arguments that make the program print its version and folder.
    pub version_arguments: &'static [&'static str],
    /// Parses that output; none if it is not the expected program.
    pub parse_output: fn(&str) -> Option<InstalledProgram>,
    /// The oldest version that works.
    pub min_version: u32,
    /// The advice for users who do not have the program.
    pub remedy: &'static str,
}

/// The version and folder that an installed program reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledProgram {
    /// The major version.
    pub version: u32,
    /// The folder of the installation.
    pub home: PathBuf,
}

/// A Java runtime, which Spark runs in.
pub(crate) const JAVA: Requirement = Requirement {
    name: "Java",
    program: "java",
    variable: "JAVA_HOME",
    version_arguments: &["-XshowSettings:properties", "-version"],
    parse_output: parse_java,
    min_version: 17,
    remedy: "install it (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME where the server runs to \
             one that is installed",
};

/// Parses the settings that a Java runtime prints; versions before 9 are written as `1.8`.
fn parse_java(output: &str) -> Option<InstalledProgram> {
    let settings = output.lines().filter_map(|line| line.split_once('='));
    let setting = |name: &str| {
        let mut settings = settings.clone();
        settings.find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
    };
    let version = setting("java.specification.version")?;
    let version = version.strip_prefix("1.").unwrap_or(version);
    let version = version.split('.').next()?.parse().ok()?;
    Some(InstalledProgram { version, home: setting("java.home")?.into() })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A part of what `OpenJDK` 17 prints.
    const OPENJDK: &str = "Picked up JAVA_TOOL_OPTIONS: -XX:-UsePerfData
Property settings:
    file.separator = /
    java.home = /usr/lib/jvm/java-17-openjdk-amd64
    java.library.path = /usr/java/packages/lib
        /usr/lib/x86_64-linux-gnu/jni
    java.runtime.version = 17.0.15+6-Debian-1deb12u1
    java.specification.version = 17
    java.version = 17.0.15

openjdk version \"17.0.15\" 2025-04-15
";

    #[rstest]
    #[case::openjdk(OPENJDK, Some((17, "/usr/lib/jvm/java-17-openjdk-amd64")))]
    #[case::long_ago("    java.home = /opt/a b/jre\n    java.specification.version = 1.8\n", Some((8, "/opt/a b/jre")))]
    #[case::no_version("    java.home = /opt/jre\n", None)]
    #[case::something_else("jenv: no version is set", None)]
    fn javas_version_and_folder_are_read_from_its_settings(
        #[case] output: &str,
        #[case] program: Option<(u32, &str)>,
    ) {
        let program = program.map(|(version, home)| InstalledProgram { version, home: home.into() });
        assert_eq!(parse_java(output), program);
    }
}
