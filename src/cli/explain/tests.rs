//! The answer from given facts, and its text.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde_json::json;

use super::{
    Assumed,
    plan::explain,
    read::{Read, Target},
    rules::{KnownRules, chosen},
    text::text,
};
use crate::{
    cli::status::facts::{EventFacts, Facts, LeaseFacts, RetainedFacts, Subject},
    config::{DrainConfig, PublishedService, parse_rules},
    domain::{
        Budget, BudgetKey, DaemonSetState, Moment, NamespaceLabels, Node, Owner, Phase, Pod,
        PodKey, PodWishes, RECORD, Selector, seconds,
    },
};

const INSTANCE: &str = "i-1234567890abcdef0";

const RULES: &str = "\
rules:
- match: {podLabels: app=job}
  behavior: WaitCompleted
- match: {podLabels: app=cart, nodeLabels: pool=web}
  behavior: Evict
  maxGracePeriod: 20s
  forceAfter: never
- match: {podLabels: app=debug}
  behavior: Skip
";

/// `s` seconds after a fixed moment; the cluster is read at 3600.
fn at(s: i64) -> Moment {
    Moment::from_second(1_767_225_600 + s).unwrap()
}

fn node(record: Option<i64>) -> Node {
    let record = record.map(|accepted| {
        let interruption = json!({
            "kind": "terminate-hook", "event": "e", "time": at(accepted), "accepted": at(accepted),
            "group": "web", "hook": "sundown"
        });
        json!({ "version": 1, "instance": INSTANCE, "interruptions": [interruption] }).to_string()
    });
    Node {
        instance: Some(INSTANCE.parse().unwrap()),
        unschedulable: record.is_some(),
        annotations: record.map(|text| (RECORD.to_owned(), text)).into_iter().collect(),
        labels: Arc::new([("pool".to_owned(), "web".to_owned())].into()),
        ..Node::for_test("ip-10-0-1-23.eu-west-1.compute.internal")
    }
}

fn pod(app: &str) -> Pod {
    Pod {
        key: PodKey { namespace: "shop".into(), name: format!("{app}-1").as_str().into() },
        uid: app.into(),
        node: Some("ip-10-0-1-23.eu-west-1.compute.internal".into()),
        labels: [("app".to_owned(), app.to_owned())].into(),
        phase: Phase::Running,
        ready: true,
        created: None,
        deletion: None,
        grace: seconds(30),
        owner: None,
        mirror: false,
        tolerates_us: false,
        priority: 0,
        finalizers: false,
        has_claims: false,
        wishes: PodWishes::default(),
    }
}

fn asking(app: &str, key: &'static str, value: &'static str) -> Pod {
    let annotation = |asked: &str| (asked == key).then_some(value);
    Pod { wishes: PodWishes::read(annotation, &pod(app).labels), ..pod(app) }
}

fn daemon(app: &str, set: &str) -> Pod {
    let owner = Owner { api_version: "apps/v1".into(), kind: "DaemonSet".into(), name: set.into() };
    Pod { owner: Some(Box::new(owner)), ..pod(app) }
}

fn read(node: Node, pods: Vec<Pod>, flags: &str) -> Read {
    let lease = LeaseFacts {
        namespace: "sundown".to_owned(),
        name: "sundown".to_owned(),
        holder: Some("sundown-0".to_owned()),
        acquired: Some(at(0)),
        renewed: Some(at(3598)),
        duration: seconds(15),
        is_paused: false,
        settings: DrainConfig::from_published(flags),
        service: PublishedService::default(),
    };
    let name = node.name.clone();
    let exists = (("shop".to_owned(), "proxy".to_owned()), DaemonSetState::Exists);
    Read {
        facts: Facts {
            now: at(3600),
            lease: Some(lease),
            nodes: vec![node],
            pods: [(name.clone(), Ok(pods))].into(),
            daemon_sets: BTreeMap::from([exists]),
            budgets: vec![Budget {
                key: BudgetKey { namespace: "shop".into(), name: "web".into() },
                selector: Selector::from_parts([("app".to_owned(), "web".to_owned())], []),
                allowed: 0,
                healthy: 2,
                desired: 2,
                generation: 1,
                observed: 1,
            }],
            events: Vec::new(),
            retained: RetainedFacts::default(),
            trouble: Vec::new(),
        },
        node: name,
        pod: None,
        rules: KnownRules::default(),
        namespaces: NamespaceLabels::default(),
    }
}

fn with_rules(read: Read) -> Read {
    let rules = KnownRules {
        rules: Arc::new(parse_rules(RULES).unwrap()),
        source: Some("ConfigMap sundown/sundown-rules".to_owned()),
        trouble: None,
    };
    Read { rules, ..read }
}

fn shown(read: &Read, assumed: Assumed) -> String {
    text(&explain(read, assumed.kind()).unwrap(), 80)
}

