//! The testbed's PostgreSQL provides a separate database for every test.

#[tokio::test]
async fn a_query_on_a_fresh_database_gives_its_answer() {
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let database = postgres.database().await;
    assert!(database.url().ends_with(database.name()));
    database
        .psql("CREATE TABLE nodes (name text, cores int); INSERT INTO nodes VALUES ('a', 2), ('b', 40)")
        .await;
    assert_eq!(database.psql("SELECT sum(cores), max(name) FROM nodes").await, "42|b");
}

#[tokio::test]
async fn two_databases_do_not_see_each_other() {
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let (one, other) = tokio::join!(postgres.database(), postgres.database());
    one.psql("CREATE TABLE only_here ()").await;
    let count = "SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'";
    assert_eq!(one.psql(count).await, "1");
    assert_eq!(other.psql(count).await, "0");
}

#[tokio::test]
async fn a_dropped_database_is_gone() {
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let watcher = postgres.database().await;
    let database = postgres.database().await;
    let count = format!("SELECT count(*) FROM pg_database WHERE datname = '{}'", database.name());
    assert_eq!(watcher.psql(&count).await, "1");
    drop(database);
    assert_eq!(watcher.psql(&count).await, "0");
}
