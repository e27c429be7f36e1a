//! The OpenAPI document (3.1), made from the table of routes and from the types of
//! requests and responses, so that it always agrees with them.

use super::{operation::Operation, route::RouteSpec};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The OpenAPI document of these routes.
pub(crate) fn document(routes: &[RouteSpec]) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    let (mut schemas, mut paths) = (settings.into_generator(), Map::new());
    for route in routes {
        let Some(describe) = route.describe else { continue };
        let (method, path) = (route.method.to_lowercase(), route.open_api_path());
        let operation = Operation::new(&mut schemas);
        let operation = if route.scope.is_some() { operation.errors(&["401", "429"]) } else { operation };
        let mut operation = describe(operation).finish();
        operation["operationId"] = format!("{method}{}", path.replace(['/', '{', '}', '.'], "_")).into();
        let (summary, details) = route.summary.split_once(". ").unwrap_or((route.summary, ""));
        operation["summary"] = summary.into();
        if !details.is_empty() {
            operation["description"] = details.into();
        }
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
    }
    let mut definitions = Value::Object(schemas.take_definitions(true));
    adapt_to_generators(&mut definitions);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Reverie", "version": env!("CARGO_PKG_VERSION"),
            "description": "Answers questions from documents, with sources.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "key": [] }],
    })
}

/// Adapts schemas to generators of types. Removes `default: null`, because generators
/// treat a field with a default as required, and writes the schema of any value as
/// `{}`, because openapi-python-client does not know `true`.
fn adapt_to_generators(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("default") == Some(&Value::Null) {
                fields.remove("default");
            }
            let anything = |schema: &mut Value| {
                if *schema == Value::Bool(true) {
                    *schema = json!({});
                }
            };
            fields.get_mut("items").into_iter().for_each(anything);
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                properties.values_mut().for_each(anything);
            }
            fields.values_mut().for_each(adapt_to_generators);
        }
        Value::Array(items) => items.iter_mut().for_each(adapt_to_generators),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_route_has_its_errors() {
        let document = &*crate::routes::DOCUMENT;
        let mut open = vec![document];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(fields) => {
                    assert_ne!(fields.get("items"), Some(&Value::Bool(true)), "{fields:?}");
                    let properties = fields.get("properties").and_then(Value::as_object);
                    assert!(!properties.is_some_and(|all| all.values().any(Value::is_boolean)), "{fields:?}");
                    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                        let found = document.pointer(reference.trim_start_matches('#'));
                        assert!(found.is_some(), "{reference}");
                    }
                    open.extend(fields.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        for (path, methods) in document["paths"].as_object().unwrap() {
            for route in methods.as_object().unwrap().values() {
                let has = |status: &str| route["responses"][status].is_object();
                assert!(has("400") && has("405") && has("431"), "{path}");
                assert_eq!(has("406"), path == "/mcp", "{path}");
            }
        }
    }

    #[test]
    fn what_need_not_be_sent_has_no_default_and_answers_have_types() {
        let document = &*crate::routes::DOCUMENT;
        let schema = |name: &str| &document["components"]["schemas"][name];
        assert_eq!(schema("ChatCompletionRequest")["required"], json!(["model", "messages"]));
        assert!(!document.to_string().contains("\"default\":null"));
        for (path, methods) in document["paths"].as_object().unwrap() {
            let is_typed = (path.starts_with("/v1/") || path.starts_with("/rag/")) && !path.ends_with(".png");
            for route in methods.as_object().unwrap().values().filter(|_| is_typed && path != "/rag/feedback") {
                let schema = &route["responses"]["200"]["content"]["application/json"]["schema"];
                assert!(schema["$ref"].is_string(), "{path}: {schema}");
            }
        }
        assert!(schema("ChatChoice")["properties"]["finish_reason"].is_object());
    }
}
