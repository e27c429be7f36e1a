//! What was filled into a form: texts, choices and ticks. PDFium's text of a page does not have them.

use super::area::Area;
use pdfium_render::prelude::{PdfFormComboBoxField, PdfFormField, PdfFormTextField, PdfPage, PdfPageAnnotationCommon};

/// A text that was filled into a form.
#[derive(Debug, Clone)]
pub(super) struct FormField {
    pub(super) area: Area,
    pub(super) value: String,
}

/// The filled fields of a page, where they are on it: heights grow upwards.
pub(super) fn filled_in(page: &PdfPage<'_>) -> Vec<FormField> {
    let mut found = Vec::new();
    for annotation in page.annotations().iter() {
        let Some(value) = annotation.as_form_field().and_then(value) else { continue };
        let Ok(bounds) = annotation.bounds() else { continue };
        let area = Area::of_rectangle(&bounds);
        found.push(FormField { area, value });
    }
    found
}

fn value(field: &PdfFormField<'_>) -> Option<String> {
    let ticked = |is_ticked: bool| Some(if is_ticked { "[x]" } else { "[ ]" }.to_owned());
    let words = match field {
        PdfFormField::Text(field) => PdfFormTextField::value(field),
        PdfFormField::ComboBox(field) => PdfFormComboBoxField::value(field),
        PdfFormField::Checkbox(field) => ticked(field.is_checked().ok()?),
        PdfFormField::RadioButton(field) => ticked(field.is_checked().ok()?),
        _ => None,
    };
    let words = words?.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(words)
}
