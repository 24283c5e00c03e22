use super::{super::finding::Answer, *};
use crate::{
    config::RunArgs,
    domain::{PodBehavior, PodMatch, PodRule, PodRules, RulePlace},
};

const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/shop";

fn config(flags: &[&str]) -> Config {
    let flags = ["--queue-url", QUEUE].into_iter().chain(flags.iter().copied());
    RunArgs::from_flags(flags).unwrap().config(&|_| None).unwrap()
}

#[test]
fn a_run_needs_all_rights_and_a_dry_run_only_those_to_read() {
    let words = |flags: &[&str]| {
        needed(&config(flags)).into_iter().map(|n| n.right.words()).collect::<Vec<_>>()
    };
    let all = words(&[]);
    for word in [
        "create pods/eviction",
        "delete pods",
        "patch nodes",
        "update leases.coordination.k8s.io",
        "list poddisruptionbudgets.policy",
        "list volumeattachments.storage.k8s.io",
        "get persistentvolumeclaims",
    ] {
        assert!(all.iter().any(|w| w == word), "{word} is not in {all:?}");
    }
    assert!(!all.contains(&"patch pods/status".to_owned()), "{all:?}");
    let never = words(&["--force-after", "never"]);
    assert!(!never.contains(&"delete pods".to_owned()), "{never:?}");
    let mut ruled = config(&["--force-after", "never", "--disruption-target"]);
    for (force_after, expected) in [(ForceAfter::Never, false), (ForceAfter::Deadline, true)] {
        let rule = PodRule {
            place: RulePlace { number: 1, line: 2 },
            matches: PodMatch::default(),
            behavior: PodBehavior::Evict(None),
            max_grace_period: None,
            force_after: Some(force_after),
        };
        ruled.pod_rules = PodRules::new(vec![rule]).unwrap().into();
        let words: Vec<_> = needed(&ruled).into_iter().map(|n| n.right.words()).collect();
        for word in ["delete pods", "patch pods/status"] {
            assert_eq!(words.contains(&word.to_owned()), expected, "{force_after:?}: {word}");
        }
    }
    assert!(words(&["--disruption-target"]).contains(&"patch pods/status".to_owned()));
    let volumes = words(&["--wait-for-volumes", "never"]);
    assert!(!volumes.iter().any(|word| word.contains("volume")), "{volumes:?}");
    let status = "patch nodes/status".to_owned();
    assert!(!all.contains(&status), "{all:?}");
    assert!(words(&["--maintenance-condition"]).contains(&status));
    assert!(words(&["--drain-conditions"]).contains(&status));
    let delete = "delete nodes".to_owned();
    assert!(!words(&["--out-of-service-taint"]).contains(&delete));
    assert!(words(&["--delete-node"]).contains(&delete));
    let namespaces = "list namespaces".to_owned();
    assert!(!all.contains(&namespaces), "{all:?}");
    let file = std::env::temp_dir().join(format!("sundown-check-{}.yaml", std::process::id()));
    let rules = "rules: [{match: {namespaceLabels: team=web}, behavior: Skip}]";
    std::fs::write(&file, rules).unwrap();
    let reads_labels = format!("--rules-file={}", file.display());
    assert!(words(&[&reads_labels]).contains(&namespaces));
    assert!(!words(&["--dry-run", &reads_labels]).contains(&namespaces));
    std::fs::remove_file(&file).unwrap();
    let by_flag =
        ["--disruption-target", "--maintenance-condition", "--drain-conditions", "--delete-node"];
    let dry = words(&[&["--dry-run"][..], &by_flag].concat());
    assert_eq!(
        dry,
        [
            "list nodes",
            "watch nodes",
            "get nodes",
            "list poddisruptionbudgets.policy",
            "watch poddisruptionbudgets.policy"
        ]
    );
    let lease = needed(&config(&["--lease-namespace", "ops", "--lease-name", "mine"]))
        .into_iter()
        .filter(|n| n.right.resource == "leases");
    let places: Vec<_> = lease.map(|n| (n.right.verb, n.namespace, n.name)).collect();
    assert!(
        places.contains(&("get", "ops".to_owned(), "mine".to_owned()))
            && places.contains(&("create", "ops".to_owned(), String::new()))
    );
}

#[test]
fn each_missing_right_is_named_and_the_others_are_counted() {
    let rights = needed(&config(&[]));
    let answers = |allow: &dyn Fn(&Needed) -> Result<bool, String>| {
        let all: Vec<_> = rights.iter().map(|n| (n.clone(), allow(n))).collect();
        judge_rights(&all).into_iter().map(|f| (f.answer, f.about)).collect::<Vec<_>>()
    };
    assert_eq!(answers(&|_| Ok(true)), [(Answer::Yes, String::new())]);
    let missing = answers(&|n| Ok(n.right.verb != "delete"));
    assert_eq!(missing, [(Answer::Yes, String::new()), (Answer::No, "delete pods".to_owned())]);
    let of_volumes = answers(&|n| Ok(n.right.resource != "volumeattachments"));
    let missing = (Answer::No, "list volumeattachments.storage.k8s.io".to_owned());
    assert_eq!(of_volumes, [(Answer::Yes, String::new()), missing]);
    let unknown = answers(&|_| Err("gone".to_owned()));
    assert_eq!(unknown.len(), rights.len(), "each is named: {unknown:?}");
    assert!(unknown.iter().all(|(answer, _)| *answer == Answer::CannotTell), "{unknown:?}");
}

