use rstest::rstest;

use super::*;

fn found(language: Language, text: &str) -> Vec<(usize, String)> {
    hits(language, text).into_iter().map(|hit| (hit.line, hit.found)).collect()
}

#[rstest]
#[case::identifier("fn was_told() {}", &["told"])]
#[case::type_name("struct ToldToFail;", &["told"])]
#[case::constant("const NOBODY: u8 = 1;", &["nobody"])]
#[case::string(r#"f("nobody is here")"#, &["nobody"])]
#[case::reason_in_a_string(r#"f("ToldToFail")"#, &["told"])]
#[case::raw_string("f(r#\"made \"anew\"\"#)", &["anew"])]
#[case::escape(r#"f("a\nnobody")"#, &["nobody"])]
#[case::escaped_backslash(r#"f("\\nobody")"#, &["nobody"])]
#[case::comment("// Somebody was told.", &["somebody", "told"])]
#[case::doc_comment("/// Whoever asks.", &["whoever"])]
#[case::phrase("// the cache is behind", &["is behind"])]
#[case::phrase_as_a_name("fn is_away() {}", &["is away"])]
#[case::phrase_in_camel_case("struct IsAway;", &["is away"])]
#[case::three_words("// a token is none that the server knows", &["is none that"])]
#[case::hyphen("// say good-bye", &["good bye"])]
#[case::capitals_before_a_word("struct HTTPHeard;", &["heard"])]
#[case::part_of_a_word("fn threshold_shear(anewal: u8) {}", &[])]
#[case::sentence_between("// what it is. Behind it", &[])]
#[case::words_between("// is not behind", &[])]
#[case::lifetime("fn f<'told>() {}", &[])]
#[case::plain("fn notify() {} // publish", &[])]
fn retired_words_are_found_in_rust(#[case] source: &str, #[case] expected: &[&str]) {
    let words: Vec<String> = found(Language::Rust, source).into_iter().map(|(_, word)| word).collect();
    assert_eq!(words, expected);
}

#[test]
fn a_hit_names_its_line_and_what_to_write() {
    let source = "fn f() {\n    // told\n    g(\"a\n nobody\")\n}";
    assert_eq!(found(Language::Rust, source), [(2, "told".to_owned()), (4, "nobody".to_owned())]);
    let hit = &hits(Language::Text, "# Title\n\nThe text is\nbehind.")[0];
    assert_eq!((hit.line, hit.instead), (3, "is stale, is pending"));
}

#[test]
fn only_comments_of_sql_are_read() {
    let source = "CREATE TABLE t (\n    told BIGINT, -- nobody writes it\n    a TEXT\n);\n-- told\n";
    assert_eq!(found(Language::Sql, source), [(2, "nobody".to_owned()), (5, "told".to_owned())]);
}

#[rstest]
#[case("crates/core/src/lib.rs", Some(Language::Rust))]
#[case("docs/cli.md", Some(Language::Text))]
#[case("a.proto", Some(Language::Text))]
#[case("Cargo.toml", Some(Language::Text))]
#[case(".github/workflows/ci.yml", Some(Language::Text))]
#[case("deploy/Dockerfile", Some(Language::Text))]
#[case("deploy/helm/muster/values.yaml", Some(Language::Text))]
#[case("deploy/helm/muster/templates/NOTES.txt", Some(Language::Text))]
#[case("deploy/helm/muster/templates/_rules.tpl", Some(Language::Text))]
#[case(".ci/run", Some(Language::Text))]
#[case("crates/cli/tests/laptop/openstack/life.py", Some(Language::Text))]
#[case("crates/store/migrations/0001_base.sql", Some(Language::Sql))]
#[case("crates/api/tests/openapi/other_apis.json", Some(Language::Text))]
#[case("deploy/helm/muster/values.schema.json", Some(Language::Text))]
#[case("docs/images/overview.svg", Some(Language::Text))]
#[case("crates/api/openapi.json", None)]
#[case("crates/frameworks/src/spark/busy.json", None)]
#[case("crates/store/tests/fixtures/v1/sqlite.sql", None)]
#[case("deploy/Dockerfile.dockerignore", None)]
#[case("crates/frameworks/pins/dask.txt", None)]
#[case("crates/proto/tests/snapshots/routes.txt", None)]
#[case("testbed/python/openstack.txt", None)]
#[case("Cargo.lock", None)]
#[case("LICENSE", None)]
fn files_are_read_by_their_language(#[case] path: &str, #[case] expected: Option<Language>) {
    assert_eq!(Language::of(path), expected);
}

#[test]
fn every_retired_word_is_found_as_it_is_listed() {
    for (phrase, instead) in RETIRED {
        let text = phrase.join(" ");
        assert_eq!(found(Language::Text, &text), [(1, text.clone())]);
        assert_eq!(found(Language::Text, instead), [], "{text} leads to another retired word");
    }
}
