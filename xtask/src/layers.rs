//! The stated layers: which crate may depend on which, and in which order the modules of a crate stand.

/// Crates and what they may depend on: one direction only.
pub(crate) const DIRECTION: &[(&str, &[&str])] = &[
    ("executor", &[]),
    ("store", &[]),
    ("databases", &["store"]),
    ("models", &["executor", "store"]),
    ("rag", &["databases", "models", "store"]),
    ("eval", &["models", "rag", "store"]),
    ("lab", &["databases", "eval", "executor", "models", "rag", "store"]),
    ("serve", &["eval", "lab", "models", "rag", "store"]),
    ("ui", &["eval", "lab", "rag", "serve", "store"]),
    ("app", &["eval", "lab", "models", "rag", "serve", "store", "ui"]),
    ("fuzz", &[]),
    ("simulator", &[]),
    ("skips", &[]),
    ("python", &["app", "eval", "executor", "lab", "models", "rag", "serve", "store", "ui"]),
    ("xtask", &[]),
];

/// Stands for all folders in the table of stages of `rag/src/lib.rs` that [`LAYERS`] does not name.
pub(crate) const OTHER_STAGES: &str = "*";

/// The modules at the top of a crate in layers, the lowest first. A module may import modules of lower layers, and
/// modules that are listed before it in its own layer. [`OTHER_STAGES`] is the place of stages that are not listed.
pub(crate) const LAYERS: &[(&str, &[&str])] = &[
    (
        "executor",
        &["error", "outcome retry hints call attempt hedge refusals", "controller", "slots adaptive limiter lease"],
    ),
    (
        "store",
        &[
            "error chain key http regular registry layout",
            "space location names staged used_files certificate",
            "access event artifact journal upkeep",
        ],
    ),
    (
        "databases",
        &[
            "record_id metric error",
            "filter record collection access retry vector_database",
            "json_client",
            "pgvector chroma qdrant milvus elasticsearch",
        ],
    ),
    ("models", &["tokens model cpu ledger trace", "fetch", "provider", "client local remote", "registry"]),
    (
        "rag",
        &[
            "types analysis fence index lines load trace",
            "database component filter python table corpus",
            "stage parse chunk embed prompt query vector_index rerank enrich generate system retrieve *",
            "axes pipeline searcher refine",
        ],
    ),
    ("eval", &["explain prompt score words", "statistics", "dataset", "attack verdict metric", "generate qualify"]),
    (
        "lab",
        &[
            // Words, files and tables.
            "action error clock number blocking files append_log answers_file artifact layout collections parser_needs cluster search operator warning",
            // Describe: what an experiment is, and what must be done for it. Pure.
            "spec plan steering",
            // What a run finds, and what its leaderboard says. Pure.
            "budget results board run_summary detectable",
            // Do tasks, on this machine or on a cluster.
            "progress settlement parts task engine",
            // An open experiment.
            "own_files setup workspace session worker lineage healing history",
            // Check it as a whole.
            "qualification corpus golden prepare dry_run sampled_plan",
            // Run it.
            "gather record track live run known_runs steer",
            // Use what was found.
            "review votes labels bundle document document_chunks page_view query promotion versions follow scoring check noise calibration forget",
        ],
    ),
    (
        "serve",
        &["error access telemetry settings http", "answering sampling", "service", "middleware guarded routes server"],
    ),
];
