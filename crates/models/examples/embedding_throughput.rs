//! Texts per second of our embedding model, from strings to unit vectors,
//! beside bare ONNX Runtime sessions on the same converted file, batches and
//! threads, fed with ready token ids.
//!
//! `embedding_throughput MODELS LIBRARIES [MODEL] [QUANTIZATION] [N_TEXTS] [TOKENS]`
//! prints one JSON object: `MODELS` is the folder of pulled models, `LIBRARIES`
//! a folder that holds ONNX Runtime.

use models::{
    CpuBudget, EmbeddingConfig, InputKind, ModelDirectory, ModelKind, provider::ModelContext, testing::onnx_environment,
};
use ort::{
    session::Session,
    value::{Tensor, TensorElementType, ValueType},
};
use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One batch as a bare session takes it: token ids, and the length of a row.
type Ids = (Vec<i64>, usize);

const ROUNDS: usize = 5;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, default: &str| arguments.get(i).map_or_else(|| default.to_owned(), Clone::clone);
    let (models, libraries) = (PathBuf::from(argument(0, "models")), PathBuf::from(argument(1, "lib")));
    let model = argument(2, "all-minilm-l6-v2");
    let quantization = argument(3, "default");
    let (n_texts, n_tokens): (usize, usize) = (argument(4, "64").parse()?, argument(5, "128").parse()?);

    let cpu = CpuBudget::machine();
    let cx = ModelContext {
        directory: ModelDirectory::new(models, vec![libraries]),
        cpu: cpu.clone(),
        environment: Arc::new(|_| None),
    };
    let mut settings = serde_json::json!({ "local": { "model": model, "max_tokens": n_tokens } });
    if quantization != "default" {
        settings["local"]["quantization"] = quantization.clone().into();
    }
    let config: EmbeddingConfig = serde_json::from_value(settings)?;
    let identity = config.identity(&cx)?;
    let ours = config.build(&cx)?;
    let file = onnx_file(&cx.directory, &model, identity.parameters["quantization"].as_str())?;
    let texts = texts(n_texts, n_tokens);

    // Models that run texts alone are compared with single rows, the others
    // with the batches that ours makes of equal texts.
    let alone = identity.parameters["quantization"].as_str().is_some_and(|name| name != "none");
    let rows = if alone { 1 } else { (512 / n_tokens).max(1) };
    let folder = cx.directory.locate(&model, ModelKind::Embedding)?.folder;
    let batches = batches(&folder.join("tokenizer.json"), &texts, n_tokens, rows)?;
    let environment = onnx_environment(&cx.directory)?;
    let mut one_each = sessions(&environment, &file, cpu.cores(), 1)?;
    let mut all_in_one = sessions(&environment, &file, 1, cpu.cores())?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(cpu.cores()).build()?;
    let mut best = [0.0_f64; 3];
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let (matrix, _) = runtime.block_on(ours.embed(&texts, InputKind::Document))?;
        best[0] = best[0].max(n_texts as f64 / started.elapsed().as_secs_f64());
        assert_eq!(matrix.rows(), n_texts);
        best[1] = best[1].max(n_texts as f64 / bare(&mut one_each, &batches)?);
        best[2] = best[2].max(n_texts as f64 / bare(&mut all_in_one, &batches)?);
    }
    let report = serde_json::json!({
        "model": model,
        "parameters": identity.parameters,
        "texts": n_texts,
        "tokens_per_text": n_tokens,
        "cores": cpu.cores(),
        "ours_texts_per_second": best[0],
        "bare_texts_per_second_one_session_per_core": best[1],
        "bare_texts_per_second_one_session_on_all_cores": best[2],
        "share_of_bare": best[0] / best[1].max(best[2]),
    });
    writeln!(std::io::stdout(), "{report:#}")?;
    Ok(())
}

