//! The everyday tasks of the documents: their commands are run, and print what the page says.

use crate::home::Home;
use crate::page::Page;

const TASKS: &str = include_str!("../../../../docs/everyday-tasks.md");

#[tokio::test]
async fn everyday_tasks_on_one_machine_print_what_their_page_says() {
    let Some(python) = muster_testkit::python("dask").await else { return };
    let page = Page::new(TASKS);
    let home = Home::new();
    page.write_files(home.path());
    let count = page.run("console", |command| home.run(command, python.path()));
    assert!(count > 20, "{count}");
}