#[test]
fn the_pods_of_an_open_drain_are_explained_as_its_leader_treats_them() {
    let pods = vec![
        pod("cart"),
        pod("job"),
        pod("debug"),
        pod("web"),
        asking("proxy", "karpenter.sh/do-not-disrupt", "true"),
        daemon("agent", "proxy"),
    ];
    let read = with_rules(read(node(Some(3000)), pods, "--drain-timeout=40m --rules-file=given"));
    assert_eq!(
        shown(&read, Assumed::Spot),
        "\
ip-10-0-1-23.eu-west-1.compute.internal is being drained (terminate-hook). The
drain ends at 2026-01-01T01:29:58Z at the latest.
Rules: ConfigMap sundown/sundown-rules.

shop/agent-1
  what     Sundown leaves it alone and does not wait for it.
  why      It belongs to a DaemonSet, which --drain-daemonset does not name.

shop/cart-1
  what     Sundown evicts it at once.
  why      Rule 2 (line 4): Evict.
  forced   never (forceAfter of rule 2 (line 4))
  grace    20s, by rule 2 (line 4)

shop/debug-1
  what     Sundown leaves it alone and does not wait for it.
  why      Rule 3 (line 8): Skip.

shop/job-1
  what     Sundown waits until it has finished, until 2026-01-01T01:09:57Z at
           the latest. Then it evicts the pod.
  why      Rule 1 (line 2): WaitCompleted.
  forced   from 2026-01-01T01:29:25Z on, if its eviction is refused
           (--force-after=0.5)
  grace    30s, its own

shop/proxy-1
  what     Sundown evicts it at once.
  why      By default: no rule, annotation, label or flag is about it.
  forced   from 2026-01-01T01:29:25Z on, if its eviction is refused
           (--force-after=0.5)
  grace    30s, its own
  note     Its annotation karpenter.sh/do-not-disrupt has no effect: --honor
           does not name it.

shop/web-1
  what     Sundown evicts it at once.
  why      By default: no rule, annotation, label or flag is about it.
  blocked  pdb shop/web (2 healthy pods, 2 needed). It needs one more healthy
           pod of the budget, or a budget that allows a disruption.
  forced   from 2026-01-01T01:29:25Z on, if its eviction is refused
           (--force-after=0.5)
  grace    30s, its own

6 pods.
"
    );
}

#[test]
fn groups_share_the_time_that_was_left_when_the_drain_began() {
    let later_group_from = |began: Option<i64>| {
        let critical = Pod { priority: 2_000_000_000, ..pod("dns") };
        let mut read = read(node(Some(3000)), vec![pod("web"), critical], "");
        let event = began.map(|s| EventFacts {
            subject: Subject::Node(read.node.clone()),
            reason: "DrainBegins".to_owned(),
            is_warning: false,
            message: String::new(),
            first: at(s),
            last: at(s),
        });
        read.facts.events = event.into_iter().collect();
        let answer = explain(&read, Assumed::Spot.kind()).unwrap();
        let dns = answer.pods.iter().find(|answer| answer.pod == "shop/dns-1").unwrap();
        dns.until.unwrap()
    };
    // Of two groups, the second one begins after a quarter of the time.
    let later = later_group_from(None).plus(seconds(300 - 75));
    assert_eq!(later_group_from(Some(3300)), later);
}

#[test]
fn a_node_that_is_not_drained_is_explained_for_a_drain_that_begins_now() {
    let pods = vec![
        asking("log", "sundown.dev/drain", "last"),
        asking("job", "sundown.dev/drain", "wait"),
        Pod { priority: 2_000_000_000, ..pod("dns") },
    ];
    let spot = shown(&read(node(None), pods.clone(), "--spot-deadline-margin=20s"), Assumed::Spot);
    assert_eq!(
        spot,
        "\
ip-10-0-1-23.eu-west-1.compute.internal is not being drained. A drain that
begins now (spot) ends at 2026-01-01T01:01:58Z at the latest and does this:

shop/dns-1
  what     It is in group 3 of 4. Sundown evicts it when the pods of earlier
           groups are gone, at 2026-01-01T01:00:25Z at the latest.
  why      --pod-order=critical-last puts it there.
  forced   from 2026-01-01T01:01:10Z on, if its eviction is refused
           (--force-after=0.5)
  grace    30s, its own

shop/job-1
  what     Sundown evicts it at once.
  why      Its annotation sundown.dev/drain asks to wait until it has finished.
           It waits no longer: the time for that is over, or the drain is too
           short.
  forced   from 2026-01-01T01:01:10Z on, if its eviction is refused
           (--force-after=0.5)
  grace    30s, its own

shop/log-1
  what     Sundown evicts it when the pods of all groups are gone, at
           2026-01-01T01:00:50Z at the latest.
  why      Its annotation sundown.dev/drain asks to go last.
  forced   from 2026-01-01T01:01:10Z on, if its eviction is refused
           (--force-after=0.5)
  grace    30s, its own

3 pods.
"
    );
    let rebalance = shown(&read(node(None), pods, ""), Assumed::Rebalance);
    for words in [
        "begins now (rebalance) ends when the node is empty and does this:",
        "Sundown waits until it has finished.\n",
        "forced   never: the drain has no deadline",
    ] {
        assert!(rebalance.contains(words), "{words:?} is not in {rebalance}");
    }
    let hook = shown(&read(node(None), Vec::new(), "--drain-timeout=30m"), Assumed::TerminateHook);
    assert!(hook.contains("(terminate-hook) ends at 2026-01-01T01:30:00Z at the"), "{hook}");
    assert!(hook.ends_with("No pod is on it.\n"), "{hook}");
}

