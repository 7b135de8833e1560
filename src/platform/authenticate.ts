// Who calls, decided by the link: a socket made for one caller, or a key that only the operator can
// read.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import type { Caller } from '../wire/caller.ts';
import { fault } from '../wire/errors.ts';
import type { Authenticate } from './http-server.ts';
import { PERSON_NAME, type PersonKeys } from './person-keys.ts';
import { writeAtomically } from './state-dir.ts';

/** The socket is the identity: whoever can reach it is this caller. */
export function alwaysCaller(caller: Caller): Authenticate {
  return () => caller;
}

type AuthRequest = Parameters<Authenticate>[0];

/**
 * All characters are looked at, whichever differ, so that the time taken says nothing but the
 * length, which is no secret.
 */
function isSame(given: string, key: string): boolean {
  if (given.length !== key.length) return false;
  let difference = 0;
  for (let i = 0; i < key.length; i++) difference |= given.charCodeAt(i) ^ key.charCodeAt(i);
  return difference === 0;
}

export function bearer(request: AuthRequest): string | undefined {
  const header = request.headers.authorization;
  if (typeof header === 'string' && header.startsWith('Bearer ')) return header.slice(7);
  // The Anthropic SDK sends its key so.
  const key = request.headers['x-api-key'];
  return typeof key === 'string' ? key : undefined;
}

/** What the client says: with the operator's key, that key itself is what gives the right. */
function nameSaid(request: AuthRequest): string | undefined {
  const name = request.headers['agentd-person'];
  return typeof name === 'string' && PERSON_NAME.test(name) ? name : undefined;
}

/** The operator's key, or the key of one of these people, who then is that person and no other. */
export function operatorByKey(key: string, people?: PersonKeys): Authenticate {
  return (request) => {
    const given = bearer(request);
    if (given === undefined) throw fault('unauthenticated', 'the request carries no operator key');
    const said = nameSaid(request);
    if (isSame(given, key)) {
      if (said !== undefined && people?.has(said) === true)
        throw fault('unauthenticated', `${said} has a key of their own, and this is not it`, {
          hint: 'Use that key (agentctl --as NAME), or another name.',
        });
      return { kind: 'operator', principal: `person:${said ?? 'operator'}` };
    }
    const name = people?.nameOf(given);
    if (name === undefined) throw fault('unauthenticated', 'the operator key is wrong');
    if (said !== undefined && said !== name)
      throw fault('unauthenticated', `this is the key of ${name}, not of ${said}`);
    return { kind: 'operator', principal: `person:${name}`, key: `people/${name}` };
  };
}

/**
 * For TCP: the key, and no foreign Host or Origin, so that a web page cannot reach it through a
 * browser.
 */
export function operatorOverTcp(
  key: string,
  port: () => number,
  people?: PersonKeys,
): Authenticate {
  const byKey = operatorByKey(key, people);
  return (request) => {
    assertLocalNames(request, port());
    return byKey(request);
  };
}

let local = { port: 0, names: new Set<string>() };

function localNames(port: number): ReadonlySet<string> {
  if (local.port !== port)
    local = {
      port,
      names: new Set(['127.0.0.1', 'localhost', '[::1]'].map((at) => `${at}:${port}`)),
    };
  return local.names;
}

export function assertLocalNames(request: AuthRequest, port: number): void {
  const allowed = localNames(port);
  const host = String(request.headers.host ?? '');
  if (!allowed.has(host.toLowerCase()))
    throw fault('forbidden_origin', `the Host header ${host.slice(0, 100)} is not this host`);
  const { origin: said } = request.headers;
  const origin = said === undefined ? undefined : String(said);
  if (origin !== undefined && !allowed.has(origin.toLowerCase().replace(/^https?:\/\//, ''))) {
    throw fault('forbidden_origin', `the Origin ${origin.slice(0, 100)} may not call here`);
  }
}

const KEY_CHARS_MIN = 32;

/** The key of this state directory, made at first need; refused when others could read it. */
export function operatorKey(file: string): string {
  if (!existsSync(file)) writeAtomically(file, `${randomBytes(32).toString('base64url')}\n`);
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    throw fault('bad_config', `${file} has mode ${mode.toString(8)}, so others could use it`, {
      hint: `chmod 600 ${file}`,
    });
  }
  const key = readFileSync(file, 'utf8').trim();
  // Whoever sends no key at all would have the right one.
  if (key.length < KEY_CHARS_MIN)
    throw fault('bad_config', `${file} does not hold a key of ${KEY_CHARS_MIN} characters`, {
      hint: `rm ${file}, and the next start makes a new one.`,
    });
  return key;
}
