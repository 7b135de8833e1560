// A model scripted by a test: a server on loopback in OpenAI's dialect. Each goal has its
// responses, one per step; the step follows from the conversation, so a repeated call gets the same
// one.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export type ScriptedScene = {
  agent: string;
  goal: string;
  /** Counts from 0. */
  step: number;
  /** Results of tools so far, in order. */
  results: string[];
  /** The whole context, as the provider receives it. */
  messages: WireMessage[];
  body: Record<string, unknown>;
  headers: http.IncomingHttpHeaders;
  /** Resolves when the caller disconnects before it had a response. */
  left: Promise<void>;
};
export type ScriptedText = {
  text?: string;
  calls?: { tool: string; arguments: Record<string, unknown> }[];
  /** Sends no response until the caller disconnects or the server closes. */
  hang?: boolean;
  delayMs?: number;
  /** The time before each further word, where the caller asked for a stream. */
  wordMs?: number;
  /** A provider error instead of a response. */
  status?: number;
  headers?: Record<string, string>;
  usage?: Record<string, unknown>;
};
type Line = ScriptedText | ((scene: ScriptedScene) => ScriptedText);
type WireMessage = {
  role: string;
  content: string | null;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
};

export type ScriptedModel = {
  url: string;
  /** Scripts goals with this prefix; the last line serves all later steps. The latest wins. */
  on(goal: string, ...script: Line[]): void;
  scenes: ScriptedScene[];
  /** Returns the scenes of one goal. */
  scenesFor(goal: string): ScriptedScene[];
  close(): Promise<void>;
};

export const call = (tool: string, args: Record<string, unknown> = {}) => ({
  tool,
  arguments: args,
});
export const says = (...calls: NonNullable<ScriptedText['calls']>): ScriptedText => ({ calls });
export const finishes = (result: string, more: Record<string, unknown> = {}): ScriptedText =>
  says(call('task.finish', { result, ...more }));

export async function startScriptedModel(): Promise<ScriptedModel> {
  const scripts: { goal: string; lines: Line[] }[] = [];
  const scenes: ScriptedScene[] = [];
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Record<string, unknown>;
      const left = new Promise<void>((resolve) =>
        response.on('close', () => (response.writableFinished ? undefined : resolve())),
      );
      const scene = sceneOf(body, request.headers, left);
      scenes.push(scene);
      if (request.url?.endsWith('/embeddings') === true) return embed(response, body);
      const lines = scripts.findLast(({ goal }) => scene.goal.startsWith(goal))?.lines ?? [
        finishes('Nobody wrote a script for this goal.'),
      ];
      const line = lines[Math.min(scene.step, lines.length - 1)]!;
      const reply = typeof line === 'function' ? line(scene) : line;
      if (reply.hang === true) return;
      setTimeout(() => respond(response, scene, reply), reply.delayMs ?? 0);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    on: (goal, ...lines) => void scripts.push({ goal, lines }),
    scenes,
    scenesFor: (goal) => scenes.filter((scene) => scene.goal.startsWith(goal)),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function sceneOf(
  body: Record<string, unknown>,
  headers: http.IncomingHttpHeaders,
  left: Promise<void>,
): ScriptedScene {
  const messages = (body.messages ?? []) as WireMessage[];
  const textOf = (role: string) => messages.find((message) => message.role === role)?.content ?? '';
  return {
    agent: /^You are agent:([a-z0-9-]+)/.exec(textOf('system'))?.[1] ?? '',
    goal: /^Goal: (.*)$/m.exec(textOf('user'))?.[1] ?? textOf('user'),
    step: messages.filter((message) => message.role === 'assistant').length,
    results: messages.flatMap((message) =>
      message.role === 'tool' ? [message.content ?? ''] : [],
    ),
    messages,
    body,
    headers,
    left,
  };
}

/** A text's vector is its length, so that a test can tell vectors apart. */
function embed(response: http.ServerResponse, body: Record<string, unknown>): void {
  const input = body.input as string[];
  const data = input.map((text, index) => ({
    object: 'embedding',
    index,
    embedding: [text.length, 1],
  }));
  const usage = { prompt_tokens: input.length, total_tokens: input.length };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ object: 'list', model: body.model, data, usage }));
}

const USAGE = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };

function respond(response: http.ServerResponse, scene: ScriptedScene, reply: ScriptedText): void {
  const { status = 200, text, calls = [], usage = USAGE, headers = {} } = reply;
  const isStream = scene.body.stream === true && status < 400;
  const type = isStream ? 'text/event-stream' : 'application/json';
  response.writeHead(status, { 'content-type': type, ...headers });
  if (status >= 400) {
    response.end(JSON.stringify({ error: { message: text ?? 'played', type: 'server_error' } }));
    return;
  }
  const toolCalls = calls.map((one, i) => ({
    id: `call_${scene.step}_${i}`,
    type: 'function',
    function: { name: one.tool.replaceAll('.', '_'), arguments: JSON.stringify(one.arguments) },
  }));
  const message = {
    role: 'assistant',
    content: text ?? null,
    ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
  };
  const finish_reason = toolCalls.length === 0 ? 'stop' : 'tool_calls';
  if (isStream) {
    const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' };
    const chunk = (delta: object, more: object = {}) => ({
      ...head,
      choices: [{ index: 0, delta, finish_reason: null, ...more }],
    });
    const texts = (text ?? '').split(/(?<= )/).map((content) => chunk({ content }));
    const called = toolCalls.map((one, index) => chunk({ tool_calls: [{ index, ...one }] }));
    const end = [chunk({}, { finish_reason }), { ...head, choices: [], usage }];
    void writeStream(response, [...texts, ...called, ...end], reply.wordMs ?? 0);
    return;
  }
  response.end(
    JSON.stringify({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: scene.body.model,
      choices: [{ index: 0, message, finish_reason }],
      usage,
    }),
  );
}

async function writeStream(
  response: http.ServerResponse,
  chunks: readonly object[],
  pauseMs: number,
): Promise<void> {
  for (const chunk of chunks) {
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  response.end('data: [DONE]\n\n');
}
