use rstest::rstest;
use serde_json::{Value, json};

use super::{policy, refused};
use crate::placement::{Affinity, Axis, Share};
use crate::policy::{InvalidPolicy, affinity, placement};

const REGION: &str = "senlin.policy.region_placement-1.0";
const ZONE: &str = "senlin.policy.zone_placement-1.0";

#[test]
fn shares_are_read_with_their_defaults() {
    let regions = json!({"regions": [{"name": "r1", "weight": "20", "cap": 5}, {"name": "r2"}, {"name": "r3", "cap": -1}]});
    let share = |name: &str, weight, cap| Share { name: name.to_owned(), weight, cap };
    let read = placement::shares(Axis::Region, &policy(REGION, &regions)).unwrap();
    assert_eq!(read, [share("r1", 20, Some(5)), share("r2", 100, None), share("r3", 100, None)]);
    let zones = policy(ZONE, &json!({"zones": [{"name": "az1"}, {"name": "az2", "weight": 0}]}));
    let read = placement::shares(Axis::Zone, &zones).unwrap();
    assert_eq!(read, [share("az1", 100, None), share("az2", 0, None)]);
}

#[rstest]
#[case(ZONE, json!({}), "'zones' must have a zone whose 'weight' is > 0")]
#[case(REGION, json!({"regions": []}), "'regions' must have a region whose 'weight' is > 0")]
#[case(ZONE, json!({"zones": [{"name": "a", "weight": 0}]}), "'zones' must have a zone whose 'weight' is > 0")]
#[case(ZONE, json!({"zones": [{"weight": 5}]}), "each zone must have a 'name'")]
#[case(ZONE, json!({"zones": [{"name": ""}]}), "each zone must have a 'name'")]
#[case(ZONE, json!({"zones": [{"name": "a", "weight": -1}]}), "the 'weight' of zone 'a' must be from 0 to 4294967295")]
#[case(ZONE, json!({"zones": [{"name": "a"}, {"name": "a"}]}), "the zone 'a' is in 'zones' more than once")]
#[case(REGION, json!({"regions": [{"name": "r", "cap": -2}]}), "the 'cap' of region 'r' must be >= 0, or -1 for unlimited")]
fn what_cannot_be_spread_over_is_refused(#[case] kind: &str, #[case] properties: Value, #[case] words: &str) {
    assert_eq!(refused(kind, &properties), InvalidPolicy::Invalid(words.to_owned()));
}

#[rstest]
#[case(json!({}), "anti-affinity", Some(Affinity::Apart))]
#[case(json!({"servergroup": {"name": "g"}}), "anti-affinity", Some(Affinity::Apart))]
#[case(json!({"servergroup": {"policies": "affinity"}}), "affinity", Some(Affinity::Together))]
#[case(json!({"servergroup": {"policies": "soft-affinity"}}), "soft-affinity", None)]
#[case(json!({"servergroup": {"policies": "soft-anti-affinity"}}), "soft-anti-affinity", None)]
fn only_hard_rules_are_rules(#[case] properties: Value, #[case] word: &str, #[case] rule: Option<Affinity>) {
    let settings: affinity::AffinityPolicySettings =
        policy("senlin.policy.affinity-1.0", &properties).settings().unwrap();
    assert_eq!((settings.word(), settings.rule()), (word, rule));
}
