use rstest::rstest;
use serde_json::{Value as Json, from_value, json, to_value};

use super::*;

#[rstest]
#[case(0, "1970-01-01T00:00:00Z")]
#[case(1_700_000_000_000_000, "2023-11-14T22:13:20Z")]
#[case(1_700_000_000_250_000, "2023-11-14T22:13:20.25Z")]
#[case(-1, "1969-12-31T23:59:59.999999Z")]
fn a_moment_is_written_with_z_and_read_back(#[case] micros: i64, #[case] text: &str) {
    let moment = Timestamp::from_micros(micros);
    assert_eq!(to_value(moment).unwrap(), json!(text));
    assert_eq!(from_value::<Timestamp>(json!(text)).unwrap(), moment);
    assert_eq!(moment.micros(), micros);
}

#[test]
fn a_moment_with_an_offset_is_the_same_moment() {
    let moment: Timestamp = from_value(json!("2023-11-15T00:13:20+02:00")).unwrap();
    assert_eq!(moment.micros(), 1_700_000_000_000_000);
    let error = from_value::<Timestamp>(json!("yesterday")).unwrap_err().to_string();
    assert!(error.contains("'yesterday' is not a time"), "{error}");
}

#[rstest]
#[case("30s", 30_000_000, "30s")]
#[case("1.5s", 1_500_000, "1.5s")]
#[case("-1.5s", -1_500_000, "-1.5s")]
#[case("200ms", 200_000, "0.2s")]
#[case("-1500ms", -1_500_000, "-1.5s")]
#[case("0.000001s", 1, "0.000001s")]
#[case("10m", 600_000_000, "600s")]
#[case("2h", 7_200_000_000, "7200s")]
#[case("1d", 86_400_000_000, "86400s")]
fn a_duration_is_read_in_any_unit_and_written_in_seconds(
    #[case] given: &str,
    #[case] micros: i64,
    #[case] written: &str,
) {
    let duration: Duration = given.parse().unwrap();
    assert_eq!(duration.micros(), micros);
    assert_eq!(Duration::from_micros(micros), duration);
    assert_eq!(to_value(duration).unwrap(), json!(written));
}

#[rstest]
fn a_bad_duration_is_refused(
    #[values(
        "",
        "s",
        "5",
        "1.s",
        "1.5m",
        "-",
        "ten s",
        "9999999999999999999s",
        "1.0123456789s",
        "5é",
        "ms",
        "-ms",
        "+5ms",
        "1.5ms",
        "9999999999999999999ms"
    )]
    bad: &str,
) {
    let error = bad.parse::<Duration>().unwrap_err().to_string();
    assert!(error.contains(&format!("'{bad}'")), "{error}");
}

#[test]
fn whole_numbers_in_a_struct_have_no_fraction() {
    let json = json!({"a": 1, "b": 1.5, "c": -3.0, "d": [true, null, "x", {"e": 1e300}], "f": 9e15});
    let object: Struct = from_value(json).unwrap();
    let text = serde_json::to_string(&object).unwrap();
    assert_eq!(text, r#"{"a":1,"b":1.5,"c":-3,"d":[true,null,"x",{"e":1e+300}],"f":9000000000000000}"#);
}

#[test]
fn a_struct_survives_the_wire() {
    use prost::Message as _;
    let map = json!({"a": {"b": [1, 2.5, null]}, "c": "d", "e": false});
    let Json::Object(map) = map else { unreachable!("an object was written") };
    let object = Struct::from(map.clone());
    let decoded = Struct::decode(object.encode_to_vec().as_slice()).unwrap();
    assert_eq!(serde_json::Map::from(decoded), map);
}

#[test]
fn a_mask_is_held_and_written_as_it_came() {
    let mask: FieldMask = from_value(json!("idleTimeout, cluster_spec.headGroupSpec,,envs.MY_Key")).unwrap();
    assert_eq!(mask.paths, ["idleTimeout", "cluster_spec.headGroupSpec", "envs.MY_Key"]);
    assert_eq!(to_value(&mask).unwrap(), "idleTimeout,cluster_spec.headGroupSpec,envs.MY_Key");
}
