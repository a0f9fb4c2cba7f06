//! Image templates in updates: a template that an update names is replaced by its image.

use std::collections::{BTreeSet, HashMap};

use muster_core::cluster::Cluster;
use muster_core::image_template::ImageState;
use muster_core::recipe::stored_images;
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::FieldMask;
use muster_service::ErrorKind;

use super::super::convert::{self, CLUSTER_SPEC};
use super::super::{CoreApi, create};
use super::{groups, recipe, spelled_out};
use crate::access::Access;
use crate::error::ApiError;

const TEMPLATE: &str = "image_template";
const IMAGE: &str = "image";

impl CoreApi {
    /// Replaces the image templates that an update names by their images, in the request and in its mask.
    pub(in super::super) async fn resolve_images_of_update(
        &self,
        access: &Access,
        cluster: &Cluster,
        given: &mut wire::Cluster,
        mask: FieldMask,
    ) -> Result<FieldMask, ApiError> {
        let Some(spec) = &given.cluster_spec else { return Ok(mask) };
        create::check_group_count(&spec.worker_group_spec)?;
        let groups = spec.worker_group_spec.iter().map(|group| group.image_template.as_str());
        let head = spec.head_group_spec.iter().map(|head| head.image_template.as_str());
        let names: BTreeSet<&str> = groups.chain(head).filter(|name| !name.is_empty()).collect();
        if !names.is_empty() {
            recipe::check_type(cluster)?;
        }
        let mut images = HashMap::new();
        for name in names {
            images.insert(name.to_owned(), self.image_of_template(access, cluster, name).await?);
        }
        replace_templates(cluster, given, &mask, &images)
    }

    /// Returns the image of a template for nodes of a cluster that exists. A missing template is an invalid reference,
    /// not a missing object of the request.
    async fn image_of_template(
        &self,
        access: &Access,
        cluster: &Cluster,
        name: &str,
    ) -> Result<String, ApiError> {
        let namespace = &cluster.namespace;
        let found = self.service.image_template(access, namespace, name).await;
        let template = found.map_err(|error| match error.kind {
            ErrorKind::NotFound => ApiError::invalid(format!(
                "image template '{name}' not found in namespace '{namespace}': create it first, or give an image"
            )),
            _ => error.into(),
        })?;
        if template.instance != cluster.instance {
            let (built, here) = (template.instance.provider(), cluster.instance.provider());
            return Err(ApiError::invalid(format!(
                "image template '{name}' was built for provider '{built}', but the cluster has provider '{here}': create \
                 one there, or give an image"
            )));
        }
        match template.state() {
            ImageState::Ready => Ok(template.image),
            ImageState::Failed => Err(ApiError::invalid(format!(
                "the build of image template '{name}' failed: {}",
                template.task.status_reason
            ))),
            ImageState::Pending | ImageState::Building => Err(ApiError::invalid(format!(
                "the build of image template '{name}' has not ended: update the cluster when its state is READY"
            ))),
        }
    }
}

/// The image of a node, and the template that it comes from.
struct NodeImage<'g> {
    whose: String,
    image: &'g mut String,
    template: &'g mut String,
    present_image: String,
    present_template: String,
}

impl NodeImage<'_> {
    /// Replaces the template by its image; returns true if the image changes.
    fn replace(
        self,
        is_named: bool,
        images: &HashMap<String, String>,
        known: impl Fn(&str) -> Option<String>,
    ) -> Result<bool, ApiError> {
        let Self { whose, image, template, present_image, present_template } = self;
        let given = std::mem::take(template);
        if given.is_empty() {
            if is_named && present_template.is_empty() && image.is_empty() {
                *image = present_image;
            }
            return Ok(is_named && !present_template.is_empty());
        }
        if !image.is_empty() {
            return Err(ApiError::invalid(format!("{whose} has image and image_template: leave one out")));
        }
        let new = images.get(&given).cloned().unwrap_or_default();
        let is_same = given == present_template && known(&given).is_some_and(|known| known == new);
        if !is_same || is_named {
            *image = new;
        }
        Ok(!is_same)
    }
}

