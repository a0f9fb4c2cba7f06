use rstest::rstest;

use super::*;

#[rstest]
#[case("watch=true", true)]
#[case("label=a&watch=1", true)]
#[case("watch=false", false)]
#[case("rewatch=true", false)]
#[case("", false)]
fn a_list_is_watched_when_asked(#[case] query: &str, #[case] watched: bool) {
    assert_eq!(wants_watch(query), watched);
}

#[test]
fn paths_have_numbers_for_names() {
    let rules = METHODS.iter().flat_map(|method| method.rules);
    let rule = rules.into_iter().find(|rule| rule.path.ends_with("/{name}/scale")).unwrap();
    assert_eq!(positional(rule), "/apis/v1alpha2/namespaces/{0}/clusters/{1}/scale");
}
