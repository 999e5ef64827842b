//! The document as a page for people: every operation with its parameters, an example of its request and its answer, and the problems.
//! It is made of the document alone, so what it says is what the document says.

use askama::Template;
use serde_json::{Map, Value, json};

use super::{markdown, paste};
use web::assets;
use web::pages::Site;

/// The token of the demo's account.
const DEMO_TOKEN: &str = "user@example.com";
/// So deep go the members of members.
const DEPTH_MAX: usize = 3;

/// The page of a document. With `demo` as the demo has it: with its navigation, and its account in the examples.
pub fn page(document: &Value, demo: bool) -> Result<String, askama::Error> {
    let site = Site {
        demo,
        sends_receipts: false,
        has_docs: true,
        origin: paste::ORIGIN.to_owned(),
        style: assets::STYLE.address,
        script: assets::SCRIPT.address,
        t: &web::locale::EN,
    };
    let of = Document { document, token: if demo { DEMO_TOKEN } else { "$TOKEN" } };
    Page {
        site,
        version: text(get(document, "info"), "version").to_owned(),
        about: markdown::blocks(text(get(document, "info"), "description")),
        first_payment: paste::first_payment(of.token),
        variables: paste::VARIABLES
            .into_iter()
            // The demo's token stands in the examples themselves.
            .filter(|variable| !demo || variable.name != "TOKEN")
            .map(|variable| (variable.name, markdown::line(variable.about)))
            .collect(),
        groups: of.groups(),
        schemas: of.schemas(),
        problems: of.problems(),
    }
    .render()
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Page {
    site: Site,
    version: String,
    about: String,
    /// Commands that pay, and keep the payment's id for the examples.
    first_payment: String,
    /// The variables of the examples, and what each has.
    variables: Vec<(&'static str, String)>,
    groups: Vec<Group>,
    schemas: Vec<Named>,
    problems: Vec<ProblemType>,
}

/// The operations under one heading.
struct Group {
    id: String,
    name: String,
    about: String,
    operations: Vec<Operation>,
}

impl Group {
    /// What stands in the contents: what several addresses answer alike once, by the first of them.
    fn contents(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter().enumerate().filter_map(|(at, operation)| {
            let mut before = self.operations.iter().take(at);
            before.all(|known| known.summary != operation.summary).then_some(operation)
        })
    }
}

struct Operation {
    id: String,
    method: String,
    path: String,
    summary: String,
    about: String,
    /// Who may.
    credentials: &'static str,
    /// In the address, the query and the headers.
    parameters: Vec<Field>,
    body: Option<Body>,
    curl: Option<String>,
    answers: Vec<Answer>,
}

struct Body {
    media: String,
    shape: Shape,
}

impl Body {
    /// Its media type and its example.
    fn to_paste(&self) -> (&str, Option<&str>) {
        (&self.media, self.shape.example.as_deref())
    }
}

struct Answer {
    status: String,
    about: String,
    headers: Vec<Field>,
    shape: Option<Shape>,
    /// By the last part of their types.
    problems: Vec<String>,
}

/// What a value looks like: a schema with a name, or members of its own.
struct Shape {
    r#type: String,
    fields: Vec<Field>,
    example: Option<String>,
}

/// A parameter, a header or a member.
struct Field {
    name: String,
    /// `header`, `query`, `path`; of a member nothing.
    place: String,
    r#type: String,
    required: bool,
    about: String,
}

/// A schema with a name.
struct Named {
    name: String,
    about: String,
    shape: Shape,
}

struct ProblemType {
    slug: String,
    status: u64,
    title: String,
    about: String,
    fields: Vec<Field>,
    example: String,
}

struct Document<'a> {
    document: &'a Value,
    token: &'static str,
}

impl<'a> Document<'a> {
    fn groups(&self) -> Vec<Group> {
        let group = |tag: &Value| {
            let name = text(tag, "name");
            Group {
                id: name.to_lowercase().replace(' ', "-"),
                name: name.to_owned(),
                about: markdown::line(text(tag, "description")),
                operations: self.operations(name),
            }
        };
        items(get(self.document, "tags")).map(group).collect()
    }

    fn operations(&self, tag: &str) -> Vec<Operation> {
        let of_path = |(path, methods): (&'a String, &'a Value)| {
            members(methods).map(move |(method, operation)| (path, method, operation))
        };
        members(get(self.document, "paths"))
            .flat_map(of_path)
            .filter(|(_, _, operation)| items(get(operation, "tags")).any(|known| known == tag))
            .map(|(path, method, operation)| self.operation(path, method, operation))
            .collect()
    }

    fn operation(&self, path: &str, method: &str, operation: &'a Value) -> Operation {
        let parameters: Vec<&Value> =
            items(get(operation, "parameters")).map(|parameter| self.resolve(parameter)).collect();
        let body = members(at(operation, "/requestBody/content"))
            .next()
            .map(|(media, content)| Body { media: media.clone(), shape: self.content(content) });
        let (credentials, header) = match items(get(operation, "security")).flat_map(members).next() {
            Some((scheme, _)) if scheme == "account" => {
                ("the token of an account", format!("\"Authorization: Bearer {}\"", self.token))
            }
            // So the secret stands in no list of processes.
            Some(_) => (
                "the operator’s token, at the desk’s host",
                "@<(printf 'Authorization: Bearer %s' \"$ADMIN_TOKEN\")".to_owned(),
            ),
            None => ("", String::new()),
        };
        let curl = (!credentials.is_empty())
            .then(|| paste::curl((path, method), &header, &parameters, body.as_ref().map(Body::to_paste)));
        Operation {
            id: text(operation, "operationId").to_owned(),
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: text(operation, "summary").to_owned(),
            about: markdown::line(text(operation, "description")),
            credentials,
            parameters: parameters.into_iter().map(|parameter| self.parameter(parameter)).collect(),
            body,
            curl,
            answers: members(get(operation, "responses"))
                .map(|(status, answer)| self.answer(status, answer))
                .collect(),
        }
    }

    fn parameter(&self, parameter: &Value) -> Field {
        let required = get(parameter, "required") == true;
        Field {
            place: text(parameter, "in").to_owned(),
            ..self.field(
                text(parameter, "name"),
                get(parameter, "schema"),
                required,
                text(parameter, "description"),
            )
        }
    }

    fn answer(&self, status: &str, answer: &'a Value) -> Answer {
        let answer = self.resolve(answer);
        let headers = members(get(answer, "headers")).map(|(name, header)| {
            let header = self.resolve(header);
            self.field(
                name,
                get(header, "schema"),
                get(header, "required") == true,
                text(header, "description"),
            )
        });
        let content = get(answer, "content");
        let problems = items_or_keys(at(content, "/application/problem+json/examples"));
        // A problem has the same form everywhere, and a page is for people.
        let shape = members(content)
            .find(|(media, _)| *media == "application/json")
            .map(|(_, content)| self.content(content));
        Answer {
            status: status.to_owned(),
            about: markdown::line(text(answer, "description")),
            // Every answer has these two: the introduction says so.
            headers: headers.filter(|header| !EVERYWHERE.contains(&header.name.as_str())).collect(),
            shape,
            problems,
        }
    }

    fn schemas(&self) -> Vec<Named> {
        members(at(self.document, "/components/schemas"))
            .filter(|(name, _)| !name.ends_with("Problem") || *name == "Problem")
            .map(|(name, schema)| Named {
                name: name.clone(),
                about: markdown::line(text(schema, "description")),
                shape: Shape { r#type: self.plain_type(schema), ..self.own_shape(schema) },
            })
            .collect()
    }

    fn problems(&self) -> Vec<ProblemType> {
        let examples = members(at(self.document, "/components/examples"));
        let problem = |(name, example): (&'a String, &'a Value)| {
            let schema = get(at(self.document, "/components/schemas"), &format!("{name}Problem"));
            let mut fields = Vec::new();
            self.add_fields(schema, "", 0, &mut fields);
            fields.retain(|field: &Field| !["type", "status"].contains(&field.name.as_str()));
            ProblemType {
                slug: text(example, "summary").to_owned(),
                status: at(schema, "/properties/status/const").as_u64().unwrap_or_default(),
                title: text(schema, "title").to_owned(),
                about: markdown::line(text(schema, "description")),
                fields,
                example: pretty(get(example, "value")),
            }
        };
        let mut problems: Vec<ProblemType> = examples.map(problem).collect();
        problems.sort_by_key(|problem| problem.status);
        problems
    }

    /// What a body or an answer looks like. Its own example is shown rather than that of its schema.
    fn content(&self, content: &Value) -> Shape {
        let shape = self.shape(get(content, "schema"));
        match content.get("example") {
            Some(example) => Shape { example: Some(pretty(example)), ..shape },
            None => shape,
        }
    }

    /// What a value of this schema looks like: of one with a name only that, and an example.
    fn shape(&self, schema: &Value) -> Shape {
        if schema.get("$ref").is_some() {
            let example = self.example(schema).map(|example| pretty(&example));
            return Shape { r#type: self.r#type(schema), fields: Vec::new(), example };
        }
        self.own_shape(schema)
    }

    fn own_shape(&self, schema: &Value) -> Shape {
        let mut fields = Vec::new();
        self.add_fields(schema, "", 0, &mut fields);
        let example = self.example(schema).map(|example| pretty(&example));
        Shape { r#type: self.r#type(schema), fields, example }
    }

    /// The members of an object, and of the objects in it, by their paths.
    fn add_fields(&self, schema: &Value, prefix: &str, depth: usize, fields: &mut Vec<Field>) {
        let required: Vec<&str> = items(get(schema, "required")).filter_map(Value::as_str).collect();
        for (name, member) in members(get(schema, "properties")) {
            let path = format!("{prefix}{name}");
            fields.push(self.field(&path, member, required.contains(&name.as_str()), ""));
            if depth < DEPTH_MAX {
                self.add_fields(member, &format!("{path}."), depth + 1, fields);
                for choice in items(get(member, "oneOf")) {
                    self.add_fields(choice, &format!("{path}."), depth + 1, fields);
                }
            }
        }
    }

    fn field(&self, name: &str, schema: &Value, required: bool, about: &str) -> Field {
        let own = if about.is_empty() { text(schema, "description") } else { about };
        let about = match (own, schema.get("$ref")) {
            ("", Some(_)) => text(self.resolve(schema), "description"),
            (own, _) => own,
        };
        let choices = items(get(schema, "anyOf")).filter(|choice| choice.get("const").is_some());
        let choices: Vec<String> = choices
            .map(|choice| format!("{}: {}", code(get(choice, "const")), text(choice, "description")))
            .collect();
        let about = if choices.is_empty() {
            about.to_owned()
        } else {
            format!("{about}\n\n- {}", choices.join("\n- "))
        };
        Field {
            name: name.to_owned(),
            place: String::new(),
            r#type: self.r#type(schema),
            required,
            about: if about.is_empty() { about } else { markdown::blocks(&about) },
        }
    }

    /// A type in words, as HTML: one with a name leads to it.
    fn r#type(&self, schema: &Value) -> String {
        match schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next()) {
            Some(name) => format!("<a href=\"#{name}\">{name}</a>"),
            None => self.plain_type(schema),
        }
    }

    fn plain_type(&self, schema: &Value) -> String {
        let either = ["oneOf", "anyOf"].iter().flat_map(|keyword| items(get(schema, keyword)));
        let either: Vec<String> = either
            .filter(|choice| choice.get("required").is_none())
            .map(|choice| self.r#type(choice))
            .collect();
        if let Some(constant) = schema.get("const") {
            return markdown::line(&code(constant));
        }
        if !either.is_empty() {
            let mut words = either;
            if words.len() > 3 {
                words = vec!["a word".to_owned()];
            }
            return words.join(" or ");
        }
        if schema.get("enum").is_some() {
            let words: Vec<String> = items(get(schema, "enum")).map(code).collect();
            return markdown::line(&words.join(", "));
        }
        let names: Vec<&str> = match get(schema, "type") {
            Value::String(name) => vec![name],
            names => items(names).filter_map(Value::as_str).collect(),
        };
        let mut words = names.join(" or ");
        if words == "array" {
            words = format!("list of {}", self.r#type(get(schema, "items")));
        }
        if let Some(format) = get(schema, "format").as_str() {
            words = format!("{words} ({format})");
        }
        match limits(schema) {
            limits if limits.is_empty() => words,
            limits => format!("{words}, {limits}"),
        }
    }

    /// What a value of this schema may be: its example, or one of the examples of its members. Nothing if a member is required and has
    /// none, because such a value there never is.
    fn example(&self, schema: &Value) -> Option<Value> {
        let schema = self.resolve(schema);
        if let Some(example) = items(get(schema, "examples")).next() {
            return Some(example.clone());
        }
        if let Some(constant) = schema.get("const") {
            return Some(constant.clone());
        }
        let properties = schema.get("properties")?;
        let values: Map<String, Value> = members(properties)
            .filter_map(|(name, member)| Some((name.clone(), self.example(member)?)))
            .collect();
        let mut required = items(get(schema, "required")).filter_map(Value::as_str);
        let is_whole = required.all(|name| values.contains_key(name));
        (is_whole && !values.is_empty()).then(|| json!(values))
    }

    fn resolve<'b>(&self, value: &'b Value) -> &'b Value
    where
        'a: 'b,
    {
        let target = value.get("$ref").and_then(Value::as_str);
        target.and_then(|target| self.document.pointer(target.trim_start_matches('#'))).unwrap_or(value)
    }
}

/// Headers of every answer.
const EVERYWHERE: [&str; 2] = ["Request-Id", "Server-Timing"];

/// How long or how large.
fn limits(schema: &Value) -> String {
    let range = |min: &str, max: &str, unit: &str| {
        let number = |name: &str| schema.get(name).and_then(Value::as_u64);
        match (number(min), number(max)) {
            (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
            (None, Some(max)) => Some(format!("at most {max}{unit}")),
            (Some(min), None) => Some(format!("at least {min}{unit}")),
            (None, None) => None,
        }
    };
    [
        range("minimum", "maximum", ""),
        range("minLength", "maxLength", " characters"),
        range("minItems", "maxItems", " entries"),
        range("minProperties", "maxProperties", " entries"),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

fn code(value: &Value) -> String {
    match value {
        Value::String(word) => format!("`{word}`"),
        value => format!("`{value}`"),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// What stands at a place, as a JSON pointer.
fn at<'a>(value: &'a Value, place: &str) -> &'a Value {
    value.pointer(place).unwrap_or(&Value::Null)
}

fn get<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items_or_keys(examples: &Value) -> Vec<String> {
    members(examples).map(|(slug, _)| slug.clone()).collect()
}