fn pod(name: &str, owner: &str, image: &str, env: &[(&str, &str)]) -> PodSummary {
    PodSummary {
        namespace: "ops".to_owned(),
        name: name.to_owned(),
        owner: owner.to_owned(),
        images: vec![image.to_owned()],
        env: env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        ..PodSummary::default()
    }
}

#[test]
fn other_readers_of_our_queue_are_found() {
    let own = Own { queues: vec![QUEUE], lease: ("ops", "sundown") };
    let outcomes = |pod: PodSummary| {
        let found = judge_pods(&own, std::slice::from_ref(&pod));
        found.into_iter().map(|f| (f.point, f.about, f.answer, f.needed)).collect::<Vec<_>>()
    };
    for (pods, expected) in [(1, "the only pod is not known"), (2, "none of 2 pods is known")] {
        let idle = vec![pod("web-0", "StatefulSet", "nginx", &[]); pods];
        let found = judge_pods(&own, &idle);
        assert!(
            found.first().is_some_and(|finding| finding.message.starts_with(expected)),
            "{found:?}"
        );
    }
    let none = ("no-other-handler", String::new(), Answer::Yes, true);
    let takes_messages =
        |workload: &str| vec![("no-other-handler", workload.to_owned(), Answer::No, true)];
    let ours = pod("sundown-5c9-abc", "ReplicaSet", "sundown:1", &[("SUNDOWN_QUEUE_URL", QUEUE)]);
    assert_eq!(outcomes(ours.clone()), std::slice::from_ref(&none));
    assert_eq!(
        outcomes(pod("web-5c9-abc", "ReplicaSet", "nginx", &[("PATH", "/bin")])),
        std::slice::from_ref(&none)
    );
    // Another Lease, another namespace, a dry run on the queue of the real one.
    let mut other = ours.clone();
    other.env.insert("SUNDOWN_LEASE_NAME".to_owned(), "trial".to_owned());
    assert_eq!(outcomes(other), takes_messages("ops/sundown"));
    assert_eq!(
        outcomes(PodSummary { namespace: "tools".to_owned(), ..ours.clone() }),
        takes_messages("tools/sundown")
    );
    let mut dry = ours.clone();
    dry.env.insert("SUNDOWN_DRY_RUN".to_owned(), "true".to_owned());
    assert_eq!(outcomes(dry.clone()), takes_messages("ops/sundown"));
    assert_eq!(outcomes(PodSummary { is_over: true, ..dry }), std::slice::from_ref(&none));
    // By the name alone, in a variable or a flag.
    assert_eq!(
        outcomes(pod(
            "karpenter-7d-x",
            "ReplicaSet",
            "karpenter",
            &[("INTERRUPTION_QUEUE", "shop")]
        )),
        takes_messages("ops/karpenter")
    );
    let mut flag = pod("reader-0", "StatefulSet", "reader", &[]);
    flag.words.push("--queue=shop".to_owned());
    assert_eq!(outcomes(flag), takes_messages("ops/reader"));
    assert_eq!(
        outcomes(pod(
            "karpenter-7d-x",
            "ReplicaSet",
            "karpenter",
            &[("INTERRUPTION_QUEUE", "workshop")]
        )),
        std::slice::from_ref(&none)
    );
    let mut apart = pod("reader-0", "StatefulSet", "reader", &[]);
    apart.words.extend(
        ["sh", "-c", "read --queue-url='https://sqs.eu-west-1.amazonaws.com/1/other' & read shop"]
            .map(str::to_owned),
    );
    assert_eq!(outcomes(apart.clone()), std::slice::from_ref(&none));
    apart.words.extend(["--queue", "shop"].map(str::to_owned));
    assert_eq!(outcomes(apart), takes_messages("ops/reader"));
    let line = format!("exec read --from={QUEUE},https://sqs.eu-west-1.amazonaws.com/1/other");
    assert_eq!(
        outcomes(pod("reader-1", "StatefulSet", "reader", &[("COMMAND", &line)])),
        takes_messages("ops/reader")
    );
    // A queue whose name begins with ours (as a trial's does), and an app with the queue's name.
    let trial = format!("{QUEUE}-trial");
    assert_eq!(
        outcomes(pod("trial-5c9-abc", "ReplicaSet", "sundown:1", &[("SUNDOWN_QUEUE_URL", &trial)])),
        std::slice::from_ref(&none)
    );
    assert_eq!(
        outcomes(pod("shop-5c9-abc", "ReplicaSet", "shop", &[("APP", "shop")])),
        std::slice::from_ref(&none)
    );
    // The handler on another queue, or on the instance's metadata; the autoscaler.
    let handler = pod(
        "aws-node-termination-handler-x2x",
        "DaemonSet",
        "public.ecr.aws/aws-ec2/aws-node-termination-handler:v1",
        &[],
    );
    assert_eq!(
        outcomes(handler),
        [("no-other-handler", "ops/aws-node-termination-handler".to_owned(), Answer::No, false)]
    );
    let autoscaler =
        pod("ca-6b-y", "ReplicaSet", "registry.k8s.io/autoscaling/cluster-autoscaler:v1", &[]);
    assert_eq!(
        outcomes(autoscaler),
        [none, ("autoscaler", "ops/ca".to_owned(), Answer::CannotTell, false)]
    );
}
