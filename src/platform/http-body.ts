// Reading the body of a request: as much as its route takes, and no more at a time than this
// process and this socket can hold. What is done with the text is http-server's.
import type http from 'node:http';
import { type Fault, fault } from '../wire/errors.ts';
import { askForBody } from './http-unreadable.ts';
import { decodeUtf8 } from './json.ts';

/** How many bytes of bodies that are still arriving may be held, and how many are. */
export type ByteBudget = { bytesMax: number; bytes: number };

/** All sockets of this process together: a caller that sends halves of bodies holds memory. */
export const PROCESS_BODIES: ByteBudget = { bytesMax: 256_000_000, bytes: 0 };

/**
 * So much of a refused body is read and thrown away, so that an ordinary client gets to the answer.
 */
const LINGER_BYTES_MAX = 64_000_000;

/** The text of the body, or undefined when there is none. */
export async function readBody(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  sizeBytesMax: number,
  budgets: readonly ByteBudget[],
): Promise<string | undefined> {
  const isTooLarge = Number(request.headers['content-length'] ?? 0) > sizeBytesMax;
  if (!isTooLarge) askForBody(request, response);
  const bytes = await readBytes(request, sizeBytesMax, budgets);
  if (bytes.length === 0) return undefined;
  const type = request.headers['content-type'];
  if (type !== undefined && !/^application\/([^;]+\+)?json\s*(;|$)/i.test(type))
    throw fault('unsupported_media', `the body is ${type.slice(0, 100)}, not JSON`);
  return decodeUtf8(bytes);
}

function readBytes(
  request: http.IncomingMessage,
  sizeBytesMax: number,
  budgets: readonly ByteBudget[],
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let size = 0;
    let held = 0;
    let isRefused = false;
    const letGo = (): void => {
      for (const budget of budgets) budget.bytes -= held;
      held = 0;
      chunks = [];
    };
    const refuse = (why: Fault): void => {
      isRefused = true;
      letGo();
      reject(why);
    };
    const tooLarge = () => fault('too_large', `the body is larger than ${sizeBytesMax} bytes`);
    const overloaded = () =>
      fault('overloaded', 'too many bodies are arriving at once', { retryAfterMs: 1_000 });
    const fits = (chunk: Buffer): boolean =>
      budgets.every(({ bytes, bytesMax }) => bytes + chunk.length <= bytesMax);
    const hold = (chunk: Buffer): void => {
      for (const budget of budgets) budget.bytes += chunk.length;
      held += chunk.length;
      chunks.push(chunk);
    };
    if (Number(request.headers['content-length'] ?? 0) > sizeBytesMax) refuse(tooLarge());
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > sizeBytesMax + LINGER_BYTES_MAX) request.socket.destroy();
      else if (isRefused) return;
      else if (size > sizeBytesMax) refuse(tooLarge());
      else if (!fits(chunk)) refuse(overloaded());
      else hold(chunk);
    });
    request.on('end', () => {
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      letGo();
      resolve(bytes);
    });
    // Every request closes in the end; only one that closes early went away.
    const gone = (): void => {
      letGo();
      if (!request.complete) reject(fault('canceled', 'the caller went away'));
    };
    request.on('error', gone);
    request.on('close', gone);
  });
}
