// Sends cases and reads the responses: framed cases pipelined on one connection, the others each on
// its own. Reduces a case with a wrong response to its smallest form.
import net from 'node:net';
import { makeResponseReader, type RawResponse, type RawTarget } from '../support/raw-http.ts';
import type { FuzzCase } from './cases.ts';
import { findDefect } from './check-response.ts';

export type FuzzResult = { wrong: string | undefined; refused: boolean };

const RESPONSE_MS_MAX = 20_000;
/** After this much silence an unterminated request is closed. */
const SILENCE_MS = 15;

type Exchange = {
  responses: RawResponse[];
  broken: string | undefined;
  closed: boolean;
  late: boolean;
};

function exchangeCases(where: RawTarget, cases: readonly FuzzCase[]): Promise<Exchange> {
  const isAlone = !cases[0]!.framed;
  return new Promise((resolve, reject) => {
    const socket = net.connect(where as net.NetConnectOpts);
    const reader = makeResponseReader((i) => cases[i]?.isHead === true);
    let closed = false;
    const done = (late: boolean): void => {
      clearTimeout(timer);
      clearTimeout(silence);
      socket.destroy();
      resolve({ responses: reader.responses, broken: reader.broken(), closed, late });
    };
    const timer = setTimeout(() => done(true), RESPONSE_MS_MAX);
    // A garbled request may never end: then we close it, and the other side must notice.
    const silence = isAlone ? setTimeout(() => socket.end(), SILENCE_MS) : undefined;
    const onClose = (): void => {
      closed = true;
      reader.end();
      done(false);
    };
    socket.on('data', (chunk: Buffer) => {
      reader.push(chunk);
      if (reader.broken() !== undefined) return done(false);
      if (isAlone) socket.end();
      else if (reader.responses.length >= cases.length) done(false);
    });
    socket.on('end', onClose);
    socket.on('close', onClose);
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') return;
      clearTimeout(timer);
      clearTimeout(silence);
      reject(error);
    });
    socket.write(Buffer.concat(cases.map(({ bytes }) => bytes)));
  });
}

/** Resolves with the defect of each response. Reconnects when a connection ends early. */
export async function sendAll(where: RawTarget, cases: readonly FuzzCase[]): Promise<FuzzResult[]> {
  const results: FuzzResult[] = [];
  while (results.length < cases.length) {
    const rest = cases.slice(results.length);
    const { responses, broken, closed, late } = await exchangeCases(where, rest);
    const first = rest[0]!;
    for (const [i, response] of responses.entries()) {
      if (i >= rest.length) break;
      results.push({ wrong: findDefect(response, rest[i]!), refused: response.status >= 400 });
    }
    if (broken !== undefined) results.push({ wrong: broken, refused: true });
    else if (late) results.push({ wrong: 'no response and no close', refused: true });
    else if (responses.length === 0 && first.framed)
      results.push({ wrong: closed ? 'closed without a response' : 'no response', refused: true });
    else if (responses.length === 0) results.push({ wrong: undefined, refused: true });
    if (!first.framed) break;
  }
  return results.slice(0, cases.length);
}

/** Removes as many bytes as possible while the response stays wrong. */
export async function smallest(where: RawTarget, fuzzCase: FuzzCase): Promise<FuzzCase> {
  const isWrong = async (bytes: Buffer): Promise<boolean> => {
    const [result] = await sendAll(where, [{ ...fuzzCase, bytes, framed: false }]);
    return result?.wrong !== undefined;
  };
  if (!(await isWrong(fuzzCase.bytes))) return fuzzCase;
  let { bytes } = fuzzCase;
  let tries = 300;
  for (
    let size = Math.ceil(bytes.length / 2);
    size >= 1 && tries > 0;
    size = Math.floor(size / 2)
  ) {
    for (let at = 0; at < bytes.length && tries-- > 0; ) {
      const shorter = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + size)]);
      if (shorter.length > 0 && (await isWrong(shorter))) bytes = shorter;
      else at += size;
    }
  }
  return { ...fuzzCase, bytes };
}
