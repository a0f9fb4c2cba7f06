use rstest::rstest;

use super::TokenKind::{Comment, Ident, Other, Punct, Text};
use super::*;

fn kinds(source: &str) -> Vec<(TokenKind, &str)> {
    tokens(source).into_iter().map(|token| (token.kind, token.text)).collect()
}

#[rstest]
#[case::line_comment("a // b \"c\"\nd", &[(Ident, "a"), (Comment, " b \"c\""), (Ident, "d")])]
#[case::doc_comment("/// b", &[(Comment, "/ b")])]
#[case::nested_block("/* a /* b */ c */ d", &[(Comment, " a /* b */ c "), (Ident, "d")])]
#[case::open_block("/* a", &[(Comment, " a")])]
#[case::escaped_quote(r#""a\"b\\" c"#, &[(Text, r#"a\"b\\"#), (Ident, "c")])]
#[case::raw_string(r##"r#"a"b"# c"##, &[(Text, "a\"b"), (Ident, "c")])]
#[case::byte_strings(r##"b"a" br#"b"# c"c""##, &[(Text, "a"), (Text, "b"), (Text, "c")])]
#[case::open_string("\"a", &[(Text, "a")])]
#[case::comment_in_string("\"// a\"", &[(Text, "// a")])]
#[case::characters(r"'a' '\'' '\\' '\u{1F}' b'x'", &[(Other, "'a'"), (Other, r"'\''"), (Other, r"'\\'"), (Other, r"'\u{1F}'"), (Other, "b'x'")])]
#[case::quote_as_character("'\"' a", &[(Other, "'\"'"), (Ident, "a")])]
#[case::lifetimes("<'a> 'static x", &[(Punct, "<"), (Other, "'a"), (Punct, ">"), (Other, "'static"), (Ident, "x")])]
#[case::raw_identifier("r#type raw", &[(Ident, "type"), (Ident, "raw")])]
#[case::numbers("1_000u32 a", &[(Other, "1_000u32"), (Ident, "a")])]
#[case::call("f(\"A\")", &[(Ident, "f"), (Punct, "("), (Text, "A"), (Punct, ")")])]
fn source_is_split_into_code_text_and_comments(#[case] source: &str, #[case] expected: &[(TokenKind, &str)]) {
    assert_eq!(kinds(source), expected);
}

#[test]
fn every_token_knows_its_line() {
    let lines: Vec<(&str, usize)> =
        tokens("a\n\"b\nc\" d\n/* e\n*/ f").into_iter().map(|token| (token.text, token.line)).collect();
    assert_eq!(lines, [("a", 1), ("b\nc", 2), ("d", 3), (" e\n", 4), ("f", 5)]);
}

#[test]
fn product_code_has_no_comments_and_ends_before_the_tests() {
    let source = "a // b\n#[cfg(test)]\nfn c() {}\n#[cfg(test)]\nmod tests { d }\ne";
    let words: Vec<&str> = product_code(source)
        .into_iter()
        .filter(|token| token.kind == Ident)
        .map(|token| token.text)
        .collect();
    assert_eq!(words, ["a", "cfg", "test", "fn", "c"]);
}
