use super::*;

fn drained(name: &str, heartbeats: u64, blocked: Vec<BlockedFor>) -> NodeSummary {
    NodeSummary {
        node: format!("{name}.eu-west-1.compute.internal"),
        instance: "i-1".to_owned(),
        kind: "terminate-hook",
        cordoned_after_ms: 30_000,
        drained_after_ms: None,
        ended: "draining",
        evictions: 1,
        refusals: 9,
        deletes: 0,
        forced: Vec::new(),
        blocked,
        pods_left: Vec::new(),
        heartbeats,
        completed_with: Vec::new(),
    }
}

#[test]
fn columns_that_a_narrow_terminal_cuts_off_are_printed_below_the_table() {
    let block = BlockedFor { pod: "shop/ledger-0".to_owned(), reason: "pdb", seconds: 1164 };
    let done =
        NodeSummary { completed_with: vec!["CONTINUE"], ..drained("ip-10-0-0-4", 0, Vec::new()) };
    let summary = Summary {
        scenario: "s".to_owned(),
        seed: 1,
        seconds: 60,
        at_rest: false,
        by_hand: false,
        nodes: vec![
            drained("ip-10-0-0-3", 8, vec![block]),
            done,
            drained("ip-10-0-0-5", 0, Vec::new()),
        ],
        hooks: Vec::new(),
        calls: Calls { aws: BTreeMap::new(), kubernetes: BTreeMap::new() },
        has_service: true,
    };
    let table = summary.table();
    let below = |width| {
        summary
            .cut_off(&table, width)
            .iter()
            .map(|line| line.render(usize::MAX, false))
            .collect::<Vec<_>>()
    };
    let open = table[1].render(80, false);
    assert!(open.ends_with('…') && !open.contains("pdb"), "{open}");
    let expected = [
        "ip-10-0-0-3  8 heartbeats",
        "  blocked 1164 s by pdb (shop/ledger-0)",
        "ip-10-0-0-4  completed CONTINUE",
    ];
    assert_eq!(below(80), expected);
    assert!(below(200).is_empty() && below(usize::MAX).is_empty(), "nothing is cut off");
}
