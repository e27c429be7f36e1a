//! Small documents about animals, in the formats that tests can write.

use std::path::Path;

pub const OTTERS: &str = "# Otters\n\nOtters live along rivers and coasts. A sea otter sleeps on its back and holds the hand of its neighbour. \
Their dense fur has up to one million hairs on a patch as large as a stamp.\n\n# Beavers\n\nBeavers build dams from branches and mud. \
The pond behind the dam protects their lodge from wolves and bears.\n";

pub const OWLS: &str = "Owls hunt at night. Their feathers have soft edges, so that they fly without a sound. \
An owl cannot move its eyes, and turns its head by up to 270 degrees instead. Barn owls swallow mice whole.\n";

pub const WHALES: &str = "<html><head><title>Whales</title></head><body><main><h1>Whales</h1><p>The blue whale is the largest animal that \
has ever lived. Its heart weighs as much as a small car.</p><p>Humpback whales sing songs that last for twenty minutes.</p></main></body></html>";

const GOLDEN: [(&str, &str, &str, &str, &str); 4] = [
    (
        "owl",
        "By how many degrees does an owl turn its head?",
        "By up to 270 degrees.",
        "owls.txt",
        "turns its head by up to 270 degrees",
    ),
    (
        "dam",
        "What do beavers build dams from?",
        "From branches and mud.",
        "otters.md",
        "Beavers build dams from branches and mud.",
    ),
    (
        "whale",
        "How much does the heart of the blue whale weigh?",
        "As much as a small car.",
        "whales.html",
        "Its heart weighs as much as a small car.",
    ),
    (
        "song",
        "How long do songs of humpback whales last?",
        "Twenty minutes.",
        "whales.html",
        "sing songs that last for twenty minutes",
    ),
];

/// Writes `documents/` and `golden.jsonl`.
pub fn write(folder: &Path) {
    let documents = folder.join("documents");
    std::fs::create_dir_all(&documents).unwrap();
    for (name, text) in [("otters.md", OTTERS), ("owls.txt", OWLS), ("whales.html", WHALES)] {
        std::fs::write(documents.join(name), text).unwrap();
    }
    let lines = GOLDEN.map(|(id, question, reference, document, quote)| {
        serde_json::json!({ "id": id, "question": question, "reference": reference, "evidence": [{ "document": document, "quote": quote }] }).to_string()
    });
    std::fs::write(folder.join("golden.jsonl"), lines.join("\n")).unwrap();
}

/// The words that the static model knows.
pub fn words() -> Vec<&'static str> {
    [OTTERS, OWLS, WHALES]
        .into_iter()
        .chain(GOLDEN.iter().flat_map(|golden| [golden.1, golden.2]))
        .flat_map(|text| text.split(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .collect()
}
