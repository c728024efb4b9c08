// A client of Baton in plain JavaScript: submit, follow, resume, approve, answer. Node 20 or newer; no package is needed.
//
//     node docs/examples/client.mjs http://127.0.0.1:7420 demo "Publish the release note"
//
// It APPROVES EVERYTHING that the run asks for, to show how. A client of yours asks a person. Questions it asks on the terminal.

import { createInterface } from "node:readline";

const USAGE = "usage: node docs/examples/client.mjs URL AGENT MESSAGE      (URL: http://127.0.0.1:7420; BATON_TOKEN where it asks)";
const TRANSIENT = new Set(["message.delta", "reasoning.delta", "tool.progress", "stream.overflow", "stream.closing"]);
const ENDS = new Set(["run.completed", "run.failed", "run.cancelled"]);
const AWAY = new Set([429, 503]);

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

class Baton {
  constructor(url, token) {
    this.url = url.replace(/\/$/, "");
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  // One request, repeated while the server is away. Safe for a GET, and for a POST with an Idempotency-Key or that is safe by
  // nature (cancel, input, resolve).
  async call(method, path, body, headers = {}) {
    const json = body === undefined ? {} : { "Content-Type": "application/json" };
    const request = { method, headers: { ...this.headers, ...json, ...headers }, body: JSON.stringify(body) };
    for (let attempt = 0; attempt < 10; attempt++) {
      const response = await fetch(this.url + path, request).catch(() => undefined);
      if (response?.ok) return response.json();
      if (response && !AWAY.has(response.status)) throw new Refused(await response.text());
      await sleep(response ? Number(response.headers.get("Retry-After") ?? 1) : Math.min(0.25 * 2 ** attempt, 2));
    }
    throw new Refused(`${this.url} does not answer`);
  }

  async createSession(agentId) {
    const key = { "Idempotency-Key": crypto.randomUUID() };
    return (await this.call("POST", "/v1/sessions", { agent_id: agentId }, key)).id;
  }

  // With its key the same message may be sent any number of times, and is one run.
  async submit(sessionId, text) {
    const key = { "Idempotency-Key": crypto.randomUUID() };
    const body = { content: [{ type: "text", text }] };
    return (await this.call("POST", `/v1/sessions/${sessionId}/messages`, body, key)).run_id;
  }

  // Every stored event of the run exactly once and in order, over any number of connections; transient ones between.
  async *follow(runId) {
    let cursor = 0;
    for (;;) {
      try {
        const headers = { ...this.headers, Accept: "text/event-stream", "Last-Event-ID": String(cursor) };
        const response = await fetch(`${this.url}/v1/runs/${runId}/events`, { headers });
        if (response.status === 204) return; // nothing is missing, and nothing more will come
        if (!response.ok && !AWAY.has(response.status)) throw new Refused(await response.text());
        for await (const { event, data } of response.ok ? frames(response.body) : []) {
          if (!TRANSIENT.has(event)) {
            if (data.sequence <= cursor) continue;
            cursor = data.sequence;
          }
          yield { event, data };
          if (ENDS.has(event)) return;
        }
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      await sleep(0.5); // an end of the stream that is not the run's end means: resume
    }
  }
}

// Trying again would change nothing; the body of the answer, where there is one, says why.
class Refused extends Error {}

async function* frames(body) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const whole = text.split("\n\n");
    text = whole.pop();
    for (const frame of whole) {
      const field = (name) => frame.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      if (data) yield { event: field("event"), data: JSON.parse(data) };
    }
  }
}

async function approve(baton, waiting) {
  for (const id of waiting.approval_ids ?? []) {
    const approval = await baton.call("GET", `/v1/approvals/${id}`);
    console.log("approving", approval.tool_name, JSON.stringify(approval.arguments));
    await baton.call("POST", `/v1/approvals/${id}/resolve`, { decision: "approve_once" });
  }
}

let lines; // of standard input, from the first question on

async function answerQuestion(baton, runId, waiting) {
  if (!waiting.question_id) return; // answered meanwhile
  console.log([waiting.question, ...(waiting.choices ?? [])].join("\n  "));
  lines ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const { value: line, done } = await lines.next();
  if (done) throw new Refused(`nobody is there to answer; the run waits: POST /v1/runs/${runId}/input`);
  const body = { content: [{ type: "text", text: line.trim() }], question_id: waiting.question_id };
  await baton.call("POST", `/v1/runs/${runId}/input`, body);
}

async function main(url, agentId, text) {
  const baton = new Baton(url, process.env.BATON_TOKEN);
  const runId = await baton.submit(await baton.createSession(agentId), text);
  let answer = "";
  for await (const { event, data } of baton.follow(runId)) {
    if (event === "run.waiting_for_approval" || event === "run.waiting_for_user") {
      // What is still open is the run's to say: the event may be an old one.
      const waiting = (await baton.call("GET", `/v1/runs/${runId}`)).waiting_for ?? {};
      await approve(baton, waiting);
      await answerQuestion(baton, runId, waiting);
    } else if (event === "assistant.message.completed") {
      answer = data.content.map((block) => block.text).join("");
    } else if (event === "run.failed") {
      throw new Refused(data.failure.message);
    }
  }
  console.log(answer);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}

const given = process.argv.slice(2);
if (given.length !== 3) fail(USAGE);
if (!URL.canParse(given[0]) || !/^https?:$/.test(new URL(given[0]).protocol)) fail(`${given[0]} is no URL\n${USAGE}`);
await main(...given).catch((error) => fail(error instanceof Refused ? error.message : error));
process.exit(0); // standard input may be open
