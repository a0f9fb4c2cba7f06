//! The capacity of a machine, and the demands of nodes.

use std::fmt;

use crate::cluster::Cluster;
use crate::quantity::{Cpu, Memory};
use crate::recipe::ClusterRecipe;
use crate::shape::Shape;

/// The capacity of a machine for nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Cpu.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Whole accelerators.
    pub gpu: u32,
}

/// The demand of identical nodes: their number, and the resources that each of them requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// The words for one of these nodes in messages: `the head`, `a worker`.
    pub subject: String,
    /// The desired number.
    pub count: u32,
    /// The resources that each node requests; absent amounts are left to the provider.
    pub shape: Shape,
}

/// The demands of a cluster: the head, then every group.
pub fn demands(cluster: &Cluster, recipe: &ClusterRecipe) -> Vec<Demand> {
    let head = Demand { subject: "the head".to_owned(), count: 1, shape: recipe.head().shape() };
    let several = cluster.groups.len() > 1;
    let workers = cluster.groups.iter().map(|group| Demand {
        subject: if several { format!("a worker of group '{}'", group.name) } else { "a worker".to_owned() },
        count: group.desired,
        shape: recipe.workers(Some(group)).shape(),
    });
    cluster.has_head.then_some(head).into_iter().chain(workers).collect()
}

impl Capacity {
    /// The reason why one node does not fit the machine; none if it fits.
    pub fn refusal(&self, Demand { subject, shape, .. }: &Demand) -> Option<String> {
        let mut requested_amounts = Vec::new();
        let mut available_amounts = Vec::new();
        for resource in Resource::ALL {
            let (wanted, has) = (resource.amount_in(shape).unwrap_or(0), resource.available(self));
            if wanted > has {
                requested_amounts.push(format!("{} {resource}", resource.amount(wanted)));
                available_amounts.push(resource.rounded(has));
            }
        }
        let (requested_amounts, available_amounts) =
            (requested_amounts.join(" and "), available_amounts.join(" and "));
        (!requested_amounts.is_empty()).then(|| {
            format!(
                "{subject} requests {requested_amounts}; this machine has {available_amounts}: request less"
            )
        })
    }

    /// The reason why these nodes cannot run at the same time: each needs gpus that no other uses. None if they can.
    pub fn too_few_gpus(&self, demands: &[Demand]) -> Option<String> {
        let gpu = Resource::Gpu;
        let sum = gpu.sum(demands);
        let terms: Vec<String> = demands.iter().filter_map(|demand| gpu.term(demand)).collect();
        (sum > gpu.available(self)).then(|| {
            format!(
                "its nodes together request {} = {sum} gpu; this machine has {}: request less",
                terms.join(" + "),
                self.gpu
            )
        })
    }

    /// Returns true if some of these nodes have to wait until other clusters free gpus.
    pub fn must_wait_for_gpus(&self, demands: &[Demand], others: &[Demand]) -> bool {
        let (sum, taken) = (Resource::Gpu.sum(demands), Resource::Gpu.sum(others));
        sum > 0 && sum.saturating_add(taken) > Resource::Gpu.available(self)
    }

    /// The reason why these demands together exceed the capacity that other clusters leave, with the arithmetic; none
    /// if they fit.
    pub fn exceeded(&self, demands: &[Demand], others: &[Demand]) -> Option<String> {
        let excess = |resource: &Resource| {
            let (sum, taken) = (resource.sum(demands), resource.sum(others));
            let has = resource.available(self);
            let taken_words = match taken {
                0 => String::new(),
                _ => format!(", other clusters request {}", resource.amount(taken)),
            };
            let terms =
                demands.iter().filter_map(|demand| resource.term(demand)).collect::<Vec<_>>().join(" + ");
            (sum > 0 && sum.saturating_add(taken) > has).then(|| {
                format!(
                    "{terms} = {} {resource}{taken_words}, and this machine has {}",
                    resource.amount(sum),
                    resource.rounded(has)
                )
            })
        };
        let excesses: Vec<String> = Resource::ALL.iter().filter_map(excess).collect();
        (!excesses.is_empty()).then(|| format!("its nodes together request {}", excesses.join("; ")))
    }
}

/// A resource of a shape.
#[derive(Debug, Clone, Copy)]
enum Resource {
    Cpu,
    Memory,
    Gpu,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Gpu => "gpu",
        })
    }
}