#[test]
fn one_pod_is_explained_alone_and_what_it_asks_for_counts_more_than_a_rule() {
    let job = asking("job", "sundown.dev/drain", "skip");
    let mut read = with_rules(read(node(Some(3000)), vec![job, pod("cart")], ""));
    read.pod = Some(PodKey { namespace: "shop".into(), name: "job-1".into() });
    let text = shown(&read, Assumed::Spot);
    assert!(
        text.ends_with(
            "\n\nshop/job-1
  what     Sundown leaves it alone and does not wait for it.
  why      Its annotation sundown.dev/drain asks to be left alone.
  note     Rule 1 (line 2) (WaitCompleted) matches it, too. What the pod asks
           for counts more.
"
        ),
        "{text}"
    );
    read.pod = Some(PodKey { namespace: "shop".into(), name: "gone".into() });
    let error = explain(&read, Assumed::Spot.kind()).unwrap_err().to_string();
    assert!(error.starts_with("the pod shop/gone is no longer on "), "{error}");
}

#[test]
fn a_rule_reads_the_labels_of_the_namespace() {
    let mut read = read(node(None), vec![pod("cart")], "");
    let rules = "rules: [{match: {namespaceLabels: team=shop}, behavior: Skip}]";
    read.rules.rules = Arc::new(parse_rules(rules).unwrap());
    for (team, words) in [("shop", "Rule 1 (line 1): Skip."), ("other", "By default: no rule")] {
        let labels = [("team".to_owned(), team.to_owned())].into();
        read.namespaces = [("shop".to_owned(), labels)].into_iter().collect();
        let text = shown(&read, Assumed::Spot);
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
}

#[test]
fn a_rule_of_other_nodes_and_rules_that_are_not_known_decide_nothing() {
    let other = Node { labels: Arc::default(), ..node(Some(3000)) };
    let text = shown(&with_rules(read(other, vec![pod("cart")], "")), Assumed::Spot);
    assert!(text.contains("By default: no rule"), "{text}");

    let mut read = read(node(None), vec![pod("cart")], "--rules-file=given");
    read.rules.trouble = Some("The rules are not known here.".to_owned());
    let text = shown(&read, Assumed::Spot);
    assert!(text.contains("The rules are not known here.\n") && !text.contains("Rules:"), "{text}");
    read.facts.lease = None;
    let text = shown(&read, Assumed::Spot);
    assert!(text.contains("Without the Lease, the settings of the leader are not"), "{text}");
}

#[test]
fn the_rules_of_the_leader_are_in_the_only_config_map_with_the_label() {
    let map = |data: &[(&str, &str)]| ConfigMap {
        metadata: ObjectMeta { name: Some("rules".to_owned()), ..ObjectMeta::default() },
        data: Some(data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
        ..ConfigMap::default()
    };
    let of = |maps: Vec<ConfigMap>| chosen(&maps, "sundown", "sundown.dev/rules-of=sundown");
    let good = of(vec![map(&[("rules.yaml", RULES)])]).unwrap();
    assert_eq!(good.source.as_deref(), Some("ConfigMap sundown/rules"));
    assert_eq!((good.rules.count(), good.trouble), (3, None));
    for (maps, words) in [
        (vec![], "no ConfigMap in sundown with the label sundown.dev/rules-of=sundown"),
        (vec![map(&[]), map(&[])], "several ConfigMaps"),
        (vec![map(&[("rules", RULES)])], "ConfigMap sundown/rules has no key rules.yaml"),
        (vec![map(&[("rules.yaml", "rules: 5")])], "is bad, so the leader follows earlier ones"),
    ] {
        let error = of(maps).unwrap_err();
        assert!(error.contains(words), "{words:?} is not in {error:?}");
    }
}

#[test]
fn a_pod_is_named_with_its_namespace_and_everything_else_is_a_node() {
    let pod = |namespace: &str, name: &str| {
        Target::Pod(PodKey { namespace: namespace.into(), name: name.into() })
    };
    for (text, namespace, expected) in [
        ("ip-10-0-1-23", None, Some(Target::Node("ip-10-0-1-23".to_owned()))),
        ("shop/web-0", None, Some(pod("shop", "web-0"))),
        ("web-0", Some("shop"), Some(pod("shop", "web-0"))),
        ("shop/web-0", Some("shop"), Some(pod("shop", "web-0"))),
        ("shop/web-0", Some("cart"), None),
        ("/web-0", None, None),
        ("shop/", None, None),
        ("a/b/c", None, None),
    ] {
        assert_eq!(Target::of(text, namespace).ok(), expected, "{text} {namespace:?}");
    }
}
