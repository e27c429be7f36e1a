//! An embedding model behind any endpoint that speaks OpenAI's
//! `/v1/embeddings`: OpenAI, vLLM, text-embeddings-inference, Ollama.
//!
//! Vectors are scaled to length 1 here, whatever the server does.

use super::{
    batch::OpenAiBatches,
    endpoint::{RemoteModel, check_prices, endpoint_settings},
    http::{Conventions, DefaultEndpoint, MAX_RESPONSE, token_count},
};
use crate::{
    BatchEndpoint, BatchSettings, EmbeddingModel, EndpointAccess, Error, Identity, InputKind, LongTexts, Matrix, Usage,
    model::refuse_long_texts,
    provider::{ModelContext, ModelSettings},
    tokens::{ModelTokenizer, RemoteTokenizer},
    trace,
};
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

pub(crate) const VERSION: u32 = 1;

endpoint_settings! {
    /// Settings of a remote embedding model.
    pub struct Config,
    conventions: Conventions { default_endpoint: Some(DefaultEndpoint::OPENAI), ..Conventions::DEFAULT },
    by default { base_url: "", api_key_env: None, timeout_seconds: 60.0, max_response_bytes: 4 * MAX_RESPONSE };
    after base_url {}
    after headers {}
    after limits {
        /// US dollars per million tokens; needed where the budget caps money.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub price: Option<f64> = None,
        /// Sends the texts of runs in batches at a lower price, which may take hours, where the endpoint has OpenAI's
        /// Batch API; each text is then a call of its own. Off unless set; `batch = {}` takes its defaults.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub batch: Option<BatchSettings> = None,
        /// The most texts of one call.
        pub batch_size: usize = 128,
        /// Asks for shorter vectors, where the model offers it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dimensions: Option<usize> = None,
        /// Tokens of one text that the model reads.
        pub max_tokens: usize = 8191,
        /// What happens with a text that is longer: `cut` (it is sent as it is;
        /// most endpoints cut or refuse it) or `refuse` (an error, before anything
        /// is paid). Its tokens are counted with OpenAI's tokenizer if the model is known
        /// by its name, and otherwise estimated by script. Default `cut`.
        #[serde(skip_serializing_if = "LongTexts::is_cut")]
        pub long_texts: LongTexts = LongTexts::default(),
        /// Put before each question, such as `query: `.
        pub query_prefix: String = String::new(),
        /// Put before each passage, such as `passage: `.
        pub document_prefix: String = String::new(),
        /// How vectors are sent. Both forms are understood in any case.
        pub encoding: VectorEncoding = VectorEncoding::default(),
    }
}

/// How vectors are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorEncoding {
    /// Small and exact.
    #[default]
    Base64,
    /// For servers that know nothing else.
    Float,
}

impl ModelSettings for Config {
    type Model = dyn EmbeddingModel;

    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        if self.long_texts == LongTexts::Windows {
            let reason = "`long_texts = \"windows\"` needs the model's tokenizer, which only models of this process \
                          have: make `chunk_size` smaller, or set `long_texts` to `cut` or `refuse`";
            return Err(Error::bad_settings(&self.model, reason));
        }
        let identity = Identity {
            provider: "openai".to_owned(),
            model: self.model.clone(),
            revision: self.endpoint().base(cx)?,
            parameters: json!({
                "kind": "embedding",
                "dimensions": self.dimensions,
                "max_tokens": self.max_tokens,
                "query_prefix": self.query_prefix,
                "document_prefix": self.document_prefix,
            }),
        };
        Ok(identity.with_long_texts(self.long_texts))
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        let above_zero = [
            ("batch_size", self.batch_size),
            ("max_tokens", self.max_tokens),
            ("dimensions", self.dimensions.unwrap_or(1)),
        ];
        if let Some((name, _)) = above_zero.iter().find(|(_, value)| *value == 0) {
            return Err(Error::bad_settings(&self.model, format_args!("`{name}` must be above 0")));
        }
        check_prices(&self.model, &[self.price])?;
        let batches = OpenAiBatches::build(self.batch, self.endpoint(), "embeddings", cx)?;
        let dimensions = AtomicUsize::new(self.dimensions.unwrap_or_default());
        let tokenizer = RemoteTokenizer::of(&self.model);
        let embedding = EmbeddingPart { config: self.clone(), dimensions, tokenizer, batches };
        Ok(Arc::new(RemoteModel::new(self.identity(cx)?, &self.endpoint(), cx, |_| Ok(embedding))?))
    }

    fn endpoint_access(&self) -> Option<EndpointAccess> {
        Some(self.endpoint().access())
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        self.endpoint().ready(cx).await
    }

    fn tokenizer(&self, _: &ModelContext) -> Result<ModelTokenizer, Error> {
        let tokenizer = ModelTokenizer::of_endpoint(&self.model);
        let added = tokenizer.count(&self.document_prefix);
        Ok(tokenizer.with_limit(self.max_tokens, added))
    }

    fn prices(&self) -> Option<(f64, f64)> {
        let share = self.batch.map_or(1.0, |batch| batch.price_share);
        self.price.map(|price| (price * share, 0.0))
    }
}

