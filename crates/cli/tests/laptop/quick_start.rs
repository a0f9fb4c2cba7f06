//! Runs the commands of the README's quick start and compares their output.

use crate::home::Home;
use crate::page::Page;

const README: &str = include_str!("../../../../README.md");

#[tokio::test]
async fn the_quick_start_prints_the_output_in_the_readme() {
    let Some(python) = muster_testkit::python("dask").await else { return };
    let page = Page::section(README, "Quick start");
    let home = Home::new();
    page.write_files(home.path());
    let count = page.run("console", |command| home.run(command, python.path()));
    assert!((5..=12).contains(&count), "{count}");
}
