//! How answers of the API server are classified.

use super::*;

fn with(answer: ApiAnswer, retry_after: u64) -> ApiAnswer {
    ApiAnswer { retry_after: Some(seconds(retry_after)), ..answer }
}

fn class(code: u16, reason: &str, message: &str) -> Class {
    classify(&answer(code, reason, message))
}

#[test]
fn a_201_is_accepted() {
    assert_eq!(classify(&ok()), Class::Accepted);
    assert_eq!(class(200, "", ""), Class::Accepted);
}

#[test]
fn c56_s06_a_404_is_gone_but_a_proxys_404_is_not() {
    assert_eq!(class(404, "NotFound", "pods \"a\" not found"), Class::Gone);
    assert_eq!(class(404, "", "404 page not found"), Class::Transient);
}

#[test]
fn a_404_that_is_not_about_the_pod_does_not_make_it_gone() {
    assert_eq!(
        class(
            404,
            "NotFound",
            "admission webhook \"x\" denied the request: machines \"m\" not found"
        ),
        Class::Webhook
    );
    assert_eq!(
        class(404, "NotFound", "admission webhook \"x\" denied the request: pods \"a\" not found"),
        Class::Webhook
    );
    assert_eq!(
        class(404, "NotFound", "namespaces \"n\" not found"),
        Class::Transient,
        "force-finalised with pods in it"
    );
    assert_eq!(
        class(404, "NotFound", "the server could not find the requested resource"),
        Class::Transient
    );
}

#[test]
fn a_409_about_the_uid_is_not_a_conflict() {
    assert_eq!(classify(&other_uid()), Class::OtherUid);
    assert_eq!(
        class(409, "Conflict", "Operation cannot be fulfilled on tests \"2\": message: Conflict"),
        Class::Conflict
    );
    assert_eq!(
        class(
            409,
            "Conflict",
            "the ResourceVersion in the precondition … The object might have been modified"
        ),
        Class::Conflict
    );
}

#[test]
fn a_409_of_a_webhook_is_not_about_the_pod() {
    let message = "admission webhook \"x\" denied the request: Precondition failed: UID in \
        precondition: a, UID in object meta: b";
    assert_eq!(class(409, "Conflict", message), Class::Webhook);
}

#[test]
fn a_429_of_a_budget_blocks_only_this_pod() {
    assert_eq!(classify(&refused_by_budget()), Class::Budget);
    assert_eq!(classify(&refused_by_budget()).blocks(), Some(BlockReason::Pdb));
}

#[test]
fn a_429_of_a_lagging_budget_has_a_retry_time() {
    assert_eq!(classify(&lagging()), Class::BudgetLagging { retry_after: seconds(10) });
    assert_eq!(
        classify(&ApiAnswer { retry_after: None, ..lagging() }),
        Class::BudgetLagging { retry_after: seconds(10) }
    );
    assert_eq!(classify(&lagging()).blocks(), Some(BlockReason::PdbLagging));
}

#[test]
fn s07_a_429_without_causes_is_overload_and_not_a_budget() {
    assert_eq!(classify(&overload(Some(3))), Class::Overload { retry_after: seconds(3) });
    assert_eq!(classify(&overload(None)), Class::Overload { retry_after: seconds(1) });
    assert_eq!(class(429, "", ""), Class::Overload { retry_after: seconds(1) });
    assert_eq!(
        classify(&with(answer(429, "TooManyRequests", "storage is (re)initializing"), 1)),
        Class::Overload { retry_after: seconds(1) }
    );
    assert_eq!(classify(&overload(None)).blocks(), Some(BlockReason::ApiOverload));
}

#[test]
fn retry_after_is_limited_to_thirty_seconds() {
    assert_eq!(classify(&overload(Some(3600))), Class::Overload { retry_after: seconds(30) });
    assert_eq!(classify(&with(lagging(), 3600)), Class::BudgetLagging { retry_after: seconds(30) });
    assert_eq!(
        classify(&overload(Some(29))),
        Class::Overload { retry_after: seconds(29) },
        "honoured within"
    );
}

#[test]
fn a_429_of_a_webhook_does_not_pause_other_requests() {
    let kubevirt = "admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied \
        the request: Eviction triggered evacuation of VMI";
    assert_eq!(class(429, "TooManyRequests", kubevirt), Class::Webhook);
    assert_eq!(class(429, "", kubevirt), Class::Webhook);
    assert_eq!(class(429, "TooManyRequests", "Eviction triggered evacuation"), Class::Webhook);
}

#[test]
fn c56_a_403_of_a_terminating_namespace_is_classified_by_its_cause() {
    assert_eq!(classify(&namespace_terminating()), Class::NamespaceTerminating);
}

#[test]
fn a_403_of_a_broken_budget_is_classified_by_its_message_or_its_cause() {
    assert_eq!(
        class(403, "Forbidden", "pods \"a\" is forbidden: pdb disruptions allowed is negative"),
        Class::BudgetBroken
    );
    assert_eq!(
        class(
            403,
            "Forbidden",
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        ),
        Class::BudgetBroken
    );
    let since_1_37 = ApiAnswer {
        causes: vec![("DisruptionBudget".into(), "The disruption budget b does not allow".into())],
        ..answer(403, "Forbidden", "poddisruptionbudget.policy \"b\" is forbidden: new words")
    };
    assert_eq!(classify(&since_1_37), Class::BudgetBroken);
}

#[test]
fn any_other_403_is_missing_rights_or_a_webhook() {
    let rbac = "pods \"a\" is forbidden: User \"x\" cannot create resource \"pods/eviction\" in \
        API group \"\" in the namespace \"default\"";
    assert_eq!(class(403, "Forbidden", rbac).blocks(), Some(BlockReason::Rbac));
    assert_eq!(
        class(403, "Forbidden", "admission webhook \"x\" denied the request: no"),
        Class::Webhook
    );
    assert_eq!(class(401, "Unauthorized", "Unauthorized"), Class::Unauthorized);
}

#[test]
fn c56_a_500_of_two_budgets_is_not_transient() {
    assert_eq!(classify(&two_budgets()), Class::TwoBudgets);
    assert_eq!(classify(&two_budgets()).blocks(), Some(BlockReason::TwoPdbs));
}

#[test]
fn other_5xx_and_missing_answers_are_transient() {
    for (code, message) in [
        (500, "Internal error occurred: failed calling webhook \"x\": context deadline exceeded"),
        (503, "service unavailable"),
        (504, "request did not complete within requested timeout"),
        (0, "connection reset"),
        (408, ""),
    ] {
        assert_eq!(class(code, "InternalError", message), Class::Transient, "{code}");
    }
}

#[test]
fn a_400_or_422_is_malformed_unless_an_admission_policy_refused() {
    assert_eq!(
        class(400, "BadRequest", "name in URL does not match name in Eviction object"),
        Class::Malformed
    );
    assert_eq!(
        class(422, "Invalid", "ignoreStoreReadErrorWithClusterBreakingPotential"),
        Class::Malformed
    );
    assert_eq!(class(302, "", ""), Class::Malformed);
    assert_eq!(
        class(422, "Invalid", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
        Class::Webhook
    );
    assert_eq!(
        class(400, "BadRequest", "admission webhook \"x\" denied the request: no"),
        Class::Webhook
    );
}

#[test]
fn labels_are_unique() {
    let labels: std::collections::BTreeSet<_> =
        BlockReason::ALL.iter().map(|r| r.as_str()).collect();
    assert_eq!(labels.len(), BlockReason::ALL.len());
}