struct EmbeddingPart {
    config: Config,
    /// 0 until the endpoint has sent its first vector.
    dimensions: AtomicUsize,
    tokenizer: RemoteTokenizer,
    /// Where calls can be sent in batches.
    batches: Option<Arc<dyn BatchEndpoint>>,
}

impl EmbeddingPart {
    /// The prefix of texts of this kind.
    fn prefix(&self, kind: InputKind) -> &str {
        match kind {
            InputKind::Query => &self.config.query_prefix,
            InputKind::Document => &self.config.document_prefix,
        }
    }
}

#[async_trait]
impl EmbeddingModel for RemoteModel<EmbeddingPart> {
    fn dimensions(&self) -> usize {
        self.kind.dimensions.load(Ordering::Relaxed)
    }

    fn max_tokens(&self) -> usize {
        self.kind.config.max_tokens
    }

    fn batch_size(&self) -> usize {
        self.kind.config.batch_size
    }

    async fn count_tokens(&self, texts: &[String], kind: InputKind) -> Result<Option<Vec<usize>>, Error> {
        let EmbeddingPart { tokenizer, .. } = &self.kind;
        let count = |text: &String| tokenizer.count(&format!("{}{text}", self.kind.prefix(kind)));
        Ok((*tokenizer != RemoteTokenizer::Unknown).then(|| texts.iter().map(count).collect()))
    }

    fn estimate_tokens(&self, text: &str) -> usize {
        self.kind.tokenizer.count(text)
    }

    fn price(&self) -> f64 {
        self.kind.config.price.unwrap_or_default()
    }

    fn prefix_tokens(&self, kind: InputKind) -> usize {
        match self.kind.prefix(kind) {
            "" => 0,
            prefix => self.estimate_tokens(prefix),
        }
    }

    async fn check_lengths(&self, texts: &[String], kind: InputKind) -> Result<(), Error> {
        let Config { long_texts, max_tokens, model, .. } = &self.kind.config;
        match long_texts {
            LongTexts::Refuse => {
                let prefix = self.prefix_tokens(kind);
                let tokens = texts.iter().map(|text| prefix + self.estimate_tokens(text));
                let is_estimate = self.kind.tokenizer == RemoteTokenizer::Unknown;
                refuse_long_texts(model, *max_tokens, is_estimate, texts, tokens)
            }
            LongTexts::Cut | LongTexts::Windows => Ok(()),
        }
    }

    fn batches(&self) -> Option<Arc<dyn BatchEndpoint>> {
        self.kind.batches.clone()
    }

    fn batch_body(&self, texts: &[String], kind: InputKind) -> Value {
        self.body(&self.input(texts, kind))
    }

    fn read_batched(&self, texts: &[String], kind: InputKind, answer: &Value) -> Result<(Matrix, Usage), Error> {
        let (mut matrix, usage) = self.read(answer, &self.input(texts, kind))?;
        matrix.normalize();
        Ok((matrix, usage))
    }

