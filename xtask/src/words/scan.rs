//! The search for retired words in a file. Pure.

use crate::rust_tokens::{Token, TokenKind, tokens};

/// The retired words and phrases, and what to write instead.
const RETIRED: &[(&[&str], &str)] = &[
    (&["tell"], "report, notify, distinguish"),
    (&["tells"], "reports, notifies, distinguishes"),
    (&["telling"], "reporting, notifying"),
    (&["told"], "notified, reported, published"),
    (&["hear"], "subscribe, receive, observe"),
    (&["hears"], "subscribes, receives, observes"),
    (&["hearing"], "receiving, observing"),
    (&["heard"], "received, observed"),
    (&["ears"], "a subscription, a listener"),
    (&["glance"], "an observation, a check"),
    (&["glances"], "observations, checks"),
    (&["lend"], "a slot, a permit; reserve"),
    (&["lends"], "reserves"),
    (&["lent"], "reserved"),
    (&["let", "go"], "release, drain, terminate"),
    (&["lets", "go"], "releases, drains, terminates"),
    (&["letting", "go"], "releasing, draining"),
    (&["put", "back"], "requeue, restore"),
    (&["puts", "back"], "requeues, restores"),
    (&["set", "aside"], "defer, deferred"),
    (&["sets", "aside"], "defers"),
    (&["go", "on"], "continue, resume, be retried"),
    (&["goes", "on"], "continues, resumes, is retried"),
    (&["going", "on"], "continuing, running"),
    (&["went", "on"], "continued, was retried"),
    (&["give", "out"], "issue, assign"),
    (&["gives", "out"], "issues, assigns"),
    (&["given", "out"], "issued, assigned"),
    (&["is", "so"], "is in sync, is met; the condition itself"),
    (&["stays", "so"], "does not change; the condition itself"),
    (&["made", "so"], "applied, reconciled"),
    (&["no", "room"], "no capacity, no quota"),
    (&["stray"], "an orphan, a leftover"),
    (&["strays"], "orphans, leftovers"),
    (&["grave"], "a tombstone"),
    (&["whoever"], "the caller, user, client, principal"),
    (&["somebody"], "a caller, user, client"),
    (&["anybody"], "any caller, any user"),
    (&["nobody"], "no caller, no user; unowned, orphan"),
    (&["anew"], "again; recreate, replace, restart"),
    (&["is", "behind"], "is stale, is pending"),
    (&["are", "behind"], "are stale, are pending"),
    (&["is", "away"], "is unreachable, is unavailable"),
    (&["are", "away"], "are unreachable, are unavailable"),
    (&["good", "bye"], "drain, terminate"),
    (&["goodbye"], "drain, terminate"),
    (&["everybody"], "all users, all callers"),
    (&["vouch"], "authenticate, identify"),
    (&["vouches"], "authenticates, identifies"),
    (&["vouched"], "authenticated, identified"),
    (&["vouching"], "authenticating, identifying"),
    (&["unasked"], "without a request"),
    (&["at", "home"], "belongs to, is in"),
    (&["is", "none", "that"], "is not one that"),
];

/// The JSON files that are shown to users. All others are fixtures, or generated from checked texts.
const JSON_DOCUMENTS: [&str; 2] = ["other_apis.json", "values.schema.json"];

/// The folders whose data files are fixtures or pins, and are not checked.
const DATA_FOLDERS: [&str; 3] = ["pins", "testbed", "tests"];

/// The language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// Rust: identifiers, strings and comments.
    Rust,
    /// SQL: comments, because names in released migrations cannot change.
    Sql,
    /// Any other text: the whole content.
    Text,
}

impl Language {
    /// The language of a file that is checked, by its path.
    pub(super) fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if name == "Dockerfile" || path == ".ci/run" || JSON_DOCUMENTS.contains(&name) {
            return Some(Self::Text);
        }
        let is_data = || path.split('/').any(|folder| DATA_FOLDERS.contains(&folder));
        match name.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "md" | "proto" | "toml" | "py" | "sh" | "html" | "js" | "svg" => Some(Self::Text),
            "sql" if !is_data() => Some(Self::Sql),
            "yaml" | "yml" | "tpl" | "txt" if !is_data() => Some(Self::Text),
            _ => None,
        }
    }
}

/// A retired word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// The line, counted from 1.
    pub(super) line: usize,
    /// The word or phrase.
    pub(super) found: String,
    /// The words to write instead.
    pub(super) instead: &'static str,
}

/// All retired words of a file, in order.
pub(super) fn hits(language: Language, text: &str) -> Vec<Hit> {
    match language {
        Language::Text => in_text(text, 1),
        Language::Sql => in_text(&sql_comments(text), 1),
        Language::Rust => tokens(text).into_iter().flat_map(in_token).collect(),
    }
}

/// The comments of each line, so that lines keep their numbers.
fn sql_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split_once("--").map_or("", |(_, comment)| comment))
        .collect::<Vec<_>>()
        .join("\n")
}

fn in_token(token: Token<'_>) -> Vec<Hit> {
    match token.kind {
        TokenKind::Ident | TokenKind::Comment => in_text(token.text, token.line),
        TokenKind::Text => in_text(&without_escapes(token.text), token.line),
        TokenKind::Other | TokenKind::Punct => Vec::new(),
    }
}

/// Replaces the letter of each escape by a blank, because it would count as part of the following word.
fn without_escapes(text: &str) -> String {
    let mut escaped = false;
    let plain = |c: char| {
        let letter = escaped && c.is_alphabetic();
        escaped = c == '\\' && !escaped;
        if letter || escaped { ' ' } else { c }
    };
    text.chars().map(plain).collect()
}

fn in_text(text: &str, first_line: usize) -> Vec<Hit> {
    let words = words(text, first_line);
    let hit = |at: usize| {
        let (phrase, instead) = RETIRED.iter().find(|(phrase, _)| begins_with(&words[at..], phrase))?;
        Some(Hit { line: words[at].line, found: phrase.join(" "), instead })
    };
    (0..words.len()).filter_map(hit).collect()
}

/// A word in lower case; `follows` is true if it continues a phrase, which only blanks, `_`, `-` or a change of case do
/// not interrupt.
struct Word {
    text: String,
    line: usize,
    follows: bool,
}

fn begins_with(words: &[Word], phrase: &[&str]) -> bool {
    let same = |(at, part): (usize, &&str)| {
        words.get(at).is_some_and(|word| word.text == **part && (at == 0 || word.follows))
    };
    phrase.iter().enumerate().all(same)
}

/// Splits at every character that is no letter, and where a capital follows a small letter or begins a word.
fn words(text: &str, first_line: usize) -> Vec<Word> {
    let chars: Vec<char> = text.chars().collect();
    let (mut words, mut line, mut follows) = (Vec::<Word>::new(), first_line, false);
    let mut open = false;
    for (at, &c) in chars.iter().enumerate() {
        if !c.is_alphabetic() {
            line += usize::from(c == '\n');
            follows = (open || follows) && (c.is_whitespace() || c == '_' || c == '-');
            open = false;
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| chars.get(at));
        let after = chars.get(at + 1);
        let begins = c.is_uppercase()
            && (before.is_some_and(|before| before.is_lowercase())
                || after.is_some_and(|after| after.is_lowercase()));
        if !open || begins {
            words.push(Word { text: String::new(), line, follows: open || follows });
            open = true;
        }
        if let Some(word) = words.last_mut() {
            word.text.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests;