/// The file that ours runs: the pulled one, or what was converted last.
fn onnx_file(directory: &ModelDirectory, model: &str, quantization: Option<&str>) -> Outcome<PathBuf> {
    let files = directory.locate(model, ModelKind::Embedding)?;
    let Some(quantization) = quantization else {
        return Ok(files.with_extension("onnx").ok_or("no ONNX file")?.to_owned());
    };
    let cache = directory.cache_file("");
    let wanted = format!("-{quantization}.onnx");
    let names = std::fs::read_dir(cache)?.flatten().map(|entry| entry.path());
    let start = files.sha256.get(..16).unwrap_or_default().to_owned();
    let found = names
        .filter(|path| {
            path.file_name().is_some_and(|name| {
                let name = name.to_string_lossy();
                name.starts_with(&start) && name.ends_with(&wanted)
            })
        })
        .max();
    Ok(found.ok_or("nothing was converted")?)
}

/// Texts that are at least `n_tokens` long and differ from each other.
fn texts(n_texts: usize, n_tokens: usize) -> Vec<String> {
    const WORDS: [&str; 16] = [
        "engine", "change", "the", "oil", "of", "file", "system", "with", "reader", "every", "manual", "page", "light",
        "when", "value", "under",
    ];
    let mut state = 7_u32;
    let mut word = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        WORDS[(state >> 28) as usize]
    };
    (0..n_texts).map(|_| (0..n_tokens).map(|_| word()).collect::<Vec<_>>().join(" ")).collect()
}

fn batches(tokenizer: &Path, texts: &[String], n_tokens: usize, rows: usize) -> Outcome<Vec<Ids>> {
    let mut tokenizer = tokenizers::Tokenizer::from_file(tokenizer)?;
    let truncation = tokenizers::TruncationParams { max_length: n_tokens, ..Default::default() };
    tokenizer.with_truncation(Some(truncation))?.with_padding(None);
    let mut batches = Vec::new();
    for part in texts.chunks(rows) {
        let mut ids = Vec::new();
        for text in part {
            ids.extend(tokenizer.encode_fast(text.as_str(), true)?.get_ids().iter().map(|id| i64::from(*id)));
        }
        let width = ids.len() / part.len();
        batches.push((ids, width));
    }
    Ok(batches)
}

fn sessions(
    environment: &ort::environment::Environment,
    file: &Path,
    n: usize,
    threads: usize,
) -> Outcome<Vec<Session>> {
    let build = || -> ort::Result<Session> {
        Session::builder(environment)?
            .with_intra_threads(threads)?
            .with_intra_op_spinning(false)?
            .commit_from_file(file)
    };
    Ok((0..n).map(|_| build()).collect::<ort::Result<_>>()?)
}

/// Seconds for all batches, dealt to the sessions in turn.
fn bare(sessions: &mut [Session], batches: &[Ids]) -> Outcome<f64> {
    let started = Instant::now();
    let n = sessions.len();
    std::thread::scope(|scope| -> Outcome<()> {
        let workers: Vec<_> = sessions
            .iter_mut()
            .enumerate()
            .map(|(i, session)| {
                scope.spawn(move || batches.iter().skip(i).step_by(n).try_for_each(|batch| run(session, batch)))
            })
            .collect();
        for worker in workers {
            worker.join().map_err(|_| "a worker failed")??;
        }
        Ok(())
    })?;
    Ok(started.elapsed().as_secs_f64())
}

fn run(session: &mut Session, (ids, width): &Ids) -> Outcome<()> {
    let shape = [ids.len() / width, *width];
    let mut inputs = Vec::new();
    let names: Vec<String> = session.inputs().iter().map(|input| input.name().to_owned()).collect();
    for name in &names {
        let values = match name {
            _ if name.contains("mask") => vec![1; ids.len()],
            _ if name.contains("type") => vec![0; ids.len()],
            _ => ids.clone(),
        };
        inputs.push((name.as_str(), Tensor::from_array((shape, values))?));
    }
    let output = session.outputs().iter().find(|output| {
        matches!(output.dtype(), ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } if shape.len() == 3)
    });
    let output = output.ok_or("no token vectors")?.name().to_owned();
    let outputs = session.run(inputs)?;
    outputs[output.as_str()].try_extract_tensor::<f32>()?;
    Ok(())
}
