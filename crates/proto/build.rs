//! Compiles the `.proto` files: messages and services (prost, tonic), JSON (pbjson), and REST from the HTTP rules.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost_reflect::DescriptorPool;

#[path = "build/rules.rs"]
mod rules;
#[path = "build/write.rs"]
mod write;

const FILES: [&str; 14] = [
    "kuberay/cluster.proto",
    "kuberay/config.proto",
    "muster/v1alpha2/action.proto",
    "muster/v1alpha2/admin.proto",
    "muster/v1alpha2/cluster_service.proto",
    "muster/v1alpha2/compute_template.proto",
    "muster/v1alpha2/error.proto",
    "muster/v1alpha2/framework.proto",
    "muster/v1alpha2/app.proto",
    "muster/v1alpha2/image_template.proto",
    "muster/v1alpha2/job.proto",
    "muster/v1alpha2/machine.proto",
    "muster/v1alpha2/node.proto",
    "muster/v1alpha2/usage.proto",
];
const PACKAGES: [&str; 2] = [".muster", ".proto"];
const WELL_KNOWN: (&str, &str) = (".google.protobuf", "crate::wkt");

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    // Only this form keeps the HTTP rules: prost's own types drop extensions.
    let encoded = compiler.encode_file_descriptor_set();
    fs::write(out.join("descriptors.bin"), &encoded)?;

    tonic_prost_build::configure()
        .compile_well_known_types(true)
        .extern_path(WELL_KNOWN.0, WELL_KNOWN.1)
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .extern_path(WELL_KNOWN.0, WELL_KNOWN.1)
        .btree_map(["."])
        .ignore_unknown_fields()
        .ignore_unknown_enum_variants()
        .use_integers_for_enums()
        .build(&PACKAGES)?;
    write_rest(&encoded, &out)
}

fn write_rest(encoded: &[u8], out: &Path) -> Result<(), Box<dyn Error>> {
    let pool = DescriptorPool::decode(encoded)?;
    fs::write(out.join("rest.rs"), write::rest(&rules::services(&pool)?))?;
    Ok(())
}
