// A model on this machine, behind the part of OpenAI's chat API that Baton uses:
//
//     node server.mjs MODEL.gguf [--port N] [--max-tokens N]
//
// Where a request has tools and does not end with a tool's result, a grammar made of the tools' schemas lets the model do nothing but
// call one. Otherwise it says one line, piece by piece. It is for a model that only goes on with a text: one that knows chats and tools
// is better served by Ollama or llama.cpp's own server.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { getLlama, LlamaCompletion } from "node-llama-cpp";

// A client takes silence for death; a slow machine reads a long prompt for a while.
const ALIVE_EVERY_MS = 10_000;
// A small model fills whatever it may with the same words again.
const STRING_CHARS_MAX = 40;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { port: { type: "string", default: "0" }, "max-tokens": { type: "string", default: "48" } },
});
const llama = await getLlama({ build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath: positionals[0] });
// On a busy machine two threads wait for each other so long that they are fifty times slower than one.
const context = await model.createContext({ contextSize: 4096, threads: 1 });
const completion = new LlamaCompletion({ contextSequence: context.getSequence() });
// An empty answer is none, and one of some length can be seen to come.
const line = await llama.createGrammar({ grammar: 'root ::= [A-Z] [^\\n]{40,} "\\n"' });

const server = createServer(async (request, response) => {
  if (request.method === "GET" && request.url === "/v1/models") {
    return answer(response, 200, { object: "list", data: [{ id: "local", object: "model", owned_by: "local" }] });
  }
  if (request.method !== "POST" || request.url !== "/v1/chat/completions") return refuse(response, 404, "there is no such page");
  const asked = await json(request).catch(() => null);
  if (!Array.isArray(asked?.messages)) return refuse(response, 400, "`messages` is missing");
  if (!asked.stream) return refuse(response, 400, "answers are streamed only");
  await chat(asked, response);
});
server.listen(Number(values.port), "127.0.0.1");
await once(server, "listening");
console.log(`http://127.0.0.1:${server.address().port}/v1`);

async function chat(asked, response) {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  response.writeHead(200, { "content-type": "text/event-stream" });
  const alive = setInterval(() => response.write(": alive\n\n"), ALIVE_EVERY_MS);
  const created = Math.floor(Date.now() / 1000);
  const head = { id: `chatcmpl-${randomUUID()}`, object: "chat.completion.chunk", created, model: "local" };
  const send = (chunk) => response.write(`data: ${JSON.stringify({ ...head, ...chunk })}\n\n`);
  const choice = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }] });
  const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  const limit = asked.max_tokens ?? asked.max_completion_tokens ?? 256;
  // Goes on with a prompt; what both steps of a call have read counts once.
  const generate = (prompt, options) => {
    usage.prompt_tokens ||= model.tokenize(prompt).length;
    const onToken = (tokens) => (usage.completion_tokens += tokens.length);
    const maxTokens = Math.max(1, Math.min(limit - usage.completion_tokens, options.maxTokens ?? Infinity));
    const common = { signal: gone.signal, temperature: asked.temperature ?? 0, onToken };
    return completion.generateCompletionWithMeta(prompt, { ...common, ...options, maxTokens });
  };
  try {
    choice({ role: "assistant", content: "" });
    const calls = asked.tools?.length > 0 && asked.messages.at(-1).role !== "tool";
    const reason = calls ? await call(asked, generate, choice) : await say(asked, generate, choice);
    choice({}, reason);
    usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
    if (asked.stream_options?.include_usage) send({ choices: [], usage });
    response.end("data: [DONE]\n\n");
  } catch (error) {
    if (gone.signal.aborted) return; // nobody listens
    console.error(error);
    response.end(`data: ${JSON.stringify({ error: { message: String(error) } })}\n\n`);
  } finally {
    clearInterval(alive);
  }
}

// The name first, then the arguments by the schema of that tool.
async function call(asked, generate, choice) {
  const tools = asked.tools.map((tool) => tool.function);
  const offer = tools.map((tool) => `Tool ${tool.name}: ${tool.description} ${JSON.stringify(tool.parameters)}\n`).join("");
  const prompt = `${offer}${transcript(asked.messages)}Call: `;
  const names = await llama.createGrammarForJsonSchema({ enum: tools.map((tool) => tool.name) });
  const { response: quoted } = await generate(prompt, { grammar: names });
  const name = JSON.parse(quoted);
  const piece = (piece) => choice({ tool_calls: [{ index: 0, ...piece }] });
  piece({ id: `call_${randomUUID()}`, type: "function", function: { name, arguments: "" } });
  const schema = tools.find((tool) => tool.name === name).parameters;
  const { metadata } = await generate(`${prompt}${quoted} `, {
    grammar: await llama.createGrammarForJsonSchema(short(schema)),
    onTextChunk: (text) => piece({ function: { arguments: text } }),
  });
  return metadata.stopReason === "maxTokens" ? "length" : "tool_calls";
}

async function say(asked, generate, choice) {
  const { metadata } = await generate(`${transcript(asked.messages)}Assistant: `, {
    grammar: line,
    customStopTriggers: ["\n"],
    maxTokens: Number(values["max-tokens"]),
    onTextChunk: (content) => choice({ content }),
  });
  return metadata.stopReason === "maxTokens" ? "length" : "stop";
}

function transcript(messages) {
  return messages.map(({ role, content, tool_calls = [] }) => {
    const calls = tool_calls.map((call) => `Call: ${JSON.stringify(call.function.name)} ${call.function.arguments}\n`).join("");
    const names = { system: "", user: "User: ", assistant: "Assistant: ", tool: "Result: " };
    return `${content ? `${names[role] ?? ""}${content}\n` : ""}${calls}`;
  }).join("");
}

// The schema with shorter texts: what satisfies it satisfies the original.
function short(schema) {
  const maxLength = (value) => Math.max(value.minLength ?? 0, Math.min(value.maxLength ?? Infinity, STRING_CHARS_MAX));
  const bound = (value) => (value?.type === "string" && !value.enum ? { ...value, maxLength: maxLength(value) } : value);
  return JSON.parse(JSON.stringify(schema), (_, value) => bound(value));
}

function answer(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function refuse(response, status, message) {
  answer(response, status, { error: { type: "invalid_request_error", message } });
}