    async fn embed(&self, texts: &[String], kind: InputKind) -> Result<(Matrix, Usage), Error> {
        self.check_lengths(texts, kind).await?;
        let mut matrix = Matrix::default();
        let mut usage = Usage::default();
        for batch in texts.chunks(self.kind.config.batch_size) {
            let (rows, spent) = self.batch(batch, kind).await?;
            matrix.columns = rows.columns;
            matrix.data.extend(rows.data);
            usage += spent;
        }
        matrix.normalize();
        Ok((matrix, usage))
    }
}

impl RemoteModel<EmbeddingPart> {
    async fn batch(&self, texts: &[String], kind: InputKind) -> Result<(Matrix, Usage), Error> {
        let input = self.input(texts, kind);
        let answer = self.endpoint.post("embeddings", &self.body(&input)).await?;
        self.read(&answer, &input)
    }

    /// Texts as they are sent.
    fn input(&self, texts: &[String], kind: InputKind) -> Vec<String> {
        let prefix = self.kind.prefix(kind);
        // The protocol refuses an empty text, and takes a blank one.
        let prepared = |text: &String| if text.is_empty() { format!("{prefix} ") } else { format!("{prefix}{text}") };
        texts.iter().map(prepared).collect()
    }

    fn body(&self, input: &[String]) -> Value {
        let mut body =
            json!({ "model": self.kind.config.model, "input": input, "encoding_format": self.kind.config.encoding });
        if let Some(dimensions) = self.kind.config.dimensions {
            body["dimensions"] = json!(dimensions);
        }
        body
    }

    fn read(&self, answer: &Value, input: &[String]) -> Result<(Matrix, Usage), Error> {
        trace::record_model(answer.get("model").and_then(Value::as_str));
        let matrix = self.matrix(answer, input.len())?;
        let counted =
            ["/usage/prompt_tokens", "/usage/total_tokens"].iter().find_map(|pointer| token_count(answer, pointer));
        let estimated = || input.iter().map(|text| self.estimate_tokens(text) as u64).sum();
        Ok((matrix, Usage { prompt_tokens: counted.unwrap_or_else(estimated), ..Usage::default() }))
    }

    fn matrix(&self, answer: &Value, n_texts: usize) -> Result<Matrix, Error> {
        let malformed = |reason: String| self.endpoint.malformed(reason);
        let data =
            answer.get("data").and_then(Value::as_array).ok_or_else(|| malformed("there is no `data`".to_owned()))?;
        if data.len() != n_texts {
            return Err(malformed(format!("{} vectors for {n_texts} texts", data.len())));
        }
        let mut rows: Vec<Option<Vec<f32>>> = vec![None; n_texts];
        for (position, item) in data.iter().enumerate() {
            let index = item.get("index").and_then(Value::as_u64).map_or(position, |index| index as usize);
            let row = item
                .get("embedding")
                .and_then(vector)
                .ok_or_else(|| malformed(format!("`data[{position}].embedding` is no vector")))?;
            match rows.get_mut(index) {
                Some(place @ None) => *place = Some(row),
                _ => return Err(malformed(format!("index {index} is repeated or out of range"))),
            }
        }
        let rows: Vec<Vec<f32>> = rows.into_iter().flatten().collect();
        let columns = rows.first().map(Vec::len).unwrap_or_default();
        let known = self.dimensions();
        let expected = if known == 0 { columns } else { known };
        if rows.iter().any(|row| row.len() != expected || row.is_empty()) {
            return Err(malformed(format!("a vector does not have {expected} dimensions")));
        }
        self.kind.dimensions.store(expected, Ordering::Relaxed);
        Ok(Matrix { columns, data: rows.concat() })
    }
}

