// Asking a daemon through the run's own socket: HTTP over node:net, because node:http alone would
// double the runner's start time. One connection a request; the answers here are always one JSON
// document.
import { connect } from 'node:net';

export type Refusal = {
  code: string;
  message: string;
  hint: string;
  retry: boolean;
  retryAfterMs: number;
  /** In a replay: nothing more is recorded. */
  recordEnds: boolean;
};

/** What a daemon refused, or `unavailable` when none was there. */
export class Refused extends Error {
  override name = 'Refused';
  refusal: Refusal;

  constructor(refusal: Refusal) {
    super(`${refusal.message} (${refusal.code})`);
    this.refusal = refusal;
  }
}

export type Ask = <T>(method: 'GET' | 'POST', path: string, body?: unknown) => Promise<T>;

const ANSWER_BYTES_MAX = 64_000_000;
/** Longer than any model call may take. */
const SILENCE_MS_MAX = 960_000;

const unavailable = (message: string): Refused =>
  new Refused({
    ...{ code: 'unavailable', message, hint: '' },
    ...{ retry: true, retryAfterMs: 0, recordEnds: false },
  });

export function askAt(socketPath: string): Ask {
  return <T>(method: 'GET' | 'POST', path: string, body?: unknown) =>
    new Promise<T>((resolve, reject) => {
      const text = body === undefined ? '' : JSON.stringify(body);
      const chunks: Buffer[] = [];
      let size = 0;
      const socket = connect(socketPath);
      socket.setTimeout(SILENCE_MS_MAX, () => socket.destroy(new Error('no answer for too long')));
      socket.on('error', (error) => reject(unavailable(`${socketPath}: ${error.message}`)));
      socket.on('data', (chunk: Buffer) => {
        size += chunk.length;
        chunks.push(chunk);
        if (size > ANSWER_BYTES_MAX) socket.destroy(new Error('the answer is too long'));
      });
      socket.on('close', () => {
        try {
          resolve(readAnswer(Buffer.concat(chunks)) as T);
        } catch (error) {
          reject(error);
        }
      });
      socket.write(
        `${method} ${path} HTTP/1.1\r\nhost: agentd\r\nconnection: close\r\nagentd-deadline-ms: 900000\r\n` +
          (text === ''
            ? '\r\n'
            : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`),
      );
    });
}

function readAnswer(bytes: Buffer): unknown {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) throw unavailable('the connection closed before an answer');
  const head = bytes.subarray(0, end).toString('latin1');
  const status = Number(head.slice(9, 12));
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  const body = bytes.subarray(end + 4);
  if (length === undefined || body.length !== Number(length))
    throw unavailable('the connection closed in the middle of an answer');
  const value = JSON.parse(body.toString('utf8')) as { error?: Record<string, unknown> };
  if (status < 400) return value;
  const error = value.error ?? {};
  throw new Refused({
    code: String(error.code ?? 'internal'),
    message: String(error.message ?? 'refused without a reason'),
    hint: String(error.hint ?? ''),
    retry: error.retry === true,
    retryAfterMs: Number(error.retry_after_ms ?? 0),
    recordEnds: (error.details as Record<string, unknown> | undefined)?.record_ends === true,
  });
}

/** The daemon is not there now; what it was asked is as it was. */
export function isAway({ code }: Refusal): boolean {
  return code === 'unavailable' || code === 'stopping';
}

/** Malformed answers are counted by whoever asked. */
const mayHelp = ({ retry, code }: Refusal): boolean => retry && code !== 'provider_malformed';

/** Tries again while trying again can help, for as long as `patienceMs`. */
export function patiently(
  ask: Ask,
  patienceMs: number,
  helps: (refusal: Refusal) => boolean = mayHelp,
): Ask {
  return async <T>(method: 'GET' | 'POST', path: string, body?: unknown) => {
    const end = performance.now() + patienceMs;
    for (let pauseMs = 20; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
      try {
        return await ask<T>(method, path, body);
      } catch (error) {
        const retry = error instanceof Refused && helps(error.refusal);
        if (!retry || performance.now() > end) throw error;
        const waitMs = Math.max(error.refusal.retryAfterMs, pauseMs * (0.5 + Math.random()));
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  };
}
