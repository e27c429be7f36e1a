//! Two passages that name the same thing, and a question that needs both.

use super::super::check::needs_both;
use super::Recipe;

pub(super) const RECIPE: Recipe = Recipe {
    task: "Both passages speak of the same thing. Write one question that needs both of them: it uses a fact of one \
           passage to ask for a fact of the other. The reader does not see the passages: name what is asked about, and \
           do not mention a passage, text or section. Then give the answer, as short as it can be, in the words of the \
           passages, and copy one sentence of each passage that is needed for the answer.",
    example_passages: &[
        "The Ostra mill was built by the miller Jan Tesch in 1790. It ground rye for three villages until the railway \
         came, and stands empty today.",
        "Jan Tesch was born in Lindow. After his apprenticeship he walked as far as Riga before he came home and built \
         mills along the river.",
    ],
    example_reply: r#"{"question": "In which town was the miller born who built the Ostra mill?", "answer": "Lindow", "quote": "The Ostra mill was built by the miller Jan Tesch in 1790.", "second_quote": "Jan Tesch was born in Lindow."}"#,
    answer_share: 0.6,
    rule: needs_both,
};
