//! Personas that might ask about these documents, written by the model.

use super::{GenerateOptions, Persona, concerns_one_passage};
use crate::prompt;
use crate::words::sentences;
use models::{Chat, ChatRequest, Message};
use rag::Chunk;
use serde_json::{Value, json};

/// The number of passages that the model gets, and the characters of each.
const PASSAGES: usize = 12;
const CHARACTERS: usize = 240;

/// Asks once for all personas. Returns fewer if the model writes fewer, and none if
/// this call fails or its reply cannot be read; questions then have no persona.
///
/// # Errors
/// The model cannot be used at all.
pub(super) async fn make(
    options: &GenerateOptions,
    passages: &[&Chunk],
    chat: &Chat,
) -> Result<Vec<Persona>, models::Error> {
    let texts: Vec<String> = passages
        .iter()
        .take(PASSAGES)
        .map(|chunk| {
            let heading = chunk.heading.as_deref().unwrap_or_default();
            let first: String =
                sentences(&chunk.text).first().copied().unwrap_or_default().chars().take(CHARACTERS).collect();
            format!("{heading}: {first}")
        })
        .collect();
    let n = options.n_personas;
    let task = format!(
        "These are pieces of a collection of documents. Write {n} different people who look things up in it: a short \
         name for each, such as a profession, and one sentence on what this person knows and wants to find."
    );
    let shown = prompt::fence_all("passages", "passage", texts.iter().map(String::as_str));
    let tokens = u32::try_from(n * 80 + 80).unwrap_or(u32::MAX);
    let mut request = ChatRequest::new(vec![Message::user(format!("{shown}\n\n{task}"))], tokens);
    request.schema = Some(schema(n));
    match chat.chat(&request).await {
        Ok(response) => Ok(read(&response.text, n)),
        Err(models::Error::SchemaMismatch { .. }) => Ok(Vec::new()),
        // Without a traceback, the user's function raised nothing: it returned what cannot be used, like a model
        // that breaks the schema. An exception ends the generation unless it is transient.
        Err(models::Error::Function(failed)) if failed.traceback.is_none() => Ok(Vec::new()),
        Err(error) if concerns_one_passage(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn schema(n: usize) -> Value {
    let text = json!({ "type": "string" });
    let persona = prompt::object_schema(json!({ "name": text, "description": text }));
    let personas = json!({ "type": "array", "minItems": n, "maxItems": n, "items": persona });
    prompt::object_schema(json!({ "personas": personas }))
}

fn read(reply: &str, n: usize) -> Vec<Persona> {
    let object: Value = serde_json::from_str(reply).unwrap_or_default();
    let rows = object["personas"].as_array().cloned().unwrap_or_default();
    let mut personas: Vec<Persona> = Vec::new();
    for persona in rows.into_iter().filter_map(|row| serde_json::from_value::<Persona>(row).ok()) {
        let is_new = personas.iter().all(|known| known.name != persona.name);
        if is_new && !persona.name.trim().is_empty() && personas.len() < n {
            personas.push(persona);
        }
    }
    personas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personas_with_the_same_name_or_none_are_left_out() {
        let reply = r#"{"personas": [{"name": "Nurse", "description": "a"}, {"name": "Nurse", "description": "b"},
            {"name": " ", "description": "c"}, {"name": "Pilot", "description": "d"}]}"#;
        let names: Vec<String> = read(reply, 3).into_iter().map(|persona| persona.name).collect();
        assert_eq!(names, ["Nurse", "Pilot"]);
        assert!(read("no JSON", 3).is_empty());
    }
}
