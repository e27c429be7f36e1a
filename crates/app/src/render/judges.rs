//! How judges did on labelled cases, and how far they agree with people.

use super::{left, number_or_dash, table};
use eval::statistics::Interval;
use lab::{Calibration, QualificationRecord};

/// A table of judges and kinds of verdicts.
pub fn qualifications(records: &[QualificationRecord]) -> String {
    let mut table = table(
        &[
            "judge",
            "verdict",
            "cases",
            "unreadable",
            "AUC",
            "95 %",
            "balanced accuracy",
            "95 %",
            "threshold",
            "qualified",
        ],
        2,
    );
    for record in records {
        for found in &record.kinds {
            let row = [
                record.judge.clone(),
                found.kind.name().to_owned(),
                found.n.to_string(),
                found.unreadable.to_string(),
                number(found.auc),
                interval(found.auc_interval),
                number(found.balanced_accuracy),
                interval(found.accuracy_interval),
                number(found.threshold),
                if found.qualified { "yes" } else { "no" }.to_owned(),
            ];
            table.add_row(row.map(left));
        }
    }
    let mut text = table.to_string();
    for record in records {
        for found in record.kinds.iter().filter(|found| !found.qualified) {
            text.push_str(&format!("\n{}, {}: {}", record.judge, found.kind.name(), found.reason));
        }
    }
    text
}

/// A judge's scores compared with people's labels.
pub fn calibration(calibration: &Calibration) -> String {
    let Calibration { metric, agreement, trials, n_labels } = calibration;
    let mut text = format!("{metric}: {n_labels} labels");
    if let Some(agreement) = agreement {
        let kappa = number(agreement.kappa);
        text.push_str(&format!(
            "\nagreement {:.2}, Cohen's kappa {kappa} {} over {} cases",
            agreement.observed,
            interval(agreement.interval),
            agreement.n
        ));
        for class in &agreement.classes {
            text.push_str(&format!(
                "\n  {}: people {}, judge {}, both {}; precision {}, recall {}",
                class.class,
                class.by_people,
                class.by_judge,
                class.by_both,
                number(class.precision()),
                number(class.recall())
            ));
        }
    }
    let mut table = table(&["trial", "labels", "judged", "judge's mean", "bias", "corrected mean", "95 %"], 1);
    for row in trials {
        let corrected = row.corrected.as_ref();
        let cells = [
            row.trial.clone(),
            row.n_labels.to_string(),
            row.n_judged.to_string(),
            number(row.judged_mean),
            number(corrected.map(|corrected| corrected.bias)),
            number(corrected.map(|corrected| corrected.mean)),
            interval(corrected.map(|corrected| corrected.interval)),
        ];
        table.add_row(cells.map(left));
    }
    format!("{text}\n{table}")
}

fn number(value: Option<f64>) -> String {
    number_or_dash(value, 2)
}

fn interval(value: Option<Interval>) -> String {
    value.map_or(String::new(), |value| format!("[{}, {}]", super::number(value.low, 2), super::number(value.high, 2)))
}
