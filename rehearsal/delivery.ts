// Writes an answer to the connection, whole or broken in the way the play asks: cut off, garbled,
// without end, or in small slow pieces. Stops at once when the caller hangs up. Knows no wire.
import type { ServerResponse } from 'node:http';
import type { Broken } from './screenplay/types.ts';

export type Script = {
  readonly contentType: string;
  readonly headers: Readonly<Record<string, string>>;
  /** A body that is not streamed is one piece; a stream has one piece per event. */
  readonly pieces: readonly string[];
  /** How many pieces a real server sends before the model has said anything. */
  readonly openingCount: number;
  /** A piece that is well framed and whose JSON is not. */
  readonly garbled: string;
  /** How an answer without end begins, and what it goes on with. */
  readonly endless: { readonly opening: string; readonly more: string };
};

export type Manner = { readonly delayMs: number; readonly broken: Broken | undefined };

const slowPieceBytes = 7;
const endlessPauseMs = 2;

/** Waits, but not for a caller who has hung up. */
export function pause(response: ServerResponse, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      response.off('close', done);
      resolve();
    }
    response.once('close', done);
  });
}

async function write(response: ServerResponse, data: string | Buffer): Promise<void> {
  if (response.write(data) || response.destroyed) return;
  await new Promise<void>((resolve) => {
    function done() {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    }
    response.once('drain', done);
    response.once('close', done);
  });
}

async function writeSlowly(response: ServerResponse, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length && !response.destroyed; at += slowPieceBytes) {
    await write(response, bytes.subarray(at, at + slowPieceBytes));
    await pause(response, 1);
  }
  response.end();
}

async function writeEndlessly(response: ServerResponse, script: Script): Promise<void> {
  await write(response, script.endless.opening);
  while (!response.destroyed) {
    await write(response, script.endless.more);
    await pause(response, endlessPauseMs);
  }
}

async function cutOff(response: ServerResponse, script: Script): Promise<void> {
  const bytes = Buffer.from(script.pieces.join(''));
  await write(response, bytes.subarray(0, Math.ceil(bytes.length / 2)));
  // The half that was sent must arrive before the connection breaks, else nothing was cut mid-way.
  await pause(response, 5);
  response.destroy();
}

function garble(script: Script): string {
  const { pieces, garbled } = script;
  if (pieces.length === 1) return garbled;
  const middle = Math.ceil(pieces.length / 2);
  return [...pieces.slice(0, middle), garbled, ...pieces.slice(middle)].join('');
}

async function deliverBroken(response: ServerResponse, script: Script, broken: Broken) {
  switch (broken) {
    case 'cut_mid_stream':
      return cutOff(response, script);
    case 'endless':
      return writeEndlessly(response, script);
    case 'slow_bytes':
      return writeSlowly(response, script.pieces.join(''));
    case 'malformed_json':
      response.end(garble(script));
      return;
    case 'unknown_tool':
    case 'bad_arguments':
      response.end(script.pieces.join(''));
  }
}

async function deliverLate(response: ServerResponse, script: Script, manner: Manner) {
  const { pieces } = script;
  // A real stream opens before the model speaks; so callers can meet a cancel or a timeout in
  // mid-stream.
  const openingCount = manner.broken ? 0 : script.openingCount;
  if (openingCount === 0) await pause(response, manner.delayMs);
  if (response.destroyed) return;
  response.writeHead(200, { 'content-type': script.contentType, ...script.headers });
  if (manner.broken) return deliverBroken(response, script, manner.broken);
  if (openingCount > 0) {
    await write(response, pieces.slice(0, openingCount).join(''));
    await pause(response, manner.delayMs);
  }
  if (!response.destroyed) response.end(pieces.slice(openingCount).join(''));
}

export async function deliver(
  response: ServerResponse,
  script: Script,
  manner: Manner,
): Promise<void> {
  if (manner.delayMs > 0) return deliverLate(response, script, manner);
  response.writeHead(200, { 'content-type': script.contentType, ...script.headers });
  if (manner.broken) return deliverBroken(response, script, manner.broken);
  if (script.openingCount > 0) response.write(script.pieces[0]!);
  response.end(script.openingCount > 0 ? script.pieces.slice(1).join('') : script.pieces[0]);
}
