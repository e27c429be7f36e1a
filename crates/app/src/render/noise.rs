//! Where a metric's noise comes from.

use lab::NoiseResult;

/// The shares of the noise, and the standard error with more repeats.
pub fn noise(result: &NoiseResult) -> String {
    let NoiseResult { trial, metric, noise, used, left_out, varying, n_questions, standard_errors } = result;
    let all = noise.question + noise.generation + noise.judge;
    let share = |part: f64| if all > 0.0 { 100.0 * part / all } else { 0.0 };
    let mut text = format!(
        "{metric} of {trial}, from {used} questions × {} answers × {} judgements{}",
        noise.design.1,
        noise.design.2,
        if *left_out > 0 { format!(" ({left_out} questions left out: a score is missing)") } else { String::new() }
    );
    for (name, part) in [("questions", noise.question), ("generator", noise.generation), ("judge", noise.judge)] {
        text.push_str(&format!(
            "\n  {name:<10} {:>3.0} % of the variance (standard deviation {:.3})",
            share(part),
            part.sqrt()
        ));
    }
    if let Some(varying) = varying {
        text.push_str(&format!("\n{varying} of {used} questions were not always answered in the same words"));
    }
    let [now, questions, answers, judgements] = standard_errors;
    text.push_str(&format!(
        "\nstandard error of the mean over {n_questions} questions: {now:.3}; with twice the questions {questions:.3}, with three answers each {answers:.3}, with three judgements each {judgements:.3}"
    ));
    text
}
