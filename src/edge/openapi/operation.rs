//! One operation, as the document has it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answers::{
    HTTPS_REQUIRED, Header, INTERRUPTED, METHOD_NOT_ALLOWED, NEXT_PAGE, Refusal, STORED, header_references,
};
use super::schema::{Schema, text};

/// Where a body or an answer says what it is as JSON.
const JSON: &str = "/content/application~1json";
/// Where a body says what it is as a form.
const FORM: &str = "/content/application~1x-www-form-urlencoded";

/// What a route of the table is for.
#[derive(Clone, Debug)]
pub struct Operation {
    tag: &'static str,
    id: &'static str,
    summary: &'static str,
    about: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
    refusals: Vec<Refusal>,
}

impl Operation {
    /// An operation under a heading, with its name for programs and for people.
    pub(super) fn new(
        tag: &'static str,
        id: &'static str,
        summary: &'static str,
        about: &'static str,
    ) -> Self {
        let refusals = vec![METHOD_NOT_ALLOWED, INTERRUPTED];
        let (parameters, body, answers) = (Vec::new(), None, BTreeMap::new());
        Self { tag, id, summary, about, parameters, body, answers, refusals }
    }

    /// It takes a key, and waits as long as it is asked to.
    pub(super) fn keyed(mut self) -> Self {
        let of = |name: &str| json!({ "$ref": format!("#/components/parameters/{name}") });
        self.parameters.extend(["IdempotencyKey", "Prefer"].map(of));
        self
    }

    /// It takes a parameter in its query.
    pub(super) fn query(self, name: &str, about: &str, schema: Schema) -> Self {
        self.parameter(json!({ "name": name, "in": "query", "description": about, "schema": schema }))
    }

    /// It takes another parameter.
    pub(super) fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Its body, by media type.
    pub(super) fn body<const N: usize>(mut self, required: bool, content: [(&str, Schema); N]) -> Self {
        self.body = Some(json!({ "required": required, "content": media(content) }));
        self
    }

    /// Its body, as JSON or as a form.
    pub(super) fn parameters_in_body(self, required: bool, schema: Schema) -> Self {
        let content = [("application/json", schema.clone()), ("application/x-www-form-urlencoded", schema)];
        self.body(required, content)
    }

    /// With an example of what is sent, where that of the schema would be another operation's.
    pub(super) fn sends(mut self, example: Value) -> Self {
        add_example(self.body.as_mut(), example);
        self
    }

    /// What of its body is an object, and written as `name[member]` in a form.
    pub(super) fn grouped_in_form(mut self, names: &[&str]) -> Self {
        let deep = |name: &&str| ((*name).to_owned(), json!({ "style": "deepObject", "explode": true }));
        let encoding: Map<String, Value> = names.iter().map(deep).collect();
        let form = self.body.as_mut().and_then(|body| body.pointer_mut(FORM));
        if let Some(Value::Object(form)) = form {
            form.insert("encoding".to_owned(), encoding.into());
        }
        self
    }

    /// Another answer.
    pub(super) fn answers<const N: usize>(
        mut self,
        status: u16,
        about: &str,
        headers: &[Header],
        content: [(&str, Schema); N],
    ) -> Self {
        let mut answer = json!({ "description": about, "headers": header_references(headers) });
        if N > 0
            && let Value::Object(members) = &mut answer
        {
            members.insert("content".to_owned(), media(content));
        }
        self.answers.insert(status, answer);
        self
    }

    /// It answers with JSON, and nothing is stored.
    pub(super) fn shows(self, about: &str, schema: Schema) -> Self {
        self.answers(200, about, &[], [("application/json", schema)])
    }

    /// It answers with JSON that is stored under the key.
    pub(super) fn stores(self, status: u16, about: &str, more: &[Header], schema: Schema) -> Self {
        let headers: Vec<Header> = STORED.iter().chain(more).copied().collect();
        self.answers(status, about, &headers, [("application/json", schema)])
    }

    /// With an example of an answer, where that of the schema would not be what the example of the request asks for.
    pub(super) fn example(mut self, status: u16, example: Value) -> Self {
        add_example(self.answers.get_mut(&status), example);
        self
    }

    /// It answers with a page.
    pub(super) fn shows_page(self) -> Self {
        self.answers(200, "The page.", &[], [("text/html", text())])
    }

    /// It leads on.
    pub(super) fn leads_on(self) -> Self {
        self.answers(303, "Go there with GET.", &[NEXT_PAGE], [])
    }

    /// From this answer other operations can be reached.
    pub(super) fn links(mut self, status: u16, names: &[&str]) -> Self {
        let to = |name: &&str| ((*name).to_owned(), json!({ "$ref": format!("#/components/links/{name}") }));
        let links: Map<String, Value> = names.iter().map(to).collect();
        if let Some(Value::Object(answer)) = self.answers.get_mut(&status) {
            answer.insert("links".to_owned(), links.into());
        }
        self
    }

    /// How it refuses.
    pub(super) fn refuses(mut self, refusals: &[Refusal]) -> Self {
        self.refusals.extend(refusals);
        self
    }

    /// It changes something, so its credentials may not come over plain http.
    pub(super) fn changes(self) -> Self {
        self.refuses(&[HTTPS_REQUIRED])
    }

    /// How it refuses.
    pub(super) fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    /// As the document has it, with what the table of routes knows.
    pub(super) fn to_json(&self, security: Value, mut in_path: Vec<Value>) -> Value {
        in_path.extend(self.parameters.iter().cloned());
        let mut answers = self.answers.clone();
        for refusal in &self.refusals {
            let target = format!("#/components/responses/{}", refusal.name);
            answers.insert(refusal.status(), json!({ "$ref": target }));
        }
        let answers: Map<String, Value> =
            answers.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect();
        let mut operation = json!({
            "tags": [self.tag], "operationId": self.id, "summary": self.summary, "description": self.about,
            "security": security, "responses": answers,
        });
        if let Value::Object(members) = &mut operation {
            if !in_path.is_empty() {
                members.insert("parameters".to_owned(), in_path.into());
            }
            if let Some(body) = &self.body {
                members.insert("requestBody".to_owned(), body.clone());
            }
        }
        operation
    }
}

/// Beside the schema of what is JSON.
fn add_example(part: Option<&mut Value>, example: Value) {
    if let Some(Value::Object(json)) = part.and_then(|part| part.pointer_mut(JSON)) {
        json.insert("example".to_owned(), example);
    }
}

fn media<const N: usize>(content: [(&str, Schema); N]) -> Value {
    let of = |(name, schema): (&str, Schema)| (name.to_owned(), json!({ "schema": schema }));
    Value::Object(content.into_iter().map(of).collect())
}