/// A vector as numbers, or as base64 of little-endian `f32`; none if a number is not finite.
fn vector(value: &Value) -> Option<Vec<f32>> {
    let row: Vec<f32> = match value {
        Value::String(text) => {
            let bytes = STANDARD.decode(text).ok()?;
            let (numbers, rest) = bytes.as_chunks::<4>();
            rest.is_empty().then(|| numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())?
        }
        Value::Array(numbers) => {
            numbers.iter().map(|number| number.as_f64().map(|number| number as f32)).collect::<Option<_>>()?
        }
        _ => return None,
    };
    row.iter().all(|number| number.is_finite()).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::{super::http::tests::Bench, *};

    fn model(bench: &Bench, change: impl FnOnce(&mut Config)) -> Arc<dyn EmbeddingModel> {
        let mut config = Config {
            model: "m".to_owned(),
            base_url: bench.base_url(),
            api_key_env: Some("KEY".to_owned()),
            ..Config::default()
        };
        change(&mut config);
        config.build(&bench.context()).expect("a model")
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn without_an_address_it_is_openai_s_own() {
        let config = Config { model: "text-embedding-3-small".to_owned(), ..Config::default() };
        let cx = ModelContext {
            environment: Arc::new(|name: &str| (name == "OPENAI_API_KEY").then(|| "key".to_owned())),
            ..crate::remote::testing::context()
        };
        let identity = config.identity(&cx).expect("a model");
        assert_eq!(identity.revision, "https://api.openai.com/v1");
        config.build(&cx).expect("its key is that of OpenAI");
        let own = Config { base_url: "http://h/v1".to_owned(), ..config };
        let sent = own.endpoint_access().expect("an endpoint").variables;
        assert!(sent.is_empty(), "another address gets no key of OpenAI: {sent:?}");
    }

    #[tokio::test]
    async fn vectors_of_both_forms_come_in_order_with_length_one() {
        let bench = Bench::new().await;
        let bytes: Vec<u8> = [0.0f32, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        let data = json!([
            { "index": 1, "embedding": STANDARD.encode(bytes) },
            { "index": 0, "embedding": [3.0, 4.0] },
        ]);
        bench.answer(200, json!({ "data": data, "usage": { "prompt_tokens": 5 } })).await;
        let model = model(&bench, |config| config.query_prefix = "query: ".to_owned());
        assert_eq!(model.dimensions(), 0);
        let (matrix, usage) = model.embed(&texts(&["a", ""]), InputKind::Query).await.expect("vectors");
        assert_eq!((matrix.columns, matrix.data.as_slice()), (2, &[0.6, 0.8, 0.0, 1.0][..]));
        assert_eq!((usage.prompt_tokens, model.dimensions()), (5, 2));
        let (sent, _) = bench.last_request().await;
        assert_eq!(sent, json!({ "model": "m", "input": ["query: a", "query:  "], "encoding_format": "base64" }));
    }

    #[tokio::test]
    async fn long_lists_are_sent_in_batches() {
        let bench = Bench::new().await;
        bench.answer(200, json!({ "data": [{ "embedding": [1.0] }, { "embedding": [1.0] }] })).await;
        let model = model(&bench, |config| config.batch_size = 2);
        let (matrix, usage) = model.embed(&texts(&["a", "b", "c", "d"]), InputKind::Document).await.expect("vectors");
        assert_eq!((matrix.rows(), bench.n_requests().await, usage.prompt_tokens), (4, 2, 4));
    }

    #[tokio::test]
    async fn vectors_that_cannot_be_right_are_malformed() {
        let cases = [
            json!({ "data": [] }),
            json!({ "data": [{ "index": 3, "embedding": [1.0] }] }),
            json!({ "data": [{ "embedding": "!" }] }),
            json!({ "data": [{ "embedding": [] }] }),
            json!({ "data": [{ "embedding": [null] }] }),
            json!({}),
        ];
        for body in cases {
            let bench = Bench::new().await;
            bench.answer(200, body.clone()).await;
            let outcome = model(&bench, |_| ()).embed(&texts(&["a"]), InputKind::Document).await;
            assert!(matches!(outcome, Err(Error::Malformed { .. })), "{body}: {outcome:?}");
        }
        let bench = Bench::new().await;
        bench.answer(200, json!({ "data": [{ "embedding": [1.0, 0.0] }] })).await;
        let model = model(&bench, |config| config.dimensions = Some(3));
        assert!(model.embed(&texts(&["a"]), InputKind::Document).await.is_err(), "3 dimensions were asked for");
        let (sent, _) = bench.last_request().await;
        assert_eq!(sent["dimensions"], json!(3));
    }

    #[tokio::test]
    async fn a_text_that_is_too_long_by_estimate_is_refused_before_it_is_sent() {
        let bench = Bench::new().await;
        bench.answer(200, json!({ "data": [{ "embedding": [1.0] }] })).await;
        let refusing = model(&bench, |config| {
            config.max_tokens = 10;
            config.long_texts = LongTexts::Refuse;
            config.query_prefix = "query: ".to_owned();
        });
        // The tokenizer of this model is not known, so its tokens are estimated.
        let long = texts(&["word ".repeat(12).as_str()]);
        let estimated = crate::estimate_tokens(&long[0]);
        assert!(estimated > 10);
        let error = refusing.embed(&long, InputKind::Document).await.expect_err("too many tokens");
        assert!(
            matches!(error, Error::TextTooLong { tokens, limit: 10, is_estimate: true, .. } if tokens == estimated)
                && !error.is_transient()
        );
        assert!(refusing.check_lengths(&long, InputKind::Document).await.is_err());
        assert_eq!(bench.n_requests().await, 0);
        let fits = texts(&["word word word word word word word word word"]);
        refusing.check_lengths(&fits, InputKind::Document).await.expect("at most 10 tokens");
        assert!(refusing.check_lengths(&fits, InputKind::Query).await.is_err(), "a prefix counts");
        refusing.embed(&fits, InputKind::Document).await.expect("a vector");
        let cutting = model(&bench, |config| config.max_tokens = 10);
        cutting.embed(&long, InputKind::Document).await.expect("it is sent as it is");
        assert_eq!(bench.n_requests().await, 2);
    }

    #[tokio::test]
    async fn the_tokens_of_a_model_that_is_known_by_its_name_are_no_estimate() {
        let bench = Bench::new().await;
        let refusing = model(&bench, |config| {
            config.model = "text-embedding-3-small".to_owned();
            config.max_tokens = 8;
            config.long_texts = LongTexts::Refuse;
        });
        let long = texts(&["word word word word word word word word word"]);
        let error = refusing.check_lengths(&long, InputKind::Document).await.expect_err("9 tokens");
        assert!(matches!(error, Error::TextTooLong { tokens: 9, limit: 8, is_estimate: false, .. }), "{error}");
    }

    #[test]
    fn windows_are_for_models_of_this_process() {
        let config = Config {
            model: "m".to_owned(),
            base_url: "http://h/v1".to_owned(),
            long_texts: LongTexts::Windows,
            ..Config::default()
        };
        let cx = crate::remote::testing::context();
        for error in [config.identity(&cx).err(), config.build(&cx).err()] {
            let error = error.expect("no tokenizer").to_string();
            assert!(error.contains("needs the model's tokenizer"), "{error}");
        }
        let identity = |long_texts| Config { long_texts, ..config.clone() }.identity(&cx).expect("a model").parameters;
        assert!(identity(LongTexts::Cut).get("long_texts").is_none());
        assert_eq!(identity(LongTexts::Refuse)["long_texts"], "refuse");
    }

    #[tokio::test]
    async fn prefixes_and_dimensions_are_part_of_the_identity_and_the_key_is_not() {
        let bench = Bench::new().await;
        let plain = model(&bench, |_| ()).identity().clone();
        assert_ne!(plain, *model(&bench, |config| config.document_prefix = "passage: ".to_owned()).identity());
        assert_ne!(plain, *model(&bench, |config| config.dimensions = Some(3)).identity());
        assert_eq!(plain, *model(&bench, |config| config.api_key_env = None).identity());
        assert!(!format!("{plain:?}").contains("secret"));
    }
}
