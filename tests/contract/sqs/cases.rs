//! What a queue does. The expected answers are from the SQS API reference and developer guide. A
//! step that moto answers otherwise is noted as such.

use serde_json::{Value, json};

use super::call;
use crate::{
    script::{Ask, Case, Step},
    steps,
};

/// A queue of the case's own.
fn queue(attributes: Value) -> Step {
    call("CreateQueue", json!({ "QueueName": "$ns", "Attributes": attributes }))
        .shows(json!({ "QueueUrl": "http://127.0.0.1:*/123456789012/$ns" }))
        .save("q", "/QueueUrl")
        .into()
}

fn send(body: &str) -> Step {
    call("SendMessage", json!({ "QueueUrl": "$q", "MessageBody": body }))
        .shows(json!({ "MessageId": "*", "MD5OfMessageBody": "*" }))
        .save("id", "/MessageId")
        .into()
}

/// Receives with these parameters besides.
fn receive(more: Value) -> Ask {
    let mut body = json!({
        "QueueUrl": "$q", "MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"]
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    call("ReceiveMessage", body)
}

fn nothing() -> Step {
    receive(json!({})).shows(json!({ "Messages": null })).into()
}

fn delete(receipt: &str) -> Ask {
    call("DeleteMessage", json!({ "QueueUrl": "$q", "ReceiptHandle": receipt }))
}

fn hide(receipt: &str, seconds: u64) -> Ask {
    call(
        "ChangeMessageVisibility",
        json!({ "QueueUrl": "$q", "ReceiptHandle": receipt, "VisibilityTimeout": seconds }),
    )
}

/// Refused with this shape, and with this code for clients of the older protocol.
fn refused(ask: Ask, shape: &str, code: &str) -> Ask {
    ask.gives(
        400,
        json!({
            "__type": format!("com.amazonaws.sqs#{shape}"), "message": "*",
            "queryError": format!("{code};Sender")
        }),
    )
}

fn no_queue(ask: Ask) -> Step {
    refused(ask, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue").into()
}

fn bad_value(ask: Ask) -> Ask {
    refused(ask, "InvalidParameterValue", "InvalidParameterValue")
}

fn counts(visible: u64, in_flight: u64, delayed: u64) -> Step {
    let names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ];
    call("GetQueueAttributes", json!({ "QueueUrl": "$q", "AttributeNames": names }))
        .shows(json!({
            "Attributes": {
                (names[0]): visible.to_string(), (names[1]): in_flight.to_string(),
                (names[2]): delayed.to_string()
            }
        }))
        .into()
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a_message_is_sent_received_and_deleted",
            steps![
                queue(json!({})),
                call("SendMessage", json!({ "QueueUrl": "$q", "MessageBody": "hello" }))
                    .shows(
                        json!({
                            "MessageId": "*", "MD5OfMessageBody": "5d41402abc4b2a76b9719d911017c592"
                        })
                    )
                    .save("id", "/MessageId"),
                counts(1, 0, 0),
                receive(json!({}))
                    .shows(json!({ "Messages": [{
                        "MessageId": "$id", "Body": "hello",
                        "MD5OfBody": "5d41402abc4b2a76b9719d911017c592", "ReceiptHandle": "*",
                        "Attributes": {
                            "ApproximateReceiveCount": "1", "SentTimestamp": "*",
                            "ApproximateFirstReceiveTimestamp": "*", "SenderId": "*"
                        },
                    }] }))
                    .save("r", "/Messages/0/ReceiptHandle"),
                counts(0, 1, 0),
                nothing(),
                delete("$r"),
                counts(0, 0, 0),
                // It is gone, and so it is to be.
                delete("$r").unlike_moto("moto forgets receipts; \"the action will succeed\" (API \
                    reference, DeleteMessage: standard queues delete again)"),
            ],
        ),
        Case::new(
            "attributes_are_shown_when_they_are_asked_for",
            steps![
                queue(json!({})),
                send("a"),
                call(
                    "ReceiveMessage", json!({ "QueueUrl": "$q", "VisibilityTimeout": 0 })
                ).shows(json!({ "Messages": [{ "Body": "a", "Attributes": null }] })),
                call(
                    "ReceiveMessage",
                    json!({
                        "QueueUrl": "$q", "VisibilityTimeout": 0,
                        "AttributeNames": ["ApproximateReceiveCount"]
                    })
                )
                    .shows(
                        json!({
                            "Messages": [{
                                "Attributes": {
                                    "ApproximateReceiveCount": "2", "SentTimestamp": null
                                }
                            }]
                        })
                    ),
                call(
                    "ReceiveMessage",
                    json!({
                        "QueueUrl": "$q",
                        "MessageSystemAttributeNames": ["ApproximateReceiveCount", "SentTimestamp"]
                    })
                )
                    .shows(
                        json!({
                            "Messages": [{
                                "Attributes": {
                                    "ApproximateReceiveCount": "3", "SentTimestamp": "*",
                                    "SenderId": null
                                }
                            }]
                        })
                    ),
            ],
        ),
        Case::new(
            "what_is_not_deleted_comes_again",
            steps![
                queue(json!({ "VisibilityTimeout": "1" })),
                send("a"),
                receive(json!({}))
                    .shows(
                        json!({
                            "Messages": [{
                                "MessageId": "$id", "Attributes": { "ApproximateReceiveCount": "1" }
                            }]
                        })
                    )
                    .save("r1", "/Messages/0/ReceiptHandle")
                    .save("sent", "/Messages/0/Attributes/SentTimestamp")
                    .save("first", "/Messages/0/Attributes/ApproximateFirstReceiveTimestamp"),
                receive(json!({ "WaitTimeSeconds": 20 }))
                    .shows(json!({ "Messages": [{
                        "MessageId": "$id", "ReceiptHandle": "!$r1",
                        "Attributes": {
                            "ApproximateReceiveCount": "2", "SentTimestamp": "$sent",
                            "ApproximateFirstReceiveTimestamp": "$first"
                        },
                    }] }))
                    .save("r2", "/Messages/0/ReceiptHandle"),
                delete("$r2"),
                counts(0, 0, 0),
            ],
        ),
        Case::new(
            "visibility_is_changed_while_in_flight",
            steps![
                queue(json!({})),
                send("a"),
                receive(
                    json!({ "VisibilityTimeout": 600 })
                ).shows(json!({ "Messages": [{}] })).save("r1", "/Messages/0/ReceiptHandle"),
                hide("$r1", 300),
                nothing(),
                hide("$r1", 0),
                receive(json!({})).shows(
                    json!({
                        "Messages": [{
                            "ReceiptHandle": "!$r1",
                            "Attributes": { "ApproximateReceiveCount": "2" }
                        }]
                    })
                ).save("r2", "/Messages/0/ReceiptHandle"),
                hide("$r2", 0),
                refused(
                    hide("$r2", 10), "MessageNotInflight",
                    "AWS.SimpleQueueService.MessageNotInflight"
                )
                    .unlike_moto("moto takes it; \"The specified message isn't in flight\" (API \
                        reference, ChangeMessageVisibility, errors)"),
                bad_value(hide("$r2", 43_201)),
                refused(hide("nonsense", 10), "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"),
                refused(delete("nonsense"), "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"),
            ],
        ),
        Case::new(
            "a_delayed_message_is_awaited_by_a_long_poll",
            steps![
                queue(json!({})),
                call(
                    "SendMessage",
                    json!({ "QueueUrl": "$q", "MessageBody": "a", "DelaySeconds": 10 })
                ).save("id", "/MessageId"),
                counts(0, 0, 1),
                receive(json!({})).shows(json!({ "Messages": null })),
                receive(
                    json!({ "WaitTimeSeconds": 20 })
                ).shows(
                    json!({
                        "Messages": [{
                            "MessageId": "$id", "Attributes": { "ApproximateReceiveCount": "1" }
                        }]
                    })
                ),
                receive(json!({ "WaitTimeSeconds": 1 })).shows(json!({ "Messages": null })),
            ],
        ),
        Case::new(
            "batches_answer_for_each_entry",
            steps![
                queue(json!({})),
                call(
                    "SendMessageBatch",
                    json!({
                        "QueueUrl": "$q",
                        "Entries": [
                            { "Id": "1", "MessageBody": "a" }, { "Id": "2", "MessageBody": "b" },
                            { "Id": "3", "MessageBody": "c" }
                        ]
                    })
                )
                .shows(json!({ "Successful": [
                    {
                        "Id": "1", "MessageId": "*",
                        "MD5OfMessageBody": "0cc175b9c0f1b6a831c399e269772661"
                    }, { "Id": "2" }, { "Id": "3" },
                ] })),
                receive(json!({}))
                    .shows(json!({ "Messages": [{}, {}, {}] }))
                    .save("r1", "/Messages/0/ReceiptHandle")
                    .save("r2", "/Messages/1/ReceiptHandle")
                    .save("r3", "/Messages/2/ReceiptHandle"),
                call(
                    "DeleteMessageBatch",
                    json!({
                        "QueueUrl": "$q",
                        "Entries": [
                            { "Id": "x", "ReceiptHandle": "$r1" },
                            { "Id": "y", "ReceiptHandle": "nonsense" }
                        ]
                    })
                )
                    .shows(
                        json!({
                            "Successful": [{ "Id": "x" }],
                            "Failed": [{
                                "Id": "y", "Code": "ReceiptHandleIsInvalid", "SenderFault": true,
                                "Message": "*"
                            }]
                        })
                    ),
                call(
                    "ChangeMessageVisibilityBatch",
                    json!({
                        "QueueUrl": "$q",
                        "Entries": [
                            { "Id": "x", "ReceiptHandle": "$r2", "VisibilityTimeout": 0 },
                            { "Id": "y", "ReceiptHandle": "nonsense", "VisibilityTimeout": 0 }
                        ]
                    })
                )
                .shows(
                    json!({
                        "Successful": [{ "Id": "x" }],
                        "Failed": [{
                            "Id": "y", "Code": "ReceiptHandleIsInvalid", "SenderFault": true
                        }]
                    })
                ),
                counts(1, 1, 0),
            ],
        ),
        Case::new(
            "a_batch_as_a_whole_can_be_refused",
            steps![
                queue(json!({})),
                refused(
                    call("DeleteMessageBatch", json!({ "QueueUrl": "$q", "Entries": [] })),
                    "EmptyBatchRequest",
                    "AWS.SimpleQueueService.EmptyBatchRequest"
                ),
                refused(
                    call(
                        "DeleteMessageBatch",
                        json!({
                            "QueueUrl": "$q",
                            "Entries": [
                                { "Id": "1", "ReceiptHandle": "a" },
                                { "Id": "1", "ReceiptHandle": "b" }
                            ]
                        })
                    ),
                    "BatchEntryIdsNotDistinct",
                    "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"
                )
                .unlike_moto("moto takes them; \"Two or more batch entries in the request have \
                    the same Id\" (API reference, DeleteMessageBatch, errors)"),
                refused(
                    call("SendMessageBatch", json!({ "QueueUrl": "$q", "Entries": [{ "Id":
                    "not good", "MessageBody": "a" }] })),
                    "InvalidBatchEntryId",
                    "AWS.SimpleQueueService.InvalidBatchEntryId"
                ),
                refused(
                    call(
                        "SendMessageBatch",
                        json!({
                            "QueueUrl": "$q",
                            "Entries": (0..11).map(|n| json!({
                                "Id": n.to_string(), "MessageBody": "a"
                            })).collect::<Vec<_>>()
                        })
                    ),
                    "TooManyEntriesInBatchRequest",
                    "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
                ),
                counts(0, 0, 0),
            ],
        ),
        Case::new(
            "what_is_received_too_often_goes_to_the_dead_letter_queue",
            steps![
                call("CreateQueue", json!({ "QueueName": "$ns-dead" })).save("dead", "/QueueUrl"),
                call(
                    "GetQueueAttributes",
                    json!({ "QueueUrl": "$dead", "AttributeNames": ["QueueArn"] })
                )
                    .shows(
                        json!({
                            "Attributes": {
                                "QueueArn": "arn:aws:sqs:eu-west-1:123456789012:$ns-dead"
                            }
                        })
                    )
                    .save("arn", "/Attributes/QueueArn"),
                queue(
                    json!({
                        "RedrivePolicy": "{\"deadLetterTargetArn\":\"arn:aws:sqs:eu-west-1:123456789012:$ns-dead\",\"maxReceiveCount\":\"2\"}"
                    })
                ),
                send("a"),
                receive(
                    json!({ "VisibilityTimeout": 0 })
                ).shows(
                    json!({ "Messages": [{ "Attributes": { "ApproximateReceiveCount": "1" } }] })
                ).save("sent", "/Messages/0/Attributes/SentTimestamp"),
                receive(
                    json!({ "VisibilityTimeout": 0 })
                ).shows(
                    json!({ "Messages": [{ "Attributes": { "ApproximateReceiveCount": "2" } }] })
                ),
                nothing(),
                counts(0, 0, 0),
                call(
                    "ReceiveMessage",
                    json!({ "QueueUrl": "$dead", "MessageSystemAttributeNames": ["All"] })
                )
                    .shows(
                        json!({
                            "Messages": [{
                                "MessageId": "$id", "Body": "a",
                                "Attributes": { "SentTimestamp": "$sent" }
                            }]
                        })
                    ),
                call(
                    "GetQueueAttributes",
                    json!({ "QueueUrl": "$q", "AttributeNames": ["RedrivePolicy"] })
                )
                    .shows(
                        json!({ "Attributes": { "RedrivePolicy": "{*$arn*maxReceiveCount*2*}" } })
                    ),
            ],
        ),
        Case::new(
            "there_is_no_such_queue",
            steps![
                queue(json!({})),
                call("DeleteQueue", json!({ "QueueUrl": "$q" })),
                no_queue(call("GetQueueUrl", json!({ "QueueName": "$ns" }))),
                no_queue(receive(json!({}))),
                no_queue(call("SendMessage", json!({ "QueueUrl": "$q", "MessageBody": "a" }))),
                no_queue(delete("r")),
                no_queue(hide("r", 1)),
                no_queue(
                    call(
                        "GetQueueAttributes", json!({ "QueueUrl": "$q", "AttributeNames": ["All"] })
                    )
                ),
                no_queue(
                    call(
                        "DeleteMessageBatch",
                        json!({
                            "QueueUrl": "$q", "Entries": [{ "Id": "1", "ReceiptHandle": "a" }]
                        })
                    )
                ),
                no_queue(call("PurgeQueue", json!({ "QueueUrl": "$q" }))),
            ],
        ),
        Case::new(
            "parameters_have_their_bounds",
            steps![
                queue(json!({})),
                bad_value(receive(json!({ "MaxNumberOfMessages": 11 }))),
                bad_value(receive(json!({ "MaxNumberOfMessages": 0 }))),
                bad_value(receive(json!({ "WaitTimeSeconds": 21 }))),
                bad_value(
                    receive(json!({ "VisibilityTimeout": 43_201 }))
                ).unlike_moto("moto takes any number; \"Valid values: 0 to 43200\" (API reference, \
                         ReceiveMessage)"),
                bad_value(
                    call(
                        "SendMessage",
                        json!({ "QueueUrl": "$q", "MessageBody": "a", "DelaySeconds": 901 })
                    )
                ),
                refused(
                    call("SendMessage", json!({ "QueueUrl": "$q", "MessageBody": "" })),
                    "MissingParameter", "MissingParameter"
                )
                    .unlike_moto("moto takes it; \"The minimum size is one character\" (API \
                        reference, SendMessage, MessageBody)"),
                bad_value(call("CreateQueue", json!({ "QueueName": "not a name" }))),
                refused(
                    call(
                        "SetQueueAttributes",
                        json!({ "QueueUrl": "$q", "Attributes": { "NotAnAttribute": "1" } })
                    ),
                    "InvalidAttributeName",
                    "InvalidAttributeName"
                )
                .unlike_moto("moto takes any name; errors of SetQueueAttributes: \
                    InvalidAttributeName (API reference)"),
            ],
        ),
        Case::new(
            "a_queue_is_described_and_changed",
            steps![
                queue(json!({ "VisibilityTimeout": "7" })),
                call(
                    "GetQueueAttributes", json!({ "QueueUrl": "$q", "AttributeNames": ["All"] })
                ).shows(json!({ "Attributes": {
                    "QueueArn": "arn:aws:sqs:eu-west-1:123456789012:$ns", "VisibilityTimeout": "7",
                    "DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0",
                    "MessageRetentionPeriod": "345600", "ApproximateNumberOfMessages": "0",
                    "RedrivePolicy": null,
                } })),
                call(
                    "SetQueueAttributes",
                    json!({ "QueueUrl": "$q", "Attributes": { "VisibilityTimeout": "9" } })
                ),
                call(
                    "GetQueueAttributes",
                    json!({ "QueueUrl": "$q", "AttributeNames": ["VisibilityTimeout"] })
                )
                    .shows(json!({ "Attributes": { "VisibilityTimeout": "9", "QueueArn": null } })),
                call(
                    "GetQueueUrl", json!({ "QueueName": "$ns" })
                ).shows(json!({ "QueueUrl": "$q" })),
                call(
                    "ListQueues", json!({ "QueueNamePrefix": "$ns" })
                ).shows(json!({ "QueueUrls": ["$q"] })),
                call(
                    "CreateQueue", json!({ "QueueName": "$ns" })
                ).shows(json!({ "QueueUrl": "$q" })),
                refused(
                    call(
                        "CreateQueue",
                        json!({ "QueueName": "$ns", "Attributes": { "VisibilityTimeout": "11" } })
                    ),
                    "QueueNameExists", "QueueAlreadyExists"
                ),
                send("a"),
                call("PurgeQueue", json!({ "QueueUrl": "$q" })),
                counts(0, 0, 0),
            ],
        ),
        Case::new(
            "requests_that_cannot_be_read_are_refused",
            steps![
                queue(json!({})),
                call(
                    "SendMessage", Value::from("{")
                ).gives(
                    400,
                    json!({
                        "__type": "*SerializationException", "message": "*", "queryError": "*"
                    })
                ).unlike_moto(
                    "moto fails with 500; a body that cannot be parsed is a \
                     SerializationException (AWS JSON 1.0 protocol, errors that all actions have)"
                ),
                call("SendMessage", json!({ "QueueUrl": "$q", "MessageBody": 5 }))
                    .gives(
                        400,
                        json!({
                            "__type": "*SerializationException", "message": "*", "queryError": "*"
                        })
                    )
                    .unlike_moto("moto does not check types; the AWS JSON 1.0 protocol does"),
                counts(0, 0, 0),
            ],
        ),
    ]
}
