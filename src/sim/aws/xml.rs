//! Writes the XML of the Query protocols and reads their forms.

use std::collections::BTreeMap;

/// An XML document in the making.
#[derive(Debug, Default)]
pub(super) struct Xml(String);

impl Xml {
    /// `<name xmlns="namespace">…</name>`.
    pub(super) fn document(name: &str, namespace: &str, content: impl FnOnce(&mut Self)) -> String {
        let mut xml = Self(String::with_capacity(1024));
        xml.0.push_str(r#"<?xml version="1.0" encoding="UTF-8"?>"#);
        xml.0.push_str("\n<");
        xml.0.push_str(name);
        xml.0.push_str(" xmlns=\"");
        xml.0.push_str(namespace);
        xml.0.push_str("\">");
        content(&mut xml);
        xml.close(name);
        xml.0
    }

    /// A document without a namespace, as EC2 writes errors.
    pub(super) fn plain(name: &str, content: impl FnOnce(&mut Self)) -> String {
        let mut xml = Self(String::with_capacity(512));
        xml.0.push_str(r#"<?xml version="1.0" encoding="UTF-8"?>"#);
        xml.0.push('\n');
        xml.element(name, content);
        xml.0
    }

    pub(super) fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push('>');
        content(self);
        self.close(name);
    }

    pub(super) fn text(&mut self, name: &str, value: impl AsRef<str>) {
        self.element(name, |xml| xml.escaped(value.as_ref()));
    }

    /// `<name><item>…</item>…</name>`.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        item: &str,
        items: impl IntoIterator<Item = T>,
        mut content: impl FnMut(&mut Self, T),
    ) {
        self.element(name, |xml| {
            for one in items {
                xml.element(item, |xml| content(xml, one));
            }
        });
    }

    pub(super) fn escaped(&mut self, value: &str) {
        for c in value.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                c => self.0.push(c),
            }
        }
    }

    fn close(&mut self, name: &str) {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }
}

/// The form of a Query request.
#[derive(Debug, Clone, Default)]
pub(super) struct Form(BTreeMap<String, String>);

impl Form {
    pub(super) fn read(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// `name.1`, `name.2`, … as far as they go.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        (1..).map_while(|n| self.get(&format!("{name}.{n}"))).collect()
    }
}
