//! A tokenizer of Rust source that distinguishes code, text and comments, for checks of words and constants.

/// A token of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'s> {
    /// The kind of the token.
    pub kind: TokenKind,
    /// An identifier, the content of a string or comment, or one character of punctuation.
    pub text: &'s str,
    /// The line on which the text begins, counted from 1.
    pub line: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// An identifier or keyword.
    Ident,
    /// The content of a string literal of any form, with its escapes as they are written.
    Text,
    /// The content of a comment of any form.
    Comment,
    /// A character, byte, number or lifetime.
    Other,
    /// One character of anything else.
    Punct,
}

/// All tokens of a source file, in order. Source that does not compile gives some tokens, too.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut scanner = Scanner { source, at: 0, line: 1 };
    std::iter::from_fn(|| scanner.next_token()).collect()
}

/// The tokens of a source file up to its test module, without comments.
pub fn product_code(source: &str) -> Vec<Token<'_>> {
    const TEST_MODULE: [&str; 10] = ["#", "[", "cfg", "(", "test", ")", "]", "mod", "tests", "{"];
    let mut code = tokens(source);
    code.retain(|token| token.kind != TokenKind::Comment);
    let begins_tests =
        |window: &[Token<'_>]| window.iter().zip(TEST_MODULE).all(|(token, text)| token.text == text);
    let end = code.windows(TEST_MODULE.len()).position(begins_tests);
    code.truncate(end.unwrap_or(code.len()));
    code
}

struct Scanner<'s> {
    source: &'s str,
    at: usize,
    line: usize,
}

impl<'s> Scanner<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn next_token(&mut self) -> Option<Token<'s>> {
        let blank = self.rest().len() - self.rest().trim_start().len();
        self.skip(blank);
        let rest = self.rest();
        let first = rest.chars().next()?;
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            return Some(self.token(TokenKind::Comment, 2, end, end));
        }
        if rest.starts_with("/*") {
            let (content_end, end) = end_of_block(rest);
            return Some(self.token(TokenKind::Comment, 2, content_end, end));
        }
        if let Some((begin, content, end)) = string(rest) {
            return Some(self.token(TokenKind::Text, begin, begin + content, end));
        }
        if first == '\'' || rest.starts_with("b'") {
            let end = end_of_quote(rest);
            return Some(self.token(TokenKind::Other, 0, end, end));
        }
        if first.is_alphabetic() || first == '_' {
            let raw = if rest.starts_with("r#") { 2 } else { 0 };
            let end = raw + end_of_word(&rest[raw..]);
            return Some(self.token(TokenKind::Ident, raw, end, end));
        }
        if first.is_ascii_digit() {
            let end = end_of_word(rest);
            return Some(self.token(TokenKind::Other, 0, end, end));
        }
        let end = first.len_utf8();
        Some(self.token(TokenKind::Punct, 0, end, end))
    }

    /// The token between two offsets of the remaining source, which is consumed up to `end`.
    fn token(&mut self, kind: TokenKind, begin: usize, content_end: usize, end: usize) -> Token<'s> {
        let text = &self.rest()[begin..content_end];
        self.skip(begin);
        let line = self.line;
        self.skip(end - begin);
        Token { kind, text, line }
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.rest()[..bytes].matches('\n').count();
        self.at += bytes;
    }
}

/// The end of the identifier or number at the beginning.
fn end_of_word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The end of the content of the block comment at the beginning, and of the comment. Block comments nest.
fn end_of_block(text: &str) -> (usize, usize) {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return (at - 2, at);
            }
        } else {
            at += 1;
        }
    }
    (text.len(), text.len())
}

/// The start and the length of the content of the string literal at the beginning, and the end of the literal.
fn string(text: &str) -> Option<(usize, usize, usize)> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let quoted = text.strip_prefix(prefix).unwrap_or_default();
        let hashes = if prefix.ends_with('r') { quoted.trim_start_matches('#') } else { quoted };
        hashes.starts_with('"')
    })?;
    let after = &text[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let begin = prefix.len() + hashes + 1;
    let content = &text[begin..];
    if prefix.ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        let length = content.find(&close).unwrap_or(content.len());
        return Some((begin, length, (begin + length + close.len()).min(text.len())));
    }
    let mut escaped = false;
    for (at, c) in content.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((begin, at, begin + at + 1)),
            _ => {}
        }
    }
    Some((begin, content.len(), text.len()))
}

/// The end of the character, byte or lifetime at the beginning.
fn end_of_quote(text: &str) -> usize {
    let quote = text.find('\'').unwrap_or_default();
    let mut chars = text[quote + 1..].char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            // The escaped character may be a quote itself.
            let from = quote + 1 + at + escaped.len_utf8();
            text[from..].find('\'').map_or(text.len(), |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => quote + 1 + at + 1,
        _ => quote + 1 + end_of_word(&text[quote + 1..]),
    }
}

#[cfg(test)]
mod tests;
