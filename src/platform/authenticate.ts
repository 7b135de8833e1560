// Authenticates callers: by the socket, if it belongs to one caller, or by the operator's key, a
// person's key or an API key.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import type { Caller, KeyCaller } from '../wire/caller.ts';
import { fault } from '../wire/errors.ts';
import { isApiKey } from './api-key.ts';
import type { Authenticate } from './http-server.ts';
import { PERSON_NAME, type PersonKeys } from './person-keys.ts';
import { writeAtomically } from './state-dir.ts';

/** For a socket that only this caller can reach. */
export function authenticateAs(caller: Caller): Authenticate {
  return () => caller;
}

type AuthRequest = Parameters<Authenticate>[0];

/** Compares in constant time for equal lengths; the length is no secret. */
function isSame(sent: string, key: string): boolean {
  if (sent.length !== key.length) return false;
  let difference = 0;
  for (let i = 0; i < key.length; i++) difference |= sent.charCodeAt(i) ^ key.charCodeAt(i);
  return difference === 0;
}

export function readBearer(request: AuthRequest): string | undefined {
  const header = request.headers.authorization;
  if (typeof header === 'string' && header.startsWith('Bearer ')) return header.slice(7);
  // The Anthropic SDK sends its key in this header.
  const key = request.headers['x-api-key'];
  return typeof key === 'string' ? key : undefined;
}

/** The name that the client claims; with the operator's key it may claim any free name. */
function readClaimedName(request: AuthRequest): string | undefined {
  const name = request.headers['agentd-person'];
  return typeof name === 'string' && PERSON_NAME.test(name) ? name : undefined;
}

/** Returns the caller of an API key, or throws a fault that says why the key does not work. */
export type VerifyKey = (secret: string) => KeyCaller;

/** For daemons without a route for API keys. It does not say whether the key is valid. */
const refuseKey: VerifyKey = () => {
  throw fault('forbidden_caller', 'an API key may call only /openai/… and /anthropic/…', {
    hint: 'Use the key of a person here (agentctl person add), or the operator key.',
    details: { reason: 'scope' },
  });
};

/**
 * Accepts the operator's key, the key of one of these people, who is then the caller, and API keys
 * if the daemon verifies them.
 */
export function authenticateByKey(
  key: string,
  people?: PersonKeys,
  verifyKey = refuseKey,
): Authenticate {
  return (request) => {
    const sent = readBearer(request);
    if (sent === undefined) throw fault('unauthenticated', 'the request has no operator key');
    const claimed = readClaimedName(request);
    if (isSame(sent, key)) {
      if (claimed !== undefined && people?.has(claimed) === true)
        throw fault('unauthenticated', `${claimed} has a personal key, and this is not it`, {
          hint: 'Use that key (agentctl --as NAME), or another name.',
        });
      return { kind: 'operator', principal: `person:${claimed ?? 'operator'}` };
    }
    if (isApiKey(sent)) return verifyKey(sent);
    const person = people?.find(sent);
    if (person === undefined) throw fault('unauthenticated', 'the operator key is wrong');
    const { name, role } = person;
    if (claimed !== undefined && claimed !== name)
      throw fault('unauthenticated', `this is the key of ${name}, not of ${claimed}`);
    const caller = {
      kind: 'operator',
      principal: `person:${name}`,
      key: `people/${name}`,
    } as const;
    return role === 'operator' ? caller : { ...caller, role };
  };
}

/** The names that a request to this port of 127.0.0.1 may be sent to. */
export const listHostNames = (port: number, more: readonly string[] = []): ReadonlySet<string> =>
  new Set([...['127.0.0.1', 'localhost', '[::1]'].map((at) => `${at}:${port}`), ...more]);

/** Rejects foreign Host and Origin headers, so that web pages cannot call over TCP. */
export function assertHostNames(request: AuthRequest, allowed: ReadonlySet<string>): void {
  const host = String(request.headers.host ?? '');
  if (!allowed.has(host.toLowerCase()))
    throw fault('forbidden_origin', `the Host header ${host.slice(0, 100)} is not this host`, {
      hint: 'Send requests to 127.0.0.1, or add the name to runtime.host_names in agentd.yaml.',
    });
  const origin = request.headers.origin?.toString();
  if (origin !== undefined && !allowed.has(origin.toLowerCase().replace(/^https?:\/\//, ''))) {
    throw fault('forbidden_origin', `the Origin ${origin.slice(0, 100)} may not call here`);
  }
}

const KEY_CHARS_MIN = 32;

/** Returns the key in this file, and creates it if missing. Throws if others could read it. */
export function loadOperatorKey(file: string): string {
  if (!existsSync(file)) writeAtomically(file, `${randomBytes(32).toString('base64url')}\n`);
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    throw fault('bad_config', `${file} has mode ${mode.toString(8)}, so other users can read it`, {
      hint: `chmod 600 ${file}`,
    });
  }
  const key = readFileSync(file, 'utf8').trim();
  // An empty key would accept a request without a key.
  if (key.length < KEY_CHARS_MIN)
    throw fault('bad_config', `${file} has no key of at least ${KEY_CHARS_MIN} characters`, {
      hint: `Remove ${file}; the next start creates a new key.`,
    });
  return key;
}
