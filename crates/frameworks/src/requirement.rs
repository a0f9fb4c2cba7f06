//! What a framework needs on the machine beside its Python package.

use std::path::PathBuf;

/// A program that has to be there, at least of some version.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    /// What people call it.
    pub name: &'static str,
    /// The program, in the folder `bin` of wherever it is installed.
    pub program: &'static str,
    /// The variable that says where it is installed: looked at first, and set for nodes and clients.
    pub variable: &'static str,
    /// What the program is asked.
    pub question: &'static [&'static str],
    /// Reads what it says to that.
    pub read: fn(&str) -> Option<Program>,
    /// The least version that will do.
    pub least: u32,
    /// What to do if it is missing.
    pub remedy: &'static str,
}

/// What a program says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its version.
    pub version: u32,
    /// Where it is installed.
    pub home: PathBuf,
}

/// A Java runtime, which Spark runs in.
pub(crate) const JAVA: Requirement = Requirement {
    name: "Java",
    program: "java",
    variable: "JAVA_HOME",
    question: &["-XshowSettings:properties", "-version"],
    read: java,
    least: 17,
    remedy: "install it (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME where the server runs to \
             one that is installed",
};

/// Reads the settings that a Java runtime shows; versions before 9 are `1.8` and such.
fn java(said: &str) -> Option<Program> {
    let settings = said.lines().filter_map(|line| line.split_once('='));
    let setting = |name: &str| {
        let mut settings = settings.clone();
        settings.find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
    };
    let version = setting("java.specification.version")?;
    let version = version.strip_prefix("1.").unwrap_or(version);
    let version = version.split('.').next()?.parse().ok()?;
    Some(Program { version, home: setting("java.home")?.into() })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// What `OpenJDK` 17 says, but for most of it.
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
    fn java_says_where_it_is_and_which(#[case] said: &str, #[case] program: Option<(u32, &str)>) {
        let program = program.map(|(version, home)| Program { version, home: home.into() });
        assert_eq!(java(said), program);
    }
}
