//! Seeds that once broke a promise. Every run of the tests plays them.
//!
//! Add a seed together with the change that fixes it, and its cause to `docs/simulation.md`.

/// Each with the promise that it broke.
pub const ONCE_FAILED: &[(u64, &str)] = &[
    (700_188, "a message was deleted before its intent was durable"),
    (700_424, "an action was called for after its end"),
    (700_494, "an accepted drain asked no pod to go"),
    (700_620, "a message was deleted before its intent was durable"),
    (701_081, "a message was deleted before its intent was durable"),
    (701_329, "a pod was touched on a node without an open record"),
    (701_414, "an accepted drain asked no pod to go"),
    (701_447, "a message was deleted before its intent was durable"),
    (701_475, "a message was deleted before its intent was durable"),
    (701_527, "an accepted drain asked no pod to go"),
    (701_561, "a message was deleted before its intent was durable"),
    (701_578, "a hook was completed late"),
    (701_634, "a message was deleted before its intent was durable"),
    (701_666, "a message was deleted before its intent was durable"),
    (701_671, "a message was deleted before its intent was durable"),
    (701_827, "an accepted drain asked no pod to go"),
    (701_838, "a pod was deleted too early"),
    (701_945, "a message was deleted before its intent was durable"),
    (702_000, "a message was deleted before its intent was durable"),
    (702_038, "a pod was deleted too early"),
    (1_000_006, "an Event was not true"),
    (1_000_044, "an Event was not true"),
    (1_000_069, "a hook timed out"),
    (1_000_148, "a hook timed out"),
    (1_000_152, "a hook was completed before its node was empty"),
    (1_000_204, "an Event was not true"),
    (1_000_243, "an Event was not true"),
    (1_000_258, "a thing had no Event"),
    (1_000_280, "an Event was not true"),
    (1_795_500_000_062, "an Event was not true"),
    (1_795_500_000_352, "completed before its node was empty"),
];
