use rstest::rstest;

use super::*;

fn amounts(cpu: &str, memory: &str) -> Shape {
    Shape { cpu: cpu.parse().ok(), memory: memory.parse().ok(), ..Shape::default() }
}

fn tolerating(key: &str, operator: &str, value: &str, effect: &str) -> Shape {
    let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
    Shape {
        tolerations: vec![Toleration { key, operator, value, effect, ..Toleration::default() }],
        ..Shape::default()
    }
}

fn resource(name: &str) -> Shape {
    Shape { extended_resources: BTreeMap::from([(name.to_owned(), 1)]), ..Shape::default() }
}

fn limits(cpu: Option<&str>, memory: Option<&str>) -> UpperLimits {
    UpperLimits {
        cpu: cpu.and_then(|cpu| cpu.parse().ok()),
        memory: memory.and_then(|memory| memory.parse().ok()),
        ..UpperLimits::default()
    }
}

fn limited(cpu: &str, limit: &str) -> Shape {
    Shape { limits: limits(Some(limit), None), ..amounts(cpu, "1Gi") }
}

#[rstest]
#[case(amounts("1m", "1Mi"), None)]
#[case(amounts("0", "1Gi"), Some("cpu is 0: must be greater than 0, such as 100m"))]
#[case(amounts("1", "1"), Some("memory is 1: must be at least 1Mi; use a unit"))]
#[case(amounts("1", "1048575"), Some("memory is 1048575: must be at least 1Mi"))]
#[case(limited("1", "2"), None)]
#[case(limited("2", "1"), Some("the limit of cpu is 1: must be at least the requested 2"))]
#[case(resource("vpc.amazonaws.com/efa"), None)]
#[case(resource("hugepages-2Mi"), None)]
#[case(resource("a b"), Some("'a b' is not the name of a resource"))]
#[case(resource("a/b/c"), Some("'a/b/c' is not the name of a resource"))]
#[case(Shape { gpu_resource: Some(String::new()), ..Shape::default() }, Some("'' is not the name of a resource"))]
#[case(tolerating("k", "", "v", ""), None)]
#[case(tolerating("", "Exists", "", "NoExecute"), None)]
#[case(tolerating("k", "In", "", ""), Some("toleration of 'k': operator is 'In': must be Equal or Exists"))]
#[case(tolerating("k", "", "v", "Never"), Some("effect is 'Never': must be NoSchedule,"))]
#[case(tolerating("k", "Exists", "v", ""), Some("value is 'v': must be empty with operator Exists"))]
#[case(tolerating("k\n", "", "v", ""), Some("toleration \"k\\n\" has control characters"))]
#[case(tolerating("", "", "v", ""), Some("key is empty: operator must then be Exists"))]
#[case(
    Shape { tolerations: vec![Toleration::default(); 101], ..Shape::default() },
    Some("101 tolerations are given: must be at most 100")
)]
fn what_no_node_can_have_is_refused(#[case] shape: Shape, #[case] why: Option<&str>) {
    let checked = shape.check().map_err(|error| error.to_string());
    match why {
        None => assert_eq!(checked, Ok(())),
        Some(why) => assert!(checked.as_ref().is_err_and(|refusal| refusal.contains(why)), "{checked:?}"),
    }
}

#[test]
fn a_limit_is_taken_with_its_amount() {
    let named = Shape { limits: limits(Some("4"), Some("8Gi")), ..amounts("2", "4Gi") };
    let beside = Shape { cpu: "8".parse().ok(), ..Shape::default() }.or(named.clone());
    assert_eq!(beside.limits, limits(None, Some("8Gi")));
    let mut changed = named;
    ShapeChange { memory: Some("16Gi".parse().ok()), ..ShapeChange::default() }.apply(&mut changed);
    assert_eq!(changed.limits, limits(Some("4"), None));
}

#[test]
fn entries_of_both_shapes_count_and_the_first_wins() {
    let own = Shape { selectors: BTreeMap::from([("zone".to_owned(), "a".to_owned())]), ..resource("x/a") };
    let other = Shape {
        selectors: BTreeMap::from([
            ("zone".to_owned(), "b".to_owned()),
            ("disk".to_owned(), "ssd".to_owned()),
        ]),
        ..tolerating("k", "Exists", "", "")
    };
    let both = own.or(other.clone());
    let selectors =
        BTreeMap::from([("disk".to_owned(), "ssd".to_owned()), ("zone".to_owned(), "a".to_owned())]);
    assert_eq!(both, Shape { selectors, tolerations: other.tolerations, ..resource("x/a") });
}
