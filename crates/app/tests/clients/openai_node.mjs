// Asks a service with OpenAI's client for Node.
//
//     node openai_node.mjs http://127.0.0.1:8080 MODEL [--plain]
//
// Ends with 1 and a sentence at the first thing that is wrong. `--plain` is for a
// model that may leave out markers such as [1]. A key is read from REVERIE_KEY.
import OpenAI from "openai";

const [base, model] = process.argv.slice(2).filter((argument) => argument !== "--plain");
const cites = !process.argv.includes("--plain");
const apiKey = process.env.REVERIE_KEY ?? "none";
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0, timeout: 120_000 });
// Questions of their own for each run: the same one again is answered from what is kept, and not streamed by the model.
const messages = [{ role: "user", content: `What do the documents say? ${Date.now()}` }];
const again = [{ role: "user", content: `What else do the documents say? ${Date.now()}` }];

function check(holds, sentence, seen) {
  if (holds) return;
  console.error(`wrong: ${sentence}`, seen === undefined ? "" : JSON.stringify(seen));
  process.exit(1);
}

/** The call rejects with this class of error, in OpenAI's shape. */
async function raises(kind, status, call, sentence) {
  const error = await call().then(() => null, (error) => error);
  check(error instanceof kind && error.status === status, `${sentence} raises ${kind.name}`, String(error));
  check(error.message && error.type && error.requestID, `${sentence} says why and has a request id`, error.error);
  return error;
}

function checkAnnotations(text, annotations) {
  check(annotations.length > 0 || !cites, "an answer has annotations", text);
  const characters = [...text]; // places count characters, not UTF-16 units
  for (const { url_citation: cited } of annotations) {
    const marker = characters.slice(cited.start_index, cited.end_index).join("");
    check(/^\[\d+\]$/.test(marker) && cited.url.startsWith("http"), "an annotation covers its marker", [text, cited]);
  }
}

// What is served.
const served = [];
for await (const entry of client.models.list()) served.push(entry.id);
check(served.includes(model), "the model is listed", served);
check((await client.models.retrieve(model)).id === model, "the model can be retrieved");
await raises(OpenAI.NotFoundError, 404, () => client.models.retrieve("no such"), "an unknown model");

// A whole answer.
const whole = await client.chat.completions.create({ model, messages });
check(whole.choices[0].message.content && whole.choices[0].finish_reason === "stop", "the assistant answers", whole);
checkAnnotations(whole.choices[0].message.content, whole.choices[0].message.annotations);
check(whole.usage.total_tokens > 0 && whole.sources.length > 0, "the answer has usage and sources", whole);

// A streamed answer.
let text = "";
let usages = 0;
const annotations = [];
const stream = await client.chat.completions.create({
  model, messages: again, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta.content ?? "";
  annotations.push(...(chunk.choices[0]?.delta.annotations ?? []));
  if (chunk.usage) usages += 1;
}
check(text && usages === 1, "the stream has a text and one usage", { text, usages });
checkAnnotations(text, annotations);

// The same through the client's own collector of chunks.
const collector = client.chat.completions.stream({ model, messages });
const collected = await collector.finalChatCompletion();
check(collected.choices[0].finish_reason === "stop" && collected.choices[0].message.content, "the collector's answer", collected);

// A stream that is left early does no harm.
for await (const _ of await client.chat.completions.create({ model, messages, stream: true })) break;

// A conversation.
const turns = [
  { role: "developer", content: "Be brief." }, ...messages,
  { role: "assistant", content: text }, { role: "user", content: [{ type: "text", text: "And what more?" }] },
];
const second = await client.chat.completions.create({ model, messages: turns });
check(second.choices[0].message.content, "a second turn is answered", second);

// Responses.
const response = await client.responses.create({ model, input: messages[0].content });
check(response.status === "completed" && response.output_text, "a response has a text", response);
const kinds = [];
let deltas = "";
const events = client.responses.stream({ model, input: messages });
for await (const event of events) {
  kinds.push(event.type);
  if (event.type === "response.output_text.delta") deltas += event.delta;
}
const final = await events.finalResponse();
check(kinds[0] === "response.created" && kinds.at(-1) === "response.completed", "the first and last events", kinds);
check(deltas && deltas === final.output_text, "the deltas are the text", { deltas, text: final.output_text });

// Vectors. This client asks for base64 by itself and decodes it.
const embedder = served.find((name) => name !== model);
if (embedder) {
  const input = ["one", "two"];
  const vectors = (await client.embeddings.create({ model: embedder, input })).data;
  const numbers = (await client.embeddings.create({ model: embedder, input, encoding_format: "float" })).data;
  const far = Math.max(...vectors[1].embedding.map((value, at) => Math.abs(value - numbers[1].embedding[at])));
  check(vectors.length === 2 && far < 1e-6, "base64 and numbers are the same vectors", far);
}

// Errors are the exceptions that programs catch.
const create = (more) => client.chat.completions.create({ model, messages, ...more });
await raises(OpenAI.NotFoundError, 404, () => create({ model: "no such" }), "a question to an unknown model");
await raises(OpenAI.BadRequestError, 400, () => create({ messages: [] }), "no message");
await raises(OpenAI.BadRequestError, 400, () => create({ n: 2 }), "two answers");
const error = await raises(OpenAI.BadRequestError, 400, () => create({ messages: [], stream: true }), "a stream of no message");
check(error.param === "messages", "the error names its field", error.param);
if (process.env.REVERIE_KEY) {
  const stranger = new OpenAI({ baseURL: `${base}/v1`, apiKey: "rv-unknown", maxRetries: 0 });
  await raises(OpenAI.AuthenticationError, 401, () => stranger.models.list(), "an unknown key");
}
console.log("ok");
