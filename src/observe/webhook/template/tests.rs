use std::time::Duration;

use super::*;

/// A value with everything that could end a JSON string or begin an expression.
const HOSTILE: &str = "\"}],\"x\":[\n\\ {{ node }} {% if %} \u{1}'<&>";

fn facts() -> Facts {
    let notice = Notice {
        on: Some(On::Ended),
        node: "ip-1".to_owned(),
        kind: "spot",
        took: Some(Duration::from_secs(90)),
        evicted: 3,
        labels: [("example.com/pool", "blue"), ("hostile", HOSTILE), ("team", "a")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..Notice::default()
    };
    notice.facts(Some(HOSTILE))
}

fn rendered(template: &str) -> Result<Json, BadTemplate> {
    let body = Template::new(template)?.render(facts())?;
    Ok(serde_json::from_str(&body).unwrap())
}

#[test]
fn values_and_keys_are_rendered_and_everything_else_stays_as_it_is() {
    for (template, body) in [
        (r#"["{{node}} {{ kind }}: {{ zone }}"]"#, r#"["ip-1 spot: "]"#),
        (r#"["no names }} % { $ \" \n"]"#, r#"["no names }} % { $ \" \n"]"#),
        (
            r#"{"text":"{{ node }}","n":1.5,"list":["{{ kind }}",null,true,{}]}"#,
            r#"{"text":"ip-1","n":1.5,"list":["spot",null,true,{}]}"#,
        ),
        (r#"{"{{ node }}":{"a {{ kind }}":"b"}}"#, r#"{"ip-1":{"a spot":"b"}}"#),
        (r#"["{{ took }}","{{ evicted }}"]"#, r#"["90","3"]"#),
        (r#"["{{ labels['example.com/pool'] }}"]"#, r#"["blue"]"#),
        (r#"["{{ labels[\"team\"] }}{{ labels.team }}"]"#, r#"["aa"]"#),
        (r#"["{{ labels.other }}{{ labels['an/other'] }}"]"#, r#"[""]"#),
        (r#""{{ node }}""#, r#""ip-1""#),
        (r#"["a\n"]"#, r#"["a\n"]"#),
        (r#"["{% if took > 60 %}slow{% else %}fast{% endif %}"]"#, r#"["slow"]"#),
        (r#"["{{ 'slow' if took > 99 else 'fast' }}"]"#, r#"["fast"]"#),
        (r#"["{{ blocked or 'none' }}"]"#, r#"["none"]"#),
        (
            r#"["{% for x in [node, kind] %}{{ loop.index }}{{ x }} {% endfor %}"]"#,
            r#"["1ip-1 2spot "]"#,
        ),
        (r#"["{% set x = kind ~ '!' %}{{ x }}{{ '{' }}#"]"#, r#"["spot!{#"]"#),
        (r#"["{% raw %}{{ nod }}{% endraw %}"]"#, r#"["{{ nod }}"]"#),
    ] {
        let body: Json = serde_json::from_str(body).unwrap();
        assert_eq!(rendered(template), Ok(body), "{template}");
    }
}

#[test]
fn no_value_can_break_out_of_its_string() {
    for (template, body) in [
        (r#"{"text":"{{ cluster }}"}"#, serde_json::json!({ "text": HOSTILE })),
        (r#"{"{{ labels.hostile }}":1}"#, serde_json::json!({ HOSTILE: 1 })),
        (
            r#"["{% set x = cluster %}{{ x }}","{{ cluster ~ cluster }}"]"#,
            serde_json::json!([HOSTILE, HOSTILE.repeat(2)]),
        ),
    ] {
        assert_eq!(rendered(template), Ok(body), "{template}");
    }
}

#[test]
fn a_number_is_empty_while_it_is_unknown_and_less_than_every_number() {
    let template = "[\"{{ took }}{% if took > 0 %}slow{% endif %}\"]";
    let facts = Notice::default().facts(None);
    assert_eq!(Template::new(template).unwrap().render(facts), Ok("[\"\"]".to_owned()));
}

#[test]
fn a_template_lists_the_names_it_uses_in_all_its_branches() {
    let text = r#"{"{{ labels['b/c'] }}":"{% if on == 'x' %}{{ labels.a }}{% endif %}
        {{ group[:3] if zone else labels['d' ~ 'e'] }}"}"#;
    let template = Template::new(&text.replace('\n', " ")).unwrap();
    assert_eq!(template.labels().collect::<Vec<_>>(), ["a", "b/c", "de"]);
    for (name, is_used) in
        [("zone", true), ("group", true), ("on", true), ("node", false), ("labels", false)]
    {
        assert_eq!(template.uses(name), is_used, "{name}");
    }
}

#[test]
fn the_error_of_a_bad_template_names_the_place_the_reason_and_the_remedy() {
    for (template, words) in [
        (r#"["{{ nod }}"]"#, "at /0: it uses `nod`, which does not exist; use on, summary"),
        (r#"["{{ nod }}"]"#, "left or labels['KEY']"),
        (r#"{"a":{"b":["","{{ nod }}"]}}"#, "at /a/b/1: it uses `nod`"),
        (r#"{"a":{"{{ nod }}":1}}"#, "in a key at /a: it uses `nod`"),
        (r#""{{ nod }}""#, "at /: it uses `nod`"),
        (r#"["{% if on == 'x' %}{{ nod[:2] }}{% endif %}"]"#, "`nod`"),
        (r#"["{% with node = nod %}{{ node }}{% endwith %}"]"#, "`nod`"),
        (r#"["{{ loop.index }}"]"#, "`loop`"),
        (r#"["{{ label }}"]"#, "`label`"),
        (r#"["{{ .NodeName }}"]"#, "`{{ .NodeName }}` is not a minijinja template (syntax"),
        (r#"["{{ .NodeName }}"]"#, "write names as {{ summary }}"),
        (r#"["a {{ node"]"#, "`a {{ node` is not"),
        (r#"["100 {% off"]"#, "is not a minijinja template"),
        (r#"["{% include 'x' %}"]"#, "is not a minijinja template"),
        (r#"["{{ label:a.b/c }}"]"#, "`{{ label:a.b/c }}` is written as {{ labels['a.b/c'] }}"),
        (r#"["{{ node }} {{label: a }}"]"#, "is written as {{ labels['a'] }}"),
        (r#"["{{ label: }}"]"#, "is not a minijinja template"),
        (r#"["a {# b #}"]"#, "write {{ '{' }}#"),
        (r#"["{{ labels }}"]"#, "without the key of a label; write {{ labels['KEY'] }}"),
        (r#"["{{ labels[node] }}"]"#, "without the key"),
        (r#"["{{ labels[0] }}"]"#, "without the key"),
        (r#"["{{ node|upper }}"]"#, "it uses `upper`, but there are no filters"),
        (r#"["{{ node is defined }}"]"#, "`defined`"),
        (r#"["{{ range(3) }}"]"#, "`range`"),
        (r#"["{{ node.upper() }}"]"#, "`upper`"),
        (r#"["{% for x in [1] recursive %}{{ loop(x) }}{% endfor %}"]"#, "`(…)`"),
        (r#"["{{ node.name }}"]"#, "at /0: `{{ node.name }}` cannot be rendered (undefined"),
        (r#"["{{ node + 1 }}"]"#, "cannot be rendered (invalid operation"),
        (r#"["{% if 0 %}{% set x = 1 %}{% endif %}{{ x }}"]"#, "(undefined value)"),
        (r#"{"{{ zone }}":1,"{{ type }}":2}"#, "in a key at /: two keys are ``"),
        ("{{ node }} is gone", r#"write {"text":"{{ node }} is gone"}"#),
        ("{{label:a}}, {{ node }}", r#"write {"text":"{{ labels['a'] }}, {{ node }}"}"#),
        ("the answer \"no\"", r#"write {"text":"the answer \"no\""}"#),
        ("{{ node }} is gone", "it is not JSON (key must be a string at line 1 column 2)"),
        (r#"{"text": {{ node }}}"#, DEFAULT_TEMPLATE),
        (r#"{"text": "{{ labels["a"] }}"}"#, "inside braces, quote with '…'"),
        (r#"{"text": "a"} x"#, "trailing characters at line 1 column 15"),
        (" ", DEFAULT_TEMPLATE),
        (&"x".repeat(200), DEFAULT_TEMPLATE),
        (&format!("[\"{}\"]", "x".repeat(70_000)), "larger than 65536 bytes"),
        (&format!("[\"{{{{ {} }}}}\"]", "(".repeat(400)), "recursion"),
        (&format!("[\"{{{{ node{} }}}}\"]", "[0]".repeat(500)), "has more than 500 words"),
        (&"[".repeat(1000), "recursion limit"),
    ] {
        let error = Template::for_events(template, &[On::Ended].into()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(words) && error.len() < 600, "{template}: {error}");
    }
}

#[test]
fn the_work_and_the_size_of_a_notification_are_bounded() {
    let tens = "[0,0,0,0,0,0,0,0,0,0]";
    let forever = format!("{{% for x in {tens} %}}").repeat(9);
    let forever = format!("[\"{forever}{}\"]", "{% endfor %}".repeat(9));
    let once =
        format!(r#""{{% for a in {tens} %}}{{% for b in {tens} %}}x{{% endfor %}}{{% endfor %}}""#);
    let many = vec![once.as_str(); 200].join(",");
    for (template, error) in [
        (forever.as_str(), BadTemplate::OutOfFuel),
        (r#"["{{ 'x' * 1000000000 }}"]"#, BadTemplate::OutOfFuel),
        (&format!("[{many}]"), BadTemplate::OutOfFuel),
        (r#"["{{ 'x' * 300000 }}"]"#, BadTemplate::BodyTooLarge),
    ] {
        assert_eq!(rendered(template), Err(error), "{template}");
    }
}

#[test]
fn a_template_is_tried_only_with_the_events_that_are_sent() {
    let text = r#"["{{ took // 60 }} min"]"#;
    for (events, is_usable) in
        [(&[On::Ended][..], true), (&[On::Accepted], false), (&[On::Accepted, On::Ended], false)]
    {
        let events = events.iter().copied().collect();
        assert_eq!(Template::for_events(text, &events).is_ok(), is_usable, "{events:?}");
    }
}

#[test]
fn no_string_is_so_deep_that_it_overflows_the_stack() {
    for (head, repeated, end) in [
        ("{{ node", ".a", " }}"),
        ("{{ node", "[0]", " }}"),
        ("{{ node", "()", " }}"),
        ("{{ node", "|a", " }}"),
        ("{{ node", " is a", " }}"),
        ("{{ node", "~node", " }}"),
        ("{{ node", " and node", " }}"),
        ("{{ node", " if node", " }}"),
        ("{{ node", "<node", " }}"),
        ("{{ 1", "**1", " }}"),
        ("{{", " not", " node }}"),
        ("{{ ", "-", "node }}"),
        ("{{ ", "[", " }}"),
        ("{% if node %}", "{% elif node %}", "{% endif %}"),
        ("", "{% for x in node %}", ""),
    ] {
        for times in [120, 160, 240, 490, 3000] {
            let string = format!("{head}{}{end}", repeated.repeat(times));
            let template = serde_json::json!([string]).to_string();
            let result = Template::for_events(&template, &[On::Ended].into());
            assert!(times < 3000 || result.is_err(), "{template}");
        }
    }
}