/// Replaces templates by images. A mask that names a template names the image then; one that names a template without a
/// change names nothing.
fn replace_templates(
    cluster: &Cluster,
    given: &mut wire::Cluster,
    mask: &FieldMask,
    images: &HashMap<String, String>,
) -> Result<FieldMask, ApiError> {
    let FieldMask { mut paths } = spelled_out(given, mask)?;
    let known = stored_images(&cluster.spec);
    let known = |name: &str| known.get(name).cloned();
    let Some(spec) = &mut given.cluster_spec else { return Ok(FieldMask { paths }) };
    let names = |paths: &[String], path: &str| paths.iter().any(|named| named == path);
    let replace = |paths: &mut Vec<String>, path: &str, with: Option<String>| {
        paths.retain(|named| named != path);
        paths.extend(with);
    };
    if let Some(head) = &mut spec.head_group_spec {
        let present: wire::Cluster = convert::kept(&cluster.spec, CLUSTER_SPEC);
        let present = present.cluster_spec.and_then(|spec| spec.head_group_spec).unwrap_or_default();
        let path = format!("{}.{TEMPLATE}", recipe::HEAD);
        let node = NodeImage {
            whose: "head_group_spec".to_owned(),
            image: &mut head.image,
            template: &mut head.image_template,
            present_image: present.image,
            present_template: present.image_template,
        };
        let is_named = names(&paths, &path);
        let changes = node.replace(is_named, images, known)?;
        if is_named {
            replace(&mut paths, &path, changes.then(|| format!("{}.{IMAGE}", recipe::HEAD)));
        }
    }
    let of_all = format!("{}.{TEMPLATE}", groups::GROUPS);
    let (all_named, mut any_changes) = (names(&paths, &of_all), false);
    for (place, group) in spec.worker_group_spec.iter_mut().enumerate() {
        let present = cluster.group(&group.group_name).map(convert::group).unwrap_or_default();
        let path = format!("{}.{place}.{TEMPLATE}", groups::GROUPS);
        let is_named = names(&paths, &path);
        let node = NodeImage {
            whose: format!("group '{}'", group.group_name),
            image: &mut group.image,
            template: &mut group.image_template,
            present_image: present.image,
            present_template: present.image_template,
        };
        let changes = node.replace(is_named || all_named, images, known)?;
        any_changes |= changes;
        if is_named {
            replace(&mut paths, &path, changes.then(|| format!("{}.{place}.{IMAGE}", groups::GROUPS)));
        }
    }
    if all_named {
        replace(&mut paths, &of_all, any_changes.then(|| format!("{}.{IMAGE}", groups::GROUPS)));
    }
    Ok(FieldMask { paths })
}

#[cfg(test)]
mod tests {
    use muster_core::cluster::Framework;
    use muster_core::recipe::store_images;
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const HEAD_TEMPLATE: &str = "cluster_spec.head_group_spec.image_template";
    const HEAD_IMAGE: &str = "cluster_spec.head_group_spec.image";
    const GROUP_TEMPLATE: &str = "cluster_spec.worker_group_spec.image_template";
    const GROUP_IMAGE: &str = "cluster_spec.worker_group_spec.image";

    /// A cluster whose head and group `g` have the template `old`; group `h` has the image `own:1`.
    fn cluster() -> Cluster {
        let group = |name: &str, template: &str, image: &str| wire::WorkerGroupSpec {
            group_name: name.to_owned(),
            image_template: template.to_owned(),
            image: image.to_owned(),
            ..wire::WorkerGroupSpec::default()
        };
        let groups = [group("g", "old", ""), group("h", "", "own:1")];
        let groups = groups.iter().map(|group| create::worker_group(group).expect("a group")).collect();
        let mut cluster = Cluster { framework: Some(Framework::Ray), groups, ..sample::cluster(1, 0, None) };
        let head = json!({"clusterSpec": {"headGroupSpec": {"imageTemplate": "old"}}});
        cluster.spec.insert(CLUSTER_SPEC.to_owned(), head);
        store_images(&mut cluster.spec, &[("old".to_owned(), "image:old".to_owned())].into());
        cluster
    }

