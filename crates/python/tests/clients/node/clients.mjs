// Clients for Node against `reverie serve`, as docs/clients.md sets them up.
//
//     node clients.mjs http://127.0.0.1:8080 MODEL CLIENT
//
// Ends with 1 at the first thing that is wrong.
import assert from "node:assert";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { promisify } from "node:util";

const [base, model, client] = process.argv.slice(2);
const baseURL = `${base}/v1`;
const question = "When is the mast raised?";
const more = "And how is it taken down?";
const cut = "Why is the mast CUT?";

const clients = {
  async openai() {
    const { default: OpenAI } = await import("openai");
    const api = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
    const whole = await api.chat.completions.create({ model, messages: [{ role: "user", content: question }] });
    assert.equal(whole.choices[0].finish_reason, "stop");
    const short = await api.chat.completions.create({ model, messages: [{ role: "user", content: cut }] });
    assert.equal(short.choices[0].finish_reason, "length");
    const first = await api.responses.create({ model, input: question });
    const input = [{ role: "user", content: question }, ...first.output, { role: "user", content: more }];
    const second = await api.responses.create({ model, input });
    assert.ok(second.output_text.includes("[1]"));
    const referred = api.responses.create({ model, input: more, previous_response_id: first.id });
    await assert.rejects(referred, /send the whole conversation/);
  },

  // `.chat()` keeps the sources, and sends whole conversations.
  async vercel() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { generateText, streamText } = await import("ai");
    const provider = createOpenAI({ baseURL, apiKey: "none" });
    const whole = await generateText({ model: provider.chat(model), prompt: question });
    assert.ok(whole.text.includes("[1]"));
    assert.ok(whole.sources.some((source) => source.url.startsWith(`${base}/rag/sources/`)), "sources");
    const messages = [{ role: "user", content: question }, ...whole.response.messages, { role: "user", content: more }];
    const stream = streamText({ model: provider.chat(model), messages });
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    assert.ok(text.includes("[1]"));
    const short = await generateText({ model: provider.chat(model), prompt: cut });
    assert.equal(short.finishReason, "length");
  },

  // The default asks /v1/responses; `store: false` makes it send whole items.
  async vercelResponses() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { generateText } = await import("ai");
    const provider = createOpenAI({ baseURL, apiKey: "none" });
    const providerOptions = { openai: { store: false } };
    const whole = await generateText({ model: provider(model), prompt: question, providerOptions });
    const messages = [{ role: "user", content: question }, ...whole.response.messages, { role: "user", content: more }];
    const second = await generateText({ model: provider(model), messages, providerOptions });
    assert.ok(second.text.includes("[1]"));
  },

  async vercelCompatible() {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const { embed, generateText } = await import("ai");
    const provider = createOpenAICompatible({ name: "reverie", baseURL, apiKey: "none" });
    assert.ok((await generateText({ model: provider(model), prompt: question })).text.includes("[1]"));
    const embedder = (provider.embeddingModel ?? provider.textEmbeddingModel).call(provider, "vectors");
    assert.equal((await embed({ model: embedder, value: "rope" })).embedding.length, 64);
  },

  async langchain() {
    const { ChatOpenAI, OpenAIEmbeddings } = await import("@langchain/openai");
    const settings = { model, apiKey: "none", maxRetries: 0, configuration: { baseURL } };
    assert.ok((await new ChatOpenAI(settings).invoke(question)).text.includes("[1]"));
    const responses = new ChatOpenAI({ ...settings, useResponsesApi: true });
    const first = await responses.invoke(question);
    const second = await responses.invoke([["user", question], first, ["user", more]]);
    assert.ok(second.text.includes("[1]"));
    const embeddings = new OpenAIEmbeddings({ ...settings, model: "vectors" });
    assert.equal((await embeddings.embedQuery("rope")).length, 64);
  },

  async mcp() {
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    await searchAndFetch(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
  },

  // As a client sets it up that starts programs only.
  async mcpRemote() {
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const command = "node_modules/.bin/mcp-remote";
    const env = { ...process.env, MCP_REMOTE_CONFIG_DIR: "mcp-remote" };
    await searchAndFetch(new StdioClientTransport({ command, args: [`${base}/mcp`], env, stderr: "ignore" }));
  },

  // A request with nothing but what is needed has the generated type.
  async openapiTypescript() {
    const run = promisify(execFile);
    await run("node_modules/.bin/openapi-typescript", [`${base}/openapi.json`, "--output", "api.ts"]);
    await writeFile(
      "ask.ts",
      `import type { components } from "./api";
export const request: components["schemas"]["ChatCompletionRequest"] = { model: "${model}", messages: [{ role: "user", content: "${question}" }] };
export const text = (answer: components["schemas"]["ChatCompletion"]) => answer.choices[0].message.content;
`,
    );
    const settings = ["--noEmit", "--strict", "--module", "esnext", "--moduleResolution", "bundler"];
    await run("node_modules/.bin/tsc", [...settings, "ask.ts"]).catch((error) => assert.fail(error.stdout));
  },
};

async function searchAndFetch(transport) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const mcp = new Client({ name: "test", version: "1" });
  await mcp.connect(transport);
  const { tools } = await mcp.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ["fetch", "search"]);
  const found = await mcp.callTool({ name: "search", arguments: { query: question } });
  const [first] = found.structuredContent.results;
  assert.ok(first.url.startsWith(`${base}/rag/sources/`));
  const fetched = await mcp.callTool({ name: "fetch", arguments: { id: first.id } });
  assert.equal(fetched.structuredContent.url, first.url);
  await mcp.close();
}

await clients[client]();
console.log("ok");
