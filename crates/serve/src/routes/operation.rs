//! Builds the OpenAPI description of one route.

use crate::error::ErrorBody;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The statuses of errors, and what they mean.
const ERRORS: [(&str, &str); 15] = [
    ("400", "The request cannot be answered as it is"),
    ("401", "No API key, or an unknown one"),
    ("403", "The key does not allow this"),
    ("404", "There is no such thing"),
    ("405", "The route does not take this method"),
    ("406", "The client does not accept JSON"),
    ("408", "The request did not come in time"),
    ("409", "Another bundle is being opened"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("429", "The key has used up its requests, or the budget is spent"),
    ("431", "The headers are too large"),
    ("502", "A model failed"),
    ("503", "The service or a model takes no more requests now; `Retry-After` says when to try again"),
    ("504", "The answer was not done in time"),
];

/// The description of a route: its parameters, its body, and its responses.
pub(crate) struct Operation<'a> {
    schemas: &'a mut SchemaGenerator,
    fields: Value,
    responses: Map<String, Value>,
    errors: BTreeSet<&'static str>,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(schemas: &'a mut SchemaGenerator) -> Self {
        // Every route can refuse a host, a method, and slow or large headers.
        let errors = BTreeSet::from(["400", "403", "405", "408", "431"]);
        Self { schemas, fields: json!({}), responses: Map::new(), errors }
    }

    /// Adds statuses of errors.
    pub(crate) fn errors(mut self, statuses: &[&'static str]) -> Self {
        self.errors.extend(statuses);
        self
    }

    /// Adds the errors of a route that uses models or the store.
    pub(crate) fn model_errors(self) -> Self {
        self.errors(&["429", "502", "503", "504"])
    }

    /// Adds a JSON body of a type.
    pub(crate) fn body<T: JsonSchema>(self) -> Self {
        let schema = self.schemas.subschema_for::<T>().to_value();
        self.body_schema(schema)
    }

    /// Adds a JSON body with a schema.
    pub(crate) fn body_schema(mut self, schema: Value) -> Self {
        self.fields["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        self.errors(&["413", "415"])
    }

    /// Adds the parameter `id` of the path.
    pub(crate) fn path_id(mut self) -> Self {
        let schema = json!({ "type": "string" });
        self.fields["parameters"] = json!([{ "name": "id", "in": "path", "required": true, "schema": schema }]);
        self.errors(&["404"])
    }

    /// Adds the fields of a type as parameters of the URL, after those of the path.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        let schema = self.schemas.root_schema_for::<T>().to_value();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let parameter = |(name, field): (&String, &Value)| {
            let mut field = field.clone();
            // A URL cannot say null: an optional parameter is left out.
            if let Some(types) = field["type"].as_array() {
                field["type"] = types.iter().find(|name| *name != "null").cloned().unwrap_or_default();
            }
            if let Value::Object(field) = &mut field {
                field.remove("default");
            }
            json!({ "name": name, "in": "query", "required": required.contains(&name.as_str()), "schema": field,
                    "description": field["description"] })
        };
        let fields = schema["properties"].as_object().into_iter().flatten();
        let of_path = self.fields["parameters"].as_array().into_iter().flatten().cloned();
        self.fields["parameters"] = of_path.chain(fields.map(parameter)).collect();
        self
    }

    /// Adds a JSON response of a type.
    pub(crate) fn json<T: JsonSchema>(self, text: &str) -> Self {
        let schema = self.schemas.subschema_for::<T>().to_value();
        self.response("200", json!({ "description": text, "content": { "application/json": { "schema": schema } } }))
    }

    /// Adds a JSON response that is any object.
    pub(crate) fn object(self, text: &str) -> Self {
        let content = json!({ "application/json": { "schema": { "type": "object" } } });
        self.response("200", json!({ "description": text, "content": content }))
    }

    /// Adds a JSON response of a type, or a stream of events.
    pub(crate) fn json_or_events<T: JsonSchema>(self, text: &str) -> Self {
        let schema = self.schemas.subschema_for::<T>().to_value();
        let event = json!({ "type": "object", "required": ["data"], "properties": {
            "event": { "type": "string" }, "data": { "type": "string", "description": "JSON, or `[DONE]`" },
        }});
        let content = json!({ "application/json": { "schema": schema }, "text/event-stream": { "schema": event } });
        self.response("200", json!({ "description": text, "content": content }))
    }

    /// Adds a response.
    pub(crate) fn response(mut self, status: &str, response: Value) -> Self {
        self.responses.insert(status.to_owned(), response);
        self
    }

    /// The operation object of OpenAPI.
    pub(crate) fn finish(mut self) -> Value {
        let schema = self.schemas.subschema_for::<ErrorBody>().to_value();
        for (status, text) in ERRORS.iter().filter(|(status, _)| self.errors.contains(status)) {
            let error = json!({ "description": text, "content": { "application/json": { "schema": schema } } });
            self.responses.insert((*status).to_owned(), error);
        }
        self.fields["responses"] = Value::Object(self.responses);
        self.fields
    }
}
