// The load generator, in its own process: a number of callers over kept connections, each sending
// its next request as soon as it has the response. Counts responses and latencies.
import net from 'node:net';
import { quantile } from '../figure.ts';
import { serveCommands } from './commands.ts';
import { readMessage } from './http-message.ts';

export type LoadTarget = ({ port: number } | { socketPath: string }) & {
  /** Replaces `#{20}` in a body. */
  tail?: string;
};

export type LoadOrder = {
  /** Callers are distributed over these in turn. */
  targets: LoadTarget[];
  method: string;
  path: string;
  headers: Record<string, string>;
  /**
   * `#{26}` in it becomes a number of 26 digits that is never used twice, `#{6}` one of 6
   * characters, `#{20}` the tail of its target.
   */
  body: string;
  /** A response without this text in its body is a failure: a refusal may also have status 200. */
  expect?: string;
  callers: number;
  /** Requests of this initial period are not counted. */
  warmUpMs?: number;
  ms: number;
};

export type LoadResult = {
  requests: number;
  perSecond: number;
  p25Ms: number;
  p50Ms: number;
  p75Ms: number;
  p95Ms: number;
};

let number = Date.now() * 1_000;

function makeRequest(order: LoadOrder, tail = ''): () => string {
  const parts = order.body.replaceAll('#{20}', tail).split(/(#\{(?:26|6)\})/);
  const filled = (): string => {
    number++;
    const text = (part: string): string => {
      if (part === '#{26}') return String(number).padStart(26, '0');
      return part === '#{6}' ? number.toString(16).slice(-6) : part;
    };
    return parts.map(text).join('');
  };
  const length = Buffer.byteLength(filled());
  const headers = Object.entries({ host: '127.0.0.1', ...order.headers });
  const port = order.targets.find((target) => 'port' in target)?.port;
  const host = port === undefined ? [] : [['host', `127.0.0.1:${port}`]];
  const lines = Object.entries(Object.fromEntries([...headers, ...host]));
  const head =
    `${order.method} ${order.path} HTTP/1.1\r\n` +
    lines.map(([name, value]) => `${name}: ${value}\r\n`).join('') +
    `content-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
  return () => head + filled();
}

/** A shared read buffer: each response is copied out before the next arrives. */
const buffer = Buffer.alloc(65_536);

class Caller {
  readonly #socket: net.Socket;
  readonly #done: (sentAt: number, failed: string | undefined) => boolean;
  readonly #next: () => string;
  readonly #expected: string;
  #text = '';
  #sentAt = 0;

  constructor(
    target: LoadTarget,
    { next, expect = '' }: { next: () => string; expect: string | undefined },
    done: (sentAt: number, failed: string | undefined) => boolean,
    onEnd: (error?: Error) => void,
  ) {
    this.#next = next;
    this.#expected = expect;
    this.#done = done;
    const onread = {
      buffer,
      callback: (bytes: number): boolean => {
        this.#read(buffer.toString('latin1', 0, bytes));
        return true;
      },
    };
    this.#socket = net.connect(
      'port' in target
        ? { port: target.port, host: '127.0.0.1', onread }
        : { path: target.socketPath, onread },
    );
    this.#socket.setNoDelay(true);
    this.#socket.on('connect', () => this.#ask());
    this.#socket.on('error', onEnd);
    this.#socket.on('close', () => onEnd());
  }

  #ask(): void {
    this.#sentAt = performance.now();
    this.#socket.write(this.#next(), 'latin1');
  }

  #read(text: string): void {
    this.#text = this.#text === '' ? text : this.#text + text;
    const message = readMessage(this.#text);
    if (message === undefined) return;
    this.#text = this.#text.slice(message.length);
    const isGood = message.head.startsWith('http/1.1 200') && message.body.includes(this.#expected);
    const failed = isGood
      ? undefined
      : `${message.head.slice(0, 40)} … ${message.body.slice(0, 600)}`;
    if (this.#done(this.#sentAt, failed)) this.#ask();
    else this.#socket.end();
  }
}

async function drive(order: LoadOrder): Promise<LoadResult> {
  const begin = performance.now() + (order.warmUpMs ?? 0);
  const end = begin + order.ms;
  const took: number[] = [];
  let firstFailure: string | undefined;
  let open = order.callers;
  await new Promise<void>((resolve, reject) => {
    const onDone = (sentAt: number, failed: string | undefined): boolean => {
      const now = performance.now();
      firstFailure ??= failed;
      if (now >= begin && now < end) took.push(now - sentAt);
      return now < end && firstFailure === undefined;
    };
    for (let i = 0; i < order.callers; i++) {
      let isOver = false;
      const onEnd = (error?: Error): void => {
        if (isOver) return;
        isOver = true;
        if (error !== undefined) reject(error);
        else if (--open === 0) resolve();
      };
      const target = order.targets[i % order.targets.length]!;
      const next = makeRequest(order, target.tail);
      new Caller(target, { next, expect: order.expect }, onDone, onEnd);
    }
  });
  if (firstFailure !== undefined) throw new Error(`a request failed: ${firstFailure}`);
  if (performance.now() < end) throw new Error('connections were closed before the time was over');
  took.sort((a, b) => a - b);
  return {
    requests: took.length,
    perSecond: took.length / (order.ms / 1000),
    p25Ms: quantile(took, 0.25),
    p50Ms: quantile(took, 0.5),
    p75Ms: quantile(took, 0.75),
    p95Ms: quantile(took, 0.95),
  };
}

serveCommands<LoadOrder>('load', drive);
