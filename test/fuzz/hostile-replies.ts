// Replies of a hostile HTTP server to one request: well-formed ones as a control,
// generated ones, contradictory ones, endless ones, and silence.
import type { Seeded } from '../support/seeded.ts';
import { responseBytes } from './http-messages.ts';

export type Reply = {
  /** Sent one after the other, each with one write. */
  pieces: Buffer[];
  /** Sent again and again afterwards, until the client closes. */
  endless?: Buffer;
  ending: 'keep open' | 'end' | 'destroy';
  /** The body that every client must receive if the reply is well-formed. */
  body?: string;
};

/** Every body consists of these, so that bytes of another call are recognized. */
export const markOf = (index: number): string => `<${index}>`;
export const isMarked = (body: string, index: number): boolean =>
  body.replaceAll(markOf(index), '').search(/<\d+>/) < 0;

const latin = (text: string): Buffer => Buffer.from(text, 'latin1');
const head = (lines: string, status = '200 OK'): string => `HTTP/1.1 ${status}\r\n${lines}\r\n`;
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;

/** Up to five pieces, or one of each byte. */
function cut(rnd: Seeded, text: string): Buffer[] {
  if (rnd.chance(0.1)) return [...text].map(latin);
  const at = Array.from({ length: rnd.int(5) }, () => rnd.int(text.length)).sort((a, b) => a - b);
  const ends = [...at, text.length];
  return ends.map((end, i) => latin(text.slice(ends[i - 1] ?? 0, end))).filter((b) => b.length > 0);
}

function wellFormed(rnd: Seeded, type: string, body: string): Reply {
  const interim = rnd.chance(0.2) ? head('link: x\r\n', '103 Early Hints') : '';
  const chunks = body
    .match(/.{1,9}/g)!
    .map(chunk)
    .join('');
  const text = rnd.chance(0.5)
    ? `${head(`${type}transfer-encoding: chunked\r\n`)}${chunks}0\r\n\r\n`
    : `${head(`${type}content-length: ${body.length}\r\n`)}${body}`;
  // The extra bytes come with the end of the response: later they would be the next call's.
  const extra = rnd.pick(['', '', head('', '500 x'), `${head('content-length: 5\r\n')}<999>`, 'x']);
  const pieces = cut(rnd, interim + text);
  pieces[pieces.length - 1] = Buffer.concat([pieces.at(-1)!, latin(extra)]);
  return { pieces, ending: 'keep open', body };
}

function contradictory(rnd: Seeded, type: string, body: string): Reply {
  const length = `content-length: ${body.length}\r\n`;
  const chunked = 'transfer-encoding: chunked\r\n';
  const text = rnd.pick([
    `${head(type + length + chunked)}${chunk(body)}0\r\n\r\n`,
    `${head(`${type}${length}content-length: ${body.length + 1}\r\n`)}${body}`,
    `${head(`${type}transfer-encoding: gzip, chunked\r\n`)}${chunk(body)}0\r\n\r\n`,
    `${head(`${type}${chunked}`)}ffffffffff\r\n${body}`,
    `${head(`${type}${chunked}`)}-1\r\n${body}\r\n0\r\n\r\n`,
    `${head(`${type}${chunked}`)}1\r\n${body}\r\n0\r\n\r\n`,
    `${head(type + length)}${body}`.replaceAll('\r\n', '\n'),
    `${head(type + length, '101 Switching Protocols')}${body}`,
    `${head(type + length, '204 No Content')}${body}`,
    `${head(type + length, '304 Not Modified')}${body}`,
    `${head(`${type}content-length: 99999999\r\n`)}${body}`,
    `HTTP/1.0 200 OK\r\n${type}${chunked}\r\n${chunk(body)}0\r\n\r\n`,
    `${head(`${type}${length}content-encoding: gzip\r\n`)}${body}`,
  ]);
  return { pieces: [latin(text)], ending: rnd.pick(['keep open', 'end', 'destroy'] as const) };
}

function endless(rnd: Seeded, type: string, body: string): Reply {
  const chunked = `${type}transfer-encoding: chunked\r\n`;
  const [first, again] = rnd.pick([
    ['', 'x'.repeat(4_000)],
    ['HTTP/1.1 200 OK\r\n', `x: ${'x'.repeat(2_000)}\r\n`],
    ['HTTP/1.1 200 OK\r\n', 'x: y\r\n'.repeat(500)],
    ['', head('', '100 Continue').repeat(100)],
    ['', head(`x: ${'x'.repeat(1_000)}\r\n`, '103 Early Hints')],
    [head(type), body.repeat(500)],
    [head(chunked), chunk(body).repeat(300)],
    [head(chunked), chunk('x').repeat(2_000)],
    [head(chunked), '0'.repeat(1_000)],
    [head(chunked), `1;a=${'b'.repeat(200)}`],
    [`${head(chunked)}${chunk(body)}0\r\n`, 'x: y\r\n'.repeat(500)],
    [head(`${type}content-length: 999999999999\r\n`), body.repeat(500)],
    [head(type, '500 Oops'), body.repeat(500)],
    [head(chunked), '\r\n'],
  ] as const);
  return { pieces: [latin(first)], endless: latin(again), ending: 'keep open' };
}

export function replyFor(rnd: Seeded, index: number, isStream: boolean): Reply {
  const type = `content-type: ${isStream ? 'text/event-stream' : 'application/json'}\r\n`;
  const mark = markOf(index);
  const body = JSON.stringify(mark.repeat(1 + rnd.int(40)));
  const roll = rnd.int(100);
  if (roll < 40) return wellFormed(rnd, type, body);
  if (roll < 55) return contradictory(rnd, type, body);
  if (roll < 65) return endless(rnd, type, body);
  if (roll < 68) return { pieces: [], ending: rnd.pick(['keep open', 'end', 'destroy'] as const) };
  if (roll < 80) {
    const whole = Buffer.concat(wellFormed(rnd, type, body).pieces);
    const part = whole.subarray(0, rnd.int(whole.length));
    return { pieces: [part], ending: rnd.pick(['end', 'destroy'] as const) };
  }
  if (roll < 90) return { pieces: [responseBytes(rnd)], ending: rnd.pick(['keep open', 'end']) };
  return {
    pieces: [rnd.bytes(1 + rnd.int(300))],
    ending: rnd.pick(['keep open', 'end', 'destroy']),
  };
}