impl Resource {
    const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Gpu];

    fn amount_in(self, shape: &Shape) -> Option<u64> {
        match self {
            Self::Cpu => shape.cpu.map(Cpu::millis),
            Self::Memory => shape.memory.map(Memory::bytes),
            Self::Gpu => shape.gpu.map(u64::from),
        }
    }

    fn sum(self, demands: &[Demand]) -> u64 {
        demands.iter().fold(0, |sum, demand| {
            sum.saturating_add(self.amount_in(&demand.shape).unwrap_or(0).saturating_mul(demand.count.into()))
        })
    }

    fn available(self, capacity: &Capacity) -> u64 {
        match self {
            Self::Cpu => capacity.cpu.millis(),
            Self::Memory => capacity.memory.bytes(),
            Self::Gpu => capacity.gpu.into(),
        }
    }

    /// Formats an amount in the notation of requests.
    fn amount(self, amount: u64) -> String {
        match self {
            Self::Cpu => Cpu::from_millis(amount).to_string(),
            Self::Memory => Memory::from_bytes(amount).to_string(),
            Self::Gpu => amount.to_string(),
        }
    }

    /// Formats a capacity. Memory is seldom a round number, so that a tenth of a unit is precise enough.
    fn rounded(self, amount: u64) -> String {
        match self {
            Self::Memory => Memory::from_bytes(amount).rounded(),
            Self::Cpu | Self::Gpu => self.amount(amount),
        }
    }

    fn term(self, Demand { count, shape, .. }: &Demand) -> Option<String> {
        let amount = self.amount_in(shape).filter(|amount| *amount > 0 && *count > 0)?;
        let amount = self.amount(amount);
        Some(if *count == 1 { amount } else { format!("{count} × {amount}") })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::WorkerGroup;
    use crate::sample;

    fn shape(cpu: &str, memory: &str, gpu: u32) -> Shape {
        Shape { cpu: cpu.parse().ok(), memory: memory.parse().ok(), gpu: Some(gpu), ..Shape::default() }
    }

    fn laptop() -> Capacity {
        Capacity { cpu: Cpu::from_millis(2_000), memory: Memory::from_bytes(25_300_000_000), gpu: 0 }
    }

    #[rstest]
    #[case::all_of_it(shape("2", "23Gi", 0), None)]
    #[case::nothing_said(Shape::default(), None)]
    #[case::cpu(shape("64", "", 0), Some("a worker requests 64 cpu; this machine has 2: request less"))]
    #[case::everything(
        shape("2500m", "1Ti", 1),
        Some(
            "a worker requests 2500m cpu and 1Ti memory and 1 gpu; this machine has 2 and 23.5Gi and 0: request less"
        )
    )]
    fn one_node_has_to_fit(#[case] shape: Shape, #[case] why: Option<&str>) {
        let demand = Demand { subject: "a worker".to_owned(), count: 1, shape };
        assert_eq!(laptop().refusal(&demand).as_deref(), why);
    }

    #[test]
    fn all_nodes_are_added_up_as_the_recipe_and_each_group_say() {
        let mut cluster = Cluster { has_head: true, ..sample::cluster(4, 0, None) };
        let recipe: ClusterRecipe = serde_json::from_value(
            serde_json::json!({"head": {"cpu": 1}, "worker": {"cpu": "500m", "memory": "1Gi"}}),
        )
        .unwrap();
        let small = WorkerGroup { name: "small".to_owned(), ..cluster.groups[0].clone() };
        cluster.groups = vec![small.clone()];
        assert_eq!(demands(&cluster, &recipe)[1].subject, "a worker");
        let excess = laptop().exceeded(&demands(&cluster, &recipe), &[]);
        assert_eq!(
            excess.as_deref(),
            Some("its nodes together request 1 + 4 × 500m = 3 cpu, and this machine has 2")
        );
        cluster.groups.push(WorkerGroup {
            name: "big".to_owned(),
            desired: 1,
            shape: shape("", "64Gi", 2),
            ..small
        });
        let demands = demands(&cluster, &recipe);
        assert_eq!(demands[2].subject, "a worker of group 'big'");
        assert_eq!(
            laptop().exceeded(&demands, &[]).as_deref(),
            Some(
                "its nodes together request 1 + 4 × 500m + 500m = 3500m cpu, and this machine has 2; 4 × 1Gi + 64Gi = \
                 68Gi memory, and this machine has 23.5Gi; 2 = 2 gpu, and this machine has 0"
            )
        );
        cluster.groups.truncate(1);
        cluster.groups[0].desired = 2;
        assert_eq!(laptop().exceeded(&super::demands(&cluster, &recipe), &[]), None);
    }

    #[test]
    fn gpus_are_not_shared() {
        let machine = Capacity { gpu: 2, ..laptop() };
        let workers =
            |count, gpu| [Demand { subject: "a worker".to_owned(), count, shape: shape("", "", gpu) }];
        assert_eq!(machine.too_few_gpus(&workers(2, 1)), None);
        let expected = "its nodes together request 3 × 1 = 3 gpu; this machine has 2: request less";
        assert_eq!(machine.too_few_gpus(&workers(3, 1)).as_deref(), Some(expected));
        assert!(machine.must_wait_for_gpus(&workers(1, 1), &workers(2, 1)));
        assert!(!machine.must_wait_for_gpus(&workers(1, 1), &workers(1, 1)));
        assert!(!machine.must_wait_for_gpus(&workers(1, 0), &workers(3, 1)), "it needs none");
    }

    #[test]
    fn what_other_clusters_have_is_not_left() {
        let nodes = |cpu: &str, memory: &str| {
            [Demand { subject: "a worker".to_owned(), count: 2, shape: shape(cpu, memory, 0) }]
        };
        assert_eq!(
            laptop().exceeded(&nodes("500m", "1Gi"), &nodes("500m", "20Gi")).as_deref(),
            Some(
                "its nodes together request 2 × 1Gi = 2Gi memory, other clusters request 40Gi, and this machine has 23.5Gi"
            )
        );
        assert_eq!(laptop().exceeded(&nodes("1", ""), &[]), None);
        assert_eq!(laptop().exceeded(&[], &nodes("4", "40Gi")), None, "others are none of its business");
    }
}
