// Sending cases and reading what comes back: those whose end can be told one behind the other on a
// connection, the others each on its own. Finds the smallest form of a case that is answered
// wrongly.
import net from 'node:net';
import { makeResponseReader, type RawResponse, type RawTarget } from '../support/raw-http.ts';
import type { FuzzCase } from './cases.ts';
import { judge } from './judge.ts';

export type FuzzVerdict = { wrong: string | undefined; refused: boolean };

const ANSWER_MS_MAX = 20_000;
/** After so much silence a request that has no end is taken to be given up. */
const SILENCE_MS = 15;

type Talk = {
  responses: RawResponse[];
  broken: string | undefined;
  closed: boolean;
  late: boolean;
};

function talk(where: RawTarget, cases: readonly FuzzCase[]): Promise<Talk> {
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
    const timer = setTimeout(() => done(true), ANSWER_MS_MAX);
    // A garbled request may never end: then we end it, and the other side must see that.
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

/** Each case with what is wrong about its answer. A connection that ends early is opened again. */
export async function sendAll(
  where: RawTarget,
  cases: readonly FuzzCase[],
): Promise<FuzzVerdict[]> {
  const verdicts: FuzzVerdict[] = [];
  while (verdicts.length < cases.length) {
    const rest = cases.slice(verdicts.length);
    const { responses, broken, closed, late } = await talk(where, rest);
    const first = rest[0]!;
    for (const [i, response] of responses.entries()) {
      if (i >= rest.length) break;
      verdicts.push({ wrong: judge(response, rest[i]!), refused: response.status >= 400 });
    }
    if (broken !== undefined) verdicts.push({ wrong: broken, refused: true });
    else if (late) verdicts.push({ wrong: 'no answer and no end', refused: true });
    else if (responses.length === 0 && first.framed)
      verdicts.push({ wrong: closed ? 'closed without an answer' : 'no answer', refused: true });
    else if (responses.length === 0) verdicts.push({ wrong: undefined, refused: true });
    if (!first.framed) break;
  }
  return verdicts.slice(0, cases.length);
}

/** Leaves out what can be left out while the answer stays wrong. */
export async function smallest(where: RawTarget, one: FuzzCase): Promise<FuzzCase> {
  const isWrong = async (bytes: Buffer): Promise<boolean> => {
    const [verdict] = await sendAll(where, [{ ...one, bytes, framed: false }]);
    return verdict?.wrong !== undefined;
  };
  if (!(await isWrong(one.bytes))) return one;
  let { bytes } = one;
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
  return { ...one, bytes };
}
