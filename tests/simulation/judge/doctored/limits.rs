//! Requests in flight.

use sundown::sim::kube::Request;

use super::*;

/// The run of a drain, with this many evictions (and deletions) of one workload each, all sent at
/// one moment.
async fn sent(
    evictions: usize,
    deletions: usize,
    ends: impl Fn(Moment) -> Option<Moment>,
) -> Evidence {
    let mut evidence = hooked().await;
    let first = evidence.requests.iter().find(|r| r.subresource == "eviction").unwrap().clone();
    for i in 0..evictions + deletions {
        let name = format!("web-{i}-x");
        let mut request =
            Request { name, ended: ends(first.at), answered: ends(first.at), ..first.clone() };
        if i >= evictions {
            (request.verb, request.subresource) = ("delete".to_owned(), String::new());
        }
        evidence.requests.push(request);
    }
    evidence.requests.retain(|r| r.name != "web-0");
    evidence.requests.sort_by_key(|r| r.at);
    evidence
}

fn flagged(mut evidence: Evidence, flag: &str) -> Evidence {
    evidence.terms.flags = vec![("sundown".to_owned(), vec![flag.to_owned()])];
    evidence
}

#[tokio::test(start_paused = true)]
async fn more_evictions_in_flight_than_the_flag_allows_are_seen() {
    const TOO_MANY: &str = "in flight that are answered: --max-evictions is";
    let at_once = |at: Moment| Some(at + Duration::from_millis(300));
    let evidence = sent(32, 8, at_once).await;
    assert_eq!(Judge::of(&evidence).limits(), 40);
    keeps(&judge(&evidence), TOO_MANY, "as many as it may");
    breaks(
        &judge(&sent(33, 0, at_once).await),
        "33 evictions in flight that are answered: --max-evictions is 32",
    );
    breaks(
        &judge(&sent(32, 9, at_once).await),
        "41 evictions and deletions in flight that are answered",
    );
    breaks(
        &judge(&flagged(evidence, "--max-evictions=31")),
        "32 evictions in flight that are answered: --max-evictions is 31",
    );
}

#[tokio::test(start_paused = true)]
async fn evictions_that_nobody_answers_do_not_count_until_there_are_twice_as_many() {
    const TOO_MANY: &str = "--max-evictions is 32";
    let never = |_| None;
    let mut evidence = sent(64, 0, never).await;
    // The first waited for more than a second when the others were sent.
    let first = evidence.requests.iter().position(|r| r.name == "web-1-x").unwrap();
    evidence.requests[first].at = evidence.requests[first].at - s(2);
    evidence.requests.sort_by_key(|r| r.at);
    keeps(&judge(&evidence), TOO_MANY, "no lane of theirs had an answer");
    let last = evidence.requests.iter().rev().find(|r| r.name == "web-9-x").unwrap().clone();
    evidence.requests.push(Request { name: "web-99-x".to_owned(), ..last });
    evidence.requests.sort_by_key(|r| r.at);
    breaks(&judge(&evidence), "65 evictions and deletions in flight: --max-evictions is 32");
}

#[tokio::test(start_paused = true)]
async fn more_evictions_under_one_budget_than_the_flag_allows_are_seen() {
    const TOO_MANY: &str = "under the budget of web-7: --max-evictions-per-budget is";
    let mut evidence = sent(9, 0, |at| Some(at + Duration::from_millis(300))).await;
    for (i, request) in
        evidence.requests.iter_mut().filter(|r| r.subresource == "eviction").enumerate()
    {
        request.name = format!("web-7-{i}");
    }
    keeps(&judge(&evidence), TOO_MANY, "there is no budget");
    evidence.terms.budgets = vec![("load".to_owned(), "web-7".to_owned())];
    breaks(
        &judge(&evidence),
        "9 evictions in flight under the budget of web-7: --max-evictions-per-budget is 8",
    );
    breaks(
        &judge(&flagged(evidence.clone(), "--max-evictions-per-budget=7")),
        "8 evictions in flight under the budget of web-7",
    );
    let mut tangled = evidence.clone();
    tangled.terms.budgets.push(("load".to_owned(), "web-7".to_owned()));
    keeps(&judge(&tangled), TOO_MANY, "Kubernetes evicts no pod under two");
}

#[tokio::test(start_paused = true)]
async fn evictions_that_a_process_sent_before_it_lost_the_lease_do_not_count_when_it_leads_again() {
    const TOO_MANY: &str = "under the budget of web-7: --max-evictions-per-budget is 8";
    /// One eviction that is never answered, and `later` more 14 s after it. In between the process
    /// renews its Lease, or cannot for more than its renew deadline.
    async fn with(later: usize, is_renewed: bool) -> Vec<String> {
        let mut evidence = sent(later + 1, 0, |_| None).await;
        evidence.terms.budgets = vec![("load".to_owned(), "web-7".to_owned())];
        let evictions = evidence.requests.iter_mut().filter(|r| r.subresource == "eviction");
        let mut first = None;
        for (i, request) in evictions.enumerate() {
            let at = *first.get_or_insert(request.at);
            request.name = format!("web-7-{i}");
            request.at = if i == 0 { at } else { at + s(14) };
        }
        let first = first.unwrap();
        longer(&mut evidence, first + s(20));
        let is_kept = |at: Moment| is_renewed || at <= first + s(1) || at >= first + s(12);
        evidence.requests.retain(|r| r.resource != "leases" || is_kept(r.at));
        evidence.requests.sort_by_key(|r| r.at);
        judge(&evidence)
    }
    /// The same of eight evictions, 17 s later. The renewals are answered so many seconds after they
    /// are sent, and eight seconds are between two of them.
    async fn slow(answer: u64) -> Vec<String> {
        let mut evidence = sent(9, 0, |_| None).await;
        evidence.terms.budgets = vec![("load".to_owned(), "web-7".to_owned())];
        let evictions = evidence.requests.iter_mut().filter(|r| r.subresource == "eviction");
        let mut first = None;
        for (i, request) in evictions.enumerate() {
            let at = *first.get_or_insert(request.at);
            request.name = format!("web-7-{i}");
            request.at = if i == 0 { at } else { at + s(17) };
        }
        let first = first.unwrap();
        longer(&mut evidence, first + s(20));
        let is_kept = |at: Moment| at <= first + s(2) || at > first + s(8);
        evidence.requests.retain(|r| r.resource != "leases" || is_kept(r.at));
        let renews = |r: &&mut Request| r.resource == "leases" && r.is_write();
        for renewal in evidence.requests.iter_mut().filter(renews).filter(|r| r.at >= first) {
            renewal.answered = Some(renewal.at + s(answer));
        }
        evidence.requests.sort_by_key(|r| r.at);
        judge(&evidence)
    }
    breaks(&slow(0).await, &format!("9 evictions in flight {TOO_MANY}"));
    keeps(&slow(3).await, TOO_MANY, "a renewal counts from when it was sent");
    breaks(&with(8, true).await, &format!("9 evictions in flight {TOO_MANY}"));
    keeps(&with(8, false).await, TOO_MANY, "it began anew");
    breaks(&with(9, false).await, &format!("9 evictions in flight {TOO_MANY}"));
}
