// Measures what translation between dialects adds to the first token of a streamed call, beside the
// same call untranslated. The provider sends each piece only after the caller has the one before,
// so a gateway that held a piece back would end the benchmark with an error.
import { chmodSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { freshDir, startRuntime, type TestRuntime } from '../test/support/runtime.ts';
import { profiling } from './children.ts';
import { type Benchmark, type Figure, quantile, seeRounds } from './figure.ts';

const PIECES = 20;
const CALLS = 60;
const ROUNDS = 10;
const WARM_UP_CALLS = 400;
const HELD_MS_MAX = 5_000;
const ADDED_MS_MAX = 0.3;

/** Both sides of a call are in this process: the provider waits for the caller here. */
type Gate = { arrived: number; wake(): void };
const gate: Gate = { arrived: 0, wake: () => undefined };

function arriveAt(count: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`piece ${count} of a stream was held back`));
    const timer = setTimeout(late, HELD_MS_MAX);
    gate.wake = () => {
      if (gate.arrived < count) return;
      clearTimeout(timer);
      resolve();
    };
    gate.wake();
  });
}

const event = (type: string, more: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const chunk = (more: object): string =>
  `data: ${JSON.stringify({ id: 'b', object: 'chat.completion.chunk', created: 1, model: 'm', ...more })}\n\n`;
const delta = (one: object, finish_reason: string | null = null): string =>
  chunk({ choices: [{ index: 0, delta: one, finish_reason }] });
const usage = { input_tokens: 280, output_tokens: 20 };

const WIRES = {
  openai: {
    start: delta({ role: 'assistant', content: '' }),
    piece: (text: string) => delta({ content: text }),
    end:
      delta({}, 'stop') +
      chunk({ choices: [], usage: { prompt_tokens: 280, completion_tokens: 20 } }) +
      'data: [DONE]\n\n',
  },
  anthropic: {
    start:
      event('message_start', {
        message: {
          id: 'b',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          usage,
          stop_reason: null,
          stop_sequence: null,
        },
      }) + event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    piece: (text: string) =>
      event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
    end:
      event('content_block_stop', { index: 0 }) +
      event('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage }) +
      event('message_stop', {}),
  },
};

async function respond(url: string, response: http.ServerResponse): Promise<void> {
  const wire = url.includes('/messages') ? WIRES.anthropic : WIRES.openai;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(wire.start);
  for (let i = 0; i < PIECES; i++) {
    await arriveAt(i);
    response.write(wire.piece(`word${i} `));
  }
  await arriveAt(PIECES);
  response.end(wire.end);
}

type Dialect = 'openai' | 'anthropic';
type Call = { from: Dialect; model: string };
const PATHS = { openai: '/openai/v1/chat/completions', anthropic: '/anthropic/v1/messages' };
let calls = 0;

/** Resolves to the milliseconds until the first piece of text. */
function ask(runtime: TestRuntime, agent: http.Agent, { from, model }: Call): Promise<number> {
  const body = JSON.stringify({
    model,
    max_tokens: 512,
    stream: true,
    messages: [{ role: 'user', content: `Request ${calls++}: what should change, and where?` }],
  });
  const headers = {
    authorization: `Bearer ${runtime.operatorKey}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  gate.arrived = 0;
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let firstMs = 0;
    let text = '';
    const to = { host: '127.0.0.1', port: runtime.info.port!, agent, headers };
    const request = http.request({ ...to, method: 'POST', path: PATHS[from] }, (response) => {
      response.setEncoding('utf8').on('data', (more: string) => {
        text += more;
        const arrived = text.split('word').length - 1;
        if (arrived === gate.arrived) return;
        if (gate.arrived === 0) firstMs = performance.now() - began;
        gate.arrived = arrived;
        gate.wake();
      });
      response.on('error', reject).on('end', () => {
        if (gate.arrived === PIECES) resolve(firstMs);
        else reject(new Error(`${response.statusCode}: ${text.slice(0, 300)}`));
      });
    });
    request.on('error', reject).end(body);
  });
}

const PAIRS: { name: string; translated: Call; plain: Call }[] = [
  {
    name: 'chat to an Anthropic provider',
    translated: { from: 'openai', model: 'claude-bench' },
    plain: { from: 'openai', model: 'gpt-bench' },
  },
  {
    name: 'messages to an OpenAI provider',
    translated: { from: 'anthropic', model: 'gpt-bench' },
    plain: { from: 'anthropic', model: 'claude-bench' },
  },
];

/** Calls of both kinds alternate, so that what else the machine does meets both alike. */
async function comparePair(
  once: (call: Call) => Promise<number>,
  { name, translated, plain }: (typeof PAIRS)[number],
): Promise<Figure[]> {
  const rounds: { own: number; peer: number }[] = [];
  for (let i = 0; i < WARM_UP_CALLS; i++) await once(i % 2 === 0 ? translated : plain);
  for (let round = 0; round < ROUNDS; round++) {
    const own: number[] = [];
    const peer: number[] = [];
    for (let i = 0; i < CALLS; i++) {
      own.push(await once(translated));
      peer.push(await once(plain));
    }
    const median = (values: number[]) =>
      quantile(
        values.toSorted((a, b) => a - b),
        0.5,
      );
    rounds.push({ own: median(own), peer: median(peer) });
  }
  const see = (read: (one: (typeof rounds)[number]) => number) => seeRounds(rounds.map(read));
  return [
    {
      name: `translation adds to the first token, p50 (${name})`,
      unit: 'ms',
      own: see(({ own, peer }) => own - peer),
      bar: { of: 'value', max: ADDED_MS_MAX },
    },
    {
      name: `first token, translated, p50 (${name})`,
      unit: 'ms',
      own: see(({ own }) => own),
      peer: { name: 'untranslated', ...see(({ peer }) => peer) },
      ratio: see(({ own, peer }) => own / peer),
    },
  ];
}

async function run(): Promise<Figure[]> {
  const failures: unknown[] = [];
  const upstream = http.createServer((request, response) => {
    request.resume().on('end', () => {
      respond(request.url!, response).catch((error: unknown) => {
        failures.push(error);
        response.destroy();
      });
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  const base = freshDir();
  const keyFile = join(base, 'provider.key');
  writeFileSync(keyFile, 'sk-bench-0123456789\n');
  chmodSync(keyFile, 0o600);
  const provider = (dialect: Dialect, path: string, model: string) =>
    `{ dialect: ${dialect}, base_url: "${url}${path}", key_file: ${keyFile}, models: [${model}] }`;
  const runtime = await startRuntime({
    base,
    port: 0,
    nodeArgs: profiling(),
    config: `modeld:
  providers:
    open: ${provider('openai', '/v1', 'gpt-bench')}
    anth: ${provider('anthropic', '', 'claude-bench')}
`,
  });
  const agent = new http.Agent({ keepAlive: true });
  try {
    const figures: Figure[] = [];
    for (const pair of PAIRS)
      figures.push(...(await comparePair((call) => ask(runtime, agent, call), pair)));
    return figures;
  } catch (error) {
    throw failures[0] ?? error;
  } finally {
    agent.destroy();
    await runtime.remove();
    upstream.closeAllConnections();
    upstream.close();
  }
}

export const translation: Benchmark = {
  name: 'translation',
  about: 'the first token of a call in another dialect, beside the same call untranslated',
  run,
};
