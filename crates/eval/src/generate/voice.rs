//! Voices: persona, style and length of questions. Questions of one voice would test
//! a system on one kind of user.

use super::GenerateOptions;
use crate::{
    dataset::{Length, QuestionStyle},
    statistics::Random,
};
use serde::{Deserialize, Serialize};

/// Somebody who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Persona {
    /// Who, in a few words.
    pub name: String,
    /// What this person knows and wants.
    pub description: String,
}

/// One voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Voice {
    pub(super) persona: Option<Persona>,
    pub(super) style: QuestionStyle,
    pub(super) length: Length,
}

impl Voice {
    /// The instructions for the model; empty for the default voice.
    pub(super) fn instructions(&self) -> String {
        let asked_by = self.persona.as_ref().map(|persona| {
            let Persona { name, description } = persona;
            format!("It is asked by this person, and is about what matters to them: {name}: {description}")
        });
        let parts = [asked_by.as_deref().unwrap_or(""), self.style.instruction(), self.length.instruction()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// An endless sequence of voices, in which each persona, style and length is equally
/// frequent: each comes from its own shuffled cycle.
pub(super) struct Voices {
    random: Random,
    personas: ShuffledCycle<Option<Persona>>,
    styles: ShuffledCycle<QuestionStyle>,
    lengths: ShuffledCycle<Length>,
}

impl Voices {
    pub(super) fn new(options: &GenerateOptions, personas: &[Persona], seed: u64) -> Self {
        let personas = match personas {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        };
        Self {
            random: Random::new(seed),
            personas: ShuffledCycle::new(personas),
            styles: ShuffledCycle::new(options.styles.clone()),
            lengths: ShuffledCycle::new(options.lengths.clone()),
        }
    }

    pub(super) fn next(&mut self) -> Voice {
        Voice {
            persona: self.personas.next(&mut self.random).flatten(),
            style: self.styles.next(&mut self.random).unwrap_or(QuestionStyle::Plain),
            length: self.lengths.next(&mut self.random).unwrap_or(Length::Medium),
        }
    }
}

struct ShuffledCycle<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Clone> ShuffledCycle<T> {
    fn new(all: Vec<T>) -> Self {
        Self { all, left: Vec::new() }
    }

    fn next(&mut self, random: &mut Random) -> Option<T> {
        if self.left.is_empty() {
            self.left = self.all.clone();
            random.shuffle(&mut self.left);
        }
        self.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_style_comes_equally_often() {
        let options = GenerateOptions {
            styles: vec![QuestionStyle::Plain, QuestionStyle::WebSearch],
            ..GenerateOptions::default()
        };
        let mut voices = Voices::new(&options, &[], 7);
        let mut seen: BTreeMap<QuestionStyle, usize> = BTreeMap::new();
        for _ in 0..20 {
            *seen.entry(voices.next().style).or_default() += 1;
        }
        assert_eq!(seen.into_values().collect::<Vec<_>>(), [10, 10]);
    }

    #[test]
    fn the_plainest_voice_needs_no_words() {
        let plain = Voice { persona: None, style: QuestionStyle::Plain, length: Length::Medium };
        assert_eq!(plain.instructions(), "");
        let persona = Persona { name: "A student".into(), description: "reads it for the first time".into() };
        let voice = Voice { persona: Some(persona), style: QuestionStyle::WebSearch, length: Length::Short };
        assert!(voice.instructions().contains("A student") && voice.instructions().contains("10 words"));
    }
}
