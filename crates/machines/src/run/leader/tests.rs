use super::*;
use crate::run::fake::FakeKubernetes;

#[tokio::test]
async fn a_namespace_that_was_deleted_is_created_again() {
    let kubernetes = FakeKubernetes::default();
    let times = LeaseTimes::within(Duration::from_secs(1));
    let election = Election::new(kubernetes.client().await, "ours", "one".to_owned(), times);
    let (sender, mut leads) = watch::channel(false);
    let running = tokio::spawn(election.run(sender));
    let led = tokio::time::timeout(Duration::from_mins(1), leads.wait_for(|leads| *leads)).await;
    assert!(led.is_ok_and(|led| led.is_ok()), "it leads");
    assert!(kubernetes.object("/api/v1/namespaces/ours").is_some());
    running.abort();
}
