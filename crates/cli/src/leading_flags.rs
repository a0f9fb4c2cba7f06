//! Flags before the command, as in `muster --server URL get`: they are moved behind it, where clap expects them.

use std::ffi::OsString;

use clap::Command;

/// Flags that may precede the command; each takes a value.
const FLAGS: [&str; 7] = ["--server", "--token", "--data-dir", "--namespace", "-n", "--output", "-o"];

/// Returns the arguments with leading flags moved behind the command.
pub(crate) fn move_behind_command(
    arguments: impl IntoIterator<Item = OsString>,
    program: &Command,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let flags = leading_flag_count(arguments.get(1..).unwrap_or_default());
    if flags == 0 {
        return arguments;
    }
    let flags: Vec<OsString> = arguments.drain(1..=flags).collect();
    // Behind the last subcommand: `framework list` accepts them, `framework` does not.
    let (mut place, mut command) = (1, program);
    while let Some(next) = arguments.get(place).and_then(|word| command.find_subcommand(word)) {
        (place, command) = (place + 1, next);
    }
    arguments.splice(place..place, flags);
    arguments
}

/// Counts the leading arguments that are such flags or their values.
fn leading_flag_count(arguments: &[OsString]) -> usize {
    let mut count = 0;
    while let Some(flag) = arguments.get(count).and_then(|argument| argument.to_str()) {
        if FLAGS.contains(&flag) && arguments.len() > count + 1 {
            count += 2;
        } else if flag.split_once('=').is_some_and(|(flag, _)| FLAGS.contains(&flag))
            || has_attached_value(flag)
        {
            count += 1;
        } else {
            break;
        }
    }
    count
}

/// Returns true for a short flag that has its value in the same word, such as `-ojson`.
fn has_attached_value(word: &str) -> bool {
    FLAGS.iter().any(|flag| flag.len() == 2 && word.len() > 2 && word.starts_with(flag))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("get fred", "get fred")]
    #[case("--server http://x get fred", "get --server http://x fred")]
    #[case("--server=http://x -n demo ls", "ls --server=http://x -n demo")]
    #[case("-o json framework list", "framework list -o json")]
    #[case("-ojson -ndemo get", "get -ojson -ndemo")]
    #[case("--data-dir d exec fred -- get --server y", "exec --data-dir d fred -- get --server y")]
    #[case("--server", "--server")]
    #[case("--workers 2 create", "--workers 2 create")]
    #[case("", "")]
    fn flags_before_the_command_are_moved_behind_it(#[case] given: &str, #[case] expected: &str) {
        let words = |text: &str| {
            std::iter::once("muster").chain(text.split_whitespace()).map(OsString::from).collect::<Vec<_>>()
        };
        assert_eq!(move_behind_command(words(given), &crate::Args::command()), words(expected));
    }
}