    fn head(template: &str, image: &str) -> wire::Cluster {
        let head = wire::HeadGroupSpec {
            image_template: template.to_owned(),
            image: image.to_owned(),
            ..wire::HeadGroupSpec::default()
        };
        let spec = wire::ClusterSpec { head_group_spec: Some(head), ..wire::ClusterSpec::default() };
        wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() }
    }

    fn of_groups(templates: &[(&str, &str)]) -> wire::Cluster {
        let group = |(name, template): &(&str, &str)| wire::WorkerGroupSpec {
            group_name: (*name).to_owned(),
            image_template: (*template).to_owned(),
            ..wire::WorkerGroupSpec::default()
        };
        let worker_group_spec = templates.iter().map(group).collect();
        let spec = wire::ClusterSpec { worker_group_spec, ..wire::ClusterSpec::default() };
        wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() }
    }

    fn replaced(given: &mut wire::Cluster, path: &str) -> Result<Vec<String>, ApiError> {
        let images = ["old", "new"].map(|name| (name.to_owned(), format!("image:{name}"))).into();
        let mask = FieldMask { paths: vec![path.to_owned()] };
        replace_templates(&cluster(), given, &mask, &images).map(|mask| mask.paths)
    }

    #[rstest]
    #[case::named(HEAD_TEMPLATE, "new", "image:new", &[HEAD_IMAGE])]
    #[case::in_camel_case("clusterSpec.headGroupSpec.imageTemplate", "new", "image:new", &[HEAD_IMAGE])]
    #[case::with_the_whole_head("cluster_spec.head_group_spec", "new", "image:new", &["cluster_spec.head_group_spec"])]
    #[case::with_the_whole_spec("cluster_spec", "new", "image:new", &["cluster_spec.head_group_spec"])]
    #[case::as_it_is("cluster_spec", "old", "", &["cluster_spec.head_group_spec"])]
    #[case::named_as_it_is(HEAD_TEMPLATE, "old", "image:old", &[])]
    #[case::cleared(HEAD_TEMPLATE, "", "", &[HEAD_IMAGE])]
    fn the_head_gets_the_image_of_its_template(
        #[case] path: &str,
        #[case] template: &str,
        #[case] image: &str,
        #[case] paths: &[&str],
    ) {
        let mut given = head(template, "");
        assert_eq!(replaced(&mut given, path).expect("replaced"), paths);
        let head = given.cluster_spec.and_then(|spec| spec.head_group_spec).expect("a head");
        assert_eq!((head.image.as_str(), head.image_template.as_str()), (image, ""));
    }

    #[rstest]
    #[case::of_all(GROUP_TEMPLATE, &[("g", "new"), ("h", "new")], &["image:new", "image:new"], &[GROUP_IMAGE])]
    #[case::of_one(GROUP_TEMPLATE, &[("g", "new"), ("h", "")], &["image:new", "own:1"], &[GROUP_IMAGE])]
    #[case::cleared(GROUP_TEMPLATE, &[("g", "")], &[""], &[GROUP_IMAGE])]
    #[case::as_they_are(GROUP_TEMPLATE, &[("g", "old"), ("h", "")], &["image:old", "own:1"], &[])]
    #[case::an_element(
        "cluster_spec.worker_group_spec.1.image_template",
        &[("g", ""), ("h", "new")],
        &["", "image:new"],
        &["cluster_spec.worker_group_spec.1.image"]
    )]
    fn groups_get_the_images_of_their_templates(
        #[case] path: &str,
        #[case] templates: &[(&str, &str)],
        #[case] images: &[&str],
        #[case] paths: &[&str],
    ) {
        let mut given = of_groups(templates);
        assert_eq!(replaced(&mut given, path).expect("replaced"), paths);
        let groups = given.cluster_spec.expect("a spec").worker_group_spec;
        assert_eq!(groups.iter().map(|group| group.image.as_str()).collect::<Vec<_>>(), images);
        assert!(groups.iter().all(|group| group.image_template.is_empty()));
    }

    #[test]
    fn an_update_with_image_and_image_template_is_refused() {
        let refused = replaced(&mut head("new", "mine:2"), "cluster_spec").unwrap_err();
        assert_eq!(refused.message, "head_group_spec has image and image_template: leave one out");
    }
}
