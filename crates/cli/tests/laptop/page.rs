//! Pages of documentation as tests: the commands of their `console` blocks are run, and print what the page says.

use std::path::Path;

use regex::Regex;

/// A command of a page with the lines that it prints there.
#[derive(Debug, PartialEq)]
struct Example {
    command: String,
    lines: Vec<String>,
}

/// A page, or a section of it.
pub(crate) struct Page<'t>(&'t str);

impl<'t> Page<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self(text)
    }

    /// The section below this heading.
    pub(crate) fn section(text: &'t str, heading: &str) -> Self {
        let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect("a section");
        Self(section.split("\n## ").next().unwrap_or_default())
    }

    /// Writes the files that the page shows: those whose name stands last before their block.
    pub(crate) fn write_files(&self, folder: &Path) {
        let fence = Regex::new(r"(?ms)^```(?:python|yaml)\n(.*?)^```$").expect("a pattern");
        let name = Regex::new(r"`([\w./]+\.\w+)`").expect("a pattern");
        for block in fence.captures_iter(self.0) {
            let before = &self.0[..block.get(0).expect("a block").start()];
            let (_, [file]) = name.captures_iter(before).last().expect("the name of a file").extract();
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, &block[1]).expect("a file");
        }
    }

    /// Runs all commands of the blocks of this kind by a shell that says whether they succeeded, and what they printed;
    /// says how many there were. A command fails where the page shows an error, and only there.
    pub(crate) fn run(&self, kind: &str, mut shell: impl FnMut(&str) -> (bool, String)) -> usize {
        let mut count = 0;
        for Example { command, lines } in blocks(self.0, kind).into_iter().flat_map(examples) {
            let (succeeded, printed) = shell(&command);
            let fails = lines.iter().any(|line| line.starts_with("error: "));
            assert_eq!(succeeded, !fails, "{command} printed:\n{printed}");
            assert_eq!(missing(&lines, &printed), None, "{command} printed:\n{printed}");
            count += 1;
        }
        count
    }
}

/// The text between the fences of each block of this kind.
fn blocks<'t>(text: &'t str, kind: &str) -> Vec<&'t str> {
    let opening = format!("```{kind}\n");
    text.split(&opening).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn examples(console: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in console.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            examples.push(Example { command: command.to_owned(), lines: Vec::new() });
        } else if let Some(example) = examples.last_mut() {
            example.lines.push(line.to_owned());
        }
    }
    examples
}

/// A line of a page as a pattern: numbers, ages and columns may differ, and `…` stands for anything.
fn pattern(line: &str) -> Regex {
    let age = Regex::new("^[0-9]+[smhd]$").expect("a pattern");
    let numbers = Regex::new("[0-9]+").expect("a pattern");
    let words = line.split_whitespace().map(|word| {
        if age.is_match(word) {
            return "[0-9]+[smhd]".to_owned();
        }
        let parts: Vec<String> = word
            .split('…')
            .map(|part| numbers.replace_all(&regex::escape(part), "[0-9]+").into_owned())
            .collect();
        parts.join(".*")
    });
    let words: Vec<String> = words.collect();
    Regex::new(&format!(r"^\s*{}\s*$", words.join(r"\s+"))).expect("a pattern")
}

/// The first line of an example that was not printed after those before it.
fn missing(lines: &[String], printed: &str) -> Option<String> {
    let mut printed = printed.lines();
    lines.iter().find(|line| !printed.any(|found| pattern(line).is_match(found))).cloned()
}

#[test]
fn a_line_that_was_not_printed_in_its_place_is_missing() {
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    let printed = "fred  ACTIVE   2/2  12s\nfred: anything\naddress tcp://127.0.0.1:9\nold  ACTIVE  2m\n";
    assert_eq!(missing(&lines(&["fred ACTIVE 4/4 1s", "address tcp://…"]), printed), None);
    assert_eq!(missing(&lines(&["old ACTIVE 1s"]), printed), None);
    assert_eq!(missing(&lines(&["address tcp://…", "fred: …"]), printed).as_deref(), Some("fred: …"));
    assert_eq!(missing(&lines(&["fred ACTIVE"]), printed).as_deref(), Some("fred ACTIVE"));
}

#[test]
fn a_console_block_is_read_as_commands_with_their_output() {
    let example = |command: &str, lines: &[&str]| Example {
        command: command.to_owned(),
        lines: lines.iter().map(|&line| line.to_owned()).collect(),
    };
    let text = "text\n```console\n$ one\na\nb\n$ two\n```\n```console kubernetes\n$ three\n```\n";
    assert_eq!(examples(blocks(text, "console")[0]), [example("one", &["a", "b"]), example("two", &[])]);
    assert_eq!(examples(blocks(text, "console kubernetes")[0]), [example("three", &[])]);
    assert_eq!(blocks(text, "console").len(), 1);
}

#[test]
fn a_command_fails_where_the_page_shows_an_error() {
    let page = Page::new("```console\n$ good\n$ bad\nerror: no …\n```\n");
    let ran = page.run("console", |command| (command == "good", "error: no way\n".to_owned()));
    assert_eq!(ran, 2);
}

#[test]
fn a_file_has_the_name_that_stands_last_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "Not `a.py` but `sub/b.py`:\n\n```python\nx\n```\n\nand `c.yaml`:\n\n```yaml\ny\n```\n";
    Page::new(text).write_files(folder.path());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
    assert_eq!((read("sub/b.py").as_deref(), read("c.yaml").as_deref()), (Some("x\n"), Some("y\n")));
    assert_eq!(read("a.py"), None);
}
