// Asks the keeper, which is root, for grants (native/keeper/grant-socket.c). It knows by the socket
// which user asks.
import { connect } from 'node:net';
import { Fault, fault } from '../../../wire/errors.ts';
import { parseGrant, type WorkspaceGrant } from './grant-file.ts';

const OPS = { grant: 1, revoke: 2, list: 3, grantRead: 4 } as const;
const TIMEOUT_MS = 15_000;
/** The first byte of a reply. */
const DONE = 0;
const UNCHANGED = 1;

/** Resolves to false when nothing changed: it was granted already, or was not. */
export async function askKeeper(
  socket: string,
  op: 'grant' | 'grantRead' | 'revoke',
  path: string,
): Promise<boolean> {
  const { status } = await exchange(socket, op, path);
  return status === DONE;
}

export async function listKeepersGrants(socket: string): Promise<WorkspaceGrant[]> {
  const { text } = await exchange(socket, 'list', '');
  const lines = text.match(/[^\n]+\n[^\n]+\n/g) ?? [];
  return lines.flatMap((both) => parseGrant(both) ?? []);
}

async function exchange(
  socket: string,
  op: keyof typeof OPS,
  path: string,
): Promise<{ status: number; text: string }> {
  const request = Buffer.concat([Buffer.from([OPS[op]]), Buffer.from(`${path}\0`)]);
  const reply = await send(socket, request).catch((cause: unknown) => {
    throw fault('runtime_down', `the keeper at ${socket} does not respond`, {
      hint: 'Start the runtime: agentctl up.',
      cause,
    });
  });
  if (reply.length === 0) throw fault('overloaded', 'the keeper closed the connection');
  const [status] = reply as unknown as [number];
  const text = reply.subarray(1).toString('utf8');
  if (status === DONE || status === UNCHANGED) return { status, text };
  const [message = '', hint = ''] = text.split('\n');
  throw new Fault('denied', message, hint === '' ? {} : { hint });
}

function send(path: string, request: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    const socket = connect({ path, allowHalfOpen: true });
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no reply')));
    socket.on('connect', () => socket.end(request));
    socket.on('data', (bytes: Buffer) => parts.push(bytes));
    socket.on('end', () => resolve(Buffer.concat(parts)));
    socket.on('error', reject);
  });
}
