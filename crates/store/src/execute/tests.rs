/// Metrics name a command as its callers do.
#[test]
fn the_metrics_of_a_command_have_the_name_of_its_method() {
    let methods = include_str!("../execute.rs").split("pub async fn ").skip(1);
    let names = methods.map(|method| {
        let label = method.split("self.write").nth(1).and_then(|call| call.split('"').nth(1));
        (method.split('(').next().unwrap_or_default(), label.unwrap_or_default())
    });
    let names: Vec<(&str, &str)> = names.collect();
    assert!(names.contains(&("accept", "accept")), "{names:?}");
    let other: Vec<_> = names.iter().filter(|(method, label)| method != label).collect();
    assert!(other.is_empty(), "the method and the label of its metrics: {other:?}");
}
